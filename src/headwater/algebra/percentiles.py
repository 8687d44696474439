"""Percentiles whose groups can be continued from what they keep: which of the ordered numbers a call asks for.

    MEDIAN(x)                                            PERCENTILE(x, 0.5)
    PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x [DESC])  PERCENTILE(x, p), from the other end
    PERCENTILE_DISC(p) WITHIN GROUP (ORDER BY x [DESC])  one of the numbers, never one between two

`p` is written as a number, and `x` is one. Other calls (an array of percentages, a frequency, DISTINCT, intervals) are
evaluated over their group, as any aggregate can be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from headwater.algebra.aggregates import AggregateFunction, Quantile
from headwater.algebra.functions import function_name, is_aggregate

TypeOf = Callable[[exp.Column], pa.DataType | None]
"""The type of a column; None or null where only Spark knows it."""


@dataclass(frozen=True)
class Percentile:
    argument: exp.Expr
    quantile: Quantile

    @property
    def function(self) -> AggregateFunction:
        return "percentile_disc" if self.quantile.discrete else "percentile"


def percentile_call(node: exp.Expr) -> Percentile | None:
    """What a call asks for; None for any other call. FILTER is taken off before."""
    if not isinstance(node, exp.WithinGroup):
        return _plain(node)
    word, order = function_name(node.this), node.expression.expressions
    if word not in ("percentile_cont", "percentile_disc") or len(order) != 1 or len(node.this.expressions) != 1:
        return None
    at = _number(node.this.expressions[0])
    down = bool(order[0].args.get("desc"))
    return None if at is None else Percentile(order[0].this, Quantile(at, down, word == "percentile_disc"))


def _plain(node: exp.Expr) -> Percentile | None:
    word, given = function_name(node), node.expressions
    if word == "median" and len(given) == 1:
        at: float | None = 0.5
    elif word == "percentile" and len(given) == 2:
        at = _number(given[1])
    else:
        return None
    distinct = any(isinstance(one, exp.Distinct | exp.Order) for one in given)
    return None if at is None or distinct else Percentile(given[0], Quantile(at))


def _number(node: exp.Expr) -> float | None:
    while isinstance(node, exp.Paren | exp.Cast) and (isinstance(node, exp.Paren) or node.to.this in _DOUBLE):
        node = node.this
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    found = float(node.name)
    return found if 0 <= found <= 1 else None  # Spark refuses it, in its own words


_DOUBLE = (exp.DataType.Type.DOUBLE,)


def percentiles(node: exp.Expr) -> list[Percentile]:
    """All that are called inside an expression."""
    found: list[Percentile] = []
    for part in node.walk():
        if isinstance(part, exp.WithinGroup) or (is_aggregate(part) and not isinstance(part.parent, exp.WithinGroup)):
            call = percentile_call(part)
            found += [] if call is None else [call]
    return found


_KEEP: tuple[type[exp.Expr], ...] = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Paren)


def is_number(node: exp.Expr, type_of: TypeOf) -> bool:
    """Whether an expression is certainly a number. A view's column is one, where a percentile of it is allowed: what
    else there is, intervals and times, a view cannot hold, and text is refused when types are known."""
    if isinstance(node, exp.Column):
        kind = type_of(node)
        if kind is None or pa.types.is_null(kind):
            return kind is not None
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
    if isinstance(node, exp.Literal):
        return not node.is_string
    if isinstance(node, exp.Cast):
        return bool(node.to.this in exp.DataType.NUMERIC_TYPES)
    if isinstance(node, _KEEP):
        return all(is_number(part, type_of) for part in node.iter_expressions())
    return False
