"""View managers: every view has its own, and each goes at its own pace.

A manager takes what is waiting as a batch, has the view's change computed (`compute`), and hands on results in the
order of the transactions, whatever order they are ready in. A failure that a retry can help is retried with growing
pauses; any other halts this view and those that read it, and no other.

Several batches of a view may be under way. Those of an aggregation build on each other: the groups of one are what the
batch before it has left. What is expensive, the questions, does not need them. So such a batch is computed *ahead*, as
far as it can be, and finished in its turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from headwater.integrator.journal import Journal, Segment
from headwater.model.errors import HeadwaterError, WarehouseError
from headwater.model.logged import event
from headwater.model.names import FOREVER, Seq
from headwater.model.schedule import parse_schedule
from headwater.model.written import Written
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.scheduling.families import Batch, Family, some
from headwater.runtime.scheduling.manager import Failed, Finished, Job, ViewManager
from headwater.runtime.scheduling.work import BatchWork, Compute
from headwater.runtime.view import UPDATES, ManagedView
from headwater.warehouse.cuts import ViewState

log = logging.getLogger(__name__)

LONGEST_PAUSE = 30.0
LINGER_SECONDS = 1.0
"""After so long without news, a view that shows every N transactions shows what there is."""


@dataclass(frozen=True)
class Joining:
    """How a manager begins: where its view stands, and where it joins the others if it has to catch up first."""

    state: ViewState
    joins_at: Seq | None = None
    whole: bool = False


@dataclass(frozen=True)
class Limits:
    """`changes`: about how many a batch takes. `at_once`: how many batches are computed at a time, of which `parallel`
    may be of one view."""

    changes: int
    at_once: int
    parallel: int


Expects = Callable[[ViewManager, Batch], bool]


class Managers:
    """The managers of a warehouse and the threads they share."""

    def __init__(
        self, journal: Journal, states: Callable[[str], ViewState], pool: Executor, limits: Limits,
        clock: Clock = SYSTEM,
    ) -> None:  # fmt: skip
        self._journal, self._states, self._pool, self._limits, self._clock = journal, states, pool, limits, clock
        self._all: dict[str, ViewManager] = {}
        self._news_at = 0.0
        self._turns = count(1)

    # --------------------------------------------------------------- who there is

    @property
    def all(self) -> Mapping[str, ViewManager]:
        """By the key of their views; parents come before their children."""
        return self._all

    def add(self, view: ManagedView, family: Family, how: Joining) -> ViewManager:
        """A manager for a view that holds everything up to its state's `through`."""
        parents = tuple(self._by_name(p) for p in view.plan.parents)
        start = Seq(max(how.state.seq, how.state.through))
        apart = not view.periodic and not view.by_updates and not view.plan.view.taken_out_by
        manager = ViewManager(view, family, parents, start, start, self._limits.parallel if apart else 1, how.joins_at)
        manager.whole, manager.since = how.whole, self._clock.time()
        manager.ends.add(start)
        if view.periodic:
            manager.schedule = parse_schedule(view.plan.view.schedule)
            manager.refreshed = how.state.refreshed or self._clock.time()
        self._all[view.key] = manager
        return manager

    def remove(self, key: str) -> None:
        manager = self._all.pop(key, None)
        if manager is not None:
            self._cancel(manager)

    def cancel(self) -> None:
        """Begin nothing that has not begun."""
        for manager in self._all.values():
            self._cancel(manager)

    def _cancel(self, manager: ViewManager) -> None:
        for job in manager.jobs:
            if job.future is not None and not job.future.cancel():
                job.future.add_done_callback(_drop)
            if job.ahead is not None:
                self._pool.submit(job.ahead.dropped)

    def children(self, manager: ViewManager) -> Iterator[ViewManager]:
        """Every view that reads this one, directly or through others."""
        for other in list(self._all.values()):
            if manager in other.parents:
                yield other
                yield from self.children(other)

    def unite(self, family: Family, other: Family) -> None:
        """Two families become one."""
        family.join(other)
        for manager in self._all.values():
            if manager.family is other:
                manager.family = family

    def heard_news(self) -> None:
        """A round was numbered."""
        self._news_at = self._clock.monotonic()

    @property
    def busy(self) -> bool:
        return any(m.jobs for m in self._all.values())

    @property
    def running(self) -> list[Future[Any]]:
        return [j.future for m in self._all.values() for j in m.jobs if j.future is not None]

    # --------------------------------------------------------------- dispatch

    def dispatch(self, compute: Compute, expects: Expects, hurry: bool = False) -> None:
        """Begin batches, fairly: who has waited longest comes first. In a hurry, what is there will do."""
        now = self._clock.monotonic()
        free = self._limits.at_once - len(self.running)
        for manager in sorted(self._all.values(), key=lambda m: m.turn):
            for job in manager.jobs:
                if free > 0 and not manager.failed and manager.startable(job, now):
                    free -= self._start(manager, job, compute)
            while len(manager.jobs) < manager.slots and not manager.failed:
                batch = self._next(manager, hurry)
                if batch is None:
                    break
                relevant = expects(manager, batch)
                if relevant and free <= 0:
                    break
                manager.taken, manager.whole = batch.hi, False
                manager.ends.add(batch.hi)
                job = Job(batch)
                manager.jobs.append(job)
                if manager.view.in_order:
                    manager.queue.start(batch.hi, [manager.view.name])
                if relevant:
                    free -= self._start(manager, job, compute)
                else:
                    manager.finish(job)

    def _start(self, manager: ViewManager, job: Job, compute: Compute) -> int:
        manager.turn = next(self._turns)
        if job.ahead is not None:
            job.future = self._pool.submit(job.ahead.finished)
            return 1
        end = job.batch.hi
        unwritten = {p.key: self._batch(p.through, end) for p in manager.parents if p.through < end}
        base = manager.view.plan.base
        beside = tuple(m.view for m in self._all.values() if m is not manager and not base.isdisjoint(m.view.plan.base))
        views = tuple(p.view for p in manager.parents)
        work = BatchWork(manager.view, views, job.batch, unwritten, beside, manager.behind(job))
        job.begun = job.begun or self._clock.time()
        job.future = self._pool.submit(compute, work)
        return 1

    def _next(self, manager: ViewManager, hurry: bool) -> Batch | None:
        """What the manager should do next, None if there is nothing (yet)."""
        view, lo = manager.view, manager.taken
        if not view.in_order:
            return self._next_run(manager)
        if view.periodic:
            return self._next_refresh(manager)
        if manager.whole:
            return self._next_whole(manager)
        skip = view.complete or not any(manager in other.parents for other in self._all.values())
        reach = self._affordable(lo, manager.reach) if skip else manager.reach
        hi = manager.family.known(lo, reach, skip, lambda at: all(parent.has_state(at) for parent in manager.parents))
        if hi is None and not manager.parents:
            quiet = self._clock.monotonic() - self._news_at > LINGER_SECONDS
            waiting = self._journal.between(lo, FOREVER)
            hi = manager.family.plan(lo, waiting, self._limits.changes, hurry or manager.catching_up or quiet)
        if hi is not None and view.by_updates:
            hi = Seq(min(hi, (lo // UPDATES + 1) * UPDATES))
        return None if hi is None else self._batch(lo, hi)

    def _affordable(self, lo: Seq, reach: Seq) -> Seq:
        segments = list(some(self._journal.between(lo, reach), self._limits.changes))
        return Seq(min(reach, segments[-1].hi)) if segments else lo

    def _next_run(self, manager: ViewManager) -> Batch | None:
        """For a convergent view: the next stretch that it does not hold yet."""
        run: list[Segment] = []
        state = self._states(manager.key)
        for segment in self._journal.between(manager.taken, FOREVER):
            if _holds(state, segment.lo, segment.hi):
                if run:
                    break
                continue
            run.append(segment)
        run = list(some(run, self._limits.changes))
        return self._batch(Seq(max(run[0].lo, state.seq)), run[-1].hi) if run else None

    def _next_whole(self, manager: ViewManager) -> Batch | None:
        """For a view that is resumed: all there is, if its parents are there."""
        newest = self._journal.newest
        until = FOREVER if manager.joins_at is None else manager.joins_at
        hi = Seq(min(newest.hi if newest is not None else 0, manager.reach, until))
        if hi <= manager.taken:
            return None
        manager.family.bound_at(hi)
        return replace(self._batch(manager.taken, hi), whole=True)

    def _next_refresh(self, manager: ViewManager) -> Batch | None:
        """For a periodic view: up to where it called the others, if its parents are there."""
        ready = manager.taken < manager.calls <= manager.reach
        return self._batch(manager.taken, manager.calls) if ready else None

    def _batch(self, lo: Seq, hi: Seq) -> Batch:
        return Batch(lo, hi, tuple(self._journal.between(lo, hi)))

    # ---------------------------------------------------------------- collect

    def collect(self) -> list[Finished | Failed]:
        """What is computed and may be handed on, and what failed for good."""
        found: list[Finished | Failed] = []
        for manager in list(self._all.values()):
            failures = [self._settle(manager, j) for j in manager.jobs if j.future is not None and j.future.done()]
            failed = [failure for failure in failures if failure is not None]
            found += failed or self._handed_on(manager)
        return found

    def _settle(self, manager: ViewManager, job: Job) -> Failed | None:
        assert job.future is not None
        future, job.future, job.ahead, view = job.future, None, None, manager.view.name
        try:
            result = future.result()
        except WarehouseError:
            raise  # no view's fault, and no view can go on
        except HeadwaterError as error:
            log.info("view %s, batch %s: %s", view, job.batch, error.what, exc_info=True, extra=_facts(manager, job))
            return self._failed(manager, job, error)
        except Exception as error:  # a defect of ours must not take the other views with it
            log.exception("view %s, batch %s: a defect", view, job.batch, extra=_facts(manager, job))
            return self._failed(manager, job, HeadwaterError(f"unexpected {type(error).__name__}: {error}"))
        manager.pause, manager.trouble = 0.0, ""
        if isinstance(result, Written):
            job.written = result
            manager.finish(job)
        else:
            job.ahead = result
        return None

    def _failed(self, manager: ViewManager, job: Job, error: HeadwaterError) -> Failed | None:
        if not error.retry_helps:
            manager.failed, manager.trouble, manager.since = True, error.what, self._clock.time()
            return Failed(manager, error)
        manager.pause = min(LONGEST_PAUSE, 2 * (manager.pause or 0.25))
        job.retry_at = self._clock.monotonic() + manager.pause
        if not manager.trouble:
            manager.since = self._clock.time()
        manager.trouble = error.what
        return None

    def _handed_on(self, manager: ViewManager) -> Iterable[Finished]:
        for job in manager.released():
            manager.jobs.remove(job)
            manager.through = Seq(max(manager.through, job.batch.hi))
            manager.since = manager.refreshed = self._clock.time()
            yield Finished(manager, job.batch, job.written, job.begun)

    def backlog(self, sources: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """Per source, the transactions that even the fastest of its views has not begun with."""
        newest = self._journal.newest
        result: dict[str, int] = {}
        for source, keys in sources.items():
            taken = [self._all[k].taken for k in keys if k in self._all]
            if taken and newest is not None:
                result[source] = max(0, newest.hi - max(taken))
        return result

    def _by_name(self, name: str) -> ViewManager:
        """The newest manager of a view of that name: the one built last, if it is being replaced."""
        return next(m for m in reversed(list(self._all.values())) if m.view.name == name)


def _drop(future: Future[Any]) -> None:
    """What is computed ahead for a view that is gone is of no use."""
    if not future.cancelled() and future.exception() is None and not isinstance(future.result(), Written):
        future.result().dropped()


def _holds(state: ViewState, lo: Seq, hi: Seq) -> bool:
    """Whether the transactions (lo, hi] are in a convergent view already."""
    return hi <= state.seq or any(low <= lo and hi <= high for low, high in state.ahead)


def _facts(manager: ViewManager, job: Job) -> dict[str, object]:
    lo, hi = job.batch.lo, job.batch.hi
    return event("batch.failed", view=manager.view.name, seq=hi, batch=[lo, hi])
