"""Arithmetic of literals in conditions, done once: a condition on a column and a literal can be a source's to decide.

d < DATE '1994-01-31' + INTERVAL '1' MONTH   →   d < DATE '1994-02-28'
x BETWEEN 0.06 - 0.01 AND 0.06 + 0.01        →   x BETWEEN 0.05 AND 0.07
"""

from __future__ import annotations

import datetime as dt
from calendar import monthrange
from dataclasses import replace
from decimal import Decimal

from sqlglot import exp

from headwater.algebra.relations import Expression, Filter, Join, Relation, children, with_children
from headwater.algebra.select.scope import Fresh

_MOST = 10**9
"""Beyond it a sum might not be what Spark's types hold."""


def fold_constants(root: Relation, fresh: Fresh) -> Relation:
    node = with_children(root, tuple(fold_constants(child, fresh) for child in children(root)))
    if isinstance(node, Filter):
        return replace(node, condition=folded(node.condition))
    if isinstance(node, Join) and node.on is not None:
        return replace(node, on=folded(node.on))
    return node


def folded(condition: Expression) -> Expression:
    return condition.copy().transform(_fold) if condition.find(exp.Add, exp.Sub, exp.EQ, exp.NEQ) else condition


def _fold(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.EQ | exp.NEQ):
        equal = _equal(node.this.unnest(), node.expression.unnest())
        return node if equal is None else exp.Boolean(this=equal is isinstance(node, exp.EQ))
    if not isinstance(node, exp.Add | exp.Sub):
        return node
    a, b = (_fold(side.unnest()) for side in (node.this, node.expression))
    sign = 1 if isinstance(node, exp.Add) else -1
    day = date_of(a)
    if day is not None and isinstance(b, exp.Interval):
        moved = _moved(day, b, sign)
        return node if moved is None else exp.cast(exp.Literal.string(moved.isoformat()), "date")
    x, y = _number(a), _number(b)
    if x is None or y is None or not 0 <= x + sign * y < _MOST:
        return node
    return exp.Literal.number(format(x + sign * y, "f"))


def _equal(a: Expression, b: Expression) -> bool | None:
    if isinstance(a, exp.Literal) and isinstance(b, exp.Literal) and a.is_string and b.is_string:
        return bool(a.name == b.name)
    x, y = _number(a), _number(b)
    return None if x is None or y is None else x == y


def date_of(node: Expression) -> dt.date | None:
    """The day that DATE '…' means."""
    if not (isinstance(node, exp.Cast) and node.to.is_type(exp.DType.DATE) and isinstance(node.this, exp.Literal)):
        return None
    try:
        day = dt.date.fromisoformat(node.this.name) if node.this.is_string else None
    except ValueError:
        return None
    return day if day is not None and day.isoformat() == node.this.name else None


def _moved(day: dt.date, interval: exp.Interval, sign: int) -> dt.date | None:
    text, unit = interval.this.name if interval.this is not None else "", interval.text("unit").upper().rstrip("S")
    if not text.isdigit() or len(text) > 4:
        return None
    count = sign * int(text)
    try:
        if unit == "DAY":
            return day + dt.timedelta(days=count)
        if unit in ("MONTH", "YEAR"):
            months = day.year * 12 + day.month - 1 + count * (12 if unit == "YEAR" else 1)
            year, month = months // 12, months % 12 + 1
            return day.replace(year, month, min(day.day, monthrange(year, month)[1]))
    except (ValueError, OverflowError):
        return None
    return None


def _number(node: Expression) -> Decimal | None:
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.replace(".", "", 1).isdigit():
        return None
    return Decimal(node.name) if len(node.name) <= 18 else None
