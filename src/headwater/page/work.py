"""What the page may start: the commands that a person would type, one at a time, each in a process of its own.

    verify [VIEW]   recompute views from their sources, and compare             `headwater verify`
    judge VIEW      the checker on what the view's states really were           `headwater lab judge`
    plan            what `apply` would change; changes nothing                  `headwater apply`
    apply           do what the last plan said, if it still says the same       `headwater apply --yes`

The page stays what it is, a reader: whatever these do, they do as the command does, with the command's own locks and
refusals. `apply` changes what is maintained, so it wants a page with a token, on this machine too, and the plan that
was shown.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from headwater.model.errors import UsageError
from headwater.runtime.project.secrets import without_secrets

log = logging.getLogger(__name__)

KINDS = ("verify", "judge", "plan", "apply")
SECONDS = 3600.0
"""A command that takes longer is ended."""
KEPT = 20
"""So many that have ended are remembered."""

Command = Callable[[str, str], Sequence[str]]
"""From a kind and a view to a command line."""


@dataclass(frozen=True)
class Job:
    """One command, as far as it is. `rows` of `of` tell how far; `answer` is what it printed."""

    number: int
    kind: str
    view: str
    began: float
    ended: float | None = None
    rows: int = 0
    of: int | None = None
    code: int | None = None
    answer: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    fix: str = ""


def commands(folder: Path) -> Command:
    """The commands of this project."""
    started = [sys.executable, "-m", "headwater.cli.main"]

    def command(kind: str, view: str) -> Sequence[str]:
        words = {
            "verify": ["verify", *filter(None, [view]), "--progress"], "judge": ["lab", "judge", view],
            "plan": ["apply"], "apply": ["apply", "--yes"],
        }[kind]  # fmt: skip
        return [*started, *words, "--json", "--project", str(folder)]

    return command


class Worker:
    """Runs one command at a time, for all who look at the page."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._now: Job | None = None
        self._done: deque[Job] = deque(maxlen=KEPT)
        self._number = 0

    def told(self) -> dict[str, Any]:
        """What is under way, and what has ended, newest first."""
        with self._lock:
            now = asdict(self._now) if self._now is not None else None
            return {"now": now, "done": [asdict(job) for job in reversed(self._done)]}

    def start(self, kind: str, view: str = "", shown: object = None) -> Job:
        """Start it; raises UsageError if it cannot be. `shown` are the changes that were confirmed."""
        with self._lock:
            if self._now is not None:
                what = f"{self._now.kind} {self._now.view}".strip()
                raise UsageError(f"'{what}' is under way", "one thing at a time: wait for it, or stop it")
            if kind == "apply":
                self._check_plan(shown)
            self._number += 1
            self._now = Job(self._number, kind, view, time.time())
            self._process = subprocess.Popen(
                self._command(kind, view), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True, start_new_session=True,
            )  # fmt: skip
            threading.Thread(target=self._follow, args=(self._process,), name="headwater-work", daemon=True).start()
            return self._now

    def stop(self) -> None:
        """End what is under way, as Ctrl-C would."""
        with self._lock:
            if self._process is not None:
                self._process.terminate()

    def _check_plan(self, shown: object) -> None:
        plan = next((job for job in reversed(self._done) if job.kind == "plan"), None)
        if plan is None or not plan.answer.get("changes"):
            raise UsageError("no plan was shown", "compare views/ with what is maintained first")
        if shown != plan.answer["changes"]:
            raise UsageError("this is not what was confirmed", "compare again, and confirm what it says now")

    def _follow(self, process: subprocess.Popen[str]) -> None:
        """Read what it says until it ends."""
        assert process.stdout is not None
        assert process.stderr is not None
        said: list[str] = []
        reader = threading.Thread(target=lambda: said.extend(process.stdout or ()), daemon=True)
        limit = threading.Timer(SECONDS, process.terminate)
        reader.start()
        limit.start()
        last: dict[str, Any] = {}
        for line in process.stderr:
            told = _object(line)
            if told.get("event") == "progress":
                with self._lock:
                    assert self._now is not None
                    self._now = replace(self._now, rows=int(told.get("rows") or 0), of=told.get("of"))
            elif told or line.strip():
                last = told or {"error": line.strip()}
        code = process.wait()
        limit.cancel()
        reader.join()
        self._end(code, next((told for line in reversed(said) if (told := _object(line))), {}), last)

    def _end(self, code: int, answer: Mapping[str, Any], last: Mapping[str, Any]) -> None:
        with self._lock:
            job = self._now
            assert job is not None
            failed = bool(code) and not answer
            what = "it was stopped" if code < 0 else str(last.get("error", f"it ended with exit code {code}"))
            self._now, self._process = None, None
            ended = replace(job, ended=time.time(), code=code, answer=answer)
            if failed:
                fix = without_secrets(str(last.get("fix", "")))
                ended = replace(ended, error=without_secrets(what), fix=fix)
            self._done.append(ended)
        log.info("%s %s ended with %s", job.kind, job.view, code)


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
