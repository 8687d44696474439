"""Comparisons with the present: `WHERE ordered > now() - INTERVAL 1 HOUR`. A row comes and goes when time passes.

The present is a table: the source `clock` has one row, and replaces it with every tick. So such a condition is a join
with that row, and ticks are transactions like others (`sources.clock`):

    σ ordered > now() − 1 h (orders)    →    orders ⋈ (π at − 1 h AS bound (clock.now)) ON ordered > bound

A tick changes the truth of rows between the old bound and the new one, and the join's rule asks for those alone
(`operators.joins`). That needs a bound of the column's own type, so it is brought to it where that means the same: a
date is after a moment if it is after the day of it, and at or after it if it is at or after the next midnight.

Elsewhere than in a comparison with a column (in SELECT, under OR, NOT, CASE, in ON of an outer join) the present is
refused: the row would change without end, or its truth would be no interval of time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from headwater.algebra.functions import function_name
from headwater.algebra.relations import (
    Expression,
    Filter,
    Join,
    JoinKind,
    Name,
    Project,
    Relation,
    Table,
    children,
    with_children,
)
from headwater.algebra.select.correlation import conjuncts, filtered
from headwater.algebra.select.scope import column
from headwater.model.clock import COLUMN, NOW, TODAY
from headwater.model.names import TableName

_CALLED = {"now": NOW, "current_timestamp": NOW, "current_date": TODAY, "curdate": TODAY}
_COMPARISONS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ)
_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ,
}  # fmt: skip
_EXACT_UNITS = ("DAY", "DAYS", "HOUR", "HOURS", "MINUTE", "MINUTES", "SECOND", "SECONDS", "WEEK", "WEEKS")
"""Intervals that can be brought to the other side: months have no length of their own."""


def is_present(node: exp.Expr) -> bool:
    """Whether it is now(), current_timestamp or current_date."""
    return isinstance(node, exp.CurrentTimestamp | exp.CurrentDate) or function_name(node) in _CALLED


def says_present(node: exp.Expr) -> bool:
    return any(is_present(part) for part in node.walk())


def in_place(node: exp.Expr) -> bool:
    """Whether the present stands where it can be maintained."""
    side = node
    while side.parent is not None and not isinstance(side.parent, (*_COMPARISONS, exp.Between)):
        side = side.parent
        if isinstance(side, exp.Query | exp.Connector | exp.Not | exp.Case):
            return False
    compared = side.parent
    if compared is None or (isinstance(compared, exp.Between) and side is compared.this):
        return False
    others = [part for part in compared.iter_expressions() if part is not side]
    alone = side.find(exp.Column, exp.Query) is None
    if isinstance(compared, exp.Between):
        others = [compared.this]
    if not alone or any(says_present(o) or o.find(exp.Column) is None or o.find(exp.Query) for o in others):
        return False
    around = compared.parent
    while isinstance(around, exp.And | exp.Paren):
        around = around.parent
    return isinstance(around, exp.Where | exp.Having)


def timed(root: Relation, fresh: Callable[[], Name], types: Mapping[Name, pa.DataType]) -> Relation:
    """The same tree, with the clock's tables in place of the present."""
    below = with_children(root, tuple(timed(child, fresh, types) for child in children(root)))
    if isinstance(below, Join) and below.kind is JoinKind.INNER and below.on is not None:
        now = [part for part in conjuncts(below.on) if says_present(part)]
        if now:
            rest = [part for part in conjuncts(below.on) if not says_present(part)]
            return _timed(replace(below, on=exp.and_(*rest) if rest else None), now, fresh, types)
    if not isinstance(below, Filter) or not says_present(below.condition):
        return below
    parts = conjuncts(below.condition)
    rest = [part for part in parts if not says_present(part)]
    return _timed(filtered(below.child, rest), [p for p in parts if says_present(p)], fresh, types)


def _timed(
    child: Relation, parts: list[Expression], fresh: Callable[[], Name], types: Mapping[Name, pa.DataType]
) -> Relation:
    node = child
    for part in (one for whole in parts for one in _comparisons(whole)):
        if not says_present(part):
            node = filtered(node, [part])
            continue
        side, bound, kind = _sides(part)
        side, bound = _moved(side, bound)
        if not isinstance(side, exp.Column):
            name = fresh()
            node, side = Project(node, (*((c, column(c)) for c in node.columns), (name, side))), column(name)
        clock = TODAY if _table(bound) == TODAY else NOW
        at = fresh()
        said = (
            _alike(bound, kind, types.get(side.name))
            .copy()
            .transform(lambda n, at=at: column(at) if is_present(n) else n)
        )
        name = fresh()
        moments = Project(Table(clock, (COLUMN[clock],), (at,)), ((name, said),))
        node = Join(JoinKind.INNER, node, moments, on=kind(this=side.copy(), expression=column(name)))
    return Project(node, tuple((c, column(c)) for c in child.columns))


def _comparisons(part: Expression) -> list[Expression]:
    part = part.unnest()
    if isinstance(part, exp.Between):
        low, high = part.args["low"], part.args["high"]
        return [
            exp.GTE(this=part.this.copy(), expression=low.copy()),
            exp.LTE(this=part.this.copy(), expression=high.copy()),
        ]
    return [part]


def _sides(part: Expression) -> tuple[Expression, Expression, type[exp.Expr]]:
    """The row's side, the present's side, and how the first is compared with the second."""
    left, right = part.this.unnest(), part.expression.unnest()
    if says_present(right) or not says_present(left):
        return left, right, type(part)
    return right, left, _TURNED[type(part)]


def _table(bound: Expression) -> TableName:
    found = [n for n in bound.walk() if is_present(n)]
    named = {TODAY if isinstance(n, exp.CurrentDate) or _CALLED.get(function_name(n)) == TODAY else NOW for n in found}
    return TODAY if named == {TODAY} else NOW


def _moved(side: Expression, bound: Expression) -> tuple[Expression, Expression]:
    """`x + 1 hour > now()` is `x > now() - 1 hour`."""
    other: dict[type[exp.Expr], type[exp.Expr]] = {exp.Add: exp.Sub, exp.Sub: exp.Add}
    if type(side) in other and isinstance(side.this.unnest(), exp.Column):
        interval = side.expression.unnest()
        if isinstance(interval, exp.Interval) and interval.text("unit").upper() in _EXACT_UNITS:
            return side.this.unnest(), other[type(side)](this=exp.paren(bound.copy()), expression=interval.copy())
    return side, bound


def _alike(bound: Expression, kind: type[exp.Expr], wanted: pa.DataType | None) -> Expression:
    """The bound, of the type of what it is compared with, where the comparison then means the same."""
    if wanted is None or not (pa.types.is_timestamp(wanted) or pa.types.is_date(wanted)):
        return bound
    if pa.types.is_timestamp(wanted):
        return exp.cast(bound.copy(), "timestamp" if wanted.tz is not None else "timestamp_ntz", dialect="spark")
    if kind is exp.EQ:
        return bound
    if kind in (exp.GTE, exp.LT) and _table(bound) == NOW:
        last = exp.Interval(this=exp.Literal.string("86399.999999"), unit=exp.var("SECOND"))
        bound = exp.Add(this=exp.paren(bound.copy()), expression=last)
    return exp.cast(bound.copy(), "date", dialect="spark")


__all__ = ["in_place", "is_present", "says_present", "timed"]
