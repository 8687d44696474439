"""--log FILE: what fails is there with its traceback and without secrets; nothing of it is on the screen."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Headwater

SECRET = "correct-horse-battery"


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
    (tmp_path / "headwater.toml").write_text(f'[sources.shop]\nurl = "postgresql://reader:{SECRET}@127.0.0.1:1/shop"\n')
    return tmp_path


@pytest.mark.parametrize("before", [True, False])
def test_a_failure_is_told_with_its_traceback_wherever_the_option_stands(
    headwater: Headwater, project: Path, before: bool
) -> None:
    file = project / "run.log"
    log = ("--log", file)
    arguments = (*log, "plan", "-p", project) if before else ("plan", "-p", project, *log)
    result = headwater(*arguments)
    assert result.exit_code != 0
    told = file.read_text()
    assert "ERROR" in told
    assert "Traceback" in told
    assert SECRET not in told + result.stderr + result.stdout
    assert "Traceback" not in result.stderr + result.stdout


def test_a_level_leaves_out_what_is_below(headwater: Headwater, project: Path) -> None:
    file = project / "run.log"
    headwater("plan", "-p", project, f"--log={file}", "--log-level=error")
    logging.getLogger("headwater.runtime").warning("not to be seen")
    assert "not to be seen" not in file.read_text()
    assert "ERROR" in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--log",), "--log needs a value"),
        (("--log", "/no/such/folder/x"), "cannot write to /no/such/folder/x"),
        (("--log", "x.log", "--log-level", "loud"), "there is no log level 'loud'"),
    ],
)
def test_a_mistake_in_the_options(headwater: Headwater, project: Path, arguments: tuple[str, ...], said: str) -> None:
    result = headwater("status", "-p", project, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_library_that_logs_by_no_logger_puts_nothing_on_the_screen() -> None:
    """As py4j does when its JVM dies: from then on logging would print what everybody says."""
    said = "import logging; logging.info('first'); logging.getLogger('headwater.x').error('a traceback')"
    line = [sys.executable, "-c", f"from headwater.cli.logs import start_log; start_log({{}}); {said}"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stderr == done.stdout == ""
