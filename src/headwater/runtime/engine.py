"""The loop that joins everything: poll → number → journal → waves → commit → cut.

    sources ──polls──▶ integrator ──segments──▶ waves, p batches in flight ──files──▶ commit queue ──▶ cut record

Recovery is in the order of these steps: each is durable before the next begins, and each can be repeated. The engine
itself decides little; the decisions are in `numbering`, `wave`, `commit_queue` and `recovery`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from pyspark.sql import SparkSession

from headwater.integrator.journal import Journal, Segment, read_changes
from headwater.integrator.numbering import number
from headwater.integrator.relevance import relevant
from headwater.maintenance.commit_queue import CommitQueue
from headwater.model.consistency import Level
from headwater.model.errors import HeadwaterError, SourceUnavailable, WarehouseError
from headwater.model.names import Position, Seq, SourceName, ViewName
from headwater.model.source import Poll
from headwater.runtime import startup
from headwater.runtime.catalog import SourceCatalog
from headwater.runtime.chores import Chores
from headwater.runtime.config import Config
from headwater.runtime.jobs import Written, run_wave
from headwater.runtime.plans import ViewPlan
from headwater.runtime.pollers import Poller
from headwater.runtime.progress import Meter, Progress
from headwater.runtime.schema_watch import SchemaWatch
from headwater.runtime.steps import Step, reached
from headwater.runtime.tasks import Tally, WaveWork
from headwater.runtime.views import ManagedView
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, CutLog
from headwater.warehouse.format import check_format
from headwater.warehouse.lock import Lock
from headwater.warehouse.sessions import pins

ROWS_PER_PART = 4_000
"""A batch gets one more Spark task for every so many changes, up to the cores there are."""

GATHER_SECONDS = 0.3
"""So long the first poll of a round waits for the others."""

UNKNOWN_ROWS = 1_000_000
"""What a table without statistics is taken to hold: better to ask for a few keys than to read everything."""

FOREVER = 2**62


@dataclass(frozen=True)
class Batch:
    """The transactions (lo, hi] of some consecutive segments, computed together as of the last one's positions."""

    segments: tuple[Segment, ...]

    @property
    def lo(self) -> Seq:
        return self.segments[0].lo

    @property
    def hi(self) -> Seq:
        return self.segments[-1].hi

    def __hash__(self) -> int:
        return hash((self.lo, self.hi))


class Engine:
    """Maintains the views of one project. `with Engine(…) as engine: engine.start(plans); engine.run(…)`."""

    watch: SchemaWatch

    def __init__(
        self, config: Config, spark: SparkSession, catalog: SourceCatalog, progress: Progress | None = None
    ) -> None:
        self.config, self.spark, self.catalog = config, spark, catalog
        self.storage = Storage(config.warehouse)
        self.cuts = CutLog(self.storage)
        self.views: dict[ViewName, ManagedView] = {}
        self.pollers: dict[SourceName, Poller] = {}
        self.generations: dict[SourceName, str] = {}
        self.cut = Cut()
        self.meter = Meter(progress)
        self.stopping = False
        self._lock = Lock(self.storage, "headwater run")
        self._polls: dict[SourceName, Poll] = {}
        self._arrived = 0.0
        self._dispatched = Seq(0)
        self._queued: dict[Seq, Batch] = {}
        self._jobs: list[tuple[Batch, ViewName, Future[Written]]] = []
        self._retries: dict[tuple[Batch, ViewName], float] = {}
        self._pauses: dict[ViewName, float] = {}
        self._queue: CommitQueue[Written] = CommitQueue()
        self._recent: deque[tuple[float, Cut]] = deque()

    def __enter__(self) -> Engine:
        try:
            self._lock.acquire()
            check_format(self.storage, create=True)
            self._polling = ThreadPoolExecutor(2 * len(self.config.sources) + 1, thread_name_prefix="headwater-poll")
            self._computing = ThreadPoolExecutor(16, thread_name_prefix="headwater-wave")
            self.journal = Journal(self.storage)
            self.chores = Chores(self)
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stopping = True
        for _, _, job in self._jobs:
            job.cancel()
        if self._jobs:
            self.spark.sparkContext.cancelAllJobs()
        self._polling.shutdown(wait=True, cancel_futures=True)
        self._computing.shutdown(wait=True, cancel_futures=True)
        self.chores.close()
        for poller in self.pollers.values():
            poller.close()
        self._lock.release()

    def start(self, plans: Mapping[ViewName, ViewPlan]) -> None:
        """Recover, check the captures, load new views, drop old ones."""
        startup.start(self, plans, self._polling)

    def continue_from(self, cut: Cut) -> None:
        """Everything after this cut is still to be computed."""
        self._dispatched = cut.seq
        for view in self.views.values():  # one that only promises convergence may be behind the others
            for run in _runs(view, self.journal.between(view.state.seq, cut.seq)):
                self._start(run, view)

    # ------------------------------------------------------------------- loop

    def run(self, until_caught_up: bool = False) -> None:
        """Maintain until `stopping`, or until nothing is left to do."""
        if until_caught_up:
            self.catch_up()
            self.chores.finish()
            return
        while not self.stopping:
            self.step()

    def catch_up(self, patience: float = 30.0) -> None:
        """Until every source, asked from now on, had nothing new, and everything it had is visible."""
        quiet: set[SourceName] = set()
        entered = time.monotonic()  # an answer to an earlier question does not tell what is there now
        while not self.stopping:
            quiet |= {name for name in self.step() if self.pollers[name].asked_at >= entered}
            for poller in self.pollers.values():
                if (
                    poller.state.state != "ok"
                    and self.watch.columns(poller.name)
                    and time.time() - poller.state.since > patience
                ):
                    raise SourceUnavailable(
                        f"source {poller.name}: {poller.state.reason}", "nothing is lost; run again when it is back"
                    )
            if quiet >= {name for name in self.pollers if self.watch.columns(name)} and not self._busy():
                return

    def step(self) -> list[SourceName]:
        """One turn of the loop; returns the sources that had nothing new."""
        quiet = self._integrate()
        self._dispatch()
        self._wait()
        self._collect()
        self._commit()
        self.chores.step()
        self.meter.turn(self)
        return quiet

    def _busy(self) -> bool:
        return bool(self._polls or self._jobs or self._retries or len(self._queue) or self._waiting())

    def _wait(self) -> None:
        """Until something may have happened: a job is done, or it is time to poll again."""
        if self._jobs:
            wait([job for _, _, job in self._jobs], timeout=self.config.poll_seconds / 4, return_when=FIRST_COMPLETED)
        elif any(p.busy for p in self.pollers.values()) or len(self._queue):
            time.sleep(0.005)
        else:
            time.sleep(min(0.05, self.config.poll_seconds / 4))

    # -------------------------------------------------- integrator: poll, number

    def _integrate(self) -> list[SourceName]:
        """Start polls, take in the answers that are there, number and journal them."""
        backlog = sum(s.hi - s.lo for s in self._waiting())
        for poller in self.pollers.values():
            if backlog < 4 * self.config.batch_changes and poller.name not in self._polls:
                poller.start(self.watch.columns(poller.name), self.config.batch_changes)
        quiet = []
        for poller in self.pollers.values():
            answer = poller.finish(self.config.poll_seconds)
            if isinstance(answer, HeadwaterError):
                if not answer.retry_helps:  # no use in asking a source that is away about its tables
                    self._halt(self.watch.check(poller.name))
            elif answer is not None and answer.transactions.num_rows:
                self._arrived = self._arrived if self._polls else time.monotonic()
                self._polls[poller.name] = answer
            elif answer is not None and not answer.more:
                quiet.append(poller.name)
        self._journal_polls()
        self._halt(self.watch.due({name for name, poller in self.pollers.items() if poller.state.state == "ok"}))
        return quiet

    def _journal_polls(self) -> None:
        """Number what has arrived. Polls that are nearly there are waited for: one segment for all of them means one
        cut at which every source is asked about the present, not about a past that must be undone."""
        if not self._polls:
            return
        busy = any(p.busy for p in self.pollers.values())
        if busy and time.monotonic() - self._arrived < GATHER_SECONDS:
            return
        reached(Step.POLLED)
        positions = {name: poller.position for name, poller in self.pollers.items()}
        last = self.journal.newest
        lo = max(last.hi if last else Seq(0), self.cut.seq)
        numbered = number(lo, {**self.cut.positions, **positions}, self._polls)
        self._polls = {}
        self.journal.append(numbered)
        reached(Step.JOURNALED)
        self.meter.took_in(numbered)

    def _waiting(self) -> list[Segment]:
        return self.journal.between(self._dispatched, FOREVER)

    # ------------------------------------------------------- managers: the waves

    def _dispatch(self) -> None:
        """Make batches of what is waiting and start their waves."""
        now = time.monotonic()
        for batch, name in [key for key, when in self._retries.items() if when <= now]:
            del self._retries[batch, name]
            self._start(batch, self.views[name])
        while self._in_flight() < self.config.parallel and (waiting := self._waiting()):
            segments: list[Segment] = []
            rows = 0
            for segment in waiting:
                rows += sum(n for _, n in segment.tables.values())
                if segments and rows > self.config.batch_changes:
                    break
                segments.append(segment)
            batch = self._queued[segments[-1].hi] = Batch(tuple(segments))
            live = [v for v in self.views.values() if v.live]
            self._queue.start(batch.hi, [v.name for v in live if v.in_order])
            self._dispatched = batch.hi
            for view in live:
                for run in [batch] if view.in_order else _runs(view, segments):
                    self._start(run, view)

    def _in_flight(self) -> int:
        others = {batch.hi for batch, _, _ in self._jobs} | {batch.hi for batch, _ in self._retries}
        return len(others | set(self._queue.batches))

    def _start(self, batch: Batch, view: ManagedView) -> None:
        tables = view.plan.view.tables
        changes = {t: read_changes(self.storage, batch.segments, t, batch.lo, batch.hi) for t in tables}
        if not len(relevant(view.plan.view, {t: rows for t, rows in changes.items() if rows is not None})):
            self._done(batch, view, Written((), (), Tally()))
            return
        before = [job for _, name, job in self._jobs if name == view.name] if view.auxiliary is not None else []
        self._jobs.append((batch, view.name, self._computing.submit(self._compute, view, batch, before)))

    def _compute(self, view: ManagedView, batch: Batch, before: Sequence[Future[Written]]) -> Written:
        if before:
            wait(before)  # an aggregation builds on the one before it
        plan = view.plan
        tables = self.catalog.schemas(plan.view)
        rows = sum(n for s in batch.segments for t, (_, n) in s.tables.items() if t in plan.schemas)
        work = WaveWork(
            view=plan.view,
            storage=self.storage,
            segments=batch.segments,
            lo=batch.lo,
            hi=batch.hi,
            positions=batch.segments[-1].positions,
            specs={t.source: self.config.sources[t.source] for t in plan.view.tables},
            schemas=plan.schemas,
            sizes={t: UNKNOWN_ROWS if s.rows is None else s.rows for t, s in tables.items()},
            leading={t: frozenset(i[0] for i in (s.key, *s.indexes) if i) for t, s in tables.items()},
            parts=max(1, min(self.spark.sparkContext.defaultParallelism, rows // ROWS_PER_PART)),
            one_state=plan.view.level is not Level.COMPLETE,
        )
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", str(view.name))
        target = view.target(f"{batch.lo}-{batch.hi}")
        written = run_wave(self.spark, plan, work, target, view.aggregation(batch.hi))
        view.pending = (*view.pending, *written.auxiliary)
        reached(Step.COMPUTED)
        return written

    def _collect(self) -> None:
        """Take in finished waves; a failure is retried if that can help, else it halts its view and no other."""
        for job in [j for j in self._jobs if j[2].done()]:
            self._jobs.remove(job)
            batch, name, future = job
            try:
                written = future.result()
            except WarehouseError:
                raise  # no view's fault, and no view can go on
            except HeadwaterError as error:
                self._failed(batch, self.views[name], error)
                continue
            except Exception as error:  # a defect of ours must not take the other views with it
                self._failed(batch, self.views[name], HeadwaterError(f"unexpected {type(error).__name__}: {error}"))
                continue
            self._pauses.pop(name, None)
            self.meter.computed(name, written)
            self._done(batch, self.views[name], written)

    def _failed(self, batch: Batch, view: ManagedView, error: HeadwaterError) -> None:
        if not error.retry_helps:
            for source in {table.source for table in view.plan.view.tables}:
                self._halt(self.watch.check(source))
        if view.live and error.retry_helps:
            pause = self._pauses[view.name] = min(30.0, 2 * self._pauses.get(view.name, 0.25))
            self._retries[batch, view.name] = time.monotonic() + pause
            self.meter.waits(view.name, error.what)
            return
        self._halt({view.name: error.what})
        self._done(batch, view, None)

    def _halt(self, reasons: Mapping[ViewName, str]) -> None:
        """Stop maintaining these views, and only these."""
        for name, why in reasons.items():
            view = self.views.get(name)
            if view is None or not view.live:
                continue
            view.halt(why)
            self.meter.halted(name, why)
            for batch in [batch for batch, waiting in self._retries if waiting == name]:
                del self._retries[batch, name]
                self._done(batch, view, None)
            self.show_cut()

    # ------------------------------------------------------------------- commit

    def _done(self, batch: Batch, view: ManagedView, written: Written | None) -> None:
        """A view's part of a batch is computed (or given up): in order through the queue, or at once."""
        if view.in_order:
            self._queue.finish(batch.hi, view.name, written if view.live else None)
        elif written is not None and view.live:
            view.commit_ahead(written, batch.lo, batch.hi)
            reached(Step.COMMITTED)
            self.show_cut()

    def _commit(self) -> None:
        """Commit finished batches in order: first every view's tables, then the cut record that shows them."""
        while (released := self._queue.released()) is not None:
            hi, results = released
            batch = self._queued.pop(hi)
            commits = [self._computing.submit(self.views[name].commit, done, hi) for name, done in results.items()]
            for commit in commits:
                commit.result()
            reached(Step.COMMITTED)
            self._write_cut(hi, batch.segments[-1].positions)
            self.meter.committed(hi)

    def _write_cut(self, seq: Seq, positions: Mapping[SourceName, Position]) -> None:
        views = {name: view.state for name, view in self.views.items()}
        cut = Cut(self.cut.number + 1, seq, dict(positions), self.generations, views)
        self.cut = self.cuts.append(cut)
        self._recent.append((time.monotonic(), self.cut))
        reached(Step.SHOWN)

    def show_cut(self) -> None:
        """Make changed view states visible without new transactions."""
        self._write_cut(self.cut.seq, self.cut.positions)

    def trimmable(self, age: float) -> Cut | None:
        """The newest cut older than `age` seconds, than every pinned one, and than what any view still has to compute:
        nothing before it will be asked for."""
        behind = min([v.state.seq for v in self.views.values() if v.live], default=self.cut.seq)
        late = time.monotonic() - age
        while len(self._recent) > 1 and self._recent[1][0] < late and self._recent[1][1].seq <= behind:
            self._recent.popleft()
        if not self._recent or self._recent[0][0] > late or self._recent[0][1].seq > behind:
            return None
        return min([self._recent[0][1], *(pin.cut for pin in pins(self.storage))], key=lambda cut: cut.number)


def _runs(view: ManagedView, segments: Sequence[Segment]) -> list[Batch]:
    """What a convergent view does not hold yet of these segments, as consecutive pieces."""
    runs: list[list[Segment]] = []
    for segment in segments:
        if view.holds(segment.lo, segment.hi):
            continue
        if runs and runs[-1][-1].hi == segment.lo:
            runs[-1].append(segment)
        else:
            runs.append([segment])
    return [Batch(tuple(run)) for run in runs]
