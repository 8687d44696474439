"""What was taken back of a view, told from the rows that stand.

Which rows can be concerned, one column tells: a row whose value there is no value of anything taken back is no row
taken back. Of whole numbers a table of marks tells it first: it never misses one that was marked, and the few that it
takes for one are looked up. So a batch of which nothing was taken back is handed on as it is, without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.kept.contract import Ints
from headwater.model.changelog import COUNT, visible
from headwater.warehouse.folding import folded

SAMPLE = 2_000
"""So many of the rows taken back tell which column has the most values."""
ROOM = 32
"""Places in a table of marks for each mark: one in so many rows is looked up in vain."""
_ODD = np.uint64(0x9E3779B97F4A7C15)
"""2⁶⁴ over the golden ratio: its multiples lie far apart (Knuth, The Art of Computer Programming 3, section 6.4)."""


class Back:
    """What was taken back: `left_alone` passes on what it cannot concern, `rest` is the fold of all else."""

    def __init__(self, rows: pa.Table) -> None:
        self._touched = [rows] if rows.num_rows else []
        self._by = _telling(rows) if rows.num_rows else None
        self._told = _Told(rows.column(self._by)) if self._by else None

    def left_alone(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that were never taken back; without counts each is one."""
        if not self._touched:
            return batch
        if self._told is None:
            self._touch(batch)
            return batch.slice(0, 0)
        near = self._told.near(batch.column(self._by))
        if near is None:
            return batch
        self._touch(batch.filter(near))
        return batch.filter(pc.invert(near))

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Of the others, those that are left."""
        if self._touched:
            yield from visible(folded(pa.concat_tables(self._touched))).to_batches()

    def _touch(self, batch: pa.RecordBatch) -> None:
        rows = pa.Table.from_batches([batch])
        if COUNT not in rows.column_names:
            rows = rows.append_column(COUNT, pa.array(np.ones(rows.num_rows, np.int64)))
        self._touched.append(rows)


class _Told:
    """Which values of a column are among some."""

    def __init__(self, values: pa.ChunkedArray) -> None:
        self._values, self._marks = pc.unique(values), None
        if _whole(values.type):
            bits = int(np.ceil(np.log2(ROOM * len(self._values) + 1)))
            self._shift = np.uint64(64 - bits)
            self._marks = np.zeros(1 << bits, np.bool_)
            self._marks[self._places(self._values)] = True

    def near(self, column: pa.Array) -> pa.BooleanArray | None:
        """None: none of them."""
        if self._marks is None:
            found = pc.is_in(column, self._values)
            return found if found.true_count else None
        perhaps = self._marks[self._places(column)]
        at = np.flatnonzero(perhaps)
        sure = pc.is_in(column.take(pa.array(at)), self._values).to_numpy(zero_copy_only=False)
        perhaps[at] = sure
        return pa.array(perhaps) if sure.any() else None

    def _places(self, column: pa.Array) -> Ints:
        """A NULL stands where a zero does."""
        kept = column.cast(_number(column.type))
        numbers = (kept.fill_null(0) if kept.null_count else kept).to_numpy(zero_copy_only=False)
        found = numbers.astype(np.int64, copy=False).view(np.uint64) * _ODD
        found >>= self._shift
        return np.asarray(found.view(np.int64))


def _telling(rows: pa.Table) -> str | None:
    """The column with the most values, of those whose values can be told apart; rather one of whole numbers."""
    some = rows.slice(0, SAMPLE)
    weighed = [
        (pc.count_distinct(some.column(f.name), mode="all").as_py() * (1.5 if _whole(f.type) else 1), f.name)
        for f in rows.schema
        if f.name != COUNT and (_whole(f.type) or pa.types.is_string(f.type))
    ]
    return max(weighed)[1] if weighed else None


def _whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _number(kind: pa.DataType) -> pa.DataType:
    """The whole numbers that a type is kept as."""
    if pa.types.is_date32(kind):
        return pa.int32()
    return kind if pa.types.is_integer(kind) else pa.int64()
