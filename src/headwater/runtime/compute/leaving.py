"""Rows that leave a view by a key that it shows, in a batch (`maintenance/taking_out`): its own files are looked up as
the batch found them. So one batch of such a view is computed at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from headwater.integrator.journal import within
from headwater.kept.files import FilesKept
from headwater.maintenance.taking_out import Gone, taken_out
from headwater.model.changelog import SEQ
from headwater.runtime.compute.batch_changes import batch_changes
from headwater.runtime.compute.failures import carries_errors
from headwater.runtime.compute.wave_work import WaveWork


def with_taken_out(work: WaveWork, rows: pa.Table) -> pa.Table:
    """The change of a view (its columns, COUNT, SEQ): what the wave says of it, and what goes with rows of tables that
    only lose rows."""
    gone = []
    for key in work.view.taken_out_by:
        keys = within(batch_changes(work, key.table), work.lo, work.hi).select([*key.columns, SEQ])
        named = keys.rename_columns([*key.shown, SEQ])
        gone.append(Gone(key.shown, named.cast(pa.schema([rows.schema.field(n) for n in named.column_names]))))
    if not gone:
        return rows
    taken = taken_out(rows, FilesKept(work.storage, rows.schema, work.own, work.lo), gone)
    work.bears(taken.num_rows)
    return pa.concat_tables([rows, taken])


def taking_out(work: WaveWork, schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For mapInArrow, in one task: the wave's rows of a view in, its change out."""

    @carries_errors
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = [pa.Table.from_batches([b]).select(schema.names).cast(schema) for b in batches]
        rows = pa.concat_tables([schema.empty_table(), *parts])
        yield from with_taken_out(work, rows).to_batches(max_chunksize=65536)

    return run
