"""What a run does before its loop: recover, check the captures, and bring the maintained views in line with the
project's, loading new ones and dropping old ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.model.errors import CaptureMissing
from headwater.model.names import Position, SourceName, TableName, ViewName
from headwater.runtime.load import load_view
from headwater.runtime.plans import ViewPlan
from headwater.runtime.pollers import Poller
from headwater.runtime.recovery import recover, remove_strangers
from headwater.runtime.schema_watch import SchemaWatch
from headwater.runtime.spark import give_back_memory
from headwater.runtime.staging import FOLDER, StagedCut, Staging, wanted
from headwater.runtime.steps import Step, reached
from headwater.runtime.views import ManagedView, new_view
from headwater.sources import connect
from headwater.warehouse.cuts import Cut
from headwater.warehouse.sessions import pins

if TYPE_CHECKING:
    from headwater.runtime.engine import Engine

CAPTURE_RENEWED = "its capture was removed and installed anew, what happened in between is unknown"


def start(engine: Engine, plans: Mapping[ViewName, ViewPlan], polling: ThreadPoolExecutor) -> None:
    """Make the engine ready to loop over these views."""
    cut = recover(engine.storage, engine.journal, engine.cuts)
    engine.generations = check_captures(engine, plans)
    cut = forget_renewed(cut, engine.generations)
    positions = starting_positions(engine, cut)
    engine.cut = replace(cut, positions=positions, generations=engine.generations)
    newest = engine.journal.newest
    ahead = newest.positions if newest is not None and newest.hi >= cut.seq else {}
    for source in sorted(engine.generations):
        # connections of their own: an adapter serves one thread at a time, and the catalog's serves the main one
        adapter, trimmer = connect(engine.config.sources[source]), connect(engine.config.sources[source])
        at = ahead.get(source, positions[source]) if source in cut.positions else positions[source]
        engine.pollers[source] = Poller(adapter, trimmer, polling, at)
    for name, state in engine.cut.views.items():
        plan = plans.get(name)
        if plan is not None and state.fingerprint == plan.fingerprint and state.state == "live":
            engine.views[name] = ManagedView(plan, engine.storage, state)
    known = {name: view.plan for name, view in engine.views.items()}
    engine.watch = SchemaWatch(engine.catalog, known)
    engine.continue_from(engine.cut)
    new = [plan for name, plan in plans.items() if name not in engine.views]
    gone = [name for name in engine.cut.views if name not in plans]
    if new:
        if not _load_was_interrupted(engine):
            move_to_now(engine)
        load(engine, new)
    engine.watch = SchemaWatch(engine.catalog, plans)
    if gone:
        engine.show_cut()
        remove_strangers(engine.storage, [engine.cut, *(pin.cut for pin in pins(engine.storage))])


def move_to_now(engine: Engine) -> None:
    """Bring the cut to the present, so that new views start where the others are, after the capture of any table that
    only they use began."""
    newest = engine.journal.newest
    if engine.views:
        engine.catch_up()
    elif newest is not None and newest.hi > engine.cut.seq:  # nobody needs what happened meanwhile
        engine.cut = replace(engine.cut, seq=newest.hi)
        engine.continue_from(engine.cut)
    for name, poller in engine.pollers.items():
        if not engine.watch.columns(name):  # nobody was interested in it so far
            poller.position = poller.source.position()
    engine.cut = replace(engine.cut, positions={name: p.position for name, p in engine.pollers.items()})


def check_captures(engine: Engine, plans: Mapping[ViewName, ViewPlan]) -> dict[SourceName, str]:
    """Every table of every view must be captured; returns the generation of each source's capture."""
    needed: dict[SourceName, set[TableName]] = {}
    for plan in plans.values():
        for table in plan.view.tables:
            needed.setdefault(table.source, set()).add(table)
    generations = {}
    for source, tables in needed.items():
        capture = engine.catalog.source(source).capture()
        missing = sorted(tables - (capture.tables if capture else frozenset()))
        if capture is None or missing:
            why = {t: capture.broken[t] for t in missing if t in capture.broken} if capture else {}
            said = ", ".join(f"{t} ({why[t]})" if t in why else str(t) for t in missing or sorted(tables))
            raise CaptureMissing(f"changes are not captured for {said}", "run 'headwater setup'")
        generations[source] = capture.generation
    return generations


def forget_renewed(cut: Cut, generations: Mapping[SourceName, str]) -> Cut:
    """Views over a source whose capture is not the one our positions speak of must be loaded anew."""
    renewed = {s for s, known in cut.generations.items() if generations.get(s, known) != known}
    if not renewed:
        return cut
    views = {
        name: replace(state, state="halted", reason=CAPTURE_RENEWED) if renewed & set(state.sources) else state
        for name, state in cut.views.items()
    }
    return replace(cut, views=views, positions={s: p for s, p in cut.positions.items() if s not in renewed})


def starting_positions(engine: Engine, cut: Cut) -> dict[SourceName, Position]:
    """Where each source in use was at the cut; the present of those that are new to it."""
    return {s: cut.positions.get(s) or engine.catalog.source(s).position() for s in engine.generations}


def load(engine: Engine, plans: Sequence[ViewPlan]) -> None:
    """Load views as of the newest cut; they appear in one step, together."""
    engine.meter.loading([p.view.name for p in plans])
    engine.show_cut()  # the cut to load from must outlive an interruption
    cut = engine.cut
    staged = Staging(engine.spark, engine.config, engine.catalog, StagedCut(cut.seq, cut.positions))
    staged.copy(wanted(plans), engine.meter.copied)
    reached(Step.STAGED)
    loaded = {}
    for plan in plans:
        engine.meter.joining(plan.view.name)
        view = new_view(engine.storage, plan)
        written = load_view(engine.spark, view, staged, cut.seq)
        view.commit(written, cut.seq)
        view.state = replace(view.state, horizon=cut.seq)
        loaded[plan.view.name] = view
        reached(Step.LOADED)
        engine.meter.loaded(plan.view.name, written.rows)
    engine.views.update(loaded)
    engine.show_cut()
    staged.remove()
    give_back_memory(engine.spark)


def _load_was_interrupted(engine: Engine) -> bool:
    """Whether copies as of this very cut are there to go on with."""
    return any(name.startswith(f"{engine.cut.seq}-") for name in engine.storage.names(FOLDER))
