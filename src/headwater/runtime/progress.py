"""What a run tells the person who watches it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from headwater.integrator.numbering import Numbered
from headwater.model.names import Seq, ViewName
from headwater.model.written import Tally, Written

if TYPE_CHECKING:
    from headwater.runtime.engine import Engine


class Progress(Protocol):
    """Shows a run. Called often; must be quick."""

    def loading(self, meter: Meter) -> None: ...

    def running(self, meter: Meter, engine: Engine) -> None: ...

    def note(self, text: str) -> None: ...


@dataclass
class Loading:
    """A first load under way."""

    views: Sequence[ViewName]
    started: float
    rows: int = 0
    total: int | None = None
    step: str = "copying"


@dataclass
class Meter:
    """Counts what passes, and keeps a minute of it for rates."""

    progress: Progress | None = None
    transactions: int = 0
    changes: int = 0
    by_source: dict[str, int] = field(default_factory=dict)
    """Transactions taken in, per source."""
    tally: Tally = field(default_factory=Tally)
    rows_out: dict[ViewName, int] = field(default_factory=dict)
    waiting_for: dict[ViewName, str] = field(default_factory=dict)
    load: Loading | None = None
    started: float = field(default_factory=time.time)
    batches: int = 0
    lags: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=2000))
    """(when, seconds from a commit at its source to its cut) of recent batches' oldest transactions."""
    source_lags: dict[str, float] = field(default_factory=dict)
    """The same of each source's last transactions."""
    _oldest: deque[tuple[Seq, Mapping[str, float]]] = field(default_factory=deque)

    def loading(self, views: Sequence[ViewName]) -> None:
        self.load = Loading(views, time.time())
        self._show_load()

    def copied(self, rows: int, total: int | None) -> None:
        if self.load:
            self.load.rows, self.load.total = rows, total
        self._show_load()

    def joining(self, view: ViewName) -> None:
        if self.load:
            self.load.step = f"joining {view}"
        self._show_load()

    def loaded(self, view: ViewName, rows: int) -> None:
        self.rows_out[view] = rows
        if self.progress:
            self.progress.note(f"loaded view {view}: {rows:,} rows")

    def took_in(self, numbered: Numbered) -> None:
        self.transactions += numbered.hi - numbered.lo
        self.changes += sum(rows.num_rows for rows in numbered.changes.values())
        times = numbered.transactions.group_by("source").aggregate([("committed_at", "min"), ([], "count_all")])
        for row in times.to_pylist():
            self.by_source[row["source"]] = self.by_source.get(row["source"], 0) + row["count_all"]
        firsts = {row["source"]: row["committed_at_min"] for row in times.to_pylist()}
        known = {source: first.timestamp() for source, first in firsts.items() if first is not None}
        if known:
            self._oldest.append((numbered.hi, known))

    def computed(self, view: ViewName, written: Written) -> None:
        self.tally = self.tally.plus(written.tally)
        self.rows_out[view] = self.rows_out.get(view, 0) + written.rows
        self.waiting_for.pop(view, None)

    def waits(self, view: ViewName, reason: str) -> None:
        if self.progress and view not in self.waiting_for:
            self.progress.note(f"view {view} waits: {reason}")
        self.waiting_for[view] = reason

    def halted(self, view: ViewName, reason: str, fix: str = "") -> None:
        if self.progress:
            self.progress.note(f"view {view} halted: {reason}" + (f" → {fix}" if fix else ""))

    def note(self, text: str) -> None:
        if self.progress:
            self.progress.note(text)

    def committed(self, hi: Seq) -> None:
        self.batches += 1
        while self._oldest and self._oldest[0][0] <= hi:
            _, firsts = self._oldest.popleft()
            lags = {source: max(0.0, time.time() - first) for source, first in firsts.items()}
            self.source_lags |= lags
            self.lags.append((time.time(), max(lags.values())))

    def turn(self, engine: Engine) -> None:
        if self.progress:
            self.progress.running(self, engine)

    def _show_load(self) -> None:
        if self.progress:
            self.progress.loading(self)
