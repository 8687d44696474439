"""Time and memory of a benchmark run, and the table that compares runs.

*Memory* is the peak of a whole process tree, sampled from /proc on Linux, as PSS: a page shared by k processes counts
1/k for each, so forked workers and PostgreSQL's shared buffers are counted once. PSS is costly to read (the kernel
walks the page tables), RSS is cheap, and PSS ≤ RSS: so a sample reads PSS only when the tree's RSS exceeds the peak so
far, and only so often that this takes a tenth of the time.
Only the standard library is imported here, unless a table is printed.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PR_SET_CHILD_SUBREAPER = 36
_SHARE_OF_TIME = 0.1
"""How much of the time may go into reading PSS."""


@dataclass
class Stopwatch:
    """Named laps in seconds: `with watch.lap("load"): ...`."""

    laps: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def lap(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.laps[name] = self.laps.get(name, 0.0) + time.perf_counter() - start


class TreeMemory:
    """The peak PSS of a process and all its descendants while the `with` block runs.

    `itself` decides whether the root counts: yes for an engine that runs in this process, no for a runner that only
    started it.
    """

    def __init__(self, root: int | None = None, *, itself: bool = True, every: float = 0.05) -> None:
        self._root, self._itself, self._every = root or os.getpid(), itself, every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, daemon=True)
        self._rest_until = 0.0
        self.peak_bytes = self._own_bytes = 0

    @property
    def peak_mb(self) -> float:
        return round(self.peak_bytes / 2**20, 1)

    @property
    def own_mb(self) -> float:
        """Of the sample with the peak, what is no file's: pages of mapped files go when others need the memory."""
        return round(self._own_bytes / 2**20, 1)

    def __enter__(self) -> TreeMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample_until_stopped(self) -> None:
        self._sample()  # the block may be over before the first pause is
        while not self._stop.wait(self._every):
            self._sample()

    def _sample(self) -> None:
        tree = [pid for pid in descendants(self._root) if self._itself or pid != self._root]
        start = time.perf_counter()
        if start < self._rest_until or sum(map(_rss, tree)) <= self.peak_bytes:
            return
        whole, files = map(sum, zip(*map(_pss, tree), strict=True))
        if whole > self.peak_bytes:
            self.peak_bytes, self._own_bytes = whole, whole - files
        cost = time.perf_counter() - start
        self._rest_until = start + cost / _SHARE_OF_TIME


def cpu_seconds(*roots: int) -> float:
    """What these processes and all below them have computed, those that have ended included; a machine that is shared
    changes this less than it changes the time that passes."""
    ticks = 0
    for pid in {pid for root in roots for pid in descendants(root)}:
        text = _proc(pid, "stat")
        ticks += sum(map(int, text.rpartition(")")[2].split()[11:15])) if text else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def server_of(backend: int) -> int:
    """The process that a server's connection, a process of its own, was started by."""
    parent = _parent(backend)
    assert parent is not None
    return parent


def descendants(root: int) -> list[int]:
    """The process and everything below it."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (parent := _parent(int(entry))) is not None:
            children[parent].append(int(entry))
    found = [root]
    for pid in found:
        found += children[pid]
    return found


def _parent(pid: int) -> int | None:
    # "pid (name) state ppid ...": the name may hold spaces and parentheses, so read from the last ")".
    text = _proc(pid, "stat")
    return int(text.rpartition(")")[2].split()[1]) if text else None


def _rss(pid: int) -> int:
    text = _proc(pid, "statm")
    return int(text.split()[1]) * _PAGE if text else 0


def _pss(pid: int) -> tuple[int, int]:
    """All of it, and what of it is pages of files."""
    lines = (line.split() for line in _proc(pid, "smaps_rollup").splitlines()[1:])
    said = {words[0]: int(words[1]) * 1024 for words in lines}
    return said.get("Pss:", 0), said.get("Pss_File:", 0)


def _proc(pid: int, name: str) -> str:
    """A file of /proc, or nothing: processes end while we look."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""


@dataclass(frozen=True)
class Finished:
    """A command that ran to its end (or to the time limit: `code` is None then)."""

    code: int | None
    output: str
    errors: str
    peak_mb: float


def run_measured(command: Sequence[str], *, timeout: float, log: Path) -> Finished:
    """Run a command, with the peak memory of everything it started; nothing of it survives.

    This process adopts orphans (PR_SET_CHILD_SUBREAPER), so servers that detach from their starter, as PostgreSQL's
    does, still belong to the tree: they are counted, and ended when the command is done.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    earlier = set(descendants(os.getpid()))
    code: int | None = None
    output, errors = log.with_suffix(".out"), log.with_suffix(".err")
    with TreeMemory(itself=False) as memory, output.open("w") as out, errors.open("w") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        finally:
            _end(set(descendants(os.getpid())) - earlier)
    return Finished(code, output.read_text(), errors.read_text(), memory.peak_mb)


def _end(pids: set[int]) -> None:
    """End leftover processes, politely first, and collect those we adopted."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + 5
        while pids and time.monotonic() < deadline:
            pids = {pid for pid in pids if not _collected(pid)}
            time.sleep(0.02)


def _collected(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return not _proc(pid, "stat")


Row = Mapping[str, Any]


def write_json(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([dict(row) for row in rows], indent=1) + "\n")


def print_table(rows: Sequence[Row], *, title: str, baseline: str) -> None:
    """The rows as a table; `x` says how many times the baseline's burst time each row took."""
    from rich.console import Console
    from rich.table import Table

    base = next((row.get("burst_s") for row in rows if row["peer"] == baseline), None)
    table = Table(title=title)
    for name in ("peer", "version", "states", "ends at"):
        table.add_column(name)
    for name in ("first load s", "burst s", "updates/s", f"x {baseline}", "peak MB"):
        table.add_column(name, justify="right")
    table.add_column("answer")
    for row in rows:
        table.add_row(*_cells(row, base))
    Console(width=None if os.isatty(1) else 160).print(table)


def _cells(row: Row, base: float | None) -> list[str]:
    def number(name: str, form: str) -> str:
        return "" if row.get(name) is None else format(row[name], form)

    ran = row.get("burst_s") is not None
    ratio = f"{row['burst_s'] / base:.2f}" if ran and base else ""
    verdict = ("right" if row["correct"] else "WRONG") if ran else str(row.get("note", "not run"))
    words = [str(row.get(name) or "") for name in ("peer", "version", "states", "ends_at")]
    numbers = [number("load_s", ".2f"), number("burst_s", ".3f"), number("updates_per_s", ",.0f"), ratio]
    return [*words, *numbers, number("peak_rss_mb", ",.0f"), verdict]
