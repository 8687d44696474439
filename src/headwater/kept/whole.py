"""Keys of whole numbers, dates and moments: hashed and compared by numpy, where an engine would take longer to be told
of a table than the work takes.

Equal keys have one hash, in every process and every version of every library; NULL is a value like any other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.kept.contract import Ints
from headwater.model.arrow import pc

VERSION = 1
"""Of the hashes: indexes of another one are made anew."""

_U = np.uint64
_STEP, _NULL = _U(0x9E3779B97F4A7C15), _U(0x94D049BB133111EB)
_MIX = ((30, _U(0xBF58476D1CE4E5B9)), (27, _U(0x94D049BB133111EB)))
_WIDTH = 1 << 31


def is_whole(kind: pa.DataType) -> bool:
    """Whether a type's values are 64-bit integers that are equal when the values are."""
    t = pa.types
    return bool(t.is_signed_integer(kind) or t.is_date32(kind) or t.is_timestamp(kind))


def all_whole(schema: pa.Schema) -> bool:
    return len(schema) > 0 and all(is_whole(field.type) for field in schema)


def hashes_of_whole(rows: pa.Table) -> Ints:
    """One number of every row, in their order. Mixed as in splitmix64 (Steele, Lea, Flood, 2014)."""
    found = np.zeros(rows.num_rows, np.uint64)
    for values, nulls in _columns(rows):
        found += _STEP + values.view(np.uint64)
        if nulls is not None:
            found[nulls] += _NULL
        for shift, factor in _MIX:
            found = (found ^ (found >> _U(shift))) * factor
        found ^= found >> _U(31)
    return found.view(np.int64)


def matched_whole(rows: pa.Table, keys: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Which rows equal which keys, NULLs alike: the places of both, by the rows' places. Columns by position, of the
    same types."""
    mine, theirs = _numbered(rows, keys)
    order = np.argsort(theirs, kind="stable")
    ordered = theirs[order]
    low, high = np.searchsorted(ordered, mine, "left"), np.searchsorted(ordered, mine, "right")
    lengths = high - low
    begins = np.repeat(low - (np.cumsum(lengths) - lengths), lengths)
    return pa.array(np.repeat(np.arange(len(mine)), lengths)), pa.array(order[np.arange(len(begins)) + begins])


def _numbered(rows: pa.Table, keys: pa.Table) -> tuple[Ints, Ints]:
    """A number of each row and each key: the same exactly where they are equal."""
    number: Ints | None = None
    for (mine, nulls), (theirs, others) in zip(_columns(rows), _columns(keys), strict=True):
        if rows.num_columns == 1 and nulls is None and others is None:
            return mine, theirs
        known, place = np.unique(np.concatenate([mine, theirs]), return_inverse=True)
        for at, missing in ((slice(0, len(mine)), nulls), (slice(len(mine), None), others)):
            if missing is not None:
                place[at][missing] = len(known)
        # places fit in 31 bits, so two of them side by side fit in 62
        number = place if number is None else np.unique(number * _WIDTH + place, return_inverse=True)[1]
    assert number is not None
    return number[: rows.num_rows], number[rows.num_rows :]


def _columns(rows: pa.Table) -> Iterator[tuple[Ints, npt.NDArray[np.bool_] | None]]:
    """Each column's values, 0 where it is NULL, and where that is, if anywhere."""
    for column in rows.columns:
        kind = column.type
        whole = column.cast(pa.int32()) if pa.types.is_date32(kind) else column
        whole = whole.cast(pa.int64())
        nulls = None
        if whole.null_count:
            nulls = np.asarray(pc.is_null(whole).to_numpy(), bool)
            whole = pc.fill_null(whole, 0)
        yield np.ascontiguousarray(whole.to_numpy(), np.int64), nulls
