"""View managers: every view has its own, and each goes at its own pace.

A manager takes what is waiting as a batch, has Spark compute the view's change (`computing`), and hands on results in
the order of the transactions, whatever order they are ready in. A failure that a retry can help is retried with growing
pauses; any other halts this view and those that read it, and no other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from itertools import count

from headwater.integrator.journal import Journal, Segment
from headwater.maintenance.commit_queue import CommitQueue
from headwater.model.errors import HeadwaterError, WarehouseError
from headwater.model.names import Seq
from headwater.model.schedule import Schedule, parse_schedule
from headwater.model.written import Written
from headwater.runtime.commit.views import ManagedView
from headwater.runtime.scheduling.families import Batch, Family, some
from headwater.runtime.threads import pool

FOREVER = Seq(2**62)
LONGEST_PAUSE = 30.0
LINGER_SECONDS = 1.0
"""After so long without news, a view that shows every N transactions shows what there is."""


@dataclass(eq=False)
class Job:
    """One batch of one view. Without a future it waits for its retry, or it is done."""

    batch: Batch
    future: Future[Written] | None = None
    written: Written | None = None
    done: bool = False
    retry_at: float = 0.0


@dataclass(eq=False)
class ViewManager:
    """`taken` is the end of the last batch begun, `through` of the last one handed on."""

    view: ManagedView
    family: Family
    parents: tuple[ViewManager, ...]
    taken: Seq
    through: Seq
    slots: int
    joins_at: Seq | None = None
    """While it catches up: where it will join the others. FOREVER until that is decided."""
    jobs: list[Job] = field(default_factory=list)
    queue: CommitQueue[Job] = field(default_factory=CommitQueue)
    """Hands on in the order of the transactions, whatever order batches are ready in."""
    pause: float = 0.0
    trouble: str = ""
    since: float = field(default_factory=time.time)
    """When it last handed something on, or was found waiting."""
    turn: int = 0
    schedule: Schedule | None = None
    refreshed: float = 0.0
    calls: Seq = field(default=Seq(0))
    """Where a periodic view is to be recomputed next, once it is due."""
    whole: bool = False
    """Its next batch takes everything there is as one state: it was halted, and what halted it may since have been
    corrected."""

    @property
    def key(self) -> str:
        return self.view.key

    @property
    def catching_up(self) -> bool:
        return self.joins_at is not None and self.through < self.joins_at

    @property
    def reach(self) -> Seq:
        """As far as its parents allow."""
        return Seq(min([FOREVER, *(p.through for p in self.parents)]))

    def due(self, now: float) -> bool:
        """Whether it is time to recompute a periodic view."""
        return self.schedule is not None and self.schedule.next(self.refreshed) <= now


@dataclass(frozen=True)
class Finished:
    """A batch that a manager hands on. `written` is None where no transaction was relevant."""

    manager: ViewManager
    batch: Batch
    written: Written | None


@dataclass(frozen=True)
class Failed:
    manager: ViewManager
    error: HeadwaterError


Compute = Callable[[ViewManager, Batch], Written]
Expects = Callable[[ViewManager, Batch], bool]


class Managers:
    """The managers of a warehouse and the threads they share."""

    def __init__(self, journal: Journal, most_changes: int, at_once: int) -> None:
        self.all: dict[str, ViewManager] = {}
        self.hurry = False
        """Somebody waits for everything to be shown: periodic views do not wait for their time."""
        self.news_at = 0.0
        self._journal, self._most, self._at_once = journal, most_changes, at_once
        self.threads = pool("wave", at_once)
        self._turns = count(1)

    def cancel(self) -> None:
        """Begin nothing that has not begun."""
        for manager in self.all.values():
            for job in manager.jobs:
                if job.future is not None:
                    job.future.cancel()

    def add(
        self, view: ManagedView, family: Family, parallel: int, joins_at: Seq | None = None, whole: bool = False
    ) -> ViewManager:
        """A manager for a view that holds everything up to `through`."""
        parents = tuple(self._by_name(p) for p in view.plan.parents)
        start = Seq(max(view.state.seq, view.state.through))
        slots = parallel if view.auxiliary is None and not parents and not view.periodic else 1
        manager = ViewManager(view, family, parents, start, start, slots, joins_at, whole=whole)
        if view.periodic:
            manager.schedule = parse_schedule(view.plan.view.schedule)
            manager.refreshed = view.state.refreshed or time.time()
        self.all[view.key] = manager
        return manager

    def remove(self, key: str) -> None:
        manager = self.all.pop(key, None)
        for job in manager.jobs if manager else ():
            if job.future is not None:
                job.future.cancel()

    def children(self, manager: ViewManager) -> Iterator[ViewManager]:
        """Every view that reads this one, directly or through others."""
        for other in list(self.all.values()):
            if manager in other.parents:
                yield other
                yield from self.children(other)

    @property
    def busy(self) -> bool:
        return any(m.jobs for m in self.all.values())

    @property
    def running(self) -> list[Future[Written]]:
        return [j.future for m in self.all.values() for j in m.jobs if j.future is not None]

    def wait(self, seconds: float) -> None:
        """Until some batch is computed."""
        wait(self.running, timeout=seconds, return_when=FIRST_COMPLETED)

    # --------------------------------------------------------------- dispatch

    def dispatch(self, compute: Compute, expects: Expects) -> None:
        """Begin batches, fairly: who has waited longest comes first."""
        now = time.monotonic()
        free = self._at_once - len(self.running)
        for manager in sorted(self.all.values(), key=lambda m: m.turn):
            for job in manager.jobs:
                if free > 0 and job.future is None and not job.done and job.retry_at <= now and manager.view.live:
                    free -= self._start(manager, job, compute)
            while manager.view.live and len(manager.jobs) < manager.slots:
                batch = self._next(manager)
                if batch is None:
                    break
                relevant = expects(manager, batch)
                if relevant and free <= 0:
                    break
                manager.taken, manager.whole = batch.hi, False
                job = Job(batch)
                manager.jobs.append(job)
                if manager.view.in_order:
                    manager.queue.start(batch.hi, [manager.view.name])
                if relevant:
                    free -= self._start(manager, job, compute)
                else:
                    _done(manager, job)

    def _start(self, manager: ViewManager, job: Job, compute: Compute) -> int:
        manager.turn = next(self._turns)
        job.future = self.threads.submit(compute, manager, job.batch)
        return 1

    def _next(self, manager: ViewManager) -> Batch | None:
        """What the manager should do next, None if there is nothing (yet)."""
        view, lo = manager.view, manager.taken
        if not view.in_order:
            return self._next_run(manager)
        if view.periodic:
            return self._next_refresh(manager)
        if manager.whole:
            return self._next_whole(manager)
        skip = view.complete or not any(manager in other.parents for other in self.all.values())
        reach = self._affordable(lo, manager.reach) if skip else manager.reach
        hi = manager.family.known(lo, reach, skip)
        if hi is None and not manager.parents:
            hurry = self.hurry or manager.catching_up or time.monotonic() - self.news_at > LINGER_SECONDS
            hi = manager.family.plan(lo, self._journal.between(lo, FOREVER), self._most, hurry)
        return None if hi is None else self._batch(lo, hi)

    def _affordable(self, lo: Seq, reach: Seq) -> Seq:
        segments = list(some(self._journal.between(lo, reach), self._most))
        return Seq(min(reach, segments[-1].hi)) if segments else lo

    def _next_run(self, manager: ViewManager) -> Batch | None:
        """For a convergent view: the next stretch that it does not hold yet."""
        run: list[Segment] = []
        for segment in self._journal.between(manager.taken, FOREVER):
            if manager.view.holds(segment.lo, segment.hi):
                if run:
                    break
                continue
            run.append(segment)
        run = list(some(run, self._most))
        return self._batch(Seq(max(run[0].lo, manager.view.state.seq)), run[-1].hi) if run else None

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
        for manager in list(self.all.values()):
            for job in manager.jobs:
                if job.future is not None and job.future.done():
                    failure = self._settle(manager, job)
                    if failure is not None:
                        found.append(failure)
            found += self._handed_on(manager)
        return found

    def _settle(self, manager: ViewManager, job: Job) -> Failed | None:
        assert job.future is not None
        future, job.future = job.future, None
        try:
            job.written = future.result()
        except WarehouseError:
            raise  # no view's fault, and no view can go on
        except HeadwaterError as error:
            return self._failed(manager, job, error)
        except Exception as error:  # a defect of ours must not take the other views with it
            return self._failed(manager, job, HeadwaterError(f"unexpected {type(error).__name__}: {error}"))
        _done(manager, job)
        manager.pause, manager.trouble = 0.0, ""
        return None

    def _failed(self, manager: ViewManager, job: Job, error: HeadwaterError) -> Failed | None:
        if not error.retry_helps:
            return Failed(manager, error)
        manager.pause = min(LONGEST_PAUSE, 2 * (manager.pause or 0.25))
        job.retry_at = time.monotonic() + manager.pause
        if not manager.trouble:
            manager.since = time.time()
        manager.trouble = error.what
        return None

    def _handed_on(self, manager: ViewManager) -> Iterable[Finished]:
        for job in _released(manager):
            manager.jobs.remove(job)
            manager.through = Seq(max(manager.through, job.batch.hi))
            manager.since = manager.refreshed = time.time()
            yield Finished(manager, job.batch, job.written)

    def backlog(self, sources: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """Per source, the transactions that even the fastest of its views has not begun with."""
        newest = self._journal.newest
        result: dict[str, int] = {}
        for source, keys in sources.items():
            taken = [self.all[k].taken for k in keys if k in self.all and self.all[k].view.live]
            if taken and newest is not None:
                result[source] = max(0, newest.hi - max(taken))
        return result

    def _by_name(self, name: str) -> ViewManager:
        """The newest manager of a view of that name: the one built last, if it is being replaced."""
        return next(m for m in reversed(list(self.all.values())) if m.view.name == name)


def _done(manager: ViewManager, job: Job) -> None:
    job.done = True
    if manager.view.in_order:
        manager.queue.finish(job.batch.hi, manager.view.name, job)


def _released(manager: ViewManager) -> Iterator[Job]:
    """What may be handed on now; nothing of a view that is halted."""
    if not manager.view.live:
        return
    if not manager.view.in_order:
        yield from [job for job in manager.jobs if job.done]
        return
    while (released := manager.queue.released()) is not None:
        yield from released[1].values()
