"""What a run tells the person who watches it."""

from __future__ import annotations

import logging
import statistics
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from headwater.integrator.numbering import Numbered
from headwater.model.logged import event
from headwater.model.names import Seq, ViewName
from headwater.model.written import Tally, Written
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.freshness import Freshness
from headwater.runtime.snapshot import Counts, Loading, RunSnapshot, Totals
from headwater.runtime.trails import Leg, Trails
from headwater.warehouse.cuts import Cut

log = logging.getLogger(__name__)

MINUTE = 60.0


class Progress(Protocol):
    """Shows a run. Called often; must be quick."""

    def loading(self, load: Loading) -> None: ...

    def running(self, look: Callable[[], RunSnapshot]) -> None:
        """Called every turn of the loop; `look` gives a snapshot, for those who want one now."""

    def note(self, text: str) -> None: ...


class Listener(Protocol):
    """Hears what a run does, as it does it (`lineage`). Must be quick, and must not fail."""

    def load_began(self, views: Sequence[ViewName]) -> None: ...

    def loaded(self, view: ViewName, rows: int) -> None: ...

    def not_built(self, views: Sequence[ViewName], reason: str) -> None: ...

    def computed(self, view: ViewName, batch: tuple[Seq, Seq], written: Written) -> None: ...

    def halted(self, view: ViewName, reason: str) -> None: ...

    def shown(self, cut: Cut) -> None: ...

    def turn(self) -> None: ...


class Meter:
    """Counts what passes, keeps a minute of it for rates, and tells the display."""

    def __init__(self, progress: Progress | None = None, clock: Clock = SYSTEM) -> None:
        self._progress, self._clock = progress, clock
        self.started = clock.time()
        self.transactions = self.changes = self.batches = self.batches_computed = self.retries = self.halts = 0
        self.freshness = Freshness()
        self.trails = Trails()
        self.tally = Tally()
        self.rows_out: dict[ViewName, int] = {}
        self._of_view: dict[ViewName, Tally] = {}
        self.waiting_for: dict[ViewName, str] = {}
        self.lags: deque[tuple[float, float]] = deque(maxlen=2000)
        """(when, seconds from a commit at its source to its cut) of recent batches' oldest transactions."""
        self._load: Loading | None = None
        self._by_source: dict[str, int] = {}
        self._source_lags: dict[str, float] = {}
        self._oldest: deque[tuple[Seq, Mapping[str, float]]] = deque()
        self._listeners: list[Listener] = []

    def heard_by(self, listener: Listener) -> None:
        """Tell this one, too."""
        self._listeners.append(listener)

    @property
    def load(self) -> Loading | None:
        """The first load under way."""
        return self._load

    def of_source(self, source: str) -> tuple[int, float | None]:
        """The transactions taken in from a source, and the lag of the last of them."""
        return self._by_source.get(source, 0), self._source_lags.get(source)

    def of_view(self, view: ViewName) -> Tally:
        """What the batches of a view cost since the run began."""
        return self._of_view.get(view, Tally())

    def totals(self) -> Totals:
        now = self._clock.time()
        recent = [lag for when, lag in self.lags if when > now - MINUTE]
        tally = self.tally
        return Totals(
            now - self.started,
            Counts(
                self.transactions,
                self.changes,
                self.batches,
                tally.questions,
                tally.keys,
                tally.scans,
                self.batches_computed,
                self.retries,
                self.halts,
                tally.bytes,
            ),
            self.lags[-1][1] if self.lags else None,
            statistics.median(recent) if recent else None,
        )

    # ---------------------------------------------------------------- loading

    def loading(self, views: Sequence[ViewName]) -> None:
        log.info("loading %s", ", ".join(views), extra=event("load.began", views=list(views)))
        self._show_load(Loading(views, self._clock.time()))
        for listener in self._listeners:
            listener.load_began(views)

    def copied(self, rows: int, total: int | None) -> None:
        if self._load:
            self._show_load(replace(self._load, rows=rows, total=total))

    def joining(self, view: ViewName) -> None:
        if self._load:
            self._show_load(replace(self._load, step=f"joining {view}"))

    def loaded(self, view: ViewName, rows: int) -> None:
        self.rows_out[view] = rows
        began = self._load.started if self._load else self._clock.time()
        facts = event("view.loaded", view=view, rows=rows, seconds=round(self._clock.time() - began, 3))
        log.info("loaded view %s: %d rows", view, rows, extra=facts)
        self.note(f"loaded view {view}: {rows:,} rows")
        for listener in self._listeners:
            listener.loaded(view, rows)

    def not_built(self, views: Sequence[ViewName], reason: str) -> None:
        for listener in self._listeners:
            listener.not_built(views, reason)

    def load_ended(self) -> None:
        self._load = None

    def _show_load(self, load: Loading) -> None:
        self._load = load
        if self._progress:
            self._progress.loading(load)

    # ------------------------------------------------------------ maintaining

    def took_in(self, numbered: Numbered) -> None:
        self.transactions += numbered.hi - numbered.lo
        self.changes += sum(rows.num_rows for rows in numbered.changes.values())
        times = numbered.transactions.group_by("source").aggregate([("committed_at", "min"), ([], "count_all")])
        for row in times.to_pylist():
            self._by_source[row["source"]] = self._by_source.get(row["source"], 0) + row["count_all"]
        sources = {row["source"]: row["count_all"] for row in times.to_pylist()}
        facts = event("round.numbered", first=numbered.lo + 1, seq=numbered.hi, sources=sources)
        log.debug("transactions %d to %d are numbered", numbered.lo + 1, numbered.hi, extra=facts)
        firsts = {row["source"]: row["committed_at_min"] for row in times.to_pylist()}
        known = {source: first.timestamp() for source, first in firsts.items() if first is not None}
        if known:
            self._oldest.append((numbered.hi, known))
            self.freshness.took_in(numbered.hi, known)
        self.trails.took_in(numbered.lo, numbered.hi, known, self._clock.time())

    def handed_on(self, leg: Leg) -> None:
        """A batch is on its way to the merge process."""
        self.trails.computed(leg, self._clock.time())

    def computed(self, view: ViewName, batch: tuple[Seq, Seq], written: Written) -> None:
        self.batches_computed += 1
        self.tally = self.tally.plus(written.tally)
        self._of_view[view] = self.of_view(view).plus(written.tally)
        self.rows_out[view] = self.rows_out.get(view, 0) + written.rows
        cost = written.tally
        facts = event(
            "batch.computed", view=view, seq=batch[1], batch=batch, rows=written.rows,
            changes=cost.changes, questions=cost.questions, seconds=round(cost.seconds, 6),
        )  # fmt: skip
        log.debug("view %s, batch %d to %d: %d rows", view, *batch, written.rows, extra=facts)
        self.waiting_for.pop(view, None)
        for listener in self._listeners:
            listener.computed(view, batch, written)

    def waits(self, view: ViewName, reason: str) -> None:
        if view not in self.waiting_for:
            self.retries += 1
            log.warning("view %s waits: %s", view, reason, extra=event("view.waits", view=view, reason=reason))
            self.note(f"view {view} waits: {reason}")
        self.waiting_for[view] = reason

    def halted(self, view: ViewName, reason: str, fix: str = "") -> None:
        self.halts += 1
        facts = event("view.halted", view=view, reason=reason, remedy=fix)
        log.warning("view %s halted: %s", view, reason, extra=facts)
        self.note(f"view {view} halted: {reason}" + (f" → {fix}" if fix else ""))
        for listener in self._listeners:
            listener.halted(view, reason)

    def note(self, text: str) -> None:
        if self._progress:
            self._progress.note(text)

    def shown(self, cut: Cut) -> None:
        """A cut became visible."""
        self.batches += 1
        log.debug("cut %d shows %d", cut.number, cut.seq, extra=event("cut.shown", cut=cut.number, seq=cut.seq))
        self.freshness.shown(cut, self._clock.time())
        for listener in self._listeners:
            listener.shown(cut)
        self.trails.shown(cut, self._clock.time())
        while self._oldest and self._oldest[0][0] <= cut.seq:
            _, firsts = self._oldest.popleft()
            lags = {source: max(0.0, self._clock.time() - first) for source, first in firsts.items()}
            self._source_lags |= lags
            self.lags.append((self._clock.time(), max(lags.values())))

    def turn(self, look: Callable[[], RunSnapshot]) -> None:
        for listener in self._listeners:
            listener.turn()
        if self._progress:
            self._progress.running(look)
