"""The views that are maintained, as they were when they were loaded, whatever has become of their files.

`run` drops and replaces nothing by itself: it maintains what there is, builds what is new, and says what
differs from views/. `apply` makes the difference go away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.algebra import in_order, parse_views
from headwater.algebra.auxiliary import defined as define_parts
from headwater.algebra.parse import ParsedView
from headwater.algebra.view import ViewDefinition
from headwater.model.errors import HeadwaterError, ViewSqlError
from headwater.model.names import ViewName
from headwater.runtime.change.left_alone import check_left_alone
from headwater.runtime.project.about import read_about
from headwater.runtime.project.catalog import SourceCatalog, read_views
from headwater.runtime.project.config import Config
from headwater.runtime.project.fingerprints import fingerprints
from headwater.runtime.project.plan import PlanView, ViewPlan
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, ViewState


@dataclass(frozen=True)
class Defined:
    """Views that mean something over the sources as they are, and what is wrong with the others."""

    views: dict[ViewName, ViewDefinition] = field(default_factory=dict)
    errors: dict[ViewName, HeadwaterError] = field(default_factory=dict)


def maintained_views(storage: Storage, cut: Cut, catalog: SourceCatalog) -> Defined:
    """The views of a cut, parents first."""
    parsed = []
    for name, state in cut.views.items():
        statement = _statement(storage, name, state)
        if statement:
            parsed += parse_views(statement, f"{state.folder}/view.json")
    return define_each(in_order(parsed), catalog, {})


def define_each(
    parsed: Sequence[ParsedView], catalog: SourceCatalog, known: Mapping[ViewName, ViewDefinition]
) -> Defined:
    """Each view by itself: one that does not resolve keeps no other from being maintained, but for those that read
    it."""
    names = [*known, *(one.name for one in parsed)]
    found, errors = dict(known), dict[ViewName, HeadwaterError]()
    for one in parsed:
        try:
            found |= {view.name: view for view in define_parts(one, catalog, found, names)}
        except HeadwaterError as error:
            errors[ViewName(one.name)] = error
    return Defined({name: view for name, view in found.items() if name not in known}, errors)


@dataclass(frozen=True)
class ToRun:
    """What a run is to maintain; `notes` say how views/ differs from it."""

    plans: dict[ViewName, ViewPlan]
    unresolved: dict[ViewName, HeadwaterError]
    notes: list[str]


def views_of_project(config: Config, catalog: SourceCatalog) -> Defined:
    """The views of views/, each by itself."""
    return define_each(read_views(config), catalog, {})


def changed_views(cut: Cut, plans: Mapping[ViewName, ViewPlan], defined: Defined) -> list[ViewName]:
    """The maintained views that are to be replaced or dropped."""
    other = [n for n, s in cut.views.items() if n in plans and plans[n].fingerprint != s.fingerprint]
    return other + [n for n in cut.views if n not in plans and n not in defined.errors]


def to_apply(plan: PlanView, config: Config, catalog: SourceCatalog, maintained: tuple[Storage, Cut]) -> ToRun:
    """What views/ says."""
    storage, cut = maintained
    defined = views_of_project(config, catalog)
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
        differs = _differences(cut, parsed, define_each(parsed, catalog, {}), catalog)
        new = define_each([one for one in parsed if ViewName(one.name) not in cut.views], catalog, known.views)
    except HeadwaterError as error:
        differs = [f"views/ cannot be read: {error.what}"]
    if differs:
        notes.append(f"views/ is not what is maintained: {'; '.join(differs)}. 'headwater apply' makes it so")
    plans, refused = plan_each(plan, {**known.views, **new.views}, catalog)
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
