"""What Headwater would do, gathered: every problem of a project at once, and per view how it will be maintained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.cli.kept import kept_lines, too_large
from headwater.cli.walking import Lookup, Meeting, Together, lookup_of, walk_of
from headwater.model.errors import HeadwaterError
from headwater.model.names import CLOCK, SourceName, TableName, ViewName, view_table
from headwater.model.schedule import parse_schedule
from headwater.model.schema import TableSchema

if TYPE_CHECKING:
    from headwater.algebra.parse import ParsedView
    from headwater.algebra.view import ViewDefinition
    from headwater.api import Warehouse
    from headwater.runtime.project.plan import ViewPlan


@dataclass(frozen=True)
class PlannedRelation:
    alias: str
    table: TableName
    rows: int | None
    conditions: tuple[str, ...]


EXAMPLE = 1_000
"""Changes of a batch whose cost is told."""


@dataclass(frozen=True)
class PlannedView:
    name: ViewName
    level: str
    where: str
    relations: Sequence[PlannedRelation]
    orders: Mapping[str, Sequence[Meeting]]
    """Per origin: where a change of it travels."""
    lookups: Sequence[Lookup]
    questions: int
    by_spark: Sequence[str]
    """Conditions that Spark evaluates on joined rows."""
    aggregation: str
    columns: Mapping[str, str]
    tree: Sequence[str] = ()
    """The operators of a view that is more than joins and one grouping, drawn; with what each reads."""
    looks_at_everything: Sequence[str] = ()
    """Operators whose every change needs all rows below them."""
    evaluations: int = 0
    """How often Spark evaluates expressions within a batch."""
    maintenance: str = ""
    """The published algorithm that maintains it, and what that asks; empty for the wave."""
    to_sources: int = 0
    """Those of the questions that no view answers."""
    kept_for: str = ""
    """For whom it is kept, if nobody wrote it."""
    keeps: Sequence[str] = ()
    """What is kept for it, and what that saves."""
    weighed: Sequence[str] = ()
    """What 'auto' decided, and by what."""
    together: Sequence[Together] = ()
    for_themselves: int = 0
    """How many more questions a batch asks at most, where tables that are asked together changed."""

    @property
    def example(self) -> str:
        """What a batch of EXAMPLE changes asks and reads, at most, by what is known of the tables."""
        sizes = {relation.table: relation.rows for relation in self.relations}
        keys, whole = dict[str, int](), dict[str, int | None]()
        for look in self.lookups:
            if look.table.source == CLOCK:
                continue
            if look.columns and look.index and look.asks >= EXAMPLE:
                keys[str(look.table)] = keys.get(str(look.table), 0) + EXAMPLE
            else:
                whole[str(look.table)] = sizes.get(look.table)
        keys |= {str(joined): EXAMPLE for joined in self.together}
        read = [f"{name} ({'size unknown' if n is None else f'{n:,} rows'})" for name, n in whole.items()]
        parts = [f"looks up {n:,} keys of {name}" for name, n in keys.items()]
        parts += [f"reads all of {', '.join(read)}"] if read else []
        return f"{EXAMPLE:,} changes: " + ("; ".join(parts) or "nothing is asked")


@dataclass(frozen=True)
class PlannedSource:
    name: SourceName
    captured: Sequence[TableName]
    install: Sequence[str]
    advice: Sequence[str] = ()
    """What a person should know before this source is maintained from."""


@dataclass
class ProjectPlan:
    views: list[PlannedView] = field(default_factory=list)
    sources: list[PlannedSource] = field(default_factory=list)
    errors: list[HeadwaterError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    reasons: dict[ViewName, list[str]] = field(default_factory=dict)
    """By view, why 'auto' keeps what it keeps."""

    def failed(self, error: HeadwaterError) -> None:
        if all(known.what != error.what for known in self.errors):
            self.errors.append(error)


def make_plan(warehouse: Warehouse) -> ProjectPlan:
    """Check everything, change nothing. Problems are collected, so that one run shows them all."""
    from headwater.runtime.project.measuring import free_bytes

    plan = ProjectPlan()
    reachable = []
    for name in warehouse.config.sources:
        try:
            warehouse.catalog.described(name)
            reachable.append(name)
        except HeadwaterError as error:
            plan.failed(error)
    views = _defined(warehouse, plan)
    planned: dict[ViewName, ViewPlan] = {}
    for view in views:
        try:
            if all(parent in planned for parent in view.parents):  # else the parent's own error is said already
                plan.views.append(_planned(warehouse, view, planned))
        except HeadwaterError as error:
            plan.failed(error)
    plan.views = [
        replace(view, keeps=kept_lines(view, plan.views), weighed=plan.reasons.get(view.name, ()))
        for view in plan.views
    ]
    plan.warnings += too_large(plan.views, free_bytes(warehouse.storage))
    needed = {s: sorted({t for v in views for t in v.captured_tables if t.source == s}) for s in reachable}
    for name, tables in needed.items():
        if tables:
            _plan_source(warehouse, name, tables, plan)
    plan.warnings += [w for v in plan.views for w in _warnings(v)]
    plan.warnings += [w for made in planned.values() for w in made.surprises]
    plan.warnings = list(dict.fromkeys(plan.warnings))
    return plan


def _defined(warehouse: Warehouse, plan: ProjectPlan) -> list[ViewDefinition]:
    from headwater.algebra.auxiliary import OPTION, defined
    from headwater.maintenance.keeping import relying
    from headwater.maintenance.keeping.choose import auxiliary_of, define_each
    from headwater.maintenance.keeping.costs import weighed, why
    from headwater.runtime.project.keeping import keeping_of

    everything = _parsed(warehouse, plan)
    keeping = keeping_of(warehouse.config, warehouse.storage, warehouse.catalog, everything)
    made = define_each(everything, warehouse.catalog, keeping=keeping)
    for view in made.views.values():
        written = next((p for p in everything if p.name in (view.name, view.kept_for)), None)
        if written is not None and auxiliary_of(written, keeping) == "auto":
            plan.reasons[view.name] = why(keeping.measured, weighed(view, made.views))
        if view.relies:
            plan.reasons[view.name] = [*plan.reasons.get(view.name, ()), *relying.why(view)]
    for error in made.errors.values():
        plan.failed(error)
    names = [p.name for p in everything]
    for parsed in everything:
        if OPTION not in parsed.options and auxiliary_of(parsed, keeping) == "none":
            others = {name: view for name, view in made.views.items() if view.kept_for is None}
            again = partial(defined, catalog=warehouse.catalog, views=others, names=names)
            plan.warnings += _would_keep(parsed, again)
    return list(made.views.values())


def _would_keep(parsed: ParsedView, define: Callable[[ParsedView], list[ViewDefinition]]) -> list[str]:
    """What 'auto' would do for a view that says nothing of it."""
    from headwater.algebra.auxiliary import OPTION

    try:
        *kept, _ = define(replace(parsed, options={**parsed.options, OPTION: "auto"}))
    except HeadwaterError:
        return []
    if not kept:
        return []
    what = "a grouping or total of it is" if len(kept) == 1 else f"{len(kept)} groupings or totals of it are"
    return [
        f"{parsed.name}: {what} computed anew with every batch; WITH ({OPTION} = 'auto') keeps"
        f" {'it as a view' if len(kept) == 1 else 'them as views'} beside it, and looks up what changed"
    ]


def _parsed(warehouse: Warehouse, plan: ProjectPlan) -> list[ParsedView]:
    """All views if they read well together; else those of every file that does, and what is wrong with the others."""
    from headwater.algebra.parse import parse_views
    from headwater.runtime.project.catalog import read_views

    config = warehouse.config
    try:
        return read_views(config)
    except HeadwaterError as error:
        plan.failed(error)
    parsed = []
    for file in sorted(config.views.glob("*.sql")) if config.views.is_dir() else ():
        try:
            name = file.relative_to(config.folder) if file.is_relative_to(config.folder) else file
            parsed += parse_views(file.read_text(encoding="utf-8-sig"), str(name))
        except UnicodeDecodeError:
            continue  # said above
        except HeadwaterError as error:
            plan.failed(error)
    return parsed


def _planned(warehouse: Warehouse, view: ViewDefinition, planned: dict[ViewName, ViewPlan]) -> PlannedView:
    from headwater.algebra import as_table
    from headwater.runtime.compute.planning import plan_view

    parents = {name: planned[name] for name in view.parents}
    schemas = warehouse.catalog.schemas(view)
    planned[view.name] = plan_view(warehouse.spark, view, schemas, parents)
    columns = planned[view.name].columns
    schemas |= {view_table(name): as_table(parent.view) for name, parent in parents.items()}
    if planned[view.name].tree is not None:
        return _planned_tree(planned[view.name], schemas)
    walk = walk_of(view, planned[view.name], schemas, warehouse.config.join_at_sources)
    return PlannedView(
        name=view.name,
        level=kind_of(view),
        where=f"{view.file}:{view.line}",
        relations=_relations(warehouse, view, schemas),
        orders={} if view.chain is not None else walk.orders,
        lookups=sorted(walk.lookups, key=lambda look: (look.table, look.columns)),
        questions=walk.questions,
        to_sources=walk.to_sources,
        by_spark=tuple(r.replace("`", "") for r in view.residual),
        aggregation=_aggregation(view),
        columns={f.name: type_name(f.type) for f in columns},
        kept_for=view.kept_for or "",
        maintenance=_maintained(view),
        together=walk.together,
        for_themselves=walk.for_themselves,
    )


def _relations(
    warehouse: Warehouse, view: ViewDefinition, schemas: Mapping[TableName, TableSchema]
) -> list[PlannedRelation]:
    if view.chain is None:
        return [
            PlannedRelation(o.alias, o.table, schemas[o.table].rows, tuple(map(str, o.conditions)))
            for o in view.occurrences
        ]
    sizes = {m.table: warehouse.catalog.described(m.source)[m.table].rows for m in view.chain.members}
    return [
        PlannedRelation(m.table.table, m.table, sizes[m.table], tuple(map(str, m.conditions)))
        for m in view.chain.members
    ]


def _maintained(view: ViewDefinition) -> str:
    """Who maintains it, what that can give and what it asks."""
    from headwater.algebra.methods import METHODS, WAVE
    from headwater.model.chain import PURE_PUSH
    from headwater.runtime.project.about import maintained_by

    if view.chain is not None:
        n = len(view.chain.members)
        messages = n * n if view.chain.how == PURE_PUSH else 2 * n
        return f"{maintained_by(view)}: strong at most; {messages} messages a window, between agents"
    if view.maintenance == WAVE:
        return ""
    n, level = len(view.occurrences), METHODS[view.maintenance].level.value
    asks = {
        "nested-sweep": f"up to {n - 1} questions for each update, fewer where updates meet",
        "tid": "questions for each batch, as many as tables and sources make of it, not updates",
    }.get(view.maintenance, f"{n - 1} questions for each update")
    return f"{maintained_by(view)}: {level} at most; {asks if n > 1 else 'no questions'}"


def _planned_tree(plan: ViewPlan, schemas: Mapping[TableName, TableSchema]) -> PlannedView:
    from headwater.algebra.drawing import draw, everything
    from headwater.algebra.spoken import called
    from headwater.maintenance.operators.program import Asked, Evaluated

    view = plan.view
    assert plan.tree is not None
    root, program = plan.tree.root, plan.tree.program
    lookups: dict[tuple[TableName, tuple[str, ...], tuple[str, ...]], Lookup] = {}
    questions = [step for step in program.steps if isinstance(step, Asked)]
    for step in questions:
        named = dict(zip(step.table.columns, step.table.names, strict=True))
        columns, conditions = tuple(named[c] for c in step.columns), tuple(map(str, step.table.conditions))
        lookups[step.table.table, columns, conditions] = lookup_of(schemas[step.table.table], columns, conditions)
    return PlannedView(
        name=view.name,
        level=kind_of(view),
        where=f"{view.file}:{view.line}",
        relations=[
            PlannedRelation(o.alias, o.table, schemas[o.table].rows, tuple(map(str, o.conditions)))
            for o in view.occurrences
        ],
        orders={},
        lookups=sorted(lookups.values(), key=lambda look: (look.table, look.columns)),
        questions=len(questions),
        by_spark=(),
        aggregation=_aggregation(view, called(root)),
        columns={f.name: type_name(f.type) for f in plan.columns},
        kept_for=view.kept_for or "",
        tree=draw(root),
        looks_at_everything=everything(root),
        evaluations=sum(isinstance(step, Evaluated) for step in program.steps),
    )


def _aggregation(view: ViewDefinition, called: Mapping[str, str] = MappingProxyType({})) -> str:
    """`called` says what a person calls the columns of a tree."""
    if view.aggregation is None:
        return ""
    said = [k.expression.replace("`", "") for k in view.aggregation.keys]
    keys = ", ".join(called.get(key, key) for key in said) or "everything"
    kept = "an auxiliary view keeps what a change of a group needs"
    return f"DISTINCT over {keys}; {kept}" if not view.aggregation.calls else f"groups by {keys}; {kept}"


def _plan_source(warehouse: Warehouse, name: SourceName, tables: Sequence[TableName], plan: ProjectPlan) -> None:
    source = warehouse.catalog.source(name)
    try:
        advice = source.advice(tables)
        plan.warnings += [f"source {name}: {sentence}" for sentence in advice]
        captured = source.capture()
        covered = sorted(set(tables) & captured.tables) if captured else []
        plan.sources.append(PlannedSource(name, covered, source.plan_install(tables), advice))
    except HeadwaterError as error:
        plan.failed(error)


def _warnings(view: PlannedView) -> list[str]:
    said = []
    for look in view.lookups:
        if look.table.is_view:
            continue
        if look.columns and not look.indexable:
            said.append(
                f"{look.table} is asked by {', '.join(look.columns)}: a question reads every file whose statistics do"
                " not rule a key out; partitioning by that column, or OPTIMIZE … ZORDER BY it, lets it skip most"
            )
        elif look.columns and not look.index:
            said.append(
                f"no index finds {look.table} by {', '.join(look.columns)}: every question reads the whole table;"
                f" {create_index(look)} would help"
            )
        if not look.columns and not view.tree:
            said.append(f"{view.name} joins {look.table} with nothing: every batch reads all of it")
        elif not look.columns and look.table.source != CLOCK:
            size = next((r.rows for r in view.relations if r.table == look.table), None)
            rows = "all of it" if size is None else f"all of it, about {size:,} rows"
            said.append(f"{view.name} asks {look.table} by no column: a batch that must know of it reads {rows}")
    said += [f"{view.name}: {what}" for what in view.looks_at_everything]
    for relation in view.relations:
        if relation.rows is None and not relation.table.is_view and not view.maintenance:
            said.append(f"the size of {relation.table} is not known, so questions scan it; run ANALYZE there")
    return said


def create_index(look: Lookup) -> str:
    """A statement to paste, at any kind of source: hence the name and the quotes."""

    def quoted(name: str) -> str:
        return look.quote + name.replace(look.quote, look.quote * 2) + look.quote

    name = f"{look.table.table}_by_{'_'.join(look.columns)}"[:63]  # a name in PostgreSQL is no longer
    where = ".".join(quoted(part) for part in (look.table.schema, look.table.table) if part)
    return f"CREATE INDEX {quoted(name)} ON {where} ({', '.join(map(quoted, look.columns))});"


def kind_of(view: ViewDefinition) -> str:
    """What a view promises, in words, and for whom it is there if nobody wrote it."""
    kept = f", kept for {view.kept_for}" if view.kept_for else ""
    if view.every > 1:
        return f"{view.level.value}, every {view.every} transactions{kept}"
    return f"{view.level.value}, {parse_schedule(view.schedule).says}" if view.schedule else f"{view.level.value}{kept}"


def type_name(kind: pa.DataType) -> str:
    """An Arrow type as SQL calls it."""
    names = {
        "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "float": "float",
        "double": "double", "string": "string", "bool": "boolean", "date32[day]": "date", "binary": "binary",
        "timestamp[us, tz=UTC]": "timestamp with time zone", "timestamp[us]": "timestamp",
    }  # fmt: skip
    return names.get(str(kind), str(kind).replace("decimal128", "decimal"))
