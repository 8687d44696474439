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
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.integrator.journal import Journal, Segment, read_changes
from headwater.integrator.numbering import number
from headwater.integrator.relevance import relevant
from headwater.maintenance.commit_queue import CommitQueue
from headwater.model.consistency import Level
from headwater.model.errors import CaptureMissing, HeadwaterError, SourceUnavailable
from headwater.model.names import Position, Seq, SourceName, TableName, ViewName
from headwater.model.source import Poll
from headwater.runtime.catalog import SourceCatalog
from headwater.runtime.chores import Chores
from headwater.runtime.config import Config
from headwater.runtime.jobs import Written, run_wave
from headwater.runtime.load import load_view
from headwater.runtime.plans import ViewPlan
from headwater.runtime.pollers import Poller
from headwater.runtime.progress import Meter, Progress
from headwater.runtime.recovery import recover, remove_strangers
from headwater.runtime.schema_watch import SchemaWatch
from headwater.runtime.staging import StagedCut, Staging, wanted
from headwater.runtime.tasks import Tally, WaveWork
from headwater.runtime.views import ManagedView, new_view
from headwater.sources import connect
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, CutLog
from headwater.warehouse.format import check_format
from headwater.warehouse.lock import Lock
from headwater.warehouse.sessions import pins

ROWS_PER_PART = 4_000
"""A batch gets one more Spark task for every so many changes, up to the cores there are."""

GATHER_SECONDS = 0.3
"""So long the first poll of a round waits for the others."""

Job = tuple[Seq, ViewName, Future[Written]]


class Engine:
    """Maintains the views of one project. `with Engine(…) as engine: engine.start(); engine.run(…)`."""

    def __init__(
        self, config: Config, spark: SparkSession, catalog: SourceCatalog, progress: Progress | None = None
    ) -> None:
        self.config, self.spark, self.catalog = config, spark, catalog
        self.storage = Storage(config.warehouse)
        self.cuts = CutLog(self.storage)
        self.views: dict[ViewName, ManagedView] = {}
        self.cut = Cut()
        self.meter = Meter(progress)
        self.pollers: dict[SourceName, Poller] = {}
        self.stopping = False
        self._lock = Lock(self.storage, "headwater run")
        self._queue: CommitQueue[Written] = CommitQueue()
        self._jobs: list[Job] = []
        self._retries: dict[tuple[Seq, ViewName], tuple[float, float]] = {}
        self._batches: dict[Seq, tuple[Seq, tuple[Segment, ...]]] = {}
        self._dispatched = Seq(0)
        self._polls: dict[SourceName, Poll] = {}
        self._arrived = 0.0
        self._recent: deque[tuple[float, Cut]] = deque()

    def __enter__(self) -> Engine:
        self._lock.acquire()
        try:
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
        self._lock.release()

    # ------------------------------------------------------------------ start

    def start(self, plans: Mapping[ViewName, ViewPlan]) -> None:
        """Recover, then bring the maintained views in line with the project's: load new ones, drop old ones."""
        self.cut = recover(self.storage, self.journal, self.cuts)
        self._check_capture(plans)
        self._start_pollers()
        self._dispatched = self.cut.seq
        self.watch = SchemaWatch(self.catalog, plans)
        for name, state in self.cut.views.items():
            plan = plans.get(name)
            if plan is not None and state.fingerprint == plan.fingerprint and state.state == "live":
                self.views[name] = ManagedView(plan, self.storage, state)
        new = [plan for name, plan in plans.items() if name not in self.views]
        gone = [name for name in self.cut.views if name not in plans]
        if new and self.views and not self._resumes():
            self._catch_up()  # so that a new view starts where the others are
        if new:
            self._load(new)
        if gone:
            self._write_cut(self.cut.seq, self.cut.positions)
            remove_strangers(self.storage, [self.cut, *(pin.cut for pin in pins(self.storage))])

    def _check_capture(self, plans: Mapping[ViewName, ViewPlan]) -> None:
        """Capture must cover every table of every view, and be the one our positions speak of."""
        needed: dict[SourceName, set[TableName]] = {}
        for plan in plans.values():
            for table in plan.view.tables:
                needed.setdefault(table.source, set()).add(table)
        generations = {}
        for source, tables in needed.items():
            capture = self.catalog.source(source).capture()
            missing = tables - (capture.tables if capture else set())
            if capture is None or missing:
                why = [f"{t}: {capture.broken[t]}" for t in sorted(missing) if capture and t in capture.broken]
                raise CaptureMissing(
                    f"changes of {', '.join(map(str, sorted(missing)))} are not captured"
                    + "".join(f" ({w})" for w in why),
                    "run 'headwater setup'",
                )
            generations[source] = capture.generation
            known = self.cut.generations.get(source)
            if known is not None and known != capture.generation:
                self._forget(source)
        self._generations = {**self.cut.generations, **generations}

    def _forget(self, source: SourceName) -> None:
        """Capture was removed and installed anew: what happened in between is unknown, so its views load again."""
        views = {
            name: replace(state, state="halted", reason=f"capture at {source} was removed and installed anew")
            if any(part == source for part in self._sources_of(state.folder))
            else state
            for name, state in self.cut.views.items()
        }
        self.cut = replace(
            self.cut, views=views, positions={k: v for k, v in self.cut.positions.items() if k != source}
        )

    def _sources_of(self, folder: str) -> set[str]:
        import json

        text = self.storage.get(f"{folder}/view.json")
        return set(json.loads(text).get("sources", [])) if text else set(self.config.sources)

    def _start_pollers(self) -> None:
        last = self.journal.newest
        positions: dict[SourceName, Position] = dict(self.cut.positions)
        if last is not None and last.hi >= self.cut.seq:
            positions = {**positions, **{s: p for s, p in last.positions.items() if s in positions}}
        for source in sorted(self._generations):
            adapter = self.catalog.source(source)
            if source not in positions:
                positions[source] = adapter.position()
            trimmer = connect(self.config.sources[source])
            self.pollers[source] = Poller(adapter, trimmer, self._polling, positions[source])
        if not self.cut.positions:
            self.cut = replace(self.cut, positions=positions, generations=self._generations)
        else:
            missing = {s: p for s, p in positions.items() if s not in self.cut.positions}
            self.cut = replace(self.cut, positions={**self.cut.positions, **missing}, generations=self._generations)

    def _resumes(self) -> bool:
        """Whether an interrupted load as of this very cut can go on."""
        return any(name.startswith(f"{self.cut.seq}-") for name in self.storage.names("loads"))

    def _load(self, plans: Sequence[ViewPlan]) -> None:
        """Load views as of the newest cut; they appear in one step, together."""
        names = [p.view.name for p in plans]
        self.meter.loading(names)
        self._write_cut(self.cut.seq, self.cut.positions, only_if_new=True)
        staged = Staging(self.spark, self.config, self.catalog, StagedCut(self.cut.seq, self.cut.positions))
        staged.copy(wanted(plans), self.meter.copied)
        loaded = {}
        for plan in plans:
            self.meter.joining(plan.view.name)
            view = new_view(self.storage, plan)
            written = load_view(self.spark, view, staged, self.cut.seq)
            view.commit(written, self.cut.seq)
            view.state = replace(view.state, horizon=self.cut.seq)
            loaded[plan.view.name] = view
            self.meter.loaded(plan.view.name, written.rows)
        self.views.update(loaded)
        self._write_cut(self.cut.seq, self.cut.positions)
        staged.remove()

    # ------------------------------------------------------------------- loop

    def run(self, until_caught_up: bool = False, patience: float = 30.0) -> None:
        """Maintain until `stopping`, or until nothing is left to do."""
        if until_caught_up:
            self._catch_up(patience)
            self.chores.finish()
            return
        while not self.stopping:
            self.step()

    def _catch_up(self, patience: float = 30.0) -> None:
        quiet: set[SourceName] = set()
        entered = time.monotonic()  # an answer to an earlier question does not tell what is there now
        while not self.stopping:
            quiet |= {name for name in self.step() if self.pollers[name].asked_at >= entered}
            if any(p.state.more for p in self.pollers.values()):
                quiet.clear()
            for poller in self.pollers.values():
                if poller.state.state != "ok" and time.time() - poller.state.since > patience:
                    raise SourceUnavailable(
                        f"source {poller.name}: {poller.state.reason}", "nothing is lost; run again when it is back"
                    )
            if quiet >= set(self.pollers) and not self._busy():
                return

    def _busy(self) -> bool:
        return bool(self._polls or self._jobs or self._retries or len(self._queue) or self._waiting())

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

    def _integrate(self) -> list[SourceName]:
        """Start polls, take in the answers that are there, number and journal them."""
        backlog = sum(s.hi - s.lo for s in self.journal.between(self._dispatched, 2**62))
        for poller in self.pollers.values():
            if backlog < 4 * self.config.batch_changes and poller.name not in self._polls:
                poller.start(self.watch.columns(poller.name), self.config.batch_changes)
        quiet = []
        for poller in self.pollers.values():
            answer = poller.finish(self.config.poll_seconds)
            if isinstance(answer, HeadwaterError):
                self._halt(self.watch.check(poller.name))
            elif answer is not None and answer.transactions.num_rows:
                self._arrived = self._arrived if self._polls else time.monotonic()
                self._polls[poller.name] = answer
            elif answer is not None and not answer.more:
                quiet.append(poller.name)
        self._journal_polls()
        self._halt(self.watch.due())
        return quiet

    def _journal_polls(self) -> None:
        """Number what has arrived. Polls that are nearly there are waited for: one segment for all of them means one
        cut at which every source is asked about the present, not about a past that must be undone."""
        if not self._polls:
            return
        busy = any(p.busy for p in self.pollers.values())
        if busy and time.monotonic() - self._arrived < GATHER_SECONDS:
            return
        positions = {name: poller.position for name, poller in self.pollers.items()}
        last = self.journal.newest
        lo = max(last.hi if last else Seq(0), self.cut.seq)
        numbered = number(lo, positions, self._polls)
        self._polls = {}
        self.journal.append(numbered)
        self.meter.took_in(numbered)

    def _waiting(self) -> list[Segment]:
        return self.journal.between(self._dispatched, 2**62)

    def _dispatch(self) -> None:
        """Make batches of what is waiting and start their waves."""
        now = time.monotonic()
        for (hi, name), (when, _) in list(self._retries.items()):
            if when <= now:
                del self._retries[hi, name]
                self._start(hi, self.views[name])
        while len(self._queue) < self.config.parallel and (waiting := self._waiting()):
            batch: list[Segment] = []
            rows = 0
            for segment in waiting:
                rows += sum(n for _, n in segment.tables.values())
                if batch and rows > self.config.batch_changes:
                    break
                batch.append(segment)
            lo, hi = self._dispatched, batch[-1].hi
            self._batches[hi] = (lo, tuple(batch))
            live = [v for v in self.views.values() if v.live]
            self._queue.start(hi, [v.name for v in live])
            self._dispatched = hi
            for view in live:
                self._start(hi, view)

    def _start(self, hi: Seq, view: ManagedView) -> None:
        lo, segments = self._batches[hi]
        if not self._touches(view, segments, lo, hi):
            self._queue.finish(hi, view.name, Written((), (), Tally()))
            return
        before = [job for _, name, job in self._jobs if name == view.name] if view.auxiliary is not None else []
        self._jobs.append((hi, view.name, self._computing.submit(self._compute, view, lo, hi, segments, before)))

    def _touches(self, view: ManagedView, segments: Sequence[Segment], lo: Seq, hi: Seq) -> bool:
        changes: dict[TableName, pa.Table] = {}
        for table in view.plan.view.tables:
            rows = read_changes(self.storage, segments, table, lo, hi)
            if rows is not None:
                changes[table] = rows
        return len(relevant(view.plan.view, changes)) > 0

    def _compute(
        self, view: ManagedView, lo: Seq, hi: Seq, segments: tuple[Segment, ...], before: Sequence[Future[Written]]
    ) -> Written:
        if before:
            wait(before)  # an aggregation builds on the one before it
        plan = view.plan
        rows = sum(n for s in segments for t, (_, n) in s.tables.items() if t in plan.schemas)
        cores = self.spark.sparkContext.defaultParallelism
        work = WaveWork(
            view=plan.view,
            storage=self.storage,
            segments=segments,
            lo=lo,
            hi=hi,
            positions=segments[-1].positions,
            specs={t.source: self.config.sources[t.source] for t in plan.view.tables},
            schemas=plan.schemas,
            sizes={t: s.rows or 0 for t, s in self.catalog.schemas(plan.view).items()},
            parts=max(1, min(cores, rows // ROWS_PER_PART)),
            one_state=plan.view.level is Level.STRONG,
        )
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", str(view.name))
        written = run_wave(self.spark, plan, work, view.target(f"{lo}-{hi}"), view.aggregation(hi))
        view.pending = (*view.pending, *written.auxiliary)
        return written

    def _wait(self) -> None:
        """Until something may have happened: a job is done, or it is time to poll again."""
        if self._jobs:
            wait([job for _, _, job in self._jobs], timeout=self.config.poll_seconds / 4, return_when=FIRST_COMPLETED)
        elif any(p.busy for p in self.pollers.values()) or len(self._queue):
            time.sleep(0.005)
        else:
            time.sleep(min(0.05, self.config.poll_seconds / 4))

    def _collect(self) -> None:
        """Take in finished waves; a failure is retried if that can help, else it halts its view and no other."""
        for job in [j for j in self._jobs if j[2].done()]:
            self._jobs.remove(job)
            hi, name, future = job
            view = self.views[name]
            try:
                written = future.result()
            except HeadwaterError as error:
                self._failed(hi, view, error)
                continue
            self.meter.computed(name, written)
            self._queue.finish(hi, name, written if view.live else None)

    def _failed(self, hi: Seq, view: ManagedView, error: HeadwaterError) -> None:
        for table in view.plan.view.tables:
            self._halt(self.watch.check(table.source))
        if not view.live:
            self._queue.finish(hi, view.name, None)
        elif error.retry_helps:
            _, pause = self._retries.get((hi, view.name), (0.0, 0.25))
            pause = min(30.0, pause * 2)
            self._retries[hi, view.name] = (time.monotonic() + pause, pause)
            self.meter.waits(view.name, error.what)
        else:
            self._halt({view.name: error.what})
            self._queue.finish(hi, view.name, None)

    def _halt(self, reasons: Mapping[ViewName, str]) -> None:
        for name, why in reasons.items():
            view = self.views.get(name)
            if view is not None and view.live:
                view.halt(why)
                self.meter.halted(name, why)
                for hi, waiting in list(self._retries):
                    if waiting == name:
                        del self._retries[hi, waiting]
                        self._queue.finish(hi, name, None)

    def _commit(self) -> None:
        """Commit finished batches in order: first every view's tables, then the cut record that shows them."""
        while (released := self._queue.released()) is not None:
            hi, results = released
            _, segments = self._batches.pop(hi)
            commits = [self._computing.submit(self.views[name].commit, done, hi) for name, done in results.items()]
            for commit in commits:
                commit.result()
            self._write_cut(hi, segments[-1].positions)
            self.meter.committed(self, hi)

    def _write_cut(self, seq: Seq, positions: Mapping[SourceName, Position], only_if_new: bool = False) -> None:
        if only_if_new and self.cut.number:
            return
        views = {name: view.state for name, view in self.views.items()}
        cut = Cut(self.cut.number + 1, seq, dict(positions), self._generations, views)
        self.cut = self.cuts.append(cut)
        self._recent.append((time.monotonic(), self.cut))

    def show_cut(self) -> None:
        """Make changed table versions visible without new transactions."""
        self._write_cut(self.cut.seq, self.cut.positions)

    def trimmable(self, age: float) -> Cut | None:
        """The newest cut that is older than `age` seconds and than every pinned one: nothing before it is asked for."""
        now = time.monotonic()
        while len(self._recent) > 1 and self._recent[1][0] < now - age:
            self._recent.popleft()
        if not self._recent or self._recent[0][0] > now - age:
            return None
        oldest = self._recent[0][1]
        pinned = [pin.cut for pin in pins(self.storage)]
        return min([oldest, *pinned], key=lambda cut: cut.number)
