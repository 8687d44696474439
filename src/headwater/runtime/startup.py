"""What a run does before its loop: recover, check the captures, go on with the views of the last cut, and begin to
bring them in line with the project's."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.model.errors import CaptureMissing
from headwater.model.names import Position, Seq, SourceName, TableName, ViewName
from headwater.runtime.building import POINT, Change, LoadPoint, saved_point
from headwater.runtime.catalog import SourceCatalog
from headwater.runtime.families import Family
from headwater.runtime.plans import ViewPlan
from headwater.runtime.pollers import Poller
from headwater.runtime.recovery import recover
from headwater.runtime.schema_watch import SchemaWatch
from headwater.runtime.views import ManagedView
from headwater.sources import connect
from headwater.warehouse.cuts import Cut, ViewState

if TYPE_CHECKING:
    from headwater.runtime.engine import Engine

CAPTURE_RENEWED = "its capture was removed and installed anew, what happened in between is unknown"


def start(engine: Engine, plans: Mapping[ViewName, ViewPlan], build: bool) -> None:
    """Make the engine ready to loop over these views."""
    cut = recover(engine.storage, engine.journal, engine.cuts)
    engine.generations = check_captures(engine.catalog, plans.values())
    cut = forget_renewed(cut, engine.generations)
    kept: dict[ViewName, ViewState] = {}
    for name, plan in plans.items():  # parents come first
        state = cut.views.get(name)
        same = state is not None and state.fingerprint == plan.fingerprint and state.state == "live"
        if state is not None and same and all(p in kept for p in plan.view.parents):
            kept[name] = state
    change = Change(
        [plan for name, plan in plans.items() if name not in kept],
        [name for name in cut.views if name not in plans],
    )
    point = saved_point(engine.storage.get(POINT))
    if point is not None and point.fingerprints == change.fingerprints and not renewed(cut, engine.generations):
        change.point = point
    in_use = {source for name in kept for source in plans[name].sources}
    positions = known_positions(engine, cut, change.point)
    engine.cut = replace(cut, generations=engine.generations)
    engine.merging.reached(_newest(engine, cut))
    reading = {s for plan in plans.values() for s in plan.sources}
    add_pollers(engine, reading, {s: p for s, p in positions.items() if s in in_use or change.point is not None})
    engine.cut = replace(engine.cut, positions={**{n: p.position for n, p in engine.pollers.items()}, **cut.positions})
    engine.watch = SchemaWatch(engine.catalog, plans.values())
    _go_on(engine, {name: ManagedView(plans[name], engine.storage, kept[name]) for name in plans if name in kept})
    engine.others = {n: _set_aside(s) for n, s in cut.views.items() if n not in kept}
    if not build:
        return
    if change.build or change.drop:
        engine.building.begin(change)


def _set_aside(state: ViewState) -> ViewState:
    """A view that is not maintained as it is: readable until its successor is there."""
    return replace(state, state="halted", reason=state.reason or "it is being built anew")


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


def add_pollers(engine: Engine, sources: Collection[SourceName], known: Mapping[SourceName, Position]) -> None:
    """Poll these sources from where they are known to have been; those nobody has read so far, from now."""
    for source in sorted(sources):
        if source in engine.pollers:
            continue
        # connections of their own: an adapter serves one thread at a time, and the catalog's serves the main one
        adapter, trimmer = connect(engine.config.sources[source]), connect(engine.config.sources[source])
        at = known.get(source) or engine.catalog.source(source).position()
        engine.pollers[source] = Poller(adapter, trimmer, engine.polling, at)


def check_captures(catalog: SourceCatalog, plans: Iterable[ViewPlan]) -> dict[SourceName, str]:
    """Every table of every view must be captured; returns the generation of each source's capture."""
    needed: dict[SourceName, set[TableName]] = {}
    for plan in plans:
        for table in plan.view.base_tables:
            needed.setdefault(table.source, set()).add(table)
    generations = {}
    for source, tables in needed.items():
        capture = catalog.source(source).capture()
        missing = sorted(tables - (capture.tables if capture else frozenset()))
        if capture is None or missing:
            why = {t: capture.broken[t] for t in missing if t in capture.broken} if capture else {}
            said = ", ".join(f"{t} ({why[t]})" if t in why else str(t) for t in missing or sorted(tables))
            raise CaptureMissing(f"changes are not captured for {said}", "run 'headwater setup'")
        generations[source] = capture.generation
    return generations


def forget_renewed(cut: Cut, generations: Mapping[SourceName, str]) -> Cut:
    """Views over a source whose capture is not the one our positions speak of must be loaded anew."""
    gone = renewed(cut, generations)
    if not gone:
        return cut
    views = {
        name: replace(state, state="halted", reason=CAPTURE_RENEWED) if gone & set(state.sources) else state
        for name, state in cut.views.items()
    }
    return replace(cut, views=views, positions={s: p for s, p in cut.positions.items() if s not in gone})


def renewed(cut: Cut, generations: Mapping[SourceName, str]) -> set[SourceName]:
    """The sources whose capture began a new life since the cut."""
    return {s for s, known in cut.generations.items() if generations.get(s, known) != known}


def known_positions(engine: Engine, cut: Cut, point: LoadPoint | None) -> dict[SourceName, Position]:
    """Where each source was with everything that has a number."""
    newest = engine.journal.newest
    known = dict(cut.positions)
    gone = renewed(cut, engine.generations)
    if newest is not None and newest.hi >= cut.seq:
        known |= {s: p for s, p in newest.positions.items() if s not in gone}
    if point is not None and (newest is None or newest.hi <= point.seq):
        known |= dict(point.positions)
    return known
