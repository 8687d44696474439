"""From view SQL to a view taken apart.

parse_views   text          → statements           syntax
in_order      statements    → statements           each after the views it reads
define        statement     → ViewDefinition       names resolved, checked, taken apart
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import UnsupportedError

from headwater.algebra.aggregation import aggregation
from headwater.algebra.conditions import Pieces, take_apart
from headwater.algebra.dependencies import in_order, references
from headwater.algebra.dialect import over_core, spark_sql
from headwater.algebra.methods import check_shape, refuse_tree
from headwater.algebra.names import Bound, Catalog, Names, Views
from headwater.algebra.percentiles import is_number, percentiles
from headwater.algebra.promise import KEPT_FOR, OPTIONS, RELIES, Promise, promised, refusal
from headwater.algebra.query import Query, check_names, resolve_query
from headwater.algebra.refusals import check, is_block
from headwater.algebra.shown_order import apart
from headwater.algebra.statements import ParsedView, parse_views
from headwater.algebra.trees import tree_view
from headwater.algebra.view import Occurrence, Output, Relied, ViewDefinition
from headwater.model.names import ViewName

__all__ = ["OPTIONS", "Catalog", "ParsedView", "define", "in_order", "parse_views", "references"]


def define(
    parsed: ParsedView,
    catalog: Catalog,
    views: Mapping[ViewName, ViewDefinition] = MappingProxyType({}),
    names: Iterable[str] = (),
) -> ViewDefinition:
    """What a view means over the tables the catalog knows and the views defined already; raises ViewSqlError or
    UnknownName. `names` are those of all views there are, defined or not, for better errors."""
    promise = promised(parsed)
    check(parsed)
    known = Names(parsed, catalog, Views(views, frozenset(names)))
    select, order = apart(parsed.select)
    if not isinstance(select, exp.Select) or not is_block(select):
        return _tree(parsed, promise, known, views)
    if not _continued(select, Names(parsed, catalog, known.views)):
        return _tree(parsed, promise, known, views)
    query = resolve_query(select, known)
    _check_promise(parsed, promise, known, views)
    try:
        pieces = take_apart(query.conditions, query.scope)
        grouped = aggregation(query, parsed)
        outputs = () if grouped else tuple(Output(name, spark_sql(over_core(tree))) for name, tree in query.outputs)
        view = ViewDefinition(
            name=ViewName(parsed.name),
            level=promise.level,
            occurrences=tuple(_occurrence(bound, query, pieces, parsed) for bound in query.scope.bounds),
            equalities=tuple(pieces.equalities),
            residual=tuple(pieces.residual),
            outputs=outputs,
            aggregation=grouped,
            recompute=spark_sql(query.select),
            text=parsed.text,
            file=parsed.file,
            line=parsed.line,
            every=promise.every,
            schedule=promise.schedule,
            order=order,
            kept_for=_kept_for(parsed),
            relies=_relies(parsed),
            maintenance=promise.who.name,
            parallel=promise.who.parallel,
        )
    except UnsupportedError as error:
        raise parsed.error(f"cannot be said in Spark SQL: {error}", "use another function of Spark SQL") from None
    check_shape(parsed, promise.who, view, [bound.schema for bound in query.scope.bounds])
    return view


def _continued(select: exp.Select, names: Names) -> bool:
    """Whether the percentiles of a block are of numbers: only those are continued from what a group keeps."""
    if not percentiles(select):
        return True
    resolved = resolve_query(select.copy(), names)
    tables = {bound.alias: bound.schema for bound in resolved.scope.bounds}

    def type_of(column: exp.Column) -> pa.DataType | None:
        found = tables[column.table].column(column.name)
        return None if found is None else found.type

    return all(is_number(one.argument, type_of) for one in percentiles(resolved.select))


def _check_promise(
    parsed: ParsedView, promise: Promise, known: Names, views: Mapping[ViewName, ViewDefinition]
) -> None:
    """That it promises no more than what it reads."""
    parents = [views[name] for name in known.parents]
    for parent in parents:
        refused = refusal(promise, parents, parent)
        if refused:
            raise parsed.error(*refused, known.parents[parent.name])


def _tree(
    parsed: ParsedView, promise: Promise, known: Names, views: Mapping[ViewName, ViewDefinition]
) -> ViewDefinition:
    """A view whose query is more than joins and one grouping."""
    refuse_tree(parsed, promise.who)
    try:
        found = tree_view(parsed.select, known)
    except UnsupportedError as error:
        raise parsed.error(f"cannot be said in Spark SQL: {error}", "use another function of Spark SQL") from None
    _check_promise(parsed, promise, known, views)
    check_names(parsed, [o.name for o in (found.aggregation.outputs if found.aggregation else found.outputs)])
    return ViewDefinition(
        name=ViewName(parsed.name),
        level=promise.level,
        occurrences=found.occurrences,
        equalities=(),
        residual=(),
        outputs=found.outputs,
        aggregation=found.aggregation,
        recompute=found.recompute,
        text=parsed.text,
        file=parsed.file,
        line=parsed.line,
        every=promise.every,
        schedule=promise.schedule,
        tree=found.core,
        order=found.order,
        kept_for=_kept_for(parsed),
        relies=_relies(parsed),
    )


def _kept_for(parsed: ParsedView) -> ViewName | None:
    return ViewName(parsed.options[KEPT_FOR]) if KEPT_FOR in parsed.options else None


def _relies(parsed: ParsedView) -> tuple[Relied, ...]:
    said = parsed.options.get(RELIES)
    try:
        return tuple(Relied.read(part) for part in said.split(";")) if said else ()
    except ValueError:
        raise parsed.option_error(RELIES, f"option {RELIES} = '{said}' cannot be read", "remove it") from None


def _occurrence(bound: Bound, query: Query, pieces: Pieces, parsed: ParsedView) -> Occurrence:
    used = {c.name for c in query.select.find_all(exp.Column) if c.table == bound.alias}
    columns = [c.name for c in bound.schema.columns if c.name in used]
    if not columns:
        columns = [c.name for c in bound.schema.supported()[:1]]
    if not columns:
        raise parsed.error(
            f"table {bound.schema.name} has no column that Headwater can represent", "leave the table out"
        )
    spellings = {c.lower(): c for c in columns}
    twin = next((c for c in columns if spellings[c.lower()] != c), None)
    if twin:
        raise parsed.error(
            f"columns {twin!r} and {spellings[twin.lower()]!r} of {bound.alias} differ only in case",
            "use one of them: Spark ignores case",
        )
    return Occurrence(bound.alias, bound.schema.name, tuple(columns), tuple(pieces.conditions[bound.index]))
