"""Conditions on one table that mean the same everywhere: in SQLite, in PostgreSQL, in Arrow and in Spark.

Only these are pushed to sources and used to decide relevance. Whatever else a WHERE clause says is evaluated by
Spark SQL on the joined rows. A comparison with NULL is not true, so such rows do not meet the condition.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import pyarrow as pa

from headwater.model.arrow import pc

Operator = Literal["=", "<>", "<", "<=", ">", ">=", "in", "is null", "is not null"]
Scalar = int | str | bool | Decimal | dt.date | dt.datetime


@dataclass(frozen=True)
class Condition:
    """`column operator value`. `value` is a tuple for `in`, None for the NULL tests. Text is only compared with
    `=`, `<>` and `in`, by code points: orderings of text differ between engines."""

    column: str
    operator: Operator
    value: Scalar | tuple[Scalar, ...] | None = None

    def __str__(self) -> str:
        """As SQL."""
        if self.value is None:
            return f"{self.column} {self.operator.upper()}"
        if isinstance(self.value, tuple):
            return f"{self.column} {self.operator.upper()} ({', '.join(map(sql_literal, self.value))})"
        return f"{self.column} {self.operator} {sql_literal(self.value)}"


def sql_literal(value: Scalar) -> str:
    """A value as SQL writes it."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    return format(value, "f") if isinstance(value, Decimal) else str(value)


_COMPARE: dict[str, str] = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def meets(table: pa.Table, conditions: Sequence[Condition]) -> pa.Table:
    """The rows of an Arrow table that meet all conditions."""
    for condition in conditions:
        column = table.column(condition.column)
        if condition.operator == "is null":
            mask = pc.is_null(column)
        elif condition.operator == "is not null":
            mask = pc.is_valid(column)
        elif condition.operator == "in":
            assert isinstance(condition.value, tuple)
            mask = pc.is_in(column, value_set=pa.array(condition.value, column.type))
        else:
            mask = getattr(pc, _COMPARE[condition.operator])(column, pa.scalar(condition.value, column.type))
        table = table.filter(mask)
    return table
