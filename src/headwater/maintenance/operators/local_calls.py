"""Aggregates that the embedded engine may compute in Spark's place, over rows with counts: COUNT, MIN, MAX, and SUM of
whole numbers. Comparisons of a COUNT with a number too, as EXISTS makes them."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from headwater.algebra.conditions import kind_of
from headwater.algebra.relations import Expression
from headwater.maintenance.operators.local_sql import Types, local_sql
from headwater.maintenance.operators.local_types import duck_type
from headwater.maintenance.operators.program import COUNT

_PLAIN = ("integer", "decimal", "text", "date", "timestamp", "bool", "binary")


def local_call(call: Expression, types: Types, made: pa.DataType) -> str | None:
    """The call over rows that count COUNT times; None where it is Spark's to compute."""
    call = call.unnest()
    if isinstance(call, exp.GT) and isinstance(call.expression, exp.Literal) and not call.expression.is_string:
        counted = local_call(call.this, types, pa.int64()) if isinstance(call.this, exp.Count) else None
        return None if counted is None else f"({counted} > {call.expression.name})"
    if isinstance(call, exp.Count):
        return _count(call, types)
    if isinstance(call, exp.Min | exp.Max | exp.Sum) and not call.expressions:
        argument = call.this
        if not isinstance(argument, exp.Column) or argument.name not in types:
            return None
        kind = types[argument.name]
        if isinstance(call, exp.Sum):
            if not pa.types.is_integer(kind):
                return None
            return f"CAST(SUM(CAST({argument.name} AS HUGEINT) * {COUNT}) AS {duck_type(made)})"
        word = "MIN" if isinstance(call, exp.Min) else "MAX"
        return f"{word}({argument.name}) FILTER (WHERE {COUNT} > 0)" if kind_of(kind) in _PLAIN else None
    return None


def _count(call: exp.Count, types: Types) -> str | None:
    argument = call.this
    if call.expressions or isinstance(argument, exp.Distinct):
        return None
    if isinstance(argument, exp.Star | exp.Literal):
        return f"CAST(COALESCE(SUM({COUNT}), 0) AS BIGINT)"
    text = local_sql(argument, types)
    if text is None:
        return None
    return f"CAST(COALESCE(SUM({COUNT}) FILTER (WHERE {text} IS NOT NULL), 0) AS BIGINT)"
