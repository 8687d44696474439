"""The loop that joins everything.

    sources ──polls──▶ integrator ──rounds──▶ view managers ──action lists──▶ merge processes ──▶ tables, cut record
                            └────────────────relevance sets────────────────────────▲

Recovery is in the order of these steps: each is durable before the next begins, and each can be repeated. The engine
wires the parts and hands on what they return; the decisions are theirs.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType

from headwater.integrator.journal import Journal
from headwater.merge import Sequencing
from headwater.model.errors import HeadwaterError, LeaseLost, SourceUnavailable
from headwater.model.logged import event
from headwater.model.names import Position, Seq, SourceName, ViewName
from headwater.runtime.change.building import Building, BuildUnderWay, Ended
from headwater.runtime.change.halting import Halting
from headwater.runtime.change.planner import ProjectPlanner
from headwater.runtime.change.requests import Request
from headwater.runtime.change.serving import Planner, Serving
from headwater.runtime.change.startup import (
    Beginning,
    Survey,
    Surveyed,
    aside,
    broken_sources,
    known_positions,
    refuse_uncaptured,
)
from headwater.runtime.commit.chores import Chores, Compaction
from headwater.runtime.commit.committing import Committing
from headwater.runtime.commit.ledger import Ledger
from headwater.runtime.commit.recovery import recover
from headwater.runtime.commit.retention import Retention
from headwater.runtime.intake.integration import Intakes, Integration
from headwater.runtime.intake.load_point import POINT, saved_point
from headwater.runtime.intake.looking import Looking
from headwater.runtime.intake.pollers import Poller, Pollers, PollScope
from headwater.runtime.intake.reception import Reception
from headwater.runtime.intake.schema_watch import MEND, SchemaWatch
from headwater.runtime.intake.trimming import Trimming
from headwater.runtime.lineage.opening import opened_lineage
from headwater.runtime.observing import Observer
from headwater.runtime.ports import Machinery
from headwater.runtime.progress import Meter, Progress
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.config import Config
from headwater.runtime.project.plan import PlanView, ViewPlan
from headwater.runtime.report import Report
from headwater.runtime.scheduling.families import Family
from headwater.runtime.scheduling.manager import Failed, Finished
from headwater.runtime.scheduling.managers import Joining, Limits, Managers
from headwater.runtime.scheduling.merging import Merging
from headwater.runtime.scheduling.pacing import Pace, Pacing
from headwater.runtime.scheduling.relevance import Relevance
from headwater.runtime.scheduling.schedule import Schedule
from headwater.runtime.snapshot import RunSnapshot
from headwater.runtime.threads import Bell, end
from headwater.runtime.trails import Leg
from headwater.runtime.view import Halt, ManagedView
from headwater.sources import connect
from headwater.warehouse.cuts import Cut
from headwater.warehouse.format import check_same, claim
from headwater.warehouse.lock import Lock

log = logging.getLogger(__name__)

SHORTEST_WAIT, LONGEST_WAIT = 0.005, 0.05
QUIET_CUT_SECONDS = 1.0
"""Transactions that concern no view move the cut no more often than this."""


class Engine:
    """Maintains the views of one project. `with Engine(…) as engine: engine.start(plans); engine.run(…)`."""

    def __init__(
        self, config: Config, machinery: Machinery, catalog: SourceCatalog, progress: Progress | None = None
    ) -> None:
        self._config, self._machinery, self._catalog = config, machinery, catalog
        self._storage = machinery.storage
        self._clock = machinery.clock
        self.meter = Meter(progress, self._clock)
        self._lock = Lock(self._storage, "headwater run")
        self._stopping = self._hurry = self._must_build = False

    def __enter__(self) -> Engine:
        try:
            self._lock.acquire()
            self._open(claim(self._storage))
        except BaseException:
            self._lock.release()
            raise
        log.info("maintaining %s", self._storage.uri(""), extra=event("run.began", warehouse=self._storage.uri("")))
        return self

    def _open(self, identity: str) -> None:
        """Make the parts, each with what it needs."""
        config, storage, clock, machinery, meter = self._config, self._storage, self._clock, self._machinery, self.meter
        tables = machinery.tables
        sources = len(config.sources)  # one that hangs holds up its own threads only
        widths = {"wave": config.managers, "commit": 8, "build": 1, "apply": 1, "chores": 1}
        widths |= {"watch": sources + 1, "poll": 2 * sources + 1}
        self._pools = tuple(machinery.pool(name, width) for name, width in widths.items())
        self.bell = bell = Bell()
        pools = {name: bell.heard_in(pool) for name, pool in zip(widths, self._pools, strict=True)}

        def same_warehouse() -> None:
            check_same(storage, identity)

        self._journal = journal = Journal(storage, identity)
        self._merging = merging = Merging(Sequencing(config.sequencing), clock)
        self._ledger = ledger = Ledger(machinery.cuts, journal, merging, identity, same_warehouse, clock)
        limits = Limits(config.batch_changes, config.managers, config.parallel)
        self._managers = Managers(journal, ledger.state, pools["wave"], limits, clock)
        self._schedule = schedule = Schedule(self._managers, merging)
        self._relevance = Relevance(storage, self._managers, merging, lambda key: ledger.state(key).seq)
        self._pacing = Pacing(self._managers, merging, clock)
        self._committing = Committing(merging, tables, ledger, pools["commit"], clock)
        self._looking = Looking(self._catalog)
        self._watch = SchemaWatch(self._looking, pools["watch"], clock)
        self._pollers = Pollers(lambda source: connect(self._catalog.spec(source)), pools["poll"], clock)
        own = {name: spec.parts_seconds for name, spec in config.sources.items() if spec.parts_seconds}
        intakes = Intakes(config.batch_changes, config.poll_seconds, config.parts_seconds, own)
        self._integration = Integration(self._pollers, journal, intakes, same_warehouse, clock)
        self._halting = Halting(self._watch, schedule, ledger, meter, clock)
        reception = Reception(
            self._pollers, self._integration, self._watch, journal, ledger, storage, self._catalog.another
        )
        self._building = Building(reception, machinery.loader, schedule, ledger, tables, pools["build"], meter, clock)
        planner: Planner = ProjectPlanner(config, identity, storage, ledger, self._catalog, machinery.plan)
        if machinery.planner is not None:
            planner = machinery.planner(ledger)
        heals = config.lost_history == "reload"
        self._serving = Serving(storage, planner, ledger, journal, pools["apply"], meter, heals, clock)
        retention = Retention(ledger, journal, storage, config.history, clock)
        self._compaction = Compaction(tables, ledger, retention, machinery.compactor, pools["chores"])
        trimming = Trimming(self._pollers, journal, retention)
        self._chores = Chores(
            trimming.trim, self._compaction, ledger, storage, machinery.cuts, pools["chores"], meter,
            config.publish_seconds, clock,
        )  # fmt: skip
        self._observer = Observer(self._pollers, self._integration, schedule, ledger, self._building, meter, clock)
        self._report = Report(storage, self._observer.now, clock)
        ledger.watched_by(meter.shown)
        self._lineage = opened_lineage(config, self._job, clock)
        if self._lineage is not None:
            meter.heard_by(self._lineage)

    def _job(self, view: ViewName) -> ViewPlan | None:
        """What a view is being built of, or is."""
        plans = {plan.view.name: plan for plan in self._building.plans()}
        if view in plans:
            return plans[view]
        return self._ledger.views[view].plan if view in self._ledger.views else None

    def __exit__(self, *error: object) -> None:
        self._stopping = True
        if self._managers.busy or self._building.busy:
            self._machinery.cancel()
        self._managers.cancel()
        with suppress(LeaseLost):  # what they would take back is another run's now
            self._serving.close()
        end(*self._pools)
        self._machinery.close()
        with suppress(LeaseLost):
            self._report.close()
        self._pollers.close()
        if not self._watch.busy:  # else its connections are left to the threads that may hang in them
            self._looking.close()
        self._lock.release()
        if self._lineage is not None:
            self._lineage.close()
        cut = self._ledger.cut
        log.info("the run ended at %d", cut.seq, extra=event("run.ended", cut=cut.number, seq=cut.seq))

    def stop(self) -> None:
        """End the loop after the turn that is under way."""
        self._stopping = True

    @property
    def cut(self) -> Cut:
        """The newest cut."""
        return self._ledger.cut

    @property
    def plan(self) -> PlanView:
        """Has a view planned."""
        return self._machinery.plan

    def look(self) -> RunSnapshot:
        """The run as it is now."""
        return self._observer.now()

    # ------------------------------------------------------------------ start

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
        how = Beginning(build, replace, self._config.lost_history == "reload", unresolved)
        cut = recover(self._storage, self._journal, self._machinery.cuts, self._machinery.tables)
        self.meter.freshness.begin(cut)
        found = Survey(self._storage, self._journal, self._catalog).look(cut, plans, how)
        self._catalog.remember(table for plan in plans.values() for table in plan.view.base_tables)
        halted = {n for n in found.kept if cut.views[n].state != "live"}
        resumed = [] if how.replace else [found.kept[n] for n in found.kept if n in halted]
        if how.replace:  # it is to be as views/ says, whatever it takes
            for name in halted:
                del found.kept[name]
        again = how.heal or how.replace
        wanted = [n for n in plans if n not in found.kept and (again or n not in cut.views or n in found.outgrown)]
        drop = [name for name in cut.views if name not in plans and name not in how.unresolved]
        change = BuildUnderWay([plans[n] for n in wanted], drop)
        for name, view in found.kept.items():
            if self._machinery.tables.convert(view, cut.views[name].seq):
                log.info("%s: its auxiliary table is converted", name, extra=event("view.converted", view=name))
                self.meter.note(f"{name}: what its groups keep was written by an earlier version, and is converted")
            self._machinery.tables.says(view)
        self._poll_again(found, plans, change)
        self._go_on(found, [found.kept[n] for n in found.kept if n not in halted], resumed)
        self._set_aside(found, how, wanted)
        if build:
            self._begin(found, change, resumed)

    def _poll_again(self, found: Surveyed, plans: Mapping[ViewName, ViewPlan], change: BuildUnderWay) -> None:
        """From where the sources were with everything that has a number, or with what was being loaded."""
        broken = broken_sources(found, plans)
        point = saved_point(self._storage.get(POINT))
        if point is not None and point.fingerprints == change.fingerprints and not broken & change.sources:
            change.point = point
        positions = known_positions(self._journal, found.cut, change.point, broken)
        live = {source for view in found.kept.values() for source in view.plan.sources}
        polled = live | (change.sources if change.point is not None else set())
        self._pollers.add(polled & set(positions), positions)
        own: dict[SourceName, Position] = {poller.name: poller.position for poller in self._pollers}
        self._ledger.recovered(found.cut, own, found.generations)
        self._integration.begin(found.cut.seq, self._ledger.cut.positions)
        newest = self._journal.newest
        self._merging.reached(Seq(max(found.cut.seq, newest.hi if newest is not None else 0)))

    def _go_on(self, found: Surveyed, live: list[ManagedView], resumed: list[ManagedView]) -> None:
        """Managers for views that are maintained already, and the rows that were open when the last run ended."""
        states = found.cut.views
        for view in (*live, *resumed):
            self._watch.add(view.plan, view.identities)
            self._ledger.keep(view, states[view.name])
        families: dict[ViewName, Family] = {}
        for view in live:
            families[view.name] = family = self._schedule.family(view.plan, families)
            manager = self._managers.add(view, family, Joining(states[view.name]))
            family.bound_at(manager.through)  # a complete parent may be ahead of its children
            self._merging.add(view)
        shown = min([states[v.name].seq for v in live if v.merged], default=self._merging.numbered)
        for segment in self._journal.between(shown, self._merging.numbered):
            self._relevance.replay(segment)
        for view in live:
            if view.merged:
                self._merging.actions(view, states[view.name].through, None)

    def _set_aside(self, found: Surveyed, how: Beginning, wanted: list[ViewName]) -> None:
        """What cannot go on is shown as it was, and says so, before anybody reads it as if nothing had happened."""
        cut, lost = found.cut, dict(found.lost)
        lost |= {n: Halt(error.what, MEND) for n, error in how.unresolved.items() if n in cut.views}
        others = {n: aside(s, lost.get(n), n in wanted) for n, s in cut.views.items() if n not in found.kept}
        self._ledger.set_aside(others)
        if any(others[n] != cut.views[n] for n in lost if n in others):
            self._ledger.show()
        for name, halt in lost.items():
            self.meter.halted(name, halt.reason, "it is loaded again" if name in wanted else halt.fix)

    def _begin(self, found: Surveyed, change: BuildUnderWay, resumed: list[ManagedView]) -> None:
        if change.build or change.drop:
            if not found.kept:  # where others go on, building says what is missing; else there is nothing to do
                refuse_uncaptured(change.build, found.sources)
            self._building.begin(change)
        if resumed:
            self._building.queue(BuildUnderWay([], [], resume=resumed))

    # ------------------------------------------------------------------- loop

    def run(self, until_caught_up: bool = False, without: Collection[SourceName] = ()) -> None:
        """Maintain until stopped, or until nothing is left to do; `without` waiting for these sources."""
        if until_caught_up:
            self.catch_up(without=without)
            self._chores.finish()
            return
        while not self._stopping:
            self.step()

    def catch_up(self, patience: float = 30.0, without: Collection[SourceName] = ()) -> None:
        """Until everything that had happened at the sources by now is visible, and every view is built; `without`
        waiting for these sources and for the views that read them."""
        entered, wanted = self._clock.monotonic(), None
        without = {*without, *self._catalog.chains_through(without)}
        self._hurry = self._must_build = True
        try:
            while not self._stopping:
                self.advance()
                needed = [poller for poller in self._pollers if poller.name not in without]
                self._give_up(needed, patience)
                if wanted is None and all(self._drained(poller.name, entered) for poller in needed):
                    wanted = self._merging.numbered
                if (
                    wanted is not None
                    and self._reaches(wanted, without)
                    and not self._building.busy
                    and not self._serving.busy
                ):
                    self._ledger.show_quiet()
                    return
                self._wait()
        finally:
            self._hurry = self._must_build = False

    def build(self) -> None:
        """Until every view is built; the others are maintained meanwhile."""
        self._must_build = True
        while self._building.busy and not self._stopping:
            self.step()

    def do(self, request: Request) -> None:
        """Begin what somebody wants who waits for it in this process."""
        change = self._serving.here(request)
        if change is not None:
            self._building.begin(change)

    def compact(self) -> dict[ViewName, tuple[int, int]]:
        """Compact every view wholly; rows before and after."""

        def rows() -> dict[ViewName, int]:
            tables, views = self._machinery.tables, self._ledger.views.values()
            return {v.name: sum(file.rows for file in tables.committed(v, auxiliary=False)) for v in views}

        before = rows()
        self._compaction.whole()
        return {name: (before[name], after) for name, after in rows().items()}

    def _drained(self, source: SourceName, since: float) -> bool:
        """Whether everything that was there at that time has been told of and has a number."""
        poller = self._pollers[source]
        told = poller.answered_at >= since and not poller.state.more and not self._integration.holds(source)
        return told or not self._watch.columns(source)

    def _reaches(self, seq: Seq, without: Collection[SourceName]) -> bool:
        """Whether every live view could show this transaction, and nothing of it is still on its way."""
        live = [view for view in self._ledger.live_views() if not set(view.plan.sources) & set(without)]
        frontiers = {v: self._merging.frontier(v.key) for v in live}
        shown = [self._ledger.shown(v.name).seq if at is None else at for v, at in frontiers.items()]
        return min(shown, default=seq) >= seq

    def step(self) -> None:
        """One turn of the loop."""
        self.advance()
        self._wait()

    def advance(self) -> None:
        """Everything that can be done without waiting; the bell rings if another turn may do more."""
        stood = self._standing()
        self._take_in()
        self._pacing.step(self._newest(), Pace(self._hurry, self._building.joining, self._building.busy))
        self._managers.dispatch(self._machinery.compute, self._relevance.expects, self._hurry)
        self._hand_on()
        self._committing.step()
        self._halt()
        self._change()
        if self._clock.monotonic() - self._ledger.shown_at > QUIET_CUT_SECONDS:
            self._ledger.show_quiet()
        change = self._building.change
        self._chores.step(change.held if change is not None else None)
        self._report.step()
        self.meter.turn(self._observer.now)
        if self._standing() != stood:
            self.bell.ring()

    def _standing(self) -> tuple[object, ...]:
        """What others may have waited for, when it moves: batches begun and handed on, views that came and went."""
        managers, change = self._managers.all.values(), self._building.change
        moved = sum(manager.taken + manager.through for manager in managers)
        return self._ledger.cut.number, len(managers), moved, change, change.phase if change is not None else ""

    def _newest(self) -> Seq:
        newest = self._journal.newest
        return newest.hi if newest is not None else Seq(0)

    def _take_in(self) -> None:
        """Rounds to the merge processes; sources that refuse to those who halt views."""
        readers: dict[str, list[str]] = {}
        for key, manager in self._managers.all.items():
            for source in manager.view.plan.sources:
                readers.setdefault(source, []).append(key)
        taken = self._integration.step(self._wanted, self._managers.backlog(readers))
        for text in taken.torn:
            log.warning("global transaction %s", text, extra=event("transaction.torn"))
            self.meter.note(f"global transaction {text}")
        for taken_in in taken.rounds:
            self._managers.heard_news()
            self.meter.took_in(taken_in.numbered)
            self._relevance.tell(taken_in.segment, taken_in.numbered.changes)
        for source, error in taken.refused:
            self._halting.refused(source, error)

    def _wanted(self, source: SourceName) -> PollScope:
        return PollScope(self._watch.columns(source), self._config.batch_changes, self._watch.expected(source))

    def _hand_on(self) -> None:
        """What is computed goes to the merge process, or straight to its tables where nobody else waits for it."""
        for outcome in self._managers.collect():
            if isinstance(outcome, Failed):
                self._halting.failed(outcome)
                continue
            self._finished(outcome)
            if outcome.written is not None:
                self.meter.computed(outcome.manager.view.name, (outcome.batch.lo, outcome.batch.hi), outcome.written)
        for manager in self._managers.all.values():
            if manager.trouble:
                self.meter.waits(manager.view.name, manager.trouble)

    def _finished(self, outcome: Finished) -> None:
        view, batch, joins_at = outcome.manager.view, outcome.batch, outcome.manager.joins_at
        if joins_at is not None and batch.hi <= joins_at:
            self._committing.directly(outcome)
        elif view.merged:
            self._merging.actions(view, batch.hi, outcome.written)
            if outcome.written is not None:
                tally = outcome.written.tally
                self.meter.handed_on(Leg(view.name, view.plan.sources, batch.lo, batch.hi, outcome.begun, tally))
        else:
            self._committing.ahead(outcome)

    def _halt(self) -> None:
        reachable = {poller.name for poller in self._pollers if poller.state.state == "ok"}
        for view, why in self._halting.step(reachable):
            self._ended(self._building.failed(HeadwaterError(f"view {view.name}: {why.reason}", why.fix)))
        views = {view.plan.fingerprint: view for view in self._ledger.views.values()}
        for mark, identities in self._watch.moved(views).items():
            self._machinery.tables.means(views[mark], identities)

    def _change(self) -> None:
        self._ended(self._building.step())
        change = self._serving.step(self._building.change, self._building.busy)
        if change is not None:
            self._building.begin(change)

    def _ended(self, ended: Ended | None) -> None:
        if ended is None:
            return
        for folder in ended.folders:
            self._chores.discard(folder)
        self._serving.ended(ended)
        error = ended.error
        if error is None:
            return
        self.meter.not_built(ended.change.names, error.what)
        if ended.change.resume:
            self.meter.note(f"not resumed: {', '.join(ended.change.names)}: {error.what}")
        elif self._must_build or not self._ledger.views:
            raise error
        else:
            self.meter.note(f"not built: {', '.join(ended.change.names)}: {error.what}")

    def _wait(self) -> None:
        """Until some task has ended, or it is time to ask a source again."""
        resting = [poller.rests for poller in self._pollers if poller.rests]
        self.bell.wait(max(SHORTEST_WAIT, min(LONGEST_WAIT, *resting)) if resting else LONGEST_WAIT)

    def _give_up(self, pollers: Iterable[Poller], patience: float) -> None:
        for poller in pollers:
            gone = self._clock.time() - poller.state.since > patience
            if poller.state.state != "ok" and gone and self._watch.columns(poller.name):
                raise SourceUnavailable(
                    f"source {poller.name}: {poller.state.reason}", "nothing is lost; run again when it is back"
                )
