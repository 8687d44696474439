"""The views that are maintained, as they were when they were loaded, whatever has become of their files.

`run` drops and replaces nothing by itself: it maintains what there is, builds what is new, and says what
differs from views/. `apply` makes the difference go away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.algebra import in_order, parse_views
from headwater.algebra.parse import ParsedView
from headwater.algebra.view import ViewDefinition
from headwater.maintenance.keeping.choose import Defined, define_each
from headwater.maintenance.keeping.copies import asked_tables
from headwater.model.errors import ConfigError, HeadwaterError, ViewSqlError
from headwater.model.names import ViewName
from headwater.runtime.change.left_alone import check_left_alone
from headwater.runtime.project.about import read_about
from headwater.runtime.project.catalog import SourceCatalog, read_views
from headwater.runtime.project.config import Config
from headwater.runtime.project.fingerprints import fingerprints
from headwater.runtime.project.keeping import keeping_of
from headwater.runtime.project.plan import PlanView, ViewPlan
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, ViewState


def maintained_views(storage: Storage, cut: Cut, catalog: SourceCatalog) -> Defined:
    """The views of a cut, parents first."""
    parsed = []
    for name, state in cut.views.items():
        statement = _statement(storage, name, state)
        if statement:
            parsed += parse_views(statement, f"{state.folder}/view.json")
    return define_each(in_order(parsed), catalog)


@dataclass(frozen=True)
class ToRun:
    """What a run is to maintain; `notes` say how views/ differs from it."""

    plans: dict[ViewName, ViewPlan]
    unresolved: dict[ViewName, HeadwaterError]
    notes: list[str]


def views_of_project(config: Config, catalog: SourceCatalog, storage: Storage) -> Defined:
    """The views of views/, each by itself, after what is kept for it."""
    parsed = read_views(config)
    return define_each(parsed, catalog, keeping=keeping_of(config, storage, catalog, parsed))


def changed_views(cut: Cut, plans: Mapping[ViewName, ViewPlan], defined: Defined) -> list[ViewName]:
    """The maintained views that are to be replaced or dropped."""
    other = [n for n, s in cut.views.items() if n in plans and plans[n].fingerprint != s.fingerprint]
    return other + [n for n in cut.views if n not in plans and n not in defined.errors]


def to_apply(plan: PlanView, config: Config, catalog: SourceCatalog, maintained: tuple[Storage, Cut]) -> ToRun:
    """What views/ says."""
    storage, cut = maintained
    defined = views_of_project(config, catalog, storage)
    plans, refused = plan_each(plan, defined.views, catalog)
    errors = {**defined.errors, **refused}
    if errors and not plans:
        raise next(iter(errors.values()))
    check_left_alone(storage, cut, errors, changed_views(cut, plans, Defined({}, errors)))
    return ToRun(plans, errors, [f"view {name}: {error.what}" for name, error in errors.items()])


def to_go_on(plan: PlanView, config: Config, catalog: SourceCatalog, maintained: tuple[Storage, Cut]) -> ToRun:
    """What is maintained, and what is new in views/. Nothing is dropped or replaced without being asked for."""
    storage, cut = maintained
    known = maintained_views(storage, cut, catalog)
    notes, new = list[str](), Defined()
    try:
        parsed = read_views(config)
        keeping = keeping_of(config, storage, catalog, parsed)
        written = define_each(parsed, catalog, keeping=keeping)
        differs = _differences(cut, parsed, written, catalog)
        known = _by_the_written_algorithm(known, cut, written, catalog)
        unknown = [one for one in parsed if ViewName(one.name) not in cut.views]
        new = define_each(unknown, catalog, known.views, keeping)
    except HeadwaterError as error:
        differs = [f"views/ cannot be read: {error.what}"]
    if differs:
        notes.append(f"views/ is not what is maintained: {'; '.join(differs)}. 'headwater apply' makes it so")
    plans, refused = plan_each(plan, {**known.views, **new.views}, catalog)
    refused |= _asking(plans, config)
    plans = {name: plan for name, plan in plans.items() if name not in refused}
    errors = {**known.errors, **new.errors, **refused}
    notes += [f"view {name}: {error.what}" for name, error in errors.items()]
    return ToRun(plans, errors, notes)


def plan_each(
    plan: PlanView, views: Mapping[ViewName, ViewDefinition], catalog: SourceCatalog
) -> tuple[dict[ViewName, ViewPlan], dict[ViewName, HeadwaterError]]:
    """Plan views, parents first. What Spark refuses keeps no other from being maintained, but those that read it."""
    plans: dict[ViewName, ViewPlan] = {}
    errors: dict[ViewName, HeadwaterError] = {}
    for name, view in views.items():
        try:
            lacking = next((p for p in view.parents if p not in plans), None)
            if lacking is not None:
                raise ViewSqlError(f"view {name} reads view {lacking}, which cannot be maintained", "correct that one")
            plans[name] = plan(view, catalog.schemas(view), {p: plans[p] for p in view.parents})
        except HeadwaterError as error:
            errors[name] = error
    return plans, errors


def _asking(plans: Mapping[ViewName, ViewPlan], config: Config) -> dict[ViewName, HeadwaterError]:
    """Views that were loaded before a source was not to be asked any more, and would ask it."""
    found: dict[ViewName, HeadwaterError] = {}
    for name, plan in plans.items():
        asked = sorted(t for t in asked_tables(plan.view) if t.source in config.unasked)
        if asked:
            found[name] = ConfigError(
                f"view {name} asks {asked[0]} with every batch, and source {asked[0].source} is not to be asked"
                " (ask = false)",
                "run 'headwater apply': it loads the view with what it needs kept beside it",
            )
    return found


def _by_the_written_algorithm(known: Defined, cut: Cut, written: Defined, catalog: SourceCatalog) -> Defined:
    """The maintained views, each by the algorithm that views/ says now: its content is the same, whoever maintains it,
    so a run that begins goes on from there."""
    tables = {name: catalog.schemas(view) for name, view in written.views.items()}
    marks = fingerprints(written.views, tables)
    views = {
        name: replace(view, maintenance=to.maintenance, parallel=to.parallel, chain=to.chain)
        if marks.get(name) == cut.views[name].fingerprint and (to := written.views[name])
        else view
        for name, view in known.views.items()
    }
    return replace(known, views=views)


def _differences(cut: Cut, parsed: Sequence[ParsedView], defined: Defined, catalog: SourceCatalog) -> list[str]:
    written = {*defined.views, *(ViewName(one.name) for one in parsed)}
    tables = {name: catalog.schemas(view) for name, view in defined.views.items()}
    wanted = fingerprints(defined.views, tables)
    edited = [n for n, state in cut.views.items() if n in wanted and wanted[n] != state.fingerprint]
    said = [f"{name} is another view there" for name in edited]
    return said + [f"{name} is not there any more" for name in cut.views if name not in written]


def _statement(storage: Storage, name: ViewName, state: ViewState) -> str:
    about = read_about(storage, state.folder)
    if about is None:
        return ""
    if about.statement:
        return about.statement
    if state.level == "periodic":
        return ""  # its schedule was not kept
    every = f", every = {state.every}" if state.every > 1 else ""
    return f"CREATE MATERIALIZED VIEW {name} WITH (consistency = '{state.level}'{every}) AS\n{about.sql};\n"
