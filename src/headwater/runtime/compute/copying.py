"""Copying a table's chunks as of a cut into files, inside Spark tasks: for first loads, recomputations and checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.maintenance.block_loads import BlockLoad
from headwater.model.changelog import COUNT, consolidate
from headwater.model.conditions import Condition
from headwater.model.names import Position, TableName
from headwater.model.schema import Identities
from headwater.model.source import Chunk, Source, SourceSpec
from headwater.runtime.compute.asking import Batches
from headwater.runtime.compute.connections import connected, reachable
from headwater.runtime.compute.failures import carries_errors
from headwater.storage import Storage

KEYS = 10_000
"""So many keys are asked for at once."""


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
    join: BlockLoad | None = None
    """What the source joins the chunk's keys with (`columns`); then `schema` is the join's."""


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


def _joined(work: ScanWork, load: BlockLoad, source: Source, scanned: Batches) -> Batches:
    """The block's rows that have the keys of a chunk, as of the same position. A key that came or went since is asked
    for in vain."""
    parts = [pa.Table.from_batches([batch]).select(work.columns).cast(load.key_schema) for batch in scanned]
    if not parts:
        return
    keys = pa.concat_tables(parts).group_by(list(work.columns)).aggregate([]).drop_null()
    keys = keys.select(list(work.columns)).rename_columns(list(load.key))
    for start in range(0, keys.num_rows, KEYS):
        for batch in source.ask_join(load.block.question(load.key, keys.slice(start, KEYS)), work.at):
            yield from load.block.meets(pa.Table.from_batches([batch])).to_batches()


def _stage(work: ScanWork, chunk: Chunk) -> int:
    source = connected(work.spec)
    source.expect(work.identities)
    schema = pa.schema([*work.schema, pa.field(COUNT, pa.int64())])
    with reachable():
        batches = source.scan(chunk, work.columns, work.at, work.conditions)
        if work.join is not None:
            batches = _joined(work, work.join, source, batches)
        parts = [pa.Table.from_batches([b]).select(schema.names).cast(schema) for b in batches]
    rows = pa.concat_tables(parts) if parts else schema.empty_table()
    if pc.min(rows.column(COUNT)).as_py() not in (1, None):
        rows = consolidate(rows)
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", compression_level=1)
    work.storage.put(f"{work.folder}/{staging_name(chunk)}", sink.getvalue())
    return int(rows.num_rows)
