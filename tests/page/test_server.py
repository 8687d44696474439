"""The page's addresses, asked as browsers and Prometheus ask."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pyarrow.parquet as pq
import pytest
import uvicorn
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from cli.small import halt_people
from headwater.model.errors import HeadwaterError, UsageError
from headwater.page.server import STATIC, application
from headwater.page.serving import Address, token_for
from headwater.page.work import Worker
from headwater.runtime.listening import listen
from headwater.runtime.project.config import load_config
from headwater.runtime.project.project import Project
from headwater.runtime.snapshot import ManagerNow, SourceNow
from headwater.warehouse.verdicts import Verdict, record_verdicts
from page.conftest import Page
from page.told import running
from warehouse.test_changes import grow

ADDRESSES = (
    "lab",
    "moment",
    "work",
    "overview",
    "painting",
    "cuts",
    "travel?view=people&at=3",
    "freshness",
    "trust",
    "views/people",
)


@pytest.mark.parametrize("path", ADDRESSES)
def test_every_part_answers(page: Page, path: str) -> None:
    answer = page().get(f"/api/{path}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"


def test_every_part_answers_while_it_runs(changing: Page, folder: Path) -> None:
    with running(folder):
        assert [changing().get(f"/api/{path}").status_code for path in ADDRESSES] == [200] * len(ADDRESSES)


def test_what_the_browser_needs_is_there_and_nothing_comes_from_elsewhere(page: Page) -> None:
    client = page()
    assert "<script" in client.get("/").text
    for file in sorted(STATIC.rglob("*")):
        if file.suffix in (".js", ".css", ".html", ".svg", ".woff2"):
            assert client.get(f"/static/{file.relative_to(STATIC)}").status_code == 200
            if "vendor" not in file.parts and file.suffix != ".woff2":
                said = file.read_text().replace("http://www.w3.org", "")
                assert "http://" not in said
                assert "https://" not in said
                assert "innerHTML" not in said


def test_errors_are_sentences(page: Page) -> None:
    client = page()
    unknown = client.get("/api/views/poeple")
    assert (unknown.status_code, "poeple" in unknown.json()["error"]) == (404, True)
    gone = client.get("/api/travel?view=people&at=0")
    assert gone.status_code == 400
    assert "oldest state kept is 1" in gone.json()["fix"]
    assert client.get("/api/travel?view=people&at=yesterday").status_code == 400
    assert client.post("/api/query", content=b"{").status_code == 400
    wrong = client.post("/api/query", json={"sql": "SELECT * FROM nowhere"})
    assert "views: people, late" in wrong.json()["fix"]
    assert client.get("/nowhere").status_code == 404


def test_a_query_as_table_csv_and_parquet(page: Page) -> None:
    client, sql = page(), "SELECT id, name, amount, day FROM people ORDER BY id, name"
    table = client.post("/api/query", json={"sql": sql}).json()
    assert table["rows"][0] == ["1", "Anne", "12345678901234.5000", "2024-02-29"]
    assert (table["more"], table["states"]) == (False, {"people": 3})
    csv = client.post("/api/query", json={"sql": sql, "format": "csv"})
    assert csv.headers["content-disposition"] == 'attachment; filename="query.csv"'
    assert csv.text.splitlines()[1] == "1,Anne,12345678901234.5000,2024-02-29"
    parquet = client.post("/api/query", json={"sql": sql, "format": "parquet", "at": "3"})
    assert pq.read_table(io.BytesIO(parquet.content)).column("name").to_pylist()[0] == "Anne"


def test_metrics_are_what_prometheus_reads(changing: Page, folder: Path) -> None:
    halt_people(folder)
    with running(folder) as storage:
        record_verdicts(storage, [Verdict("late", 3, 5.0, True, 1)])
        answer = changing().get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    found: dict[str, Any] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found[sample.name, *sorted(sample.labels.values())] = sample.value
    assert found["headwater_running",] == 1
    assert found["headwater_transactions_total",] == 5
    assert found["headwater_view_halted", "people"] == 1
    assert found["headwater_view_lag_transactions", "late"] == 2
    assert 9 <= found["headwater_view_lag_seconds", "late"] < 15
    assert found["headwater_view_freshness_seconds_count", "late"] == 4
    assert found["headwater_view_freshness_seconds_bucket", "0.5", "late"] == 3
    assert found["headwater_view_freshness_seconds_sum", "late"] == 2.0
    assert found["headwater_view_verified", "late"] == 1
    assert found["headwater_view_stored_bytes", "late"] > 0
    assert found["headwater_source_up", "crm"] == 1


def test_no_secret_is_told(folder: Path) -> None:
    """Planted wherever other people's messages come through."""
    secret = "hunter2-and-more"
    with (folder / "headwater.toml").open("a") as settings:
        settings.write(f'[sources.far]\nurl = "postgresql://me:{secret}@db.invalid/x"\n')
    halt_people(folder, f"postgresql://me:{secret}@db.invalid refused password={secret}")
    away = SourceNow("far", "unreachable", f"me:{secret}@db: no", time.time(), "", "", 0, None)
    waits = ManagerNow("late", True, 3, f"a source that said {secret}", time.time(), 3)
    said = {"sources": [away], "managers": [waits], "not_built": {"new": secret}, "torn": [secret]}
    project = Project(load_config(folder))
    client = TestClient(application(project), base_url="http://127.0.0.1")
    with running(folder, **said) as storage:
        record_verdicts(storage, [Verdict("late", 3, 5.0, False, 1, problem=f"could not connect: {secret}")])
        for path in (*(f"/api/{path}" for path in ADDRESSES), "/metrics", "/api/views/late"):
            assert secret not in client.get(path).text, path


def test_metrics_while_nothing_runs(page: Page) -> None:
    said = page().get("/metrics").text
    assert "headwater_running 0.0" in said
    assert "headwater_transactions_total" not in said


@contextmanager
def served(project: Project, work: Worker | None = None) -> Iterator[str]:
    """A real server: streams end only with their connection."""
    listening = listen("127.0.0.1", 0)
    closing = threading.Event()
    app = application(project, closing=closing, work=work)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        closing.set()
        server.should_exit = True
        thread.join(5)
        listening.close()


def events(url: str, wanted: int, headers: dict[str, str] | None = None) -> Iterator[tuple[str, str, Any]]:
    """(event, id, data) of a stream, the first so many."""
    kind = number = ""
    with httpx2.stream("GET", url, headers=headers, timeout=10) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "id":
                number = value
            elif name == "data":
                yield kind, number, json.loads(value)
                wanted -= 1
                if not wanted:
                    return


def test_events_tell_the_whole_once_and_then_what_changed(project: Project, folder: Path) -> None:
    with served(project) as url:
        told = events(f"{url}/api/events", 2)
        kind, _, whole = next(told)
        assert (kind, whole["cut"]["number"]) == ("whole", 2)
        halt_people(folder)
        started = time.monotonic()
        kind, _, changed = next(told)
        assert time.monotonic() - started < 3
        assert kind == "patch"
        assert [(v["name"], v["word"]) for v in changed["views"]] == [("people", "halted"), ("late", "halted")]
        assert "project" not in changed


def test_changes_are_streamed_once_each_and_resumed(project: Project, folder: Path) -> None:
    with served(project) as url:
        address = f"{url}/api/views/late/changes"
        told = events(f"{address}?after=3", 2)
        grow(folder, "late", 4, (8, 1))
        grow(folder, "late", 6, (9, 2), (8, -1))
        (one, two) = told
        assert (one[0], one[1], one[2]["changes"]) == ("change", "4", [{"count": 1, "row": {"n": 8}}])
        assert two[1] == "6"
        (again,) = events(address, 1, {"last-event-id": "4"})
        assert again[1] == "6"
        assert httpx2.get(f"{address}?after=2").status_code == 400
        assert httpx2.get(f"{address}?after=x").status_code == 400
        assert httpx2.get(f"{url}/api/views/none/changes").status_code == 404


def test_a_port_that_is_taken_is_said_to_be() -> None:
    with listen("127.0.0.1", 0) as first, pytest.raises(HeadwaterError, match="is taken"):
        listen("127.0.0.1", first.getsockname()[1])
    with pytest.raises(UsageError, match="no address"):
        listen("no.such.host.invalid", 0)


def test_a_token_is_made_where_others_can_reach_it() -> None:
    assert token_for("127.0.0.1", None) == token_for("localhost", None) == token_for("::1", None) == ""
    assert len(token_for("0.0.0.0", None)) > 20
    assert token_for("0.0.0.0", "mine") == "mine"
    assert Address("::1", 80, "a").url == "http://[::1]:80/?token=a"
