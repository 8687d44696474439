"""Views come and go while the others are maintained.

    waiting     until every source a new view reads has been asked with its tables included
    copying     the tables as of that moment L, in the background
    joining     the copies, view by view, parents first
    catching up what happened after L, in large batches, seen by nobody
    in step     from transaction J on it takes part in the painting; up to J it catches up
    shown       one cut in which new views appear, replaced ones have their new content and dropped ones are gone

Invariant: at J the new views' tables hold exactly what the cut shows of the others, because no row at or before J is
still open and every row after J waits for the new views too.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from headwater.model.errors import HeadwaterError, PositionTrimmed
from headwater.model.names import Position, Seq, SourceName, TableName, ViewName, view_table
from headwater.model.schema import Identities
from headwater.runtime.commit.views import ManagedView, new_view, own_identities
from headwater.runtime.compute.frames import state_of
from headwater.runtime.compute.load import load_view
from headwater.runtime.compute.spark import give_back_memory
from headwater.runtime.compute.staging import FOLDER, StagedCut, Staging, wanted
from headwater.runtime.project.about import identities_from_json, identities_to_json
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.plan import ViewPlan
from headwater.runtime.scheduling.families import Family
from headwater.runtime.scheduling.managers import FOREVER, ViewManager
from headwater.runtime.steps import Step, reached
from headwater.runtime.threads import pool

if TYPE_CHECKING:
    from headwater.runtime.engine import Engine

POINT = f"{FOLDER}/point.json"
NEARLY = 20_000
"""A view joins the others when no more changes than these lie between: they wait for it about a second."""
PAUSE_SECONDS = 5.0
SOON_SECONDS = 0.1


@dataclass(frozen=True)
class LoadPoint:
    """The state that new views are loaded at."""

    seq: Seq
    positions: Mapping[SourceName, Position]
    fingerprints: tuple[str, ...]
    identities: Mapping[TableName, Identities] = field(default_factory=dict)

    def to_json(self) -> bytes:
        known = identities_to_json(self.identities)
        return json.dumps([self.seq, dict(self.positions), self.fingerprints, known]).encode()

    def means(self, now: Mapping[TableName, Identities]) -> bool:
        """Whether the columns copied so far are those of now."""
        pairs = ((self.identities.get(t, {}).get(c), i) for t, columns in now.items() for c, i in columns.items())
        return all(was is not None and not was.became(i) for was, i in pairs)


def saved_point(text: bytes | None) -> LoadPoint | None:
    """The point of a load that was interrupted."""
    if text is None:
        return None
    seq, positions, fingerprints, *known = json.loads(text)
    identities = identities_from_json(known[0]) if known else {}
    return LoadPoint(Seq(seq), positions, tuple(fingerprints), identities)


@dataclass(eq=False)
class Change:
    """Views to build (parents first), to drop, and to resume (parents first), in one step."""

    build: Sequence[ViewPlan]
    drop: Sequence[ViewName]
    resume: Sequence[ManagedView] = ()
    """Halted views that go on from where they stopped: they need no load."""
    point: LoadPoint | None = None
    identities: Mapping[TableName, Identities] | None = None
    """Which columns the new views are loaded from; None until the sources have said it."""
    phase: str = "waiting for the sources"
    begun: float = field(default_factory=time.monotonic)
    task: Future[list[ManagedView]] | None = None
    managers: list[ViewManager] = field(default_factory=list)
    joins_at: Seq | None = None
    retry_at: float = 0.0
    error: HeadwaterError | None = None

    @property
    def fingerprints(self) -> tuple[str, ...]:
        return tuple(sorted(plan.fingerprint for plan in self.build))

    @property
    def sources(self) -> set[SourceName]:
        return {source for plan in self.build for source in plan.sources}

    @property
    def names(self) -> list[ViewName]:
        return [*(plan.view.name for plan in self.build), *(view.name for view in self.resume)]


class Building:
    """Does one change at a time, the others wait."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.change: Change | None = None
        self.must_succeed = False
        """Somebody waits for it: a failure ends the run instead of being noted."""
        self.trouble: dict[ViewName, str] = {}
        """Views that could not be built, and why."""
        self.threads = pool("build", 1)
        self._waiting: deque[Change] = deque()

    @property
    def busy(self) -> bool:
        return self.change is not None or bool(self._waiting)

    def queue(self, change: Change) -> None:
        """Do this change after what is under way."""
        self._waiting.append(change)

    def begin(self, change: Change) -> None:
        """Start a change; `step` takes it on."""
        assert self.change is None
        self.change, change.begun = change, time.monotonic()
        for plan in change.build:
            self.trouble.pop(plan.view.name, None)
        if change.build:
            self._engine.meter.loading([plan.view.name for plan in change.build])

    def step(self) -> None:
        if self.change is None and self._waiting:
            self.begin(self._waiting.popleft())
        change = self.change
        if change is None:
            return
        if change.resume and not change.managers:
            if self._told_since(change) or time.monotonic() > change.begun + PAUSE_SECONDS:
                self._manage(change, [view.revived() for view in change.resume])
        elif not (change.build or change.resume) or change.joins_at is not None:
            self._show_when_in_step(change)
        elif change.managers:
            self._join_when_near(change)
        elif change.task is not None:
            self._manage_when_loaded(change)
        elif time.monotonic() >= change.retry_at:
            self._load_when_known(change)

    def failed(self, why: str, fix: str = "") -> None:
        """A view that was being built cannot be: the whole change is given up, nobody saw anything of it."""
        change, self.change = self.change, None
        if change is None:
            return
        engine = self._engine
        change.error = change.error or HeadwaterError(why, fix or "correct it, then run 'headwater apply' again")
        for manager in change.managers:
            engine.managers.remove(manager.key)
            engine.merging.remove(manager.view)
            if not change.resume:
                engine.chores.discard(manager.view.state.folder)
        engine.storage.delete(POINT)
        self.trouble |= {plan.view.name: change.error.what for plan in change.build}
        engine.meter.load = None
        engine.requests.ended(change.error)
        if change.resume:
            engine.meter.note(f"not resumed: {', '.join(change.names)}: {why}")
            return
        if self.must_succeed or not engine.views:
            raise change.error
        engine.meter.note(f"not built: {', '.join(self.trouble)}: {why}")

    # ------------------------------------------------------------------ phases

    def _load_when_known(self, change: Change) -> None:
        """Choose L: a moment at which everything that has a number is known, new tables included."""
        engine = self._engine
        if change.identities is None and not self._identified(change):
            return
        assert change.identities is not None
        if change.point is None:
            for source in change.sources:
                poller = engine.pollers[source]
                if poller.answered_at < change.begun or poller.state.more or engine.integration.holds(source):
                    return
            here = engine.journal_positions()
            positions = {name: here.positions[name] for name in engine.pollers}
            change.point = LoadPoint(here.hi, positions, change.fingerprints, change.identities)
            engine.storage.put(POINT, change.point.to_json())
        families = self._parent_families(change)
        if families:
            first, *others = families
            for family in others:
                self._unite(first, family)
            first.stop_at(change.point.seq)
        change.phase = "copying"
        change.task = self.threads.submit(self._load, change)

    def _told_since(self, change: Change) -> bool:
        """Whether everything that had happened at the views' sources by the change's beginning has a number: the
        correction that lets a view go on is part of it."""
        return all(
            (poller := self._engine.pollers.get(source)) is not None
            and poller.answered_at >= change.begun
            and not poller.state.more
            and not self._engine.integration.holds(source)
            for source in {s for view in change.resume for s in view.plan.sources}
        )

    def _identified(self, change: Change) -> bool:
        """Learn which columns the new views mean; from then on every poll compares. False: not yet, or not possible."""
        engine = self._engine
        try:
            found = identities_now(engine.catalog, change.build)
            engine.poll_from_now(change.sources)
            for source in sorted({table.source for table in found}):
                own = sorted(table for table in found if table.source == source)
                engine.catalog.source(source).check(engine.pollers[source].position, own)
        except PositionTrimmed:  # capture of a table is younger than what was polled last: the next polls pass it
            change.phase, change.retry_at = "waiting for the sources", time.monotonic() + SOON_SECONDS
            return False
        except HeadwaterError as error:
            if error.retry_helps and not engine.stopping:
                change.phase, change.retry_at = f"waits: {error.what}", time.monotonic() + PAUSE_SECONDS
            else:
                change.error = error
                self.failed(error.what, error.fix)
            return False
        if change.point is not None and not change.point.means(found):
            change.point = None
        change.identities, change.begun = found, time.monotonic()
        for plan in change.build:
            engine.watch.add(plan, own_identities(plan, found))
        return True

    def _load(self, change: Change) -> list[ManagedView]:
        with self._engine.living.using() as spark:
            return self._loaded(change, spark)

    def _loaded(self, change: Change, session: SparkSession) -> list[ManagedView]:
        """In the background: copy the tables as of the point, compute the views from the copies."""
        engine, point = self._engine, change.point
        assert point is not None
        assert change.identities is not None
        catalog = SourceCatalog(engine.config)  # connections of its own
        spark = session.newSession()  # and temporary views of its own
        built: dict[TableName, ManagedView] = {}
        try:
            at = StagedCut(point.seq, point.positions, identities=change.identities)
            staged = Staging(spark, engine.config, catalog, at)
            staged.copy(wanted(change.build), engine.meter.copied)
            reached(Step.STAGED)
            for plan in change.build:
                engine.meter.joining(plan.view.name)
                change.phase = f"joining {plan.view.name}"
                view = new_view(engine.storage, plan, change.identities)
                tables = {t: staged.table(t) for t in plan.view.base_tables}
                tables |= {
                    view_table(p): self._parent(spark, built.get(view_table(p)) or engine.views[p], plan, point.seq)
                    for p in plan.parents
                }
                written = load_view(spark, view, tables, point.seq)
                view.settle(view.commit(written), point.seq)
                view.state = replace(view.state, seq=point.seq, through=point.seq, horizon=point.seq)
                built[view_table(plan.view.name)] = view
                reached(Step.LOADED)
                engine.meter.loaded(plan.view.name, written.rows)
            staged.remove()
            give_back_memory(session)
            return list(built.values())
        finally:
            catalog.close()

    def _parent(self, spark: SparkSession, view: ManagedView, plan: ViewPlan, seq: Seq) -> DataFrame:
        """A view that a new one reads, at L: built just now, or maintained already and computed up to there."""
        engine = self._engine
        manager = engine.managers.all.get(view.key)
        while manager is not None and view.live and manager.through < seq and not engine.stopping:
            time.sleep(0.02)
        if not view.live:
            raise HeadwaterError(f"view {view.name}, which {plan.view.name} reads, is halted: {view.state.reason}")
        with view.lock:
            names = [f.name for f in view.log.log_files()] + [f.name for w in view.pending for f in w.log]
        files = [view.storage.path(f"{view.log.folder}/{n}") for n in names]
        return state_of(spark, view.storage, files, plan.schemas[view_table(view.name)], seq)

    def _manage_when_loaded(self, change: Change) -> None:
        assert change.task is not None
        if not change.task.done():
            return
        try:
            views = change.task.result()
        except HeadwaterError as error:
            change.task = None
            if error.retry_helps and not self._engine.stopping:
                change.phase, change.retry_at = f"waits: {error.what}", time.monotonic() + PAUSE_SECONDS
                if isinstance(error, PositionTrimmed):  # it will not come back: load as of a newer one
                    change.point = None
                return
            change.error = error
            self.failed(error.what)
            return
        self._manage(change, views)

    def _manage(self, change: Change, views: Sequence[ManagedView]) -> None:
        """The new views get managers, which catch up with what happened since."""
        families: dict[ViewName, Family] = {}
        for view in views:
            family = self._family(view.plan, families)
            families[view.name] = family
            parallel, whole = self._engine.config.parallel, bool(change.resume)
            change.managers.append(self._engine.managers.add(view, family, parallel, FOREVER, whole))
        change.phase = "catching up"
        self._join_when_near(change)

    def _join_when_near(self, change: Change) -> None:
        """Choose J: from the next round on, the others wait for the new views too."""
        engine = self._engine
        newest = engine.journal.newest
        for manager in change.managers:
            if sum(segment.rows for segment in engine.journal.between(manager.through, FOREVER)) > NEARLY:
                return
        change.joins_at = Seq(max([newest.hi if newest else 0, *(m.through for m in change.managers)]))
        for manager in change.managers:
            manager.joins_at = change.joins_at
            manager.family.stop_at(change.joins_at)
            engine.merging.add(manager.view)
        engine.merging.reached(change.joins_at)
        change.phase = "in step"
        self._show_when_in_step(change)

    def _show_when_in_step(self, change: Change) -> None:
        engine = self._engine
        if any(m.catching_up for m in change.managers):
            return
        if change.joins_at is not None and not engine.merging.settled(
            change.joins_at, [m.key for m in change.managers]
        ):
            return
        names = (*change.drop, *change.names)
        again = {manager.key for manager in change.managers}
        gone = [view for view in (engine.views.pop(n) for n in names if n in engine.views) if view.key not in again]
        folders = [view.state.folder for view in gone]
        folders += [engine.others.pop(n).folder for n in names if n in engine.others]
        for manager in change.managers:
            manager.joins_at = None
            engine.views[manager.view.name] = manager.view
        for view in gone:
            engine.managers.remove(view.key)
            engine.merging.remove(view)
        engine.watch.limit_to([*(v.plan for v in engine.views.values()), *self._plans_to_come()])
        self.change = None
        self.trouble = {name: why for name, why in self.trouble.items() if name not in change.drop}
        engine.meter.load = None
        engine.show_cut()
        engine.storage.delete(POINT)
        for folder in folders:
            engine.chores.discard(folder)
        engine.requests.ended(None)

    def _plans_to_come(self) -> list[ViewPlan]:
        return [plan for change in self._waiting for plan in (*change.build, *(v.plan for v in change.resume))]

    # ---------------------------------------------------------------- families

    def _parent_families(self, change: Change) -> list[Family]:
        """The families of maintained views that new ones read."""
        engine = self._engine
        new = {plan.view.name for plan in change.build}
        names = {p for plan in change.build for p in plan.view.parents if p not in new}
        found = [engine.managers.all[engine.views[n].key].family for n in sorted(names) if n in engine.views]
        return list({id(f): f for f in found}.values())

    def _family(self, plan: ViewPlan, new: dict[ViewName, Family]) -> Family:
        """The family a new view belongs to: its parents' or one of its own."""
        engine = self._engine
        parents = [new.get(p) or engine.managers.all[engine.views[p].key].family for p in plan.view.parents]
        family = parents[0] if parents else Family()
        for other in parents[1:]:
            if other is not family:
                self._unite(family, other)
                new.update({n: family for n, f in new.items() if f is other})
        family.step = math.lcm(family.step, plan.view.every)
        return family

    def _unite(self, family: Family, other: Family) -> None:
        family.join(other)
        for manager in self._engine.managers.all.values():
            if manager.family is other:
                manager.family = family


def identities_now(catalog: SourceCatalog, plans: Sequence[ViewPlan]) -> dict[TableName, Identities]:
    """Which columns these views mean, as their sources have them now."""
    used: dict[TableName, dict[str, None]] = {}
    for plan in plans:
        for table in plan.view.base_tables:
            used.setdefault(table, {}).update(dict.fromkeys(plan.schemas[table].names))
    found: dict[TableName, Identities] = {}
    for source in sorted({table.source for table in used}):
        own = {table: list(columns) for table, columns in used.items() if table.source == source}
        found |= catalog.source(source).identities(own)
    return found
