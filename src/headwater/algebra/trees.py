"""A view whose query is more than joins and one grouping: a tree of relations, and at its root what is kept.

    V = γ π σ (tree)      γ: the grouping at the root, if its aggregates are those whose groups can be continued
                          tree: everything below, or everything

The tree's tables are the view's occurrences, so whatever asks which columns and conditions a view has of a table finds
them there. The tree takes the place of the join: its columns are the view's core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from headwater.algebra.conditions import pushed_conditions
from headwater.algebra.dialect import said, spark_sql
from headwater.algebra.functions import MAINTAINED
from headwater.algebra.names import Names
from headwater.algebra.percentiles import is_number, percentile_call
from headwater.algebra.relations import (
    Aggregate,
    Expression,
    Filter,
    Name,
    Project,
    Relation,
    Table,
    children,
    substituted,
    tables,
    with_children,
)
from headwater.algebra.render import rendered
from headwater.algebra.rules import optimized
from headwater.algebra.select.context import Built, Context
from headwater.algebra.select.correlation import conjuncts
from headwater.algebra.select.query import build_query
from headwater.algebra.select.scope import column
from headwater.algebra.temporal import says_present, timed
from headwater.algebra.view import AggregateCall, Aggregation, Occurrence, Output, quoted
from headwater.model.schema import Column


@dataclass(frozen=True)
class TreeView:
    """What `define` makes of a query that is no plain block of joins."""

    core: Relation
    occurrences: tuple[Occurrence, ...]
    outputs: tuple[Output, ...]
    aggregation: Aggregation | None
    recompute: str
    order: tuple[tuple[str, bool, bool], ...]


def tree_view(query: exp.Expr, names: Names) -> TreeView:
    """The tree of a query; raises ViewSqlError or UnknownName."""
    context = Context(names)
    built = build_query(context, query, None, {}, root=True)
    root = timed(optimized(built.relation, context.fresh), context.fresh, context.types)
    root = with_conditions(root, context.types)
    called = [name for name, _ in built.outputs]
    # Spark SQL has no ANY and ALL of queries, and the present is the clock's row
    as_written = context.exact and query.find(exp.Any, exp.All) is None and not says_present(query)
    grouped = _grouping(root, built, context.types)
    core = root if grouped is None else grouped[0]
    if grouped is None:
        core, outputs = _without_outputs(root, built)
        aggregation = None
    else:
        outputs, aggregation = (), grouped[1]
    return TreeView(
        core=core,
        occurrences=tuple(_occurrences(core)),
        outputs=outputs,
        aggregation=aggregation,
        recompute=_as_written(query, names) if as_written else _from_tree(root, called, built),
        order=built.order,
    )


def with_conditions(node: Relation, types: Mapping[Name, pa.DataType]) -> Relation:
    """The tree, with every condition that a source can decide alone told to its table as well."""
    if isinstance(node, Filter) and isinstance(node.child, Table):
        table = node.child
        columns = tuple(Column(c, types.get(c), "") for c in table.columns)
        found = pushed_conditions(conjuncts(node.condition), table.table, columns)
        named = dict(zip(table.columns, table.names, strict=True))
        conditions = tuple(replace(c, column=named[c.column]) for c in found)
        return replace(node, child=replace(table, conditions=conditions))
    return with_children(node, tuple(with_conditions(child, types) for child in children(node)))


def _occurrences(core: Relation) -> list[Occurrence]:
    return [Occurrence(f"t{i + 1}", t.table, t.names, t.conditions) for i, t in enumerate(tables(core))]


def _without_outputs(root: Relation, built: Built) -> tuple[Relation, tuple[Output, ...]]:
    """A projection at the root is the view's select list; Spark evaluates it in any case."""
    names = [(called, n) for called, n in built.outputs]
    if isinstance(root, Project):
        made = dict(root.outputs)
        return root.child, tuple(Output(called, spark_sql(_quoted(made[n]))) for called, n in names)
    return root, tuple(Output(called, quoted(n)) for called, n in names)


def _quoted(expression: Expression) -> Expression:
    def quote(part: exp.Expr) -> exp.Expr:
        return exp.Column(this=exp.to_identifier(part.name, quoted=True)) if isinstance(part, exp.Column) else part

    return expression.copy().transform(quote)


def _grouping(root: Relation, built: Built, types: Mapping[Name, pa.DataType]) -> tuple[Relation, Aggregation] | None:
    """γ at the root: what is grouped, and the aggregation, if every call can be continued from what a group keeps."""
    values: dict[Name, Expression] = {n: column(n) for _, n in built.outputs}
    having: list[Expression] = []
    node = root
    while not isinstance(node, Aggregate):
        if isinstance(node, Project):
            made = dict(node.outputs)
            values = {n: substituted(e, made) for n, e in values.items()}
            having = [substituted(e, made) for e in having]
            node = node.child
        elif isinstance(node, Filter):
            having += conjuncts(node.condition)
            node = node.child
        else:
            return None
    arguments: list[str] = []
    calls: dict[Name, AggregateCall] = {}
    for name, expression in node.calls:
        call = _call(expression, arguments, f"agg{len(calls)}", types)
        if call is None:
            return None
        calls[name] = call
    renamed: dict[Name, Expression] = {k: _column(f"key{i}") for i, k in enumerate(node.keys)}
    renamed |= {name: _column(call.name) for name, call in calls.items()}
    outputs = tuple(Output(called, spark_sql(substituted(values[n], renamed))) for called, n in built.outputs)
    condition = " AND ".join(f"({spark_sql(substituted(e, renamed))})" for e in having)
    return node.child, Aggregation(
        tuple(Output(f"key{i}", quoted(k)) for i, k in enumerate(node.keys)),
        tuple(Output(f"arg{i}", text) for i, text in enumerate(arguments)),
        tuple(calls.values()),
        outputs,
        condition,
    )


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def _call(node: Expression, arguments: list[str], name: str, types: Mapping[Name, pa.DataType]) -> AggregateCall | None:
    only = node.expression.this if isinstance(node, exp.Filter) else None
    bare = node.this if isinstance(node, exp.Filter) else node
    percentile = percentile_call(bare)
    if percentile is not None:
        if not is_number(percentile.argument, lambda one: types.get(one.name)):
            return None
        argument = _named(percentile.argument, only, arguments)
        return AggregateCall(name, percentile.function, argument, quantile=percentile.quantile)
    function = MAINTAINED.get(type(bare))
    if function is None or bare.expressions:
        return None
    argument, distinct = bare.this, isinstance(bare.this, exp.Distinct)
    if distinct:
        if len(argument.expressions) != 1:
            return None
        argument = argument.expressions[0]
    counts_rows = function == "count" and not distinct and isinstance(argument, exp.Star | exp.Literal)
    if counts_rows and only is None:
        return AggregateCall(name, function)
    found = _named(exp.Literal.number(1) if counts_rows else argument, only, arguments)
    return AggregateCall(name, function, found, distinct and function not in ("min", "max"))


def _named(argument: Expression, only: Expression | None, arguments: list[str]) -> str:
    """The name of an argument, NULL where FILTER leaves a row out."""
    if only is not None:
        argument = exp.Case().when(only.copy(), argument.copy())
    text = spark_sql(_quoted(argument))
    if text not in arguments:
        arguments.append(text)
    return f"arg{arguments.index(text)}"


def _as_written(query: exp.Expr, names: Names) -> str:
    """The query, with every table under its full name: Spark itself finds out what its columns mean."""
    query = query.copy()
    whole: list[tuple[tuple[str, ...], str]] = []
    for table in table_mentions(query):
        schema = names.table(table)
        parts = tuple(part.name for part in table.parts)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
            if len(parts) > 1:
                whole.append((tuple(p.lower() for p in parts), parts[-1]))
        table.set("this", exp.to_identifier(str(schema.name), quoted=True))
        table.set("db", None)
        table.set("catalog", None)
    for one in list(query.find_all(exp.Column)):
        said_parts = tuple(part.name.lower() for part in one.parts[:-1])
        alias = next((a for parts, a in whole if parts == said_parts), None)
        if alias is not None:
            one.set("table", exp.to_identifier(alias, quoted=True))
            one.set("db", None)
            one.set("catalog", None)
    return spark_sql(query)


def table_mentions(query: exp.Expr) -> list[exp.Table]:
    """The names in a query that are tables or views: no functions, and no queries of WITH."""
    found = [t for t in query.find_all(exp.Table) if not isinstance(t.this, exp.Func)]
    return [t for t in found if with_of(t) is None]


def with_of(table: exp.Table) -> exp.Expr | None:
    """The WITH, of this query or one around it, that has a query of this name; None if the name means another thing."""
    around: exp.Expr | None = table if len(table.parts) == 1 else None
    while around is not None:
        clause: exp.Expr | None = around.args.get("with_")
        if clause is not None and any(c.alias.lower() == table.name.lower() for c in clause.expressions):
            return clause
        around = around.parent
    return None


def view_mentions(query: exp.Expr) -> list[exp.Table]:
    """The names of one part in a query that are no queries of WITH: views."""
    return [t for t in table_mentions(query) if len(t.parts) == 1]


def _from_tree(root: Relation, called: list[str], built: Built) -> str:
    chosen = (f"{n} AS {quoted(name)}" for name, (_, n) in zip(called, built.outputs, strict=True))
    return f"SELECT {', '.join(chosen)} FROM ({rendered(root)}) AS v_"


__all__ = ["TreeView", "said", "table_mentions", "tree_view", "view_mentions", "with_conditions", "with_of"]
