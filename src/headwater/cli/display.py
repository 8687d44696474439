"""Three ways to watch a run: a live screen, lines with the time, and JSON lines."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, Protocol

from headwater.cli.printable import printable
from headwater.cli.rows import write_lines
from headwater.cli.snapshot import Rate, Snapshot, load_left, snapshot
from headwater.cli.values import to_json
from headwater.runtime.progress import Progress
from headwater.runtime.project.secrets import without_secrets

if TYPE_CHECKING:
    from headwater.runtime.engine import Engine
    from headwater.runtime.progress import Meter
    from headwater.warehouse.cuts import Cut

LINE_SECONDS = 2.0


class Display(Progress, AbstractContextManager["Display"], Protocol):
    """Shows a run from its start to its end."""

    def stopping(self) -> None: ...

    def stopped(self, cut: Cut, how: str) -> None: ...


def display_for(stream: IO[str], as_json: bool, title: str) -> Display:
    """The display that suits where the output goes."""
    if as_json:
        return JsonLines()
    if stream.isatty():
        from headwater.cli.live import LiveScreen

        return LiveScreen(title)
    return Lines()


class Lines:
    """A line with the time whenever something happened, at most every two seconds."""

    def __init__(self) -> None:
        self._next = 0.0
        self._last: Snapshot | None = None
        self._step = ""
        self._rate = Rate()
        self._states: dict[str, str] = {}

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def loading(self, meter: Meter) -> None:
        load = meter.load
        if load is None or (load.step == self._step and time.monotonic() < self._next):
            return
        self._step, self._next = load.step, time.monotonic() + LINE_SECONDS
        rate, left = load_left(load)
        total = f" of about {load.total:,}" if load.total is not None else ""
        ahead = f", {left:.0f} s left" if left and load.step == "copying" else ""
        self.note(f"loading {', '.join(load.views)}: {load.step}, {load.rows:,}{total} rows, {rate:,.0f} rows/s{ahead}")

    def running(self, meter: Meter, engine: Engine) -> None:
        for line in source_news(self._states, engine):
            self.note(line)
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LINE_SECONDS
        now = snapshot(meter, engine)
        rate = self._rate.of(now.transactions)
        if self._last is not None and (now.transactions, now.cut) == (self._last.transactions, self._last.cut):
            return
        lag = "" if now.lag is None else f", lag {now.lag:.1f} s"
        waiting = f", {now.numbered - now.seq:,} not yet in it" if now.numbered > now.seq else ""
        self.note(f"cut {now.cut:,} at transaction {now.seq:,}{waiting}, {rate:,.0f} transactions/s{lag}")
        self._last = now

    def note(self, text: str) -> None:
        print(datetime.now().strftime("%H:%M:%S"), printable(without_secrets(text)), flush=True)

    def stopping(self) -> None:
        self.note("stopping …")

    def stopped(self, cut: Cut, how: str) -> None:
        self.note(f"{how} at cut {cut.number:,}, transaction {cut.seq:,}")


class JsonLines:
    """Every event as one JSON object with `event` and `at`."""

    def __init__(self) -> None:
        self._next = 0.0
        self._last: tuple[int, int] | None = None
        self._loading = ""

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def loading(self, meter: Meter) -> None:
        load = meter.load
        if load is None or (load.step == self._loading and time.monotonic() < self._next):
            return
        self._loading, self._next = load.step, time.monotonic() + 0.5
        _emit("loading", {"views": list(load.views), "step": load.step, "rows": load.rows, "total": load.total})

    def running(self, meter: Meter, engine: Engine) -> None:
        seen = (meter.transactions, engine.cut.number)
        if time.monotonic() < self._next or seen == self._last:
            return
        self._next, self._last = time.monotonic() + 0.5, seen
        facts = asdict(snapshot(meter, engine))
        for one in (*facts["sources"], *facts["views"]):
            one["reason"] = without_secrets(one["reason"])
        _emit("running", facts)

    def note(self, text: str) -> None:
        _emit("note", {"text": without_secrets(text)})

    def stopping(self) -> None:
        _emit("stopping", {})

    def stopped(self, cut: Cut, how: str) -> None:
        _emit("stopped", {"how": how, "cut": cut.number, "seq": cut.seq})


def source_news(known: dict[str, str], engine: Engine) -> list[str]:
    """Lines about sources whose state changed since the last call."""
    said = []
    for name, poller in engine.pollers.items():
        state = poller.state
        if known.get(name, "ok") != state.state:
            said.append(f"source {name} is {state.state}" + (f": {state.reason}" if state.reason else " again"))
        known[name] = state.state
    return said


def _emit(event: str, facts: Mapping[str, Any]) -> None:
    write_lines([to_json({"event": event, "at": datetime.now(UTC).isoformat(), **facts})])
    print(end="", flush=True)
