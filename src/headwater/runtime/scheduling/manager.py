"""One view's manager: what it has begun, how far it is, and what it may begin or hand on.

Invariant: a batch of an aggregation is finished when every batch before it is computed, for good. So it builds on
committed files and on files that will be committed before its own, or never, and then neither will its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field

from headwater.maintenance.commit_queue import CommitQueue
from headwater.model.errors import HeadwaterError
from headwater.model.names import FOREVER, Seq
from headwater.model.schedule import Schedule
from headwater.model.written import Written
from headwater.runtime.scheduling.families import Batch, Family
from headwater.runtime.scheduling.work import Ahead
from headwater.runtime.view import ManagedView

Running = Future[Written] | Future[Written | Ahead]


@dataclass(eq=False)
class Job:
    """One batch of one view. Without a future it waits for its retry, for the batch before it, or it is done."""

    batch: Batch
    future: Running | None = None
    ahead: Ahead | None = None
    written: Written | None = None
    done: bool = False
    retry_at: float = 0.0
    begun: float = 0.0
    """When it was first tried, seconds since 1970."""


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
    since: float = 0.0
    """When it last handed something on, or was found waiting."""
    turn: int = 0
    schedule: Schedule | None = None
    refreshed: float = 0.0
    calls: Seq = field(default=Seq(0))
    """Where a periodic view is to be recomputed next, once it is due."""
    whole: bool = False
    """Its next batch takes everything there is as one state: it was halted, and what halted it may since have been
    corrected."""
    failed: bool = False
    """No retry can help: it begins nothing more, and will be halted."""
    ends: set[Seq] = field(default_factory=set)
    """Where its batches have ended, as far back as somebody may ask: those are its states, if it skips some."""

    @property
    def key(self) -> str:
        return self.view.key

    @property
    def catching_up(self) -> bool:
        return self.joins_at is not None and self.through < self.joins_at

    @property
    def reach(self) -> Seq:
        """As far as its parents allow: they have been computed, or begun where what they will write is known."""
        return Seq(min([FOREVER, *(p.taken if p.foreseen else p.through for p in self.parents)]))

    @property
    def foreseen(self) -> bool:
        """Whether a view that reads it need not wait for its files: it copies a table, state by state."""
        return self.view.copies and not self.failed and not any(job.batch.whole for job in self.jobs)

    def has_state(self, at: Seq) -> bool:
        """Whether a view that reads this one can be computed there."""
        return self.view.complete or at in self.ends

    def forget(self, below: Seq) -> None:
        """Nobody will ask for states before this."""
        self.ends = {end for end in self.ends if end >= below}

    def behind(self, job: Job) -> bool:
        """Whether a batch that this one builds on is not computed yet."""
        if self.view.plan.auxiliary is None:
            return False
        return any(not other.done for other in self.jobs if other.batch.hi < job.batch.hi)

    def startable(self, job: Job, now: float) -> bool:
        """Whether there is something to do for a batch, and nothing that it must wait for."""
        if job.future is not None or job.done or job.retry_at > now:
            return False
        return job.ahead is None or not self.behind(job)

    def finish(self, job: Job) -> None:
        """The batch is computed."""
        job.done = True
        if self.view.in_order:
            self.queue.finish(job.batch.hi, self.view.name, job)

    def released(self) -> Iterator[Job]:
        """What may be handed on now."""
        if not self.view.in_order:
            yield from [job for job in self.jobs if job.done]
            return
        while (released := self.queue.released()) is not None:
            yield from released[1].values()

    def due(self, now: float) -> bool:
        """Whether it is time to recompute a periodic view."""
        return self.schedule is not None and self.schedule.next(self.refreshed) <= now


@dataclass(frozen=True)
class Finished:
    """A batch that a manager hands on. `written` is None where no transaction was relevant."""

    manager: ViewManager
    batch: Batch
    written: Written | None
    begun: float = 0.0


@dataclass(frozen=True)
class Failed:
    manager: ViewManager
    error: HeadwaterError
