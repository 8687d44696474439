"""Sums of floating numbers that do not depend on the order of rows.

A change of a group is its old row taken away and its new one added, and the old one is computed again, from rows in
another order. If its sum differed in the last digit, the two would not cancel. So inside a tree SUM and AVG of
floating numbers add up the values in their own order:

    SUM(x)   →   aggregate(sort_array(collect_list(x)), NULL, (a, v) -> COALESCE(a, 0) + v)

A grouping at the root of a view needs none of this: its sums are exact (decision 4). Types are known when this is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from headwater.algebra.dialect import each
from headwater.algebra.functions import function_name
from headwater.algebra.relations import (
    Aggregate,
    Expression,
    Name,
    Relation,
    Window,
    WindowCall,
    children,
    with_children,
)
from headwater.algebra.select.aggregates import folded
from headwater.model.errors import ViewSqlError

TypeOf = Callable[[Expression, tuple[Name, ...]], pa.DataType]
"""The type of an expression over these columns."""

_WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def stable(root: Relation, type_of: TypeOf) -> Relation:
    """The same tree, with sums that are the same whenever they are computed."""
    done: dict[int, Relation] = {}

    def visit(node: Relation) -> Relation:
        if id(node) not in done:
            new = with_children(node, tuple(visit(child) for child in children(node)))
            if isinstance(new, Aggregate):
                new = replace(new, calls=tuple((n, _call(e, new.child.columns, type_of)) for n, e in new.calls))
            elif isinstance(new, Window):
                new = replace(new, calls=tuple(_window(c, new.child.columns, type_of) for c in new.calls))
            done[id(node)] = new
        return done[id(node)]

    return visit(root)


def _call(expression: Expression, columns: tuple[Name, ...], type_of: TypeOf) -> Expression:
    def change(node: exp.Expr) -> exp.Expr:
        only = node.expression.this if isinstance(node, exp.Filter) else None
        bare = node.this if isinstance(node, exp.Filter) else node
        if not isinstance(bare, exp.Sum | exp.Avg):
            return each(node, change)
        distinct = isinstance(bare.this, exp.Distinct)
        argument = bare.this.expressions[0] if distinct else bare.this
        if not pa.types.is_floating(type_of(argument, columns)):
            return node
        return folded("sum" if isinstance(bare, exp.Sum) else "avg", argument, only, distinct)

    return change(expression.copy())


def _window(call: WindowCall, columns: tuple[Name, ...], type_of: TypeOf) -> WindowCall:
    bare = call.function.this if isinstance(call.function, exp.Filter) else call.function
    if not isinstance(bare, exp.Sum | exp.Avg) or call.ties:
        return call
    if not pa.types.is_floating(type_of(bare.this, columns)):
        return call
    if call.order:
        raise ViewSqlError(
            f"{function_name(bare).upper()} of floating numbers over a RANGE frame depends on the order of peers",
            "write ROWS BETWEEN …, or cast the argument to DECIMAL",
        )
    return replace(call, frame=_WHOLE, ties=True)
