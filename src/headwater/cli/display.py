"""Three ways to watch a run: a live screen, lines with the time, and JSON lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, Protocol

from headwater.cli.printable import printable
from headwater.cli.rates import Rate, load_left
from headwater.cli.rows import write_lines
from headwater.cli.values import to_json
from headwater.runtime.progress import Progress
from headwater.runtime.project.secrets import without_secrets
from headwater.runtime.snapshot import Loading, RunSnapshot

if TYPE_CHECKING:
    from headwater.warehouse.cuts import Cut

LINE_SECONDS = 2.0
LOOK_SECONDS = 0.2


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
        self._last: tuple[int, int] | None = None
        self._looks = 0.0
        self._step = ""
        self._rate = Rate()
        self._states: dict[str, str] = {}

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def loading(self, load: Loading) -> None:
        if load.step == self._step and time.monotonic() < self._next:
            return
        self._step, self._next = load.step, time.monotonic() + LINE_SECONDS
        rate, left = load_left(load)
        total = f" of about {load.total:,}" if load.total is not None else ""
        ahead = f", {left:.0f} s left" if left and load.step == "copying" else ""
        self.note(f"loading {', '.join(load.views)}: {load.step}, {load.rows:,}{total} rows, {rate:,.0f} rows/s{ahead}")

    def running(self, look: Callable[[], RunSnapshot]) -> None:
        if time.monotonic() < self._looks:
            return
        self._looks = time.monotonic() + LOOK_SECONDS
        now = look()
        for line in source_news(self._states, now):
            self.note(line)
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LINE_SECONDS
        totals, seen = now.totals, (now.totals.counts.transactions, now.cut)
        rate = self._rate.of(totals.counts.transactions)
        if seen == self._last:
            return
        lag = "" if totals.lag is None else f", lag {totals.lag:.1f} s"
        waiting = f", {now.numbered - now.seq:,} not yet in it" if now.numbered > now.seq else ""
        self.note(f"cut {now.cut:,} at transaction {now.seq:,}{waiting}, {rate:,.0f} transactions/s{lag}")
        self._last = seen

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

    def loading(self, load: Loading) -> None:
        if load.step == self._loading and time.monotonic() < self._next:
            return
        self._loading, self._next = load.step, time.monotonic() + 0.5
        _emit("loading", {"views": list(load.views), "step": load.step, "rows": load.rows, "total": load.total})

    def running(self, look: Callable[[], RunSnapshot]) -> None:
        if time.monotonic() < self._next:
            return
        self._next, now = time.monotonic() + 0.5, look()
        seen = (now.totals.counts.transactions, now.cut)
        if seen != self._last:
            self._last = seen
            _emit("running", facts(now))

    def note(self, text: str) -> None:
        _emit("note", {"text": without_secrets(text)})

    def stopping(self) -> None:
        _emit("stopping", {})

    def stopped(self, cut: Cut, how: str) -> None:
        _emit("stopped", {"how": how, "cut": cut.number, "seq": cut.seq})


def source_news(known: dict[str, str], now: RunSnapshot) -> list[str]:
    """Lines about sources whose state changed since the last call."""
    said = []
    for source in now.sources:
        if known.get(source.name, "ok") != source.state:
            about = f": {source.reason}" if source.reason else " again"
            said.append(f"source {source.name} is {source.state}{about}")
        known[source.name] = source.state
    return said


def facts(now: RunSnapshot) -> dict[str, Any]:
    """A run at one moment, as programs read it."""
    totals = now.totals
    sources = [
        {
            "name": s.name,
            "state": s.state,
            "reason": without_secrets(s.reason),
            "position": s.position,
            "transactions": s.transactions,
        }
        for s in now.sources
    ]
    return {
        "seconds": totals.seconds,
        "cut": now.cut,
        "seq": now.seq,
        "numbered": now.numbered,
        **asdict(totals.counts),
        "lag": totals.lag,
        "lag_p50": totals.lag_p50,
        "sources": sources,
        "views": [{**asdict(view), "reason": without_secrets(view.reason)} for view in now.views],
    }


def _emit(event: str, facts: Mapping[str, Any]) -> None:
    write_lines([to_json({"event": event, "at": datetime.now(UTC).isoformat(), **facts})])
    print(end="", flush=True)
