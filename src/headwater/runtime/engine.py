"""The loop that joins everything.

    sources ──polls──▶ integrator ──rounds──▶ view managers ──action lists──▶ merge processes ──▶ tables, cut record
                            └────────────────relevance sets────────────────────────▲

Recovery is in the order of these steps: each is durable before the next begins, and each can be repeated. The engine
itself decides little; the decisions are in `numbering`, `families`, `wave`, the painting algorithms and `recovery`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from pyspark.sql import SparkSession

from headwater.integrator.journal import Journal, Segment, read_changes
from headwater.integrator.numbering import number
from headwater.integrator.relevance import relevant
from headwater.merge import Sequencing
from headwater.model.errors import CaptureMissing, HeadwaterError, LeaseLost, SchemaChanged, SourceUnavailable
from headwater.model.names import Position, Seq, SourceName, ViewName
from headwater.runtime import startup
from headwater.runtime.building import Building
from headwater.runtime.catalog import SourceCatalog
from headwater.runtime.chores import Chores
from headwater.runtime.committing import Committing
from headwater.runtime.computing import Computing
from headwater.runtime.config import Config
from headwater.runtime.families import Batch
from headwater.runtime.integration import Integration
from headwater.runtime.living_spark import LivingSpark
from headwater.runtime.managers import Failed, Finished, Managers, ViewManager
from headwater.runtime.merging import Merging
from headwater.runtime.pacing import Pacing
from headwater.runtime.plans import ViewPlan
from headwater.runtime.pollers import Poller
from headwater.runtime.progress import Meter, Progress
from headwater.runtime.report import Report
from headwater.runtime.requests import Requests
from headwater.runtime.retention import Retention
from headwater.runtime.schema_watch import SchemaWatch
from headwater.runtime.startup import Beginning
from headwater.runtime.steps import Step, reached
from headwater.runtime.threads import end, pool
from headwater.runtime.views import Halt, ManagedView
from headwater.sources import connect
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, CutLog, ViewState
from headwater.warehouse.format import check_same, claim
from headwater.warehouse.lock import Lock

QUIET_CUT_SECONDS = 1.0
"""Transactions that concern no view move the cut no more often than this."""


class Engine:
    """Maintains the views of one project. `with Engine(…) as engine: engine.start(plans); engine.run(…)`."""

    def __init__(
        self, config: Config, spark: SparkSession, catalog: SourceCatalog, progress: Progress | None = None
    ) -> None:
        self.config, self.living, self.catalog = config, LivingSpark(config, spark), catalog
        self.storage = Storage(config.warehouse)
        self.identity = ""
        """The warehouse's: looked at before anything is written."""
        self.cuts = CutLog(self.storage)
        self.views: dict[ViewName, ManagedView] = {}
        """The views that are maintained and shown."""
        self.others: dict[ViewName, ViewState] = {}
        """Views of the last cut that are shown as they were, until they are built anew or dropped."""
        self.pollers: dict[SourceName, Poller] = {}
        self.generations: dict[SourceName, str] = {}
        self.cut = Cut()
        self.meter = Meter(progress)
        self.stopping = False
        self._lock = Lock(self.storage, "headwater run")
        self._moved = 0.0

    def __enter__(self) -> Engine:
        try:
            self._lock.acquire()
            self.identity = claim(self.storage)
            self.polling = pool("poll", 2 * len(self.config.sources) + 1)
            self.watch = SchemaWatch(self.catalog)
            self.journal = Journal(self.storage, self.identity)
            self.integration = Integration(self)
            self.managers = Managers(self.journal, self.config.batch_changes, self.config.managers)
            self.merging = Merging(Sequencing(self.config.sequencing))
            self.compute = Computing(self.config, self.living, self.catalog, self.storage)
            self.pacing = Pacing(self)
            self.committing = Committing(self)
            self.building = Building(self)
            self.requests = Requests(self)
            self.retention = Retention(self)
            self.report = Report(self)
            self.chores = Chores(self)
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stopping = True
        if self.managers.busy or self.building.busy:
            self.living.cancel_jobs()
        self.managers.cancel()
        with suppress(LeaseLost):  # what they would take back is another run's now
            self.requests.close()
        end(
            self.polling,
            self.managers.threads,
            self.building.threads,
            self.committing.threads,
            self.requests.threads,
            self.chores.threads,
        )
        with suppress(LeaseLost):
            self.report.close()
        for poller in self.pollers.values():
            poller.close()
        self._lock.release()

    @property
    def spark(self) -> SparkSession:
        """Asked for each time: the one before may have died."""
        return self.living.session

    def start(
        self,
        plans: Mapping[ViewName, ViewPlan],
        build: bool = True,
        replace: bool = False,
        unresolved: Mapping[ViewName, HeadwaterError] = MappingProxyType({}),
    ) -> None:
        """Recover, look at the sources, go on where the last run ended; begin to build new views and drop old ones.
        `replace`: also build views anew that are others now or cannot go on, as 'apply' does. `unresolved` views mean
        nothing at present: they stay as they are."""
        heal = self.config.lost_history == "reload"
        startup.start(self, plans, Beginning(build, replace, heal, unresolved))

    # ---------------------------------------------------------------- sources

    def add_pollers(self, sources: Collection[SourceName], known: Mapping[SourceName, Position]) -> None:
        """Poll these sources from where they are known to have been."""
        for source in sorted(set(sources) - set(self.pollers)):
            # connections of their own: an adapter serves one thread at a time, and the catalog's serves the main one
            spec = self.config.sources[source]
            self.pollers[source] = Poller(connect(spec), connect(spec), self.polling, known[source])

    def poll_from_now(self, sources: set[SourceName]) -> None:
        """Poll sources that no view relies on so far, from where they are now. The journal notes it: whatever it knew
        of their positions may belong to another past."""
        for source in sources - self.watch.sources:
            if source in self.pollers:
                self.pollers.pop(source).close()
        new = {s: self.catalog.source(s).position() for s in sorted(sources) if s not in self.pollers}
        if not new:
            return
        generations = {s: capture.generation for s in new if (capture := self.catalog.source(s).capture()) is not None}
        self.add_pollers(new, new)
        self.generations = {**self.generations, **generations}
        self.journal_positions()

    def journal_positions(self) -> Segment:
        """Where the sources are now, with everything that has a number: an empty round, where that says something new.
        Quiet sources move on too, and what is loaded next may not be told as of where they were."""
        newest = self.journal.newest
        known = {**self.cut.positions, **(newest.positions if newest else {})}
        positions = {**known, **{name: poller.numbered for name, poller in self.pollers.items()}}
        if newest is not None and newest.hi >= self.cut.seq and newest.positions == positions:
            return newest
        check_same(self.storage, self.identity)
        return self.journal.append(number(Seq(max(newest.hi if newest else 0, self.cut.seq)), positions, {}))

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
        """Until everything that had happened at the sources by now is visible, and every view is built."""
        entered, wanted = time.monotonic(), None
        self.managers.hurry = self.building.must_succeed = True
        try:
            while not self.stopping:
                self.step()
                self._give_up(patience)
                if wanted is None and all(self._drained(name, entered) for name in self.pollers):
                    wanted = self.merging.numbered
                if wanted is not None and self.reaches(wanted) and not self.building.busy and not self.requests.busy:
                    self.move_cut()
                    return
        finally:
            self.managers.hurry = self.building.must_succeed = False

    def build(self) -> None:
        """Until every view is built; the others are maintained meanwhile."""
        self.building.must_succeed = True
        while self.building.busy and not self.stopping:
            self.step()

    def _drained(self, source: SourceName, since: float) -> bool:
        """Whether everything that was there at that time has been told of and has a number."""
        poller = self.pollers[source]
        told = poller.answered_at >= since and not poller.state.more and not self.integration.holds(source)
        return told or not self.watch.columns(source)

    def reaches(self, seq: Seq) -> bool:
        """Whether every live view could show this transaction, and nothing of it is still on its way."""
        live = [view for view in self.views.values() if view.live]
        shown = [self.merging.frontier(v.key) if self.merging.group(v.key) else v.state.seq for v in live]
        return min(shown, default=seq) >= seq

    def step(self) -> None:
        """One turn of the loop."""
        self.integration.step()
        self.pacing.step()
        self.managers.dispatch(self.compute, self._expects)
        self._wait()
        self._collect()
        self.committing.step()
        self.building.step()
        self.requests.step()
        if time.monotonic() - self._moved > QUIET_CUT_SECONDS:
            self.move_cut()
        self.chores.step()
        self.report.step()
        self.meter.turn(self)

    def _wait(self) -> None:
        """Until something may have happened: a batch is computed, or it is time to poll again."""
        if self.committing.busy:
            self.committing.wait(self.config.poll_seconds / 4)
        elif self.managers.running:
            self.managers.wait(self.config.poll_seconds / 4)
        elif any(p.busy for p in self.pollers.values()):
            time.sleep(0.005)
        else:
            time.sleep(min(0.05, self.config.poll_seconds / 4))

    def _give_up(self, patience: float) -> None:
        for poller in self.pollers.values():
            gone = time.time() - poller.state.since > patience
            if poller.state.state != "ok" and gone and self.watch.columns(poller.name):
                raise SourceUnavailable(
                    f"source {poller.name}: {poller.state.reason}", "nothing is lost; run again when it is back"
                )

    # --------------------------------------------------------------- managers

    def _expects(self, manager: ViewManager, batch: Batch) -> bool:
        """Whether a batch can change the view."""
        view = manager.view
        if view.merged and not manager.catching_up:
            return self.merging.expects(view, batch.lo, batch.hi)
        if manager.parents:
            return True
        tables = view.plan.view.tables
        changes = {t: read_changes(self.storage, batch.segments, t, batch.lo, batch.hi) for t in tables}
        return bool(len(relevant(view.plan.view, {t: rows for t, rows in changes.items() if rows is not None})))

    def _collect(self) -> None:
        """Hand on what is computed; a failure that no retry can help halts its view and those that read it."""
        for outcome in self.managers.collect():
            manager = outcome.manager
            if isinstance(outcome, Failed):
                self._failed(outcome)
                continue
            self._finished(outcome)
            if outcome.written is not None:
                self.meter.computed(manager.view.name, outcome.written)
        for manager in self.managers.all.values():
            if manager.trouble:
                self.meter.waits(manager.view.name, manager.trouble)

    def _finished(self, outcome: Finished) -> None:
        view, batch = outcome.manager.view, outcome.batch
        joins_at = outcome.manager.joins_at
        if joins_at is not None and batch.hi <= joins_at:
            self.committing.directly(outcome)
        elif view.merged:
            self.merging.actions(view, batch.hi, outcome.written)
        else:
            self.committing.ahead(outcome)

    def _failed(self, outcome: Failed) -> None:
        view = outcome.manager.view
        for source in view.plan.sources:  # perhaps a table was changed under it: then that is the better reason
            self.halt(self.watch.check(source))
        if view.live:
            self.halt_view(view, self._halt_for(view, outcome.error))

    def _halt_for(self, view: ManagedView, error: HeadwaterError) -> Halt:
        """A value or an expression that cannot be computed is no loss: the journal goes on, and so can the view."""
        if isinstance(error, (CaptureMissing, SchemaChanged)):
            self.watch.broke([view.state.fingerprint])
            return Halt(error.what, error.fix or "'headwater apply' loads it again")
        fix = f"correct it at the source, then 'headwater resume {view.name}' goes on from where it stopped"
        return Halt(error.what, fix, resumable=True)

    def halt(self, reasons: Mapping[str, Halt]) -> None:
        """Stop maintaining the views with these fingerprints, and those that read them."""
        for manager in list(self.managers.all.values()):
            why = reasons.get(manager.view.state.fingerprint)
            if why is not None and manager.view.live:
                self.halt_view(manager.view, why)
        for view in self.views.values():  # halted before, and now for good
            why = reasons.get(view.state.fingerprint)
            if why is not None and view.state.resumable:
                view.halt(why)
                self.show_cut()

    def halt_view(self, view: ManagedView, why: Halt) -> None:
        manager = self.managers.all.get(view.key)
        children = list(self.managers.children(manager)) if manager is not None else []
        view.halt(why)
        self.meter.halted(view.name, why.reason, why.fix)
        self.managers.remove(view.key)
        self.merging.remove(view)
        if self.views.get(view.name) is not view:
            self.building.failed(f"view {view.name}: {why.reason}", why.fix)
        for child in children:
            if child.view.live:
                said = f"view {view.name}, which it reads, is halted: {why.reason}"
                self.halt_view(child.view, replace(why, reason=said))
        self.show_cut()

    # -------------------------------------------------------------------- cut

    def show_cut(self) -> None:
        """Write a cut record that shows the views as they are now."""
        for view in self.views.values():
            if view.live and view.merged and self.merging.group(view.key):
                seq = Seq(max(view.state.seq, self.merging.frontier(view.key)))
                view.state = replace(view.state, seq=seq, through=Seq(max(seq, view.state.through)))
        live = [v.state.seq for v in self.views.values() if v.live]
        seq = Seq(max(self.cut.seq, min(live, default=self.merging.numbered)))
        segment = self.journal.at(seq)
        positions = segment.positions if segment is not None and segment.hi >= self.cut.seq else self.cut.positions
        views = {**self.others, **{name: view.state for name, view in self.views.items()}}
        check_same(self.storage, self.identity)
        number, generations = self.cut.number + 1, self.generations
        self.cut = self.cuts.append(Cut(number, seq, dict(positions), generations, views, warehouse=self.identity))
        self._moved = time.monotonic()
        self.retention.note()
        reached(Step.SHOWN)
        self.meter.committed(self.cut.seq)

    def move_cut(self) -> None:
        """Show that transactions which concern nobody are behind us too."""
        behind = [
            v
            for v in self.views.values()
            if v.live and v.merged and self.merging.group(v.key) and self.merging.frontier(v.key) > v.state.seq
        ]
        loose = [v for n, v in self.views.items() if not v.merged and v.live and v.state.seq > self.cut.views[n].seq]
        if behind or loose or (not self.views and self.merging.numbered > self.cut.seq):
            self.show_cut()
        self._moved = time.monotonic()
