"""What a run finds when it begins: which views of the last cut can go on, and why others cannot.

A view goes on where it was if it is the same view, if the columns it reads are those it was loaded from, and if its
sources' past is still the one its positions belong to. A source that is away is looked at when it is back: its poller
compares the same things, in every snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from headwater.integrator.journal import Journal
from headwater.model.errors import CaptureMissing, HeadwaterError
from headwater.model.names import Position, Seq, SourceName, TableName, ViewName
from headwater.model.schema import Identities
from headwater.model.source import Capture
from headwater.runtime.intake.load_point import LoadPoint
from headwater.runtime.intake.schema_watch import MEND, Present, Watched, broken_by, halt_by
from headwater.runtime.project.about import read_about
from headwater.runtime.project.catalog import AWAY, SourceCatalog
from headwater.runtime.project.plan import ViewPlan
from headwater.runtime.view import Halt, ManagedView
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, ViewState

CAPTURE_RENEWED = "its capture was removed and installed anew, what happened in between is unknown"
OUTGROWN = "an earlier version did not keep of its groups what this one goes on from"
ANOTHER = "a column it reads has another type or another place in its table now"


@dataclass(frozen=True)
class SourceFound:
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


@dataclass(frozen=True)
class Surveyed:
    """The last cut beside the sources as they are. `kept` views can go on (those halted for a reason that may be
    corrected among them), `lost` ones cannot. Of these the `outgrown` are loaded again without being asked: it is this
    version that needs more of them."""

    cut: Cut
    sources: Mapping[SourceName, SourceFound]
    generations: Mapping[SourceName, str]
    kept: dict[ViewName, ManagedView] = field(default_factory=dict)
    lost: dict[ViewName, Halt] = field(default_factory=dict)
    outgrown: set[ViewName] = field(default_factory=set)


class Survey:
    """Looks at the sources, and at what the warehouse knows of its views."""

    def __init__(self, storage: Storage, journal: Journal, catalog: SourceCatalog) -> None:
        self._storage, self._journal, self._catalog = storage, journal, catalog

    def look(self, cut: Cut, plans: Mapping[ViewName, ViewPlan], how: Beginning) -> Surveyed:
        sources = self._look({s for plan in plans.values() for s in plan.sources})
        generations = {
            s: now.capture.generation if now.capture else cut.generations.get(s, "") for s, now in sources.items()
        }
        found = Surveyed(cut, sources, generations)
        self._sort_out(found, plans)
        if not how.replace:
            others = [n for n, p in plans.items() if n in cut.views and cut.views[n].fingerprint != p.fingerprint]
            found.lost.update({name: Halt(ANOTHER, MEND) for name in others if name not in found.outgrown})
        return found

    def _look(self, sources: Iterable[SourceName]) -> dict[SourceName, SourceFound]:
        found = {}
        for source in sorted(sources):
            try:
                adapter = self._catalog.source(source)
                capture = adapter.capture()
                found[source] = SourceFound(capture, Present(adapter, self._catalog.refresh(source), capture))
            except AWAY as error:
                if not self._catalog.recalls(source):
                    raise
                found[source] = SourceFound(away=error)
        return found

    def _sort_out(self, found: Surveyed, plans: Mapping[ViewName, ViewPlan]) -> None:
        kept, lost = found.kept, found.lost
        first = self._journal.segments[0].lo if self._journal.segments else Seq(0)
        for name, plan in plans.items():  # parents come first
            state = found.cut.views.get(name)
            if state is not None and _outgrown(state, plan, found.outgrown):
                found.outgrown.add(name)
                lost[name] = Halt(OUTGROWN, "'headwater apply' loads it again")
                continue
            if state is None or state.fingerprint != plan.fingerprint:
                continue
            identities = self._identities(state, plan)
            parent = next((p for p in plan.view.parents if p not in kept), None)
            halt = _broken(Watched(plan, identities), found.sources)
            if halt is None and state.state != "live" and not (state.resumable and first <= state.through):
                halt = Halt(state.reason, state.fix or "'headwater apply' loads it again")
            if halt is None and parent is not None:
                why = lost[parent].reason if parent in lost else "it is another view now"
                halt = Halt(f"view {parent}, which it reads, cannot go on: {why}")
            if halt is None:
                kept[name] = ManagedView(plan, state.folder, identities)
            else:
                lost[name] = halt
        for source, past in self._past(found).items():
            for name in [n for n, v in kept.items() if source in v.plan.sources]:
                lost[name] = past
                del kept[name]

    def _identities(self, state: ViewState, plan: ViewPlan) -> Mapping[TableName, Identities]:
        about = read_about(self._storage, state.folder)
        known = about.identities if about is not None else {}
        return {table: columns for table, columns in known.items() if table in plan.view.base_tables}

    def _past(self, found: Surveyed) -> dict[SourceName, Halt]:
        """The sources whose past is not the one that our positions belong to, or no longer reaches back to them."""
        tables: dict[SourceName, set[TableName]] = {}
        for view in found.kept.values():
            for table in view.plan.base:
                tables.setdefault(table.source, set()).add(table)
        positions = known_positions(self._journal, found.cut)
        lost: dict[SourceName, Halt] = {}
        for source, used in tables.items():
            if found.sources[source].away is not None or source not in positions:
                continue
            try:
                self._catalog.source(source).check(positions[source], sorted(used))
            except AWAY:
                continue  # it went away while we looked: its poller looks again
            except HeadwaterError as error:
                lost[source] = halt_by(error)
            generation = found.generations[source]
            if source not in lost and found.cut.generations.get(source, generation) != generation:
                lost[source] = Halt(CAPTURE_RENEWED)
        return lost


def _outgrown(state: ViewState, plan: ViewPlan, others: Collection[ViewName]) -> bool:
    """Whether a view has no auxiliary view, and needs one now; or it reads one that has none."""
    if state.state != "live":
        return False
    return (state.auxiliary < 0 and plan.auxiliary is not None) or any(p in others for p in plan.view.parents)


def _broken(view: Watched, found: Mapping[SourceName, SourceFound]) -> Halt | None:
    for source in dict.fromkeys(t.source for t in view.plan.view.base_tables):
        present = found[source].present
        halt = broken_by(view, present) if present is not None else None
        if halt is not None:
            return halt
    return None


def aside(state: ViewState, halt: Halt | None, rebuilt: bool) -> ViewState:
    """A view that is not maintained as it is: readable until its successor is there."""
    if halt is None:
        return replace(state, state="halted", reason=state.reason or "it is being built anew", resumable=False)
    fix = "it is loaded again" if rebuilt else halt.fix
    return replace(state, state="halted", reason=halt.reason, fix=fix, resumable=False)


def broken_sources(found: Surveyed, plans: Mapping[ViewName, ViewPlan]) -> set[SourceName]:
    """Sources of which no view can go on: what is known of their positions may belong to another past."""
    cut = found.cut
    broken = {
        s for s in found.sources if all(n in found.lost for n, p in plans.items() if s in p.sources and n in cut.views)
    }
    return broken - {s for view in found.kept.values() for s in view.plan.sources}


def check_captures(catalog: SourceCatalog, plans: Iterable[ViewPlan]) -> None:
    """Every table of every view must be captured."""
    plans = list(plans)
    found = {s: SourceFound(catalog.source(s).capture()) for s in {t.source for p in plans for t in p.view.base_tables}}
    refuse_uncaptured(plans, found)


def refuse_uncaptured(plans: Iterable[ViewPlan], found: Mapping[SourceName, SourceFound]) -> None:
    """Views to be loaded need captured tables."""
    needed: dict[SourceName, set[TableName]] = {}
    for plan in plans:
        for table in plan.view.base_tables:
            needed.setdefault(table.source, set()).add(table)
    for source, tables in needed.items():
        capture = found[source].capture
        missing = sorted(tables - (capture.tables if capture else frozenset()))
        if found[source].away is not None or (capture is not None and not missing):
            continue
        why = {t: capture.broken[t] for t in missing if t in capture.broken} if capture else {}
        said = ", ".join(f"{t} ({why[t]})" if t in why else str(t) for t in missing or sorted(tables))
        raise CaptureMissing(f"changes are not captured for {said}", "run 'headwater setup'")


def known_positions(
    journal: Journal, cut: Cut, point: LoadPoint | None = None, broken: Collection[SourceName] = ()
) -> dict[SourceName, Position]:
    """Where each source was with everything that has a number; nothing for those whose past is another one now."""
    newest = journal.newest
    known = dict(cut.positions)
    if newest is not None and newest.hi >= cut.seq:
        known |= newest.positions
    if point is not None and (newest is None or newest.hi <= point.seq):
        known |= dict(point.positions)
    return {s: p for s, p in known.items() if s not in broken}
