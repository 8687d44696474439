"""The state of a view as a table that engines can scan: what was added, less what was taken back, as it is read.

    rows(s) = entries with count > 0 and seq <= s, each as often as it counts
              − entries with count < 0 and seq <= s

A row that was never taken back needs no fold: it goes through as it stands in its file, so reading a view costs what
reading its files costs. Of a row that was, as many copies are passed over as were taken back; whichever copies, they
are the same. Columns and conditions on rows may be applied to both sides alike, because the state of a complete or
strong view has no row less than zero times. (A convergent view may for a while; it is folded.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headwater.model.changelog import COUNT, SEQ
from headwater.warehouse.contents import Contents

_Row = tuple[object, ...]


class State(ds.Dataset):  # type: ignore[misc] # pyarrow has no types
    """A view at one state. Its columns are known; its files are looked for when it is read."""

    def __new__(cls, schema: pa.Schema, seq: int, opened: Callable[[], Contents]) -> State:
        found: State = ds.Dataset.__new__(cls)
        return found

    def __init__(self, schema: pa.Schema, seq: int, opened: Callable[[], Contents]) -> None:
        self._schema = pa.schema([field for field in schema if field.name not in (COUNT, SEQ)])
        self._seq, self._opened = seq, opened

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, **wanted: Any) -> ds.Scanner:
        columns, condition = wanted.get("columns"), wanted.get("filter")
        names = list(self._schema.names if columns is None else columns)
        schema = pa.schema([self._schema.field(name) for name in names])
        return ds.Scanner.from_batches(self.rows(names, condition), schema=schema)

    def rows(self, columns: Sequence[str], condition: ds.Expression | None = None) -> Iterator[pa.RecordBatch]:
        """These columns of the rows of which the condition holds."""
        contents = self._opened()
        some = pc.field(SEQ) <= self._seq
        if condition is not None:
            some = some & condition
        back = Back(_read(contents.back, [*columns, COUNT], some)) if contents.back.num_rows else None
        added = some & (pc.field(COUNT) > 0)
        ones = condition if contents.through <= self._seq else some
        for source in contents.large(ones=True):
            for batch in source.scanner(columns=list(columns), filter=ones).to_batches():
                if batch.num_rows:
                    yield batch if back is None else back.passed(batch)
        for source in (*contents.large(ones=False), ds.InMemoryDataset(contents.small)):
            for batch in source.scanner(columns=[*columns, COUNT], filter=added).to_batches():
                if batch.num_rows:
                    yield _shown(batch if back is None else back.passed(batch))


def _read(rows: pa.Table, columns: Sequence[str], condition: ds.Expression) -> pa.Table:
    return ds.dataset(rows).scanner(columns=list(columns), filter=condition).to_table()


def _shown(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Each row as often as it counts."""
    counts = batch.column(COUNT).to_numpy(zero_copy_only=False)
    rows = batch.drop_columns([COUNT])
    if not len(counts) or counts.min() == 1 == counts.max():
        return rows
    return rows.take(pa.array(np.repeat(np.arange(len(counts)), counts)))


class Back:
    """What was taken back and not met yet."""

    def __init__(self, rows: pa.Table) -> None:
        self._left = Counter[_Row]()
        for row, count in zip(comparable(rows.drop_columns([COUNT])), rows.column(COUNT).to_pylist(), strict=True):
            self._left[row] -= count
        kinds = [(len(pc.unique(rows.column(n))), n) for n in rows.column_names if n != COUNT and _plain(rows, n)]
        self._by = max(kinds)[1] if kinds else None
        self._values = pc.unique(rows.column(self._by)) if self._by else None

    def passed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, its counts less what is taken back of its rows; without counts each is one."""
        if not self._left:
            return batch
        near = np.arange(batch.num_rows)
        if self._by:
            near = np.flatnonzero(pc.is_in(batch.column(self._by), self._values).to_numpy(zero_copy_only=False))
        if not len(near):
            return batch
        at = batch.schema.get_field_index(COUNT)
        ones = np.ones(batch.num_rows, np.int64)
        counts = ones if at < 0 else batch.column(at).to_numpy(zero_copy_only=False).copy()
        names = [n for n in batch.schema.names if n != COUNT]
        few = batch.select(names).take(pa.array(near))
        for place, row in zip(near, comparable(few), strict=True):
            left = self._left.get(row)
            if left:
                met = min(left, int(counts[place]))
                counts[place] -= met
                if met == left:
                    del self._left[row]
                    if not self._left:
                        break
                else:
                    self._left[row] = left - met
        kept = batch if at < 0 else batch.set_column(at, COUNT, pa.array(counts))
        return kept.filter(pa.array(counts > 0))


def _plain(rows: pa.Table, name: str) -> bool:
    """Whether values can be told apart by `is_in` as rows are by `comparable`."""
    kind = rows.schema.field(name).type
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date(kind))


def comparable(rows: pa.Table | pa.RecordBatch) -> Iterator[_Row]:
    """Rows as values that can be counted: NaN equals itself; lists and the like by what they look like."""
    made = [[_comparable(value) for value in column.to_pylist()] for column in rows.columns]
    return zip(*made, strict=True) if made else iter([()] * rows.num_rows)


_NAN = object()


def _comparable(value: object) -> object:
    if isinstance(value, float):
        return _NAN if value != value else value
    return repr(value) if isinstance(value, (list, dict)) else value
