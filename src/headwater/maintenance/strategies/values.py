"""Rows of Arrow tables as rows of bags, and back, without loss.

Bags compare rows with Python's ==, which knows neither NaN nor −0.0 as a database does, and Python has no dates after
the year 9999. So a value is kept as what Arrow stores where Python's own value is not exactly it:

    float, double      the bits       a NaN is itself, −0.0 is not 0.0: two rows are one only if they are the same
    date, timestamp    the number of days or microseconds
    all others         Python's value: numbers of any kind that are equal are one key, as in Spark

Invariant: decoding what was encoded gives the same array, and encoded values of columns that may be joined (floating
point numbers may not) are equal exactly where Spark says that they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headwater.algebra.bag import Row
from headwater.model.changelog import COUNT


@dataclass(frozen=True)
class Values:
    """How values of a column are kept in rows."""

    exact: bool = True
    """As Arrow stores them where Python's own are not exact; else as Python's own, for those who compute with them."""

    def rows(self, table: pa.Table, names: Sequence[str]) -> list[tuple[Row, int]]:
        """The rows of these columns, with their counts."""
        counts = table.column(COUNT).to_pylist()
        columns = [self.encoded(table.column(name)) for name in names]
        rows = zip(*columns, strict=True) if columns else [()] * len(counts)
        return list(zip(rows, counts, strict=True))

    def encoded(self, column: pa.ChunkedArray) -> list[Any]:
        stored = self._stored(column.type)
        if stored == column.type:
            return list(column.to_pylist())
        return [value for chunk in column.chunks for value in chunk.view(stored).to_pylist()]

    def decoded(self, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
        made = pa.array(values, self._stored(kind))
        return made if made.type == kind else made.view(kind)

    def fitting(self, values: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, list[int]]:
        """Of these, the ones that a column of this type can hold, and where they stood: 1.5 is no integer."""
        stored = self._stored(kind)
        try:
            made = pa.array(values, stored)
            if made.to_pylist() == list(values):
                return (made if stored == kind else made.view(kind)), list(range(len(values)))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass
        fit = [n for n, value in enumerate(values) if _fits(value, stored)]
        return self.decoded([values[n] for n in fit], kind), fit

    def _stored(self, kind: pa.DataType) -> pa.DataType:
        if not self.exact:
            return kind
        if pa.types.is_floating(kind):
            return pa.int32() if kind.bit_width == 32 else pa.int64()
        if pa.types.is_date32(kind):
            return pa.int32()
        return pa.int64() if pa.types.is_timestamp(kind) else kind


EXACT = Values()
PYTHONS = Values(exact=False)


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        return bool(pa.array([value], kind)[0].as_py() == value)  # Arrow makes 5.5 a 5
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return False
