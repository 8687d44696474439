"""Copying a table's chunks as of a cut into files, inside Spark tasks: for first loads, recomputations and checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.model.changelog import COUNT, consolidate
from headwater.model.conditions import Condition
from headwater.model.names import Position, TableName
from headwater.model.schema import Identities
from headwater.model.source import Chunk, SourceSpec
from headwater.runtime.compute.failures import carries_errors
from headwater.runtime.compute.tasks import Batches, connected, reachable
from headwater.storage import Storage


@dataclass(frozen=True)
class ScanWork:
    """Copying a table's chunks as of a cut into staging files, for a first load or a check."""

    storage: Storage
    folder: str
    spec: SourceSpec
    at: Position
    columns: tuple[str, ...]
    schema: pa.Schema
    chunks: tuple[Chunk, ...]
    conditions: tuple[Condition, ...] = ()
    identities: Mapping[TableName, Identities] = field(default_factory=dict)


def staging_name(chunk: Chunk) -> str:
    return f"{chunk.number:08d}.parquet"


def staging(work: ScanWork) -> Callable[[Batches], Batches]:
    """For mapInArrow: numbers of chunks in, (number, rows) out; each chunk becomes one file, whole or not at all."""

    @carries_errors
    def run(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = _stage(work, work.chunks[number])
                yield pa.record_batch([pa.array([number]), pa.array([rows])], names=["chunk", "rows"])

    return run


def _stage(work: ScanWork, chunk: Chunk) -> int:
    source = connected(work.spec)
    source.expect(work.identities)
    schema = pa.schema([*work.schema, pa.field(COUNT, pa.int64())])
    with reachable():
        parts = [
            pa.Table.from_batches([b]).select(schema.names).cast(schema)
            for b in source.scan(chunk, work.columns, work.at, work.conditions)
        ]
    rows = pa.concat_tables(parts) if parts else schema.empty_table()
    if pc.min(rows.column(COUNT)).as_py() not in (1, None):
        rows = consolidate(rows)
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", compression_level=1)
    work.storage.put(f"{work.folder}/{staging_name(chunk)}", sink.getvalue())
    return int(rows.num_rows)
