"""The run's side of requests: one at a time, the others wait. Planning goes on in the background.

Where the project says so (`[run] lost_history = "reload"`), views that cannot go on are loaded again without a request.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Protocol

from headwater.integrator.journal import Journal
from headwater.model.errors import HeadwaterError
from headwater.model.logged import event
from headwater.model.names import SourceName, TableName, ViewName
from headwater.model.schema import TableSchema
from headwater.runtime.change.building import BuildUnderWay, Ended
from headwater.runtime.change.requests import Answer, Request, say, unanswered
from headwater.runtime.change.resuming import to_resume
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.commit.ledger import Ledger
from headwater.runtime.progress import Meter
from headwater.runtime.project.config import Config
from headwater.runtime.project.plan import ViewPlan
from headwater.storage import Storage

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
HEAL_SECONDS = 2.0
HEAL_SECONDS_AT_MOST = 300.0
"""How long to wait before views that could not be loaded again are tried once more."""


@dataclass(frozen=True)
class Planned:
    """The views a request asks for, over the project as its files say now. `unresolved` views of views/ mean nothing at
    present; they are left alone."""

    request: Request
    config: Config | None = None
    plans: Mapping[ViewName, ViewPlan] | None = None
    unresolved: frozenset[ViewName] = frozenset()
    described: Mapping[SourceName, Mapping[TableName, TableSchema]] = field(default_factory=dict)
    """What the sources said of their tables."""


class Planner(Protocol):
    """What a request means, over the project's files and sources (`change.planner`)."""

    def plan(self, request: Request) -> Planned:
        """Called in a thread of its own."""

    def adopt(self, planned: Planned) -> None:
        """From now on the project is what it was found to be."""


class Serving:
    """`step` gives the change that a request asks for; `ended` answers it."""

    def __init__(
        self, storage: Storage, planner: Planner, ledger: Ledger, journal: Journal, pool: Executor, meter: Meter,
        heals: bool, clock: Clock = SYSTEM,
    ) -> None:  # fmt: skip
        self._storage, self._planner, self._ledger, self._journal = storage, planner, ledger, journal
        self._pool, self._meter, self._heals, self._clock = pool, meter, heals, clock
        self._current = ""
        self._planning: Future[Planned] | None = None
        self._said = Answer("")
        self._next = 0.0
        self._heal_pause = HEAL_SECONDS
        self._heal_at = 0.0

    @property
    def busy(self) -> bool:
        return bool(self._current)

    def close(self) -> None:
        if self._current:
            self._answer(Answer("failed", "the run was stopped meanwhile", "run 'headwater apply' again"))

    def step(self, change: BuildUnderWay | None, busy: bool) -> BuildUnderWay | None:
        """The next change to make, if there is one. `change` is the one under way, if the run is `busy` with one."""
        if self._planning is not None:
            return self._begin() if self._planning.done() else None
        if self._current:
            if change is not None:
                self._answer(Answer("building", change.phase))
        elif self._clock.monotonic() >= self._next and not busy:
            self._next = self._clock.monotonic() + LOOK_SECONDS
            found = unanswered(self._storage)
            if found is not None:
                self._current, request = found
                self._answer(Answer("planning"))
                self._planning = self._pool.submit(self._planner.plan, request)
            elif self._heals:
                self._heal()
        return None

    def here(self, request: Request) -> BuildUnderWay | None:
        """What is wanted by somebody who waits for it in this process."""
        return self._change(self._planner.plan(request))

    def ended(self, ended: Ended) -> None:
        """A change is shown, or could not be made."""
        self._finished(ended.error)

    def _finished(self, error: HeadwaterError | None) -> None:
        if self._current:
            self._answer(Answer("done") if error is None else Answer("failed", error.what, error.fix))
            self._current = ""
        elif error is not None:
            self._meter.note(f"not loaded again: {error.what}")

    def _heal(self) -> None:
        states = {name: self._ledger.shown(name) for name in self._ledger.views}
        lost = [name for name, state in states.items() if state.state != "live" and not state.resumable]
        if not lost:
            self._heal_pause = HEAL_SECONDS
        elif self._clock.monotonic() >= self._heal_at:
            self._heal_at = self._clock.monotonic() + self._heal_pause
            self._heal_pause = min(2 * self._heal_pause, HEAL_SECONDS_AT_MOST)
            log.info("loading again: %s", ", ".join(lost), extra=event("load.again", views=lost))
            self._meter.note(f"loading again: {', '.join(lost)}")
            self._planning = self._pool.submit(self._planner.plan, Request("rebuild", views=lost))

    def _begin(self) -> BuildUnderWay | None:
        assert self._planning is not None
        planning, self._planning = self._planning, None
        try:
            change = self._change(planning.result())
        except HeadwaterError as error:
            log.info("a request is refused: %s", error.what, extra=event("request.refused"))
            self._finished(error)
            return None
        except Exception as error:  # a defect of ours must not end the run
            log.exception("a request met a defect", extra=event("request.refused"))
            self._finished(HeadwaterError(f"unexpected {type(error).__name__}: {error}"))
            return None
        if change is None:
            self._finished(None)
        return change

    def _change(self, planned: Planned) -> BuildUnderWay | None:
        request, ledger = planned.request, self._ledger
        if planned.plans is None:
            return BuildUnderWay([], [], resume=to_resume(ledger, self._journal, request.views))
        build: dict[ViewName, ViewPlan] = {}
        for name, plan in planned.plans.items():
            state = ledger.shown(name) if name in ledger.views else None
            same = state is not None and state.state == "live" and state.fingerprint == plan.fingerprint
            if request.kind == "rebuild" or not same or any(p in build for p in plan.view.parents):
                build[name] = plan
        gone = [n for n in (*ledger.views, *ledger.others) if n not in planned.plans and n not in planned.unresolved]
        drop = gone if request.kind == "apply" else []
        if not build and not drop:
            return None
        self._planner.adopt(planned)
        return BuildUnderWay(list(build.values()), drop)

    def _answer(self, said: Answer) -> None:
        if said != self._said:
            self._said = said
            say(self._storage, self._current, said)
