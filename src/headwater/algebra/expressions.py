"""A small interpreter of Spark SQL expressions, for the reference evaluator.

It knows the subset that tests are written in, with SQL's three-valued logic (NULL is None), and raises
NotImplementedError for anything else rather than guess. `/` of integers is a double, as in Spark; integers are
exact; decimals are `decimal.Decimal`; a division by zero is an error, as in Spark's ANSI mode.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache, reduce
from typing import Any

import sqlglot
from sqlglot import exp

from headwater.algebra.bag import Row

Value = Any
Evaluator = Callable[[Row], Value]


def compiled(text: str, columns: Sequence[str]) -> Evaluator:
    """A function from rows over `columns` to the value of a Spark SQL expression."""
    return _compiled(text, tuple(columns))


@lru_cache(maxsize=4096)
def _compiled(text: str, columns: tuple[str, ...]) -> Evaluator:
    return _compile(sqlglot.parse_one(text, read="spark"), list(columns))


def _compile(node: exp.Expr, columns: list[str]) -> Evaluator:
    if isinstance(node, exp.Column):
        if node.table:
            raise NotImplementedError(f"a qualified column: {node.sql('spark')}")
        position = columns.index(node.name)
        return lambda row: row[position]
    if isinstance(node, exp.Case):
        return _case(node, columns)
    if isinstance(node, exp.Cast):
        return _cast(node, columns)
    constant = _constant(node)
    if constant is not None:
        value = constant[0]
        return lambda row: value
    function, operands = _operation(node)
    if node.args.get("negate"):
        return _compile(exp.Not(this=_positive(node)), columns)
    arguments = [_compile(o, columns) for o in operands]
    return lambda row: function(*(a(row) for a in arguments))


def _positive(node: exp.Expr) -> exp.Expr:
    """`a NOT LIKE b` without its NOT."""
    positive = node.copy()
    positive.set("negate", None)
    return positive


def _constant(node: exp.Expr) -> tuple[Value] | None:
    if isinstance(node, exp.Null):
        return (None,)
    if isinstance(node, exp.Boolean):
        return (bool(node.this),)
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return (str(node.this),)
    text = node.name
    if text.isdigit():
        return (int(text),)
    return (float(text),) if "e" in text.lower() else (Decimal(text),)


def _operation(node: exp.Expr) -> tuple[Callable[..., Value], list[exp.Expr]]:
    """What a node does to the values of which operands."""
    for kinds, function in _UNARY.items():
        if isinstance(node, kinds):
            return function, [node.this]
    for kinds, function in _BINARY.items():
        if isinstance(node, kinds):
            return function, [node.this, node.expression]
    if isinstance(node, exp.In) and node.expressions:
        return _member, [node.this, *node.expressions]
    if isinstance(node, exp.Between):
        return (lambda x, low, high: _and(_ge(x, low), _le(x, high))), [node.this, node.args["low"], node.args["high"]]
    if isinstance(node, exp.Coalesce):
        return (lambda *values: next((v for v in values if v is not None), None)), [node.this, *node.expressions]
    if isinstance(node, exp.Concat):
        return (lambda *values: reduce(_concat, values)), node.expressions
    if isinstance(node, exp.Round):
        return _round, [node.this, node.args.get("decimals") or exp.Literal.number(0)]
    raise NotImplementedError(f"{type(node).__name__}: {node.sql('spark')}")


def _strict(function: Callable[..., Value]) -> Callable[..., Value]:
    """NULL in, NULL out."""
    return lambda *values: None if any(v is None for v in values) else function(*values)


def _alike(a: Value, b: Value) -> tuple[Value, Value]:
    """Both values in the type Spark would compare or calculate them in."""
    if isinstance(a, Decimal) and isinstance(b, float):
        return float(a), b
    if isinstance(a, float) and isinstance(b, Decimal):
        return a, float(b)
    if isinstance(a, dt.date) and isinstance(b, str):
        return a, dt.date.fromisoformat(b)
    if isinstance(a, str) and isinstance(b, dt.date):
        return dt.date.fromisoformat(a), b
    numbers = (int, float, Decimal)
    if type(a) is type(b) or (isinstance(a, numbers) and isinstance(b, numbers) and bool not in (type(a), type(b))):
        return a, b
    raise NotImplementedError(f"{a!r} with {b!r}")


def _on_alike(function: Callable[[Value, Value], Value]) -> Callable[..., Value]:
    return _strict(lambda a, b: function(*_alike(a, b)))


_eq, _lt, _le = _on_alike(operator.eq), _on_alike(operator.lt), _on_alike(operator.le)
_gt, _ge, _ne = _on_alike(operator.gt), _on_alike(operator.ge), _on_alike(operator.ne)


def _and(a: Value, b: Value) -> Value:
    return False if a is False or b is False else None if a is None or b is None else True


def _or(a: Value, b: Value) -> Value:
    return True if a is True or b is True else None if a is None or b is None else False


def _member(value: Value, *options: Value) -> Value:
    return reduce(_or, (_eq(value, option) for option in options))


def _divide(a: Value, b: Value) -> Value:
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        raise NotImplementedError("the scale of a quotient of decimals depends on their declared types")
    return a / b


def _remainder(a: Value, b: Value) -> Value:
    """The sign is the dividend's, as `decimal` does it already."""
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        return a % b
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b)
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def _round(value: Value, digits: Value) -> Value:
    if value is None or digits is None:
        return None
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    rounded = exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return rounded if isinstance(value, Decimal) else type(value)(rounded)


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not (1e-3 <= abs(value) < 1e7 or value == 0):
        raise NotImplementedError(f"how Spark writes {value!r}")
    return str(value)


_concat = _strict(lambda a, b: _text(a) + _text(b))


@_strict
def _like(text: str, pattern: str) -> bool:
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    signs = {"%": ".*", "_": "."}
    return re.fullmatch("".join(signs.get(p) or re.escape(p[-1]) for p in parts), text, re.DOTALL) is not None


def _is(value: Value, wanted: Value) -> bool:
    """IS NULL, IS TRUE, IS FALSE: never NULL."""
    return value is wanted


_UNARY: dict[type[exp.Expr] | tuple[type[exp.Expr], ...], Callable[..., Value]] = {
    exp.Paren: lambda v: v,
    exp.Not: _strict(operator.not_),
    exp.Neg: _strict(operator.neg),
    exp.Abs: _strict(abs),
    exp.Upper: _strict(str.upper),
    exp.Lower: _strict(str.lower),
    exp.Length: _strict(len),
}
_BINARY: dict[type[exp.Expr] | tuple[type[exp.Expr], ...], Callable[..., Value]] = {
    exp.And: _and,
    exp.Or: _or,
    exp.Is: _is,
    exp.EQ: _eq,
    exp.NEQ: _ne,
    exp.LT: _lt,
    exp.LTE: _le,
    exp.GT: _gt,
    exp.GTE: _ge,
    exp.Add: _on_alike(operator.add),
    exp.Sub: _on_alike(operator.sub),
    exp.Mul: _on_alike(operator.mul),
    exp.Div: _on_alike(_divide),
    exp.Mod: _on_alike(_remainder),
    exp.DPipe: _concat,
    exp.Like: _like,
}


def _case(node: exp.Case, columns: list[str]) -> Evaluator:
    branches = []
    for branch in node.args["ifs"]:
        condition = exp.EQ(this=node.this.copy(), expression=branch.this.copy()) if node.this else branch.this
        branches.append((_compile(condition, columns), _compile(branch.args["true"], columns)))
    default = _compile(node.args.get("default") or exp.Null(), columns)
    return lambda row: _first(branches, default, row)


def _first(branches: list[tuple[Evaluator, Evaluator]], default: Evaluator, row: Row) -> Value:
    for when, then in branches:
        if when(row) is True:
            return then(row)
    return default(row)


def _cast(node: exp.Cast, columns: list[str]) -> Evaluator:
    value = _compile(node.this, columns)
    target = node.to.sql("spark").upper()
    if target not in _CASTS:
        raise NotImplementedError(node.sql("spark"))
    function = _strict(_CASTS[target])
    return lambda row: function(value(row))


_CASTS: dict[str, Callable[[Value], Value]] = {
    "INT": int,
    "BIGINT": int,
    "DOUBLE": float,
    "STRING": _text,
    "DATE": lambda v: dt.date.fromisoformat(v) if isinstance(v, str) else v,
}
