"""What cannot be read: said as a sentence to those who watch, and over when it is over; no traceback on a terminal."""

from __future__ import annotations

import json
import logging
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cli.small import add_view, small_project
from headwater.cli import beside
from headwater.page import look, server
from headwater.runtime.project.project import Project
from page.conftest import Page
from page.test_server import events, served


@pytest.fixture(autouse=True)
def _looks_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at every five seconds is looked at every time."""
    monkeypatch.setattr(look, "SAME_SECONDS", -1.0)
    monkeypatch.setattr(look, "FRESH_SECONDS", -1.0)


def test_a_warehouse_that_is_gone_is_no_empty_one(changing: Page, folder: Path) -> None:
    client = changing()
    assert client.get("/api/overview").json()["cut"]["number"] == 2
    (folder / "warehouse").rename(folder / "away")
    for _ in range(2):  # and the second look says the same
        gone = client.get("/api/overview")
        assert (gone.status_code, "is gone" in gone.json()["error"]) == (503, True)
    assert client.get("/api/travel?view=people").status_code == 503
    (folder / "away").rename(folder / "warehouse")
    assert client.get("/api/overview").json()["cut"]["number"] == 2


def test_another_warehouse_in_its_place_is_read_from_its_beginning(changing: Page, folder: Path) -> None:
    client = changing()
    add_view(folder, "more")
    client.get("/api/freshness")
    assert [v["name"] for v in client.get("/api/overview").json()["views"]] == ["people", "late", "more"]
    shutil.rmtree(folder)
    small_project(folder)
    now = client.get("/api/overview").json()
    assert ([v["name"] for v in now["views"]], now["cut"]["number"]) == (["people"], 1)
    assert [cut["cut"] for cut in client.get("/api/cuts").json()] == [1]
    assert len(client.get("/api/travel?view=people").json()["table"]["rows"]) == 3


def test_those_who_watch_are_told_and_told_that_it_is_over(project: Project, folder: Path) -> None:
    with served(project) as url:
        told = events(f"{url}/api/events", 3)
        assert next(told)[0] == "whole"
        (folder / "warehouse").rename(folder / "away")
        kind, _, said = next(told)
        assert (kind, "is gone" in said["error"], bool(said["fix"])) == ("trouble", True, True)
        (folder / "away").rename(folder / "warehouse")
        kind, _, whole = next(told)
        assert (kind, whole["cut"]["number"]) == ("whole", 2)


def test_what_nobody_foresaw_is_for_the_log_only(
    project: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: Any
) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError("with secret=hunter2 in it")

    def halfway(*args: object) -> Iterator[bytes]:
        raise ZeroDivisionError("later")

    monkeypatch.setattr(server, "overview", broken)
    monkeypatch.setattr(server, "stretch", halfway)
    with caplog.at_level(logging.ERROR, "headwater"), served(project) as url:
        answer = httpx2.get(f"{url}/api/overview")
        assert (answer.status_code, answer.json()["error"]) == (500, "unexpected ZeroDivisionError")
        assert "hunter2" not in answer.text
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        (told,) = events(f"{url}/api/events", 1)
        assert (told[0], told[2]["error"]) == ("trouble", "unexpected ZeroDivisionError")
        monkeypatch.setattr(server, "check_after", broken)
        assert httpx2.get(f"{url}/api/views/late/changes").status_code == 500
    assert [r.exc_info[0] for r in caplog.records if r.exc_info] == [ZeroDivisionError] * 3
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_page_beside_a_run_may_say_as_much_as_it_likes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a process writes and nobody reads stops it once the pipe is full."""
    told = json.dumps({"event": "listening", "url": "http://here/"})
    lines = f"import sys\nprint({told!r}, flush=True)\nsys.stderr.write('x' * 99 + '\\n')\nsys.stderr.flush()\n"
    lines += "for _ in range(5000): print('y' * 99, file=sys.stderr); print('z' * 99)\n"
    lines += f"sys.stderr.flush()\nopen({str(tmp_path / 'said')!r}, 'w').close()\nsys.stdin.read()"
    monkeypatch.setattr(beside, "_command", lambda *args: [sys.executable, "-c", lines])
    with beside.page_beside(tmp_path, "127.0.0.1", 0) as url:
        assert url == "http://here/"
        assert _there(tmp_path / "said")


def _there(file: Path) -> bool:
    end = time.monotonic() + 10
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.02)
    return file.exists()
