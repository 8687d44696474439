"""`headwater` as a person starts it: a process of its own, in a session of its own.

Everything it starts (a JVM, pyspark's daemon and its workers) stays in that session, whatever process groups it makes,
so that one can be found and killed, and nothing stays behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

COMMAND = (sys.executable, "-m", "headwater.cli.main")


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    session: int
    command: str


def processes() -> list[Process]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if fields[0] != "Z":
                    found.append(Process(int(folder.name), int(fields[1]), int(fields[3]), command))
    return found


class Run:
    """One `headwater run`, from its start to its end."""

    def __init__(self, project: Path, log: Path) -> None:
        self._log = log
        self._began = log.stat().st_size if log.exists() else 0
        self._heard = (self._began, time.monotonic())
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*COMMAND, "run", "--project", str(project)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        self.pid = self._process.pid
        self.stopped = False

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def log(self, lines: int = 25) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    @property
    def loops(self) -> bool:
        """It has begun to maintain, and says how far it is."""
        return " at transaction " in self._log.read_text(errors="replace")[self._began :]

    @property
    def silent(self) -> float:
        """Seconds since it last said something, as far as anybody looked."""
        size = self._log.stat().st_size
        if size != self._heard[0]:
            self._heard = (size, time.monotonic())
        return time.monotonic() - self._heard[1]

    def members(self) -> list[Process]:
        return [p for p in processes() if p.session == self.pid]

    def kill(self) -> None:
        """kill -9 of the driver alone: the JVM must see for itself that nobody is there any more."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def kill_one(self, what: Callable[[list[Process]], list[Process]]) -> bool:
        """kill -9 of one of its processes; False if there is none such."""
        chosen = what(self.members())
        for process in chosen[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        return bool(chosen)

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        self.stopped = True

    def go_on(self) -> None:
        if self.stopped and self.alive:
            self._process.send_signal(signal.SIGCONT)
        self.stopped = False

    def interrupt(self, seconds: float) -> float | None:
        """Ctrl-C, as a terminal sends it to everybody in front; how long it took to end, None if it did not."""
        self.go_on()
        began = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGINT)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        return time.monotonic() - began

    def end(self) -> None:
        """Whatever is left of it."""
        for _ in range(50):
            left = self.members()
            if not left and not self.alive:
                return
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.2)


def jvm(members: list[Process]) -> list[Process]:
    return [p for p in members if "java" in p.command.split(" ", 1)[0]]


def daemon(members: list[Process]) -> list[Process]:
    java = {p.pid for p in jvm(members)}
    return [p for p in members if p.parent in java and "daemon" in p.command]


def worker(members: list[Process]) -> list[Process]:
    daemons = {p.pid for p in daemon(members)}
    return [p for p in members if p.parent in daemons]


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


def headwater(project: Path, *arguments: str, seconds: float = 240) -> Answer:
    """One command, to its end. One that does not end is killed with all it started."""
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--project", str(project)], text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=seconds)
        return Answer(process.returncode, out, err)
    except subprocess.TimeoutExpired:
        return Answer(-1, "", f"did not end within {seconds:.0f} s")
    finally:
        for left in [p for p in processes() if p.session == process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(left.pid, signal.SIGKILL)
