"""What the page may start: one command at a time, by those who may, and what became of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from starlette.testclient import TestClient

from headwater.model.errors import UsageError
from headwater.page.server import application
from headwater.page.work import Worker, commands
from headwater.runtime.project.project import Project

PROGRESS = 'import sys; print(\'{"event": "progress", "rows": 7, "of": 9}\', file=sys.stderr, flush=True)'
FOUND = 'print(\'{"ok": true, "views": []}\')'
PLAN = 'print(\'{"changes": [{"view": "v", "action": "drop", "why": "gone"}], "applied": false}\'); sys.exit(2)'


def running(script: str) -> Worker:
    return Worker(lambda kind, view: [sys.executable, "-c", f"import sys; {script}"])


def ended(worker: Worker) -> dict[str, Any]:
    until(lambda: worker.told()["now"] is None)
    found: dict[str, Any] = worker.told()["done"][0]
    return found


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)


@pytest.fixture
def client(unchanged: Project) -> Iterator[Callable[..., TestClient]]:
    opened: list[TestClient] = []

    def make(worker: Worker, token: str = "") -> TestClient:
        app = application(unchanged, token, work=worker)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        opened.append(TestClient(app, "http://127.0.0.1:7411", headers=headers, raise_server_exceptions=False))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def test_a_command_tells_how_far_it_is_and_what_it_found() -> None:
    worker = running(f"{PROGRESS}; import time; time.sleep(0.4); {FOUND}")
    worker.start("verify", "people")
    until(lambda: bool(worker.told()["now"]["rows"]))
    now = worker.told()["now"]
    assert (now["rows"], now["of"], now["view"]) == (7, 9, "people")
    done = ended(worker)
    assert (done["code"], done["answer"], done["error"]) == (0, {"ok": True, "views": []}, "")


def test_one_at_a_time() -> None:
    worker = running("import time; time.sleep(30)")
    worker.start("verify")
    with pytest.raises(UsageError, match="'verify' is under way"):
        worker.start("judge", "people")
    worker.stop()
    assert ended(worker)["error"] == "it was stopped"
    worker.start("verify")  # and the next may begin
    worker.stop()
    ended(worker)


def test_an_error_is_told_as_the_command_told_it_without_secrets() -> None:
    said = '{"error": "no route to postgresql://me:hunter2@db/x", "fix": "look"}'
    worker = running(f"print({said!r}, file=sys.stderr); sys.exit(1)")
    worker.start("verify")
    done = ended(worker)
    assert "no route" in done["error"]
    assert "hunter2" not in str(done)
    assert done["fix"] == "look"


def test_rows_that_differ_are_an_answer_and_no_error() -> None:
    worker = running('print(\'{"ok": false, "views": []}\'); sys.exit(1)')
    worker.start("verify")
    assert (ended(worker)["error"], ended(worker)["answer"]["ok"]) == ("", False)


def test_what_is_applied_is_what_was_shown() -> None:
    worker = running(PLAN)
    with pytest.raises(UsageError, match="no plan was shown"):
        worker.start("apply", shown=[])
    worker.start("plan")
    changes = ended(worker)["answer"]["changes"]
    with pytest.raises(UsageError, match="not what was confirmed"):
        worker.start("apply", shown=[{**changes[0], "action": "create"}])
    worker.start("apply", shown=changes)
    assert ended(worker)["kind"] == "apply"


def test_the_commands_are_those_that_a_person_types(unchanged: Project) -> None:
    command = commands(unchanged.config.folder)

    def words(kind: str, view: str = "") -> Sequence[str]:
        return command(kind, view)[3:-2]

    assert words("verify", "people") == ["verify", "people", "--progress", "--json"]
    assert words("verify") == ["verify", "--progress", "--json"]
    assert words("judge", "people") == ["lab", "judge", "people", "--json"]
    assert words("plan") == ["apply", "--json"]
    assert words("apply") == ["apply", "--yes", "--json"]


def test_started_over_the_page(client: Callable[..., TestClient]) -> None:
    worker = running(FOUND)
    asked = client(worker)
    assert asked.post("/api/work", json={"do": "verify", "view": "people"}).status_code == 200
    assert ended(worker)["view"] == "people"
    assert asked.get("/api/work").json()["done"][0]["answer"]["ok"] is True
    assert asked.delete("/api/work").status_code == 200


@pytest.mark.parametrize(
    ("wanted", "status"),
    [({"do": "verify", "view": "poeple"}, 404), ({"do": "drop"}, 404), ({"do": "judge"}, 400), ({"view": 3}, 400)],
)
def test_what_makes_no_sense_starts_nothing(
    client: Callable[..., TestClient], wanted: dict[str, Any], status: int
) -> None:
    worker = running(FOUND)
    assert client(worker).post("/api/work", json=wanted).status_code == status
    assert worker.told() == {"now": None, "done": []}


def test_another_site_starts_nothing(client: Callable[..., TestClient]) -> None:
    worker = running(FOUND)
    asked, body = client(worker), b'{"do": "verify"}'
    plain = {"content-type": "text/plain"}
    json = {"content-type": "application/json"}
    assert asked.post("/api/work", content=body, headers=plain).status_code == 400
    assert asked.post("/api/work", content=body, headers={**json, "origin": "http://evil.example"}).status_code == 403
    assert asked.post("/api/work", content=body, headers={**json, "host": "evil.example"}).status_code == 421
    assert asked.delete("/api/work", headers={"origin": "http://127.0.0.1:3000"}).status_code == 403
    assert worker.told()["done"] == []


def test_apply_wants_a_page_with_a_token(client: Callable[..., TestClient], unchanged: Project) -> None:
    worker = running(PLAN)
    refused = client(worker).post("/api/work", json={"do": "plan"})
    assert (refused.status_code, "HEADWATER_TOKEN" in refused.json()["fix"]) == (400, True)
    asked = client(worker, "a-token")
    assert asked.get("/api/work").json()["may_apply"] is True
    assert asked.post("/api/work", json={"do": "plan"}).status_code == 200
    changes = ended(worker)["answer"]["changes"]
    assert asked.post("/api/work", json={"do": "apply", "confirmed": changes}).status_code == 200
    assert ended(worker)["kind"] == "apply"
    stranger = TestClient(application(unchanged, "a-token"), "http://127.0.0.1:7411")
    assert stranger.post("/api/work", json={"do": "verify"}).status_code == 401
