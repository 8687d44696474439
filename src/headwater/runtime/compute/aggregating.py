"""The aggregation of a batch, as a Spark task: changes of the core in, changes of groups out.

The mathematics is in `maintenance/aggregate`; here its files are read and written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from headwater.algebra.view import Aggregation
from headwater.kept.files import FilesKept
from headwater.maintenance.aggregate import GroupedDelta, aggregate, result_schema
from headwater.maintenance.groups import auxiliary_schema
from headwater.model.changelog import COUNT, SEQ, consolidate
from headwater.runtime.compute.failures import carries_errors
from headwater.runtime.compute.writing import FILE, Target, write_rows

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class AggregateWork:
    """The aggregation of one batch, over the auxiliary view's files so far."""

    aggregation: Aggregation
    types: Mapping[str, pa.DataType]
    state_files: tuple[str, ...]
    """Paths of the auxiliary changelog's files, as its file system wants them."""
    target: Target
    hi: int
    first: bool = False


def aggregating(work: AggregateWork) -> Callable[[Batches], Batches]:
    """For mapInArrow: the core's keys and arguments in, changes of groups out; all rows of a group in one partition.
    The auxiliary view's files are written here, and described in column FILE."""
    out = pa.schema([*result_schema(work.aggregation, work.types), pa.field(FILE, pa.string())])
    names = [o.name for o in (*work.aggregation.keys, *work.aggregation.arguments)]
    schema = pa.schema([pa.field(n, work.types[n]) for n in names] + [pa.field(n, pa.int64()) for n in (COUNT, SEQ)])

    @carries_errors
    def run(batches: Batches) -> Batches:
        parts = [pa.Table.from_batches([b]).select(schema.names).cast(schema) for b in batches]
        delta = consolidate(pa.concat_tables(parts)) if parts else schema.empty_table()
        if not delta.num_rows and not (work.first and not work.aggregation.keys):
            return
        kept = FilesKept(work.target.storage, auxiliary_schema(work.aggregation, work.types), work.state_files)
        rows, auxiliary = aggregate(work.aggregation, work.types, GroupedDelta(delta, kept, work.hi, work.first))
        files = list(write_rows(work.target, auxiliary.to_batches()))
        table = rows.append_column(FILE, pa.nulls(rows.num_rows, pa.string()))
        yield from table.cast(out).to_batches(max_chunksize=65536)
        if files:
            empty = [pa.nulls(len(files), f.type) for f in out if f.name != FILE]
            yield pa.record_batch([*empty, pa.array(files, pa.string())], schema=out)

    return run
