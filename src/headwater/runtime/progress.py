"""What a run tells the person who watches it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pyarrow.compute as pc

from headwater.integrator.numbering import Numbered
from headwater.model.names import Seq, ViewName
from headwater.runtime.jobs import Written
from headwater.runtime.tasks import Tally

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
    _oldest: deque[tuple[Seq, float]] = field(default_factory=deque)

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
        for counted in numbered.transactions.column("source").value_counts().to_pylist():
            self.by_source[counted["values"]] = self.by_source.get(counted["values"], 0) + counted["counts"]
        first = pc.min(numbered.transactions.column("committed_at")).as_py()
        if first is not None:
            self._oldest.append((numbered.hi, first.timestamp()))

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
            _, first = self._oldest.popleft()
            self.lags.append((time.time(), max(0.0, time.time() - first)))

    def turn(self, engine: Engine) -> None:
        if self.progress:
            self.progress.running(self, engine)

    def _show_load(self) -> None:
        if self.progress:
            self.progress.loading(self)
