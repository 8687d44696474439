"""A view, recomputed naively: what every maintenance algorithm must agree with.

V = γ π σ (T1 ⋈ … ⋈ Tn), one operator after the other, on bags in plain Python. A view that reads views is given theirs
as tables.
"""

from __future__ import annotations

import decimal
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headwater.algebra.bag import Bag, Relation, Row
from headwater.algebra.expressions import compiled
from headwater.algebra.view import AggregateCall, Aggregation, Occurrence, Output, ViewDefinition
from headwater.model.conditions import Condition
from headwater.model.errors import ViewSqlError
from headwater.model.names import TableName, ViewName, view_table

Value = Any

DIGITS = 76
"""Decimals are calculated exactly: as many digits as the largest ones have."""


def evaluate(view: ViewDefinition, tables: Mapping[TableName, Relation | Iterable[Mapping[str, Value]]]) -> Bag:
    """The view's rows (in the order of `view.columns`) over these tables; a table is a relation or rows as mappings."""
    if view.tree is not None:
        raise ViewSqlError(
            f"view {view.name} is more than joins and one grouping, which is all that is evaluated here",
            "name views that join and group",
        )
    with decimal.localcontext(prec=DIGITS):
        columns, core = _core(view, tables)
        for text in view.residual:
            holds = compiled(text, columns)
            core = core.select(lambda row, holds=holds: holds(row) is True)  # type: ignore[misc]  # mypy and defaults
        if view.aggregation is None:
            return core.project(_tuple_of(view.outputs, columns))
        return aggregator(view.aggregation, columns)(core)


def evaluate_all(
    views: Iterable[ViewDefinition], tables: Mapping[TableName, Relation | Iterable[Mapping[str, Value]]]
) -> dict[ViewName, Bag]:
    """Every view's rows over these tables; each view stands after those it reads."""
    known = dict(tables)
    found: dict[ViewName, Bag] = {}
    for view in views:
        found[view.name] = evaluate(view, known)
        known[view_table(view.name)] = Relation(view.columns, found[view.name])
    return found


def _core(
    view: ViewDefinition, tables: Mapping[TableName, Relation | Iterable[Mapping[str, Value]]]
) -> tuple[list[str], Bag]:
    """T1 ⋈ … ⋈ Tn from left to right, each table reduced by its own conditions first."""
    columns: list[str] = []
    core = Bag({(): 1})
    for index, occurrence in enumerate(view.occurrences):
        left, right = [], []
        for equality in view.equalities:
            ends = {equality.left[0]: equality.left[1], equality.right[0]: equality.right[1]}
            other = min(ends)
            if max(ends) == index:
                left.append(columns.index(view.occurrences[other].core(ends[other])))
                right.append(occurrence.columns.index(ends[index]))
        core = core.join(_reduced(occurrence, tables[occurrence.table]), left, right)
        columns += [occurrence.core(c) for c in occurrence.columns]
    return columns, core


def _reduced(occurrence: Occurrence, table: Relation | Iterable[Mapping[str, Value]]) -> Bag:
    if isinstance(table, Relation):
        bag = table.over(occurrence.columns)
    else:
        bag = Bag.of(tuple(row[c] for c in occurrence.columns) for row in table)
    for condition in occurrence.conditions:
        position = occurrence.columns.index(condition.column)
        bag = bag.select(lambda row, c=condition, i=position: meets(row[i], c))  # type: ignore[misc]  # as above
    return bag


_COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, values: value in values,
}


def meets(value: Value, condition: Condition) -> bool:
    if condition.operator == "is null":
        return value is None
    if condition.operator == "is not null":
        return value is not None
    return value is not None and _COMPARE[condition.operator](value, condition.value)


def _tuple_of(outputs: Iterable[Output], columns: Iterable[str]) -> Callable[[Row], Row]:
    functions = [compiled(o.expression, list(columns)) for o in outputs]
    return lambda row: tuple(function(row) for function in functions)


def aggregator(aggregation: Aggregation, columns: Iterable[str]) -> Callable[[Bag], Bag]:
    """γ, as a function of the core. Without keys there is one group, even of nothing; DISTINCT has keys, no calls."""
    columns = list(columns)
    key, arguments = _tuple_of(aggregation.keys, columns), _tuple_of(aggregation.arguments, columns)
    names = [k.name for k in aggregation.keys] + [c.name for c in aggregation.calls]
    positions = {a.name: i for i, a in enumerate(aggregation.arguments)}
    holds = compiled(aggregation.having, names) if aggregation.having else None
    output = _tuple_of(aggregation.outputs, names)

    def aggregated(core: Bag) -> Bag:
        groups = core.group(key) if aggregation.keys else {(): core}
        rows = []
        for group, members in groups.items():
            values = members.project(arguments)
            rows.append(group + tuple(_called(call, values, positions) for call in aggregation.calls))
        grouped = Bag.of(rows)
        if holds:
            grouped = grouped.select(lambda row: holds(row) is True)
        return grouped.project(output)

    return aggregated


def _called(call: AggregateCall, arguments: Bag, positions: Mapping[str, int]) -> Value:
    """An aggregate of a group: NULLs are left out; of nothing, COUNT is 0 and the others are NULL."""
    if call.argument is None:
        return arguments.total()
    position = positions[call.argument]
    values = arguments.project(lambda row: (row[position],)).select(lambda row: row[0] is not None)
    if call.distinct:
        values = values.distinct()
    return call.aggregate.reference(values)
