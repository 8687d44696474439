"""What a run does before its loop: recover, look at the sources, go on with the views of the last cut, and begin to
bring them in line with the project's.

A view goes on where it was if it is the same view, if the columns it reads are those it was loaded from, and if its
sources' past is still the one its positions belong to. A source that is away is looked at when it is back: its poller
compares the same things, in every snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwater.model.errors import CaptureMissing, HeadwaterError
from headwater.model.names import Position, Seq, SourceName, TableName, ViewName
from headwater.model.schema import Identities
from headwater.model.source import Capture
from headwater.runtime.change.building import POINT, Change, LoadPoint, saved_point
from headwater.runtime.commit.recovery import recover
from headwater.runtime.commit.views import Halt, ManagedView
from headwater.runtime.intake.schema_watch import MEND, Present, Watched, broken_by, halt_by
from headwater.runtime.project.about import read_about
from headwater.runtime.project.catalog import AWAY, SourceCatalog
from headwater.runtime.project.plan import ViewPlan
from headwater.runtime.scheduling.families import Family
from headwater.warehouse.cuts import Cut, ViewState

if TYPE_CHECKING:
    from headwater.runtime.engine import Engine

CAPTURE_RENEWED = "its capture was removed and installed anew, what happened in between is unknown"


@dataclass(frozen=True)
class SourceNow:
    """A source as a run finds it; `away` says why it could not be looked at."""

    capture: Capture | None = None
    present: Present | None = None
    away: HeadwaterError | None = None


@dataclass(frozen=True)
class Beginning:
    """`build`: load new views and drop old ones. `replace`: a view that is another one now is built anew, because
    somebody asked for it; else it is one that cannot go on. `heal`: load those again. `unresolved` views mean nothing
    over the sources as they are: they stay where they are, halted."""

    build: bool
    replace: bool
    heal: bool
    unresolved: Mapping[ViewName, HeadwaterError]


def start(engine: Engine, plans: Mapping[ViewName, ViewPlan], how: Beginning) -> None:
    """Make the engine ready to loop over these views."""
    cut = recover(engine.storage, engine.journal, engine.cuts)
    found = _look(engine.catalog, {s for plan in plans.values() for s in plan.sources})
    engine.generations = {
        s: now.capture.generation if now.capture else cut.generations.get(s, "") for s, now in found.items()
    }
    kept, lost = _sorted_out(engine, cut, plans, found)
    if not how.replace:
        others = [n for n, p in plans.items() if n in cut.views and cut.views[n].fingerprint != p.fingerprint]
        lost |= {n: Halt("a column it reads has another type or another place in its table now", MEND) for n in others}
    engine.catalog.remember(table for plan in plans.values() for table in plan.view.base_tables)
    resumed = {n: v for n, v in kept.items() if not v.live}
    if how.replace:  # it is to be as views/ says, whatever it takes
        resumed, kept = {}, {n: v for n, v in kept.items() if v.live}
    wanted = [n for n in plans if n not in kept and (how.heal or how.replace or n not in cut.views)]
    drop = [name for name in cut.views if name not in plans and name not in how.unresolved]
    change = Change([plans[n] for n in plans if n in wanted], drop)
    lost |= {n: Halt(e.what, MEND) for n, e in how.unresolved.items() if n in cut.views}
    broken = {s for s in found if all(n in lost for n, p in plans.items() if s in p.sources and n in cut.views)}
    broken -= {s for view in kept.values() for s in view.plan.sources}
    point = saved_point(engine.storage.get(POINT))
    if point is not None and point.fingerprints == change.fingerprints and not broken & change.sources:
        change.point = point
    live = {source for view in kept.values() for source in view.plan.sources}
    positions = known_positions(engine, cut, change.point, broken)
    engine.cut = replace(cut, generations=engine.generations)
    engine.merging.reached(_newest(engine, cut))
    polled = live | (change.sources if change.point is not None else set())
    engine.add_pollers(polled & set(positions), positions)
    own = {n: p.position for n, p in engine.pollers.items()}
    engine.cut = replace(engine.cut, positions={**own, **cut.positions})
    for view in kept.values():
        engine.watch.add(view.plan, view.identities)
    _go_on(engine, {name: view for name, view in kept.items() if view.live})
    engine.views |= resumed
    engine.others = {n: _set_aside(s, lost.get(n), n in wanted) for n, s in cut.views.items() if n not in kept}
    if any(engine.others[n] != cut.views[n] for n in lost if n in engine.others):
        engine.show_cut()  # before anybody reads them as if nothing had happened
    for name, halt in lost.items():
        engine.meter.halted(name, halt.reason, "it is loaded again" if name in wanted else halt.fix)
    if not how.build:
        return
    if change.build or change.drop:
        _refuse_uncaptured(change.build, found, bool(kept))
        engine.building.begin(change)
    if resumed:
        engine.building.queue(Change([], [], resume=list(resumed.values())))


def _look(catalog: SourceCatalog, sources: Iterable[SourceName]) -> dict[SourceName, SourceNow]:
    found = {}
    for source in sorted(sources):
        try:
            adapter = catalog.source(source)
            capture = adapter.capture()
            found[source] = SourceNow(capture, Present(adapter, catalog.refresh(source), capture))
        except AWAY as error:
            if not catalog.recalls(source):
                raise
            found[source] = SourceNow(away=error)
    return found


def _sorted_out(
    engine: Engine, cut: Cut, plans: Mapping[ViewName, ViewPlan], found: Mapping[SourceName, SourceNow]
) -> tuple[dict[ViewName, ManagedView], dict[ViewName, Halt]]:
    """The views that can go on (those halted for a reason that may be corrected among them), and why others cannot."""
    kept: dict[ViewName, ManagedView] = {}
    lost: dict[ViewName, Halt] = {}
    first = engine.journal.segments[0].lo if engine.journal.segments else Seq(0)
    for name, plan in plans.items():  # parents come first
        state = cut.views.get(name)
        if state is None or state.fingerprint != plan.fingerprint:
            continue
        identities = _identities(engine, state, plan)
        parent = next((p for p in plan.view.parents if p not in kept), None)
        halt = _broken(Watched(plan, identities), found)
        if halt is None and state.state != "live" and not (state.resumable and first <= state.through):
            halt = Halt(state.reason, state.fix or "'headwater apply' loads it again")
        if halt is None and parent is not None:
            why = lost[parent].reason if parent in lost else "it is another view now"
            halt = Halt(f"view {parent}, which it reads, cannot go on: {why}")
        if halt is None:
            kept[name] = ManagedView(plan, engine.storage, state, identities)
        else:
            lost[name] = halt
    for source, past in _past(engine, cut, kept.values(), found).items():
        for name in [n for n, v in kept.items() if source in v.plan.sources]:
            lost[name] = past
            del kept[name]
    return kept, lost


def _identities(engine: Engine, state: ViewState, plan: ViewPlan) -> Mapping[TableName, Identities]:
    about = read_about(engine.storage, state.folder)
    known = about.identities if about is not None else {}
    return {table: columns for table, columns in known.items() if table in plan.view.base_tables}


def _broken(view: Watched, found: Mapping[SourceName, SourceNow]) -> Halt | None:
    for source in dict.fromkeys(t.source for t in view.plan.view.base_tables):
        present = found[source].present
        halt = broken_by(view, present) if present is not None else None
        if halt is not None:
            return halt
    return None


def _past(
    engine: Engine, cut: Cut, kept: Iterable[ManagedView], found: Mapping[SourceName, SourceNow]
) -> dict[SourceName, Halt]:
    """The sources whose past is not the one that our positions belong to, or no longer reaches back to them."""
    tables: dict[SourceName, set[TableName]] = {}
    for view in kept:
        for table in view.plan.base:
            tables.setdefault(table.source, set()).add(table)
    positions = known_positions(engine, cut, None, set())
    lost: dict[SourceName, Halt] = {}
    for source, used in tables.items():
        if found[source].away is not None or source not in positions:
            continue
        try:
            engine.catalog.source(source).check(positions[source], sorted(used))
        except HeadwaterError as error:
            lost[source] = halt_by(error)
        if source not in lost and cut.generations.get(source, engine.generations[source]) != engine.generations[source]:
            lost[source] = Halt(CAPTURE_RENEWED)
    return lost


def _set_aside(state: ViewState, halt: Halt | None, rebuilt: bool) -> ViewState:
    """A view that is not maintained as it is: readable until its successor is there."""
    if halt is None:
        return replace(state, state="halted", reason=state.reason or "it is being built anew", resumable=False)
    fix = "it is loaded again" if rebuilt else halt.fix
    return replace(state, state="halted", reason=halt.reason, fix=fix, resumable=False)


def _newest(engine: Engine, cut: Cut) -> Seq:
    newest = engine.journal.newest
    return Seq(max(cut.seq, newest.hi if newest is not None else 0))


def _go_on(engine: Engine, views: Mapping[ViewName, ManagedView]) -> None:
    """Managers for views that are maintained already, and the rows that were open when the last run ended."""
    families: dict[ViewName, Family] = {}
    for name, view in views.items():
        parents = [families[p] for p in view.plan.view.parents]
        family = parents[0] if parents else Family()
        for other in parents[1:]:
            family.join(other)
            families.update({n: family for n, f in families.items() if f is other})
        family.step = math.lcm(family.step, view.plan.view.every)
        families[name] = family
    for name, view in views.items():
        engine.views[name] = view
        manager = engine.managers.add(view, families[name], engine.config.parallel)
        families[name].bound_at(manager.through)  # a complete parent may be ahead of its children
        engine.merging.add(view)
    shown = min([v.state.seq for v in views.values() if v.merged], default=engine.merging.numbered)
    for segment in engine.journal.between(shown, engine.merging.numbered):
        engine.integration.replay(segment)
    for view in views.values():
        if view.merged:
            engine.merging.actions(view, view.state.through, None)


def check_captures(catalog: SourceCatalog, plans: Iterable[ViewPlan]) -> dict[SourceName, str]:
    """Every table of every view must be captured; returns the generation of each source's capture."""
    plans = list(plans)
    found = {s: SourceNow(catalog.source(s).capture()) for s in {t.source for p in plans for t in p.view.base_tables}}
    _refuse_uncaptured(plans, found, others=False)
    return {source: now.capture.generation for source, now in found.items() if now.capture is not None}


def _refuse_uncaptured(plans: Iterable[ViewPlan], found: Mapping[SourceName, SourceNow], others: bool) -> None:
    """Views to be loaded need captured tables. Where `others` go on, building says it; else there is nothing to do."""
    needed: dict[SourceName, set[TableName]] = {}
    for plan in plans:
        for table in plan.view.base_tables:
            needed.setdefault(table.source, set()).add(table)
    for source, tables in needed.items():
        capture = found[source].capture
        missing = sorted(tables - (capture.tables if capture else frozenset()))
        if found[source].away is not None or (capture is not None and not missing) or others:
            continue
        why = {t: capture.broken[t] for t in missing if t in capture.broken} if capture else {}
        said = ", ".join(f"{t} ({why[t]})" if t in why else str(t) for t in missing or sorted(tables))
        raise CaptureMissing(f"changes are not captured for {said}", "run 'headwater setup'")


def known_positions(
    engine: Engine, cut: Cut, point: LoadPoint | None, broken: Collection[SourceName]
) -> dict[SourceName, Position]:
    """Where each source was with everything that has a number; nothing for those whose past is another one now."""
    newest = engine.journal.newest
    known = dict(cut.positions)
    if newest is not None and newest.hi >= cut.seq:
        known |= newest.positions
    if point is not None and (newest is None or newest.hi <= point.seq):
        known |= dict(point.positions)
    return {s: p for s, p in known.items() if s not in broken}
