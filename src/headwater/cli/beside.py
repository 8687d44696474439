"""The page beside a run: a process of its own, so that nothing it does slows maintenance or shares its JVM.

It ends with the run, however that ends: it is handed one end of a pipe, and stops when the other is gone.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from headwater.model.errors import HeadwaterError

log = logging.getLogger(__name__)

STOP_SECONDS = 3.0


@contextmanager
def page_beside(folder: Path, host: str, port: int) -> Iterator[str]:
    """The page of this project, while the block lasts; its address."""
    page = subprocess.Popen(
        _command(folder, host, port), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,  # Ctrl-C is for the run, which stops in its own time
    )  # fmt: skip
    assert page.stdin is not None
    assert page.stdout is not None
    assert page.stderr is not None
    try:
        url = _listening(page)
        for pipe in (page.stdout, page.stderr):
            threading.Thread(target=_heard, args=(pipe,), name="headwater-page", daemon=True).start()
        yield url
    finally:
        page.stdin.close()
        try:
            page.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            page.kill()
            page.wait()


def _command(folder: Path, host: str, port: int) -> list[str]:
    command = [sys.executable, "-m", "headwater.cli.main", "ui", "--json", "--attached"]
    return [*command, "--project", str(folder), "--host", host, "--port", str(port)]


def _heard(pipe: IO[str]) -> None:
    """What it says is for the log; unread it would fill its pipe, and stop the page."""
    for line in pipe:
        log.warning("the page says: %s", line.rstrip())


def _listening(page: subprocess.Popen[str]) -> str:
    assert page.stdout is not None
    assert page.stderr is not None
    line = page.stdout.readline()
    if line:
        return str(json.loads(line)["url"])
    page.wait()
    try:
        said = json.loads(page.stderr.read().strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise HeadwaterError("the page did not start", "'headwater ui' says why") from None
    raise HeadwaterError(f"the page did not start: {said['error']}", said["fix"].replace("--port", "--ui-port"))
