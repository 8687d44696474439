"""--log json and --log-format json: every line is one object with the facts as fields, and holds no secret."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Headwater
from headwater.cli.logs import JsonLines, log_threads, start_log
from headwater.model.errors import HeadwaterError
from headwater.model.logged import event
from headwater.runtime.project.secrets import remember

SECRET = 'correct "horse" \\battery/7'
PLANTED = ("correct-horse-battery", "hunter2-and-more")


@pytest.fixture(autouse=True)
def no_handlers() -> Iterator[None]:
    logger = logging.getLogger("headwater")
    before, level = list(logger.handlers), logger.level
    yield
    for handler in logger.handlers:
        if handler not in before:
            handler.close()
    logger.handlers, logger.level = before, level


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "v.sql").write_text("CREATE MATERIALIZED VIEW v AS SELECT id FROM shop.t;")
    (tmp_path / "headwater.toml").write_text(
        f'[sources.shop]\nurl = "postgresql://reader:{PLANTED[0]}@127.0.0.1:1/shop"\n'
        f'[serve]\npassword = "{PLANTED[1]}"\n'
    )
    return tmp_path


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def said(level: int, message: str, *args: object, **more: Any) -> dict[str, Any]:
    """What one call writes."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("headwater.said")
    logger.setLevel("DEBUG")
    logger.addHandler(handler)
    try:
        logger.log(level, message, *args, **more)
    finally:
        logger.removeHandler(handler)
    (line,) = lines(out.getvalue())
    return line


def test_the_facts_are_fields() -> None:
    line = said(
        logging.INFO, "view %s\nis here", "v\x1b", extra=event("batch.computed", view="v", batch=(3, 7), level=1)
    )
    assert line["time"].endswith("Z")
    assert (line["level"], line["event"], line["message"]) == ("info", "batch.computed", "view v\x1b\nis here")
    assert (line["view"], line["batch"], line["logger"]) == ("v", [3, 7], "headwater.said")
    assert line["level_"] == 1, "a fact takes no field of the line's own"


def test_what_was_raised_is_told_in_fields() -> None:
    try:
        raise HeadwaterError("the pipe is cold", "warm it")
    except HeadwaterError:
        line = said(logging.ERROR, "no water", exc_info=True)
    assert (line["error"], line["fix"], line["event"]) == ("HeadwaterError", "warm it", "said")
    assert "Traceback" in line["traceback"]
    assert "the pipe is cold" in line["traceback"]


def test_no_secret_is_in_any_field() -> None:
    remember(SECRET)
    facts = event("x", url="postgresql://me:abcdefgh@db/x", deep={SECRET: [SECRET, {"a": SECRET}]}, ratio=float("nan"))
    try:
        raise ValueError(SECRET)
    except ValueError:
        line = said(logging.INFO, "with %s", SECRET, exc_info=True, extra=facts)
    shown = json.dumps(line, ensure_ascii=False)
    for piece in ("horse", "battery", "abcdefgh"):
        assert piece not in shown
    assert line["ratio"] == "nan"


def test_to_a_file(headwater: Headwater, project: Path) -> None:
    file = project / "run.jsonl"
    result = headwater("plan", "-p", project, "--log", file, "--log-format", "json")
    assert result.exit_code != 0
    (line,) = [one for one in lines(file.read_text()) if one["level"] == "error"]
    assert "Traceback" in line["traceback"]
    assert "Traceback" not in result.output
    for secret in PLANTED:
        assert secret not in file.read_text() + result.output


def test_to_standard_error(headwater: Headwater, project: Path) -> None:
    result = headwater("--log=json", "read", "v", "-p", project, "--json")
    told = lines(result.stderr)
    assert [("level" in line, "error" in line) for line in told] == [(True, True), (False, True)]
    assert told[0]["error"] == "HistoryGone"
    assert told[0]["event"] == "command.failed"
    assert "Traceback" in told[0]["traceback"], "standard error is no terminal here"


def test_as_a_process_it_is_json_from_the_first_line_to_the_last(project: Path) -> None:
    command = [sys.executable, "-m", "headwater.cli.main", "read", "v", "-p", str(project), "--log", "json", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert [line.get("level") for line in lines(done.stderr)] == ["error", None], "the log, and what is said"
    for secret in PLANTED:
        assert secret not in done.stderr + done.stdout


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", ["json", "text"])
def test_a_terminal_shows_no_traceback(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    start_log({"--log": kind})
    try:
        raise ValueError("odd")
    except ValueError:
        logging.getLogger("headwater.x").error("it failed", exc_info=True)
    assert "it failed" in screen.getvalue()
    assert "Traceback" not in screen.getvalue()
    assert len(screen.getvalue().splitlines()) == 1


def test_a_thread_that_fails_is_told_in_the_log_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    log_threads()
    start_log({"--log": str(tmp_path / "log"), "--log-format": "json"})
    thread = threading.Thread(target=lambda: 1 // 0, name="divider")
    thread.start()
    thread.join()
    (line,) = lines((tmp_path / "log").read_text())
    assert "divider ended" in line["message"]
    assert "ZeroDivisionError" in line["traceback"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--log", "x.log", "--log-format", "xml"), "there is no log format 'xml'"),
        (("--log-format", "json"), "--log-format needs --log"),
        (("--log-level", "debug"), "--log-level needs --log"),
    ],
)
def test_a_mistake_in_the_options(headwater: Headwater, project: Path, arguments: tuple[str, ...], told: str) -> None:
    result = headwater("status", "-p", project, *arguments)
    assert result.exit_code == 2
    assert told in result.stderr
