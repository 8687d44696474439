"""The state of a view as a table that engines can scan: what was added, less what was taken back, as it is read.

    rows(s) = entries with count > 0 and seq <= s, each as often as it counts
              − entries with count < 0 and seq <= s

A row that was never taken back needs no fold: it goes through as it stands in its file, so reading a view costs what
reading its files costs. The others are told from them (`back.py`), and folded together at the end. Columns and
conditions on rows may be applied to both sides alike, because the state of a complete or strong view has no row less
than zero times. (A convergent view may for a while; it is folded.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headwater.model.changelog import COUNT, SEQ
from headwater.warehouse.back import Back
from headwater.warehouse.contents import Contents


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
        back = Back(_read(contents.back, [*columns, COUNT], some))
        added = some & (pc.field(COUNT) > 0)
        ones = condition if contents.through <= self._seq else some
        for source in contents.large(ones=True):
            for batch in source.scanner(columns=list(columns), filter=ones).to_batches():
                if batch.num_rows:
                    yield back.left_alone(batch)
        for source in (*contents.large(ones=False), ds.InMemoryDataset(contents.small)):
            for batch in source.scanner(columns=[*columns, COUNT], filter=added).to_batches():
                if batch.num_rows:
                    yield _shown(back.left_alone(batch))
        yield from back.rest()


def _read(rows: pa.Table, columns: Sequence[str], condition: ds.Expression) -> pa.Table:
    return ds.dataset(rows).scanner(columns=list(columns), filter=condition).to_table()


def _shown(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Each row as often as it counts."""
    counts = batch.column(COUNT).to_numpy(zero_copy_only=False)
    rows = batch.drop_columns([COUNT])
    if not len(counts) or counts.min() == 1 == counts.max():
        return rows
    return rows.take(pa.array(np.repeat(np.arange(len(counts)), counts)))
