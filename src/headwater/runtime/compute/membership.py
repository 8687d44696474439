"""Rows by their keys where NULL is a value like any other, as operators of a tree need it and no source is asked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.maintenance.keys import key_set


class _Membership:
    """A set of keys in which NULL is a value like any other."""

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        # a NULL becomes a flag of its own beside a default, so that plain key sets can be used
        self._keys, _ = key_set([self._flagged(columns)])

    def holds(self, columns: Sequence[pa.ChunkedArray]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return self._keys.numbers(self._flagged(columns)) >= 0

    @staticmethod
    def _flagged(columns: Sequence[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
        flagged = []
        for column in columns:
            flagged.append(pc.is_null(column))
            filler = pa.array([_filler(column.type)], column.type)[0]
            flagged.append(pc.fill_null(column, filler))
        return flagged


def membership(rows: pa.Table, columns: Sequence[str], keys: pa.Table) -> pa.Table:
    """The rows whose columns are among the keys; NULLs are alike."""
    held = _Membership([keys.column(c) for c in columns])
    return rows.filter(pa.array(held.holds([rows.column(c) for c in columns])))


def key_table(keys: pa.Table, columns: Sequence[str], types: Sequence[pa.DataType]) -> pa.Table:
    """Distinct keys as the columns' own types; what those cannot represent equals nothing, and is left out."""
    found, _ = key_set([[keys.column(c) for c in columns]])
    return found.table(columns, types)[0]


def _filler(kind: pa.DataType) -> object:
    """Any value of the type will do: the flag beside it says that it stands for NULL."""
    if pa.types.is_string(kind):
        return ""
    if pa.types.is_binary(kind):
        return b""
    if pa.types.is_decimal(kind):
        return Decimal(0)
    if pa.types.is_date(kind):
        return dt.date(1970, 1, 1)
    return False if pa.types.is_boolean(kind) else pa.scalar(0, pa.int64()).cast(kind).as_py()
