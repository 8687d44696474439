"""What changed: the changes of a batch's tables from the journal, those of the views it reads from their files.

Every row has the number of its transaction, or of the state that first shows it, where the view skips some. A change
of columns that the view does not use is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.integrator.journal import read_changes, within
from headwater.model.changelog import COUNT, SEQ, UNFIT, consolidate
from headwater.model.names import TableName
from headwater.runtime.compute.promises import check_promises
from headwater.runtime.compute.unfit import represented
from headwater.runtime.compute.wave_work import WaveWork

COUNTED = (pa.field(COUNT, pa.int64()), pa.field(SEQ, pa.int64()))


def batch_changes(work: WaveWork, table: TableName) -> pa.Table:
    """The changes of a table after `lo`, as far as the questions' positions reach."""
    wanted = pa.schema([*work.schemas[table], pa.field(COUNT, pa.int64()), pa.field(SEQ, pa.int64())])
    if table.is_view:
        known = work.parents[table]
        rows = within(read_files(work, known.changes, wanted, known.ahead), work.lo, work.hi)
    else:
        found = read_changes(work.storage, work.segments, table, work.lo, work.segments[-1].hi)
        if found is not None and UNFIT in found.column_names:
            wanted = wanted.append(pa.field(UNFIT, pa.string()))
        rows = wanted.empty_table() if found is None else found.select(wanted.names).cast(wanted)
    if work.every != 1:
        seqs = work.labels(rows.column(SEQ).to_numpy())
        rows = rows.set_column(rows.schema.get_field_index(SEQ), SEQ, pa.array(seqs))
    if work.every != 1 or _updates(rows):
        rows = consolidate(rows)  # an update of columns that the view does not use is no change
    check_promises(work.view, table, within(rows, work.lo, work.hi))
    return represented(rows, table, work.view) if UNFIT in rows.column_names else rows


def _updates(rows: pa.Table) -> bool:
    """Whether a transaction takes rows away and adds some; those of one transaction stand together."""
    seqs, counts = rows.column(SEQ).to_numpy(), rows.column(COUNT).to_numpy()
    return bool(((seqs[1:] == seqs[:-1]) & ((counts[1:] < 0) != (counts[:-1] < 0))).any())


def read_files(work: WaveWork, paths: Sequence[str], schema: pa.Schema, more: pa.Table | None = None) -> pa.Table:
    """Files of a changelog, these columns, and more rows that are in no file yet."""
    parts = [
        pq.read_table(path, columns=schema.names, filesystem=work.storage.filesystem, partitioning=None)
        for path in paths
    ] + ([] if more is None else [more])
    return pa.concat_tables([p.select(schema.names).cast(schema) for p in parts]) if parts else schema.empty_table()
