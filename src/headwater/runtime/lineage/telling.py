"""From what a run does to OpenLineage's runs: each load is one, and so is each stretch of batches of a view.

Batches come many times a second, and nobody wants to read of each: those of one view that are shown within some seconds
are one run. A run is told when it has ended, with the START it had; a load's START is told at once, for it takes long.

Invariant: nothing here waits, asks or fails for others; what cannot be told is left out.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from headwater.model.names import Seq, ViewName
from headwater.model.written import Written
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.lineage.datasets import Job
from headwater.runtime.lineage.events import Run, Type, event
from headwater.warehouse.cuts import Cut

log = logging.getLogger(__name__)


class Events(Protocol):
    """Where events go."""

    def put(self, event: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


@dataclass
class _Load:
    run: Run
    folder: str
    """Of the view as it was shown when the load began."""


@dataclass(frozen=True)
class _Stretch:
    """Batches of a view that follow each other: when the first was computed, the transactions after `after` up to
    `upto`, how many rows of the view they changed."""

    began: float
    after: Seq
    upto: Seq
    rows: int
    batches: int = 1

    def plus(self, other: _Stretch) -> _Stretch:
        return _Stretch(
            min(self.began, other.began), min(self.after, other.after), max(self.upto, other.upto),
            self.rows + other.rows, self.batches + other.batches,
        )  # fmt: skip


class Lineage:
    """Listens to a run (`progress.Listener`). `jobs` says what a view is made of, None where that is not known."""

    def __init__(
        self, events: Events, jobs: Callable[[ViewName], Job | None], seconds: float, version: str,
        clock: Clock = SYSTEM,
    ) -> None:  # fmt: skip
        self._events, self._jobs, self._seconds, self._version, self._clock = events, jobs, seconds, version, clock
        self._guard = threading.RLock()  # loads are told of by the thread that makes them
        self._cut = Cut()
        self._loads: dict[ViewName, _Load] = {}
        self._computed: dict[ViewName, list[_Stretch]] = {}
        """Batches that nobody sees yet."""
        self._stretches: dict[ViewName, _Stretch] = {}
        """What is shown and not told yet."""
        self._due = 0.0

    def load_began(self, views: Sequence[ViewName]) -> None:
        with self._guard:
            for view in views:
                job = self._jobs(view)
                if job is not None:
                    shown = self._cut.views.get(view)
                    self._loads[view] = load = _Load(_run(job), shown.folder if shown is not None else "")
                    self._tell("START", load.run)

    def loaded(self, view: ViewName, rows: int) -> None:
        with self._guard:
            load = self._loads.get(view)
            if load is not None:
                load.run = replace(load.run, rows=rows)

    def not_built(self, views: Sequence[ViewName], reason: str) -> None:
        with self._guard:
            for view in views:
                load = self._loads.pop(view, None)
                if load is not None:
                    self._tell("FAIL", replace(load.run, problem=reason))

    def computed(self, view: ViewName, batch: tuple[Seq, Seq], written: Written) -> None:
        with self._guard:
            self._computed.setdefault(view, []).append(_Stretch(self._clock.time(), *batch, written.rows))

    def halted(self, view: ViewName, reason: str) -> None:
        with self._guard:
            self._tell_stretch(view)
            unseen, job = self._computed.pop(view, []), self._jobs(view)
            if job is not None and view not in self._loads:  # else the load fails, and says so
                began = min([one.began for one in unseen], default=self._clock.time())
                self._both("FAIL", began, replace(_run(job, "batches"), problem=reason, facts=self._where(view)))

    def shown(self, cut: Cut) -> None:
        with self._guard:
            self._cut = cut
            for view, load in list(self._loads.items()):
                state = cut.views.get(view)
                if state is not None and state.folder != load.folder:
                    del self._loads[view]
                    self._tell("COMPLETE", replace(load.run, facts=self._where(view)))
            for view in list(self._computed):
                self._seen(view, cut)

    def _seen(self, view: ViewName, cut: Cut) -> None:
        """Those of its batches that this cut shows are ready to be told."""
        state = cut.views.get(view)
        if state is None:
            if view not in self._loads:
                del self._computed[view]  # dropped
            return
        upto = max([state.seq, *(hi for _, hi in state.ahead)])
        seen = [one for one in self._computed[view] if one.upto <= upto]
        self._computed[view] = [one for one in self._computed[view] if one.upto > upto]
        for one in seen:
            known = self._stretches.get(view)
            self._stretches[view] = one if known is None else known.plus(one)

    def turn(self) -> None:
        """It may be time to tell of what is shown."""
        if self._clock.monotonic() >= self._due:
            self._due = self._clock.monotonic() + self._seconds
            self._tell_stretches()

    def close(self) -> None:
        """The run ends: what is shown is told, and what is not shown is not."""
        self._tell_stretches()
        with self._guard:
            for load in self._loads.values():
                self._tell("FAIL", replace(load.run, problem="the run ended before the view was loaded"))
            self._loads.clear()
        self._events.close()

    def _tell_stretches(self) -> None:
        with self._guard:
            for view in list(self._stretches):
                self._tell_stretch(view)

    def _tell_stretch(self, view: ViewName) -> None:
        stretch, job = self._stretches.pop(view, None), self._jobs(view)
        if stretch is None or job is None:
            return
        facts = {**self._where(view), "after": int(stretch.after), "seq": int(stretch.upto)}
        run = replace(_run(job, "batches"), rows=stretch.rows, facts=facts | {"batches": stretch.batches})
        self._both("COMPLETE", stretch.began, run)

    def _where(self, view: ViewName) -> dict[str, int]:
        state = self._cut.views.get(view)
        return {"cut": self._cut.number} | ({"seq": int(state.seq)} if state is not None else {})

    def _both(self, type_: Type, began: float, run: Run) -> None:
        self._tell("START", replace(run, rows=None, problem="", facts={}), began)
        self._tell(type_, run)

    def _tell(self, type_: Type, run: Run, at: float | None = None) -> None:
        try:
            self._events.put(event(type_, run, self._clock.time() if at is None else at, self._version))
        except Exception:  # a defect of ours must not concern the run
            log.exception("an event of lineage could not be made: a defect")


def _run(job: Job, kind: Any = "load") -> Run:
    return Run(str(uuid.uuid4()), job, kind)
