"""Copies of source tables as of one cut, chunk by chunk: for first loads and for checks.

Each chunk is a short read of its own, exact as of the cut however long the whole takes, and becomes one file, whole or
not at all. So an interrupted copy goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.maintenance.block_loads import BlockLoad, Pushed
from headwater.model.changelog import COUNT
from headwater.model.conditions import Condition
from headwater.model.names import Position, Seq, SourceName, TableName, ViewName
from headwater.model.schema import Identities
from headwater.model.source import Chunk
from headwater.runtime.compute.copying import ScanWork, staging, staging_name
from headwater.runtime.compute.failures import translated_errors
from headwater.runtime.compute.spark import spark_types
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.config import Config
from headwater.runtime.project.plan import ViewPlan
from headwater.storage import Storage
from headwater.storage.records import decode, encode

FOLDER = "loads"

Progress = Callable[[int, int | None], None]
"""Called with rows copied so far and, if known, rows in all."""


@dataclass(frozen=True)
class _Chunk:
    """A chunk as it is kept beside the table's copy."""

    number: int
    bounds: tuple[str, ...]
    rows: int | None


@dataclass(frozen=True)
class TableCopy:
    """What is copied of one table: the columns all views together need, and conditions they all share."""

    schema: pa.Schema
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class BlockCopy:
    """A join that its source makes, chunk by chunk of its first table; called as the block is, and by the view."""

    view: str
    load: BlockLoad
    schema: pa.Schema

    @property
    def name(self) -> TableName:
        block = self.load.block.table
        return TableName(block.source, f"join-{self.view}-{block.table.strip(chr(0))}")


def block_copies(plan: ViewPlan, found: Pushed) -> dict[TableName, BlockCopy]:
    """The joins of a view, by its blocks."""
    made = {}
    for load in found.loads:
        of = {o.core(c): plan.schemas[o.table].field(c) for o in plan.view.occurrences for c in o.columns}
        fields = [of[c].with_name(c) for c in found.over.blocks[load.block.table].columns]
        made[load.block.table] = BlockCopy(plan.view.name, load, pa.schema(fields))
    return made


def wanted(plans: Sequence[ViewPlan], joined: Mapping[ViewName, Pushed] = MappingProxyType({})) -> Wanted:
    """What several views together need of their tables, but for those that are `joined` at their sources."""
    result: dict[TableName, TableCopy] = {}
    for plan in plans:
        blocks = joined[plan.view.name].over.blocks.values() if plan.view.name in joined else ()
        elsewhere = {o.alias for block in blocks for o in block.view.occurrences}
        for occurrence in plan.view.occurrences:
            if occurrence.table.is_view or occurrence.alias in elsewhere:
                continue
            schema = plan.schemas[occurrence.table]
            known = result.get(occurrence.table)
            if known is None:
                result[occurrence.table] = TableCopy(schema, occurrence.conditions)
                continue
            more = [f for f in schema if f.name not in known.schema.names]
            shared = tuple(c for c in known.conditions if c in occurrence.conditions)
            result[occurrence.table] = TableCopy(pa.schema([*known.schema, *more]), shared)
    return result


Wanted = dict[TableName, TableCopy]


@dataclass(frozen=True)
class StagedCut:
    """The cut that is copied. `owner` names a copy for one purpose only; without it, every load of the same cut
    shares the copy."""

    seq: Seq
    positions: Mapping[SourceName, Position]
    owner: str = ""
    identities: Mapping[TableName, Identities] = field(default_factory=dict)
    """Which columns are meant, where that is known."""


class Staging:
    """The copies of one cut. `tables` gives them to Spark."""

    def __init__(self, spark: SparkSession, config: Config, catalog: SourceCatalog, at: StagedCut) -> None:
        self._spark, self._config, self._catalog, self._at = spark, config, catalog, at
        self._storage = Storage(config.warehouse)
        self._folders: dict[TableName, str] = {}
        self._schemas: dict[TableName, pa.Schema] = {}
        self._chunks: dict[TableName, list[Chunk]] = {}

    @property
    def seq(self) -> Seq:
        """The transaction up to which the copies reach."""
        return self._at.seq

    def copy(self, tables: Mapping[TableName, TableCopy], progress: Progress, joins: Sequence[BlockCopy] = ()) -> None:
        """Copy what is not copied yet."""
        if not self._at.owner:
            self._forget_others(tables, joins)
        done, done_lock, sizes = [0], threading.Lock(), []
        for name, want in tables.items():
            self._chunks[name] = self._plan_chunks(name, want)
            size = self._catalog.described(name.source)[name].rows
            sizes.append(size if size is not None else 0)
        for join in joins:
            first = join.load.block.view.occurrences[join.load.first].table
            self._chunks[join.name] = self._plan_join(join, first)
            sizes.append(self._catalog.described(first.source)[first].rows or 0)
        total = sum(sizes)
        progress(0, total or None)

        def advance(rows: int) -> None:
            with done_lock:
                done[0] += rows
                progress(done[0], max(total, done[0]) if total else None)

        with ThreadPoolExecutor(max_workers=2, thread_name_prefix="headwater-copy") as pool:
            copies = [pool.submit(self._copy_table, n, w, advance) for n, w in tables.items()]
            copies += [pool.submit(self._copy_join, join, advance) for join in joins]
            try:
                for copy in copies:
                    copy.result()
            except BaseException:  # an interruption does not wait for tables that were not begun
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def table(self, name: TableName) -> DataFrame:
        """A copied table, with COUNT."""
        schema = pa.schema([*self._schemas[name], pa.field(COUNT, pa.int64())])
        files = [self._storage.uri(f"{self._folders[name]}/{staging_name(c)}") for c in self._chunks[name]]
        return self._spark.read.schema(spark_types(schema)).parquet(*files)

    def remove(self) -> None:
        for folder in self._folders.values():
            self._storage.delete_folder(folder.rpartition("/")[0])

    def _copy_table(self, name: TableName, want: TableCopy, advance: Callable[[int], None]) -> None:
        known = {name: self._at.identities[name]} if name in self._at.identities else {}
        work = ScanWork(
            self._storage,
            self._folders[name],
            self._catalog.spec(name.source),
            self._at.positions[name.source],
            tuple(want.schema.names),
            want.schema,
            (),
            want.conditions,
            known,
        )
        self._copy_chunks(name, work, advance)

    def _copy_join(self, join: BlockCopy, advance: Callable[[int], None]) -> None:
        name, occurrences = join.name, join.load.block.view.occurrences
        work = ScanWork(
            self._storage,
            self._folders[name],
            self._catalog.spec(name.source),
            self._at.positions[name.source],
            tuple(join.load.key_schema.names),
            join.schema,
            (),
            occurrences[join.load.first].conditions,
            {o.table: self._at.identities[o.table] for o in occurrences if o.table in self._at.identities},
            join.load,
        )
        self._copy_chunks(name, work, advance)

    def _copy_chunks(self, name: TableName, work: ScanWork, advance: Callable[[int], None]) -> None:
        chunks = self._chunks[name]
        there = set(self._storage.names(work.folder))
        missing = [c for c in chunks if staging_name(c) not in there]
        advance(sum(c.rows or 0 for c in chunks if c not in missing))
        work = replace(work, chunks=tuple(missing))
        # a few chunks per job, so that progress is seen and an interruption loses little
        width = 4 * self._spark.sparkContext.defaultParallelism
        for start in range(0, len(missing), width):
            stop = min(start + width, len(missing))
            tasks = self._spark.range(start, stop, 1, stop - start)
            with translated_errors():
                rows = tasks.mapInArrow(staging(work), "chunk bigint, rows bigint").collect()
            advance(sum(r["rows"] for r in rows))

    def _plan_chunks(self, name: TableName, want: TableCopy) -> list[Chunk]:
        folder = f"{self._root(name, want)}/{quote(str(name), safe='')}"
        self._folders[name], self._schemas[name] = folder, want.schema
        return self._chunks_of(name, folder)

    def _plan_join(self, join: BlockCopy, first: TableName) -> list[Chunk]:
        folder = f"{self._root_of_join(join)}/{quote(str(join.name), safe='')}"
        self._folders[join.name], self._schemas[join.name] = folder, join.schema
        return self._chunks_of(first, folder)

    def _chunks_of(self, name: TableName, folder: str) -> list[Chunk]:
        saved = self._storage.get(f"{folder}/chunks.json")
        if saved is not None:
            kept = decode(saved, list[_Chunk], self._storage.uri(f"{folder}/chunks.json"))
            return [Chunk(name, c.number, c.bounds, c.rows) for c in kept]
        chunks = self._catalog.source(name.source).chunks(name, self._config.chunk_rows)
        kept = [_Chunk(c.number, c.bounds, c.rows) for c in chunks]
        self._storage.put(f"{folder}/chunks.json", encode(kept))
        return chunks

    def _root(self, name: TableName, want: TableCopy) -> str:
        if self._at.owner:
            return f"{FOLDER}/{self._at.owner}"
        about = (self._at.seq, sorted(self._at.positions.items()), str(name), str(want.schema), str(want.conditions))
        return f"{FOLDER}/{self._at.seq}-{hashlib.sha256(repr(about).encode()).hexdigest()[:16]}"

    def _root_of_join(self, join: BlockCopy) -> str:
        block = join.load.block.view
        said = (block.occurrences, block.equalities, join.load.key)
        about = (self._at.seq, sorted(self._at.positions.items()), str(join.name), said, str(join.schema))
        return f"{FOLDER}/{self._at.seq}-{hashlib.sha256(repr(about).encode()).hexdigest()[:16]}"

    def _forget_others(self, tables: Mapping[TableName, TableCopy], joins: Sequence[BlockCopy]) -> None:
        mine = {self._root(name, want).rpartition("/")[2] for name, want in tables.items()}
        mine |= {self._root_of_join(join).rpartition("/")[2] for join in joins}
        for folder in self._storage.names(FOLDER):
            if folder not in mine and not folder.startswith(("verify-", "refresh-", "point")):
                self._storage.delete_folder(f"{FOLDER}/{folder}")
