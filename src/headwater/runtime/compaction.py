"""Compaction: history up to the horizon becomes one folded state, small files become large ones.

    rows with seq <= horizon      summed up, labelled with the horizon
    rows after it                 as they are

Folding is linear, so any subset of a table's files may be compacted by itself, beside maintenance that adds others;
`at=s` for s >= horizon returns the same before, during and after. The files replaced stay on disk until nobody can be
reading them any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 # as everyone calls it

from headwater.algebra.view import quoted
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import Seq
from headwater.runtime.failures import in_words
from headwater.runtime.jobs import written
from headwater.runtime.spark import spark_types
from headwater.runtime.tasks import FILES, Target, writing
from headwater.storage import Storage
from headwater.warehouse.table import ChangelogTable, DataFile

SMALL_ROWS = 100_000
MANY_FILES = 64


@dataclass(frozen=True)
class Compacted:
    """Files that replace others, not yet committed."""

    added: tuple[DataFile, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class LogFile:
    name: str
    rows: int
    low: int
    high: int


def log_files(table: ChangelogTable) -> list[LogFile]:
    """The files of a table's newest version, with their statistics."""
    rows = pa.table(table.delta.get_add_actions(flatten=True)).to_pylist()
    return [LogFile(r["path"], r["num_records"], r[f"min.{SEQ}"], r[f"max.{SEQ}"]) for r in rows]


def worth_compacting(table: ChangelogTable, horizon: Seq) -> list[str]:
    """The files to compact now, by their cost: small ones when there are many, all when much of it can be folded."""
    files = log_files(table)
    base = sum(f.rows for f in files if f.high <= horizon and f.rows >= SMALL_ROWS)
    foldable = sum(f.rows for f in files if f.low <= horizon and not (f.low == f.high == f.low and f.rows >= base))
    small = [f for f in files if f.rows < SMALL_ROWS]
    if len(files) > 1 and foldable > max(4 * SMALL_ROWS, base):
        return [f.name for f in files]
    return [f.name for f in small] if len(small) >= MANY_FILES else []


def compact_files(
    spark: SparkSession, storage: Storage, table: ChangelogTable, names: Sequence[str], horizon: Seq
) -> Compacted:
    """Rewrite files of a table, folding what lies at or before the horizon."""
    schema = table.schema
    columns = [quoted(f.name) for f in schema if f.name not in (COUNT, SEQ)]
    paths = [storage.uri(f"{table.folder}/{name}") for name in names]
    rows = spark.read.schema(spark_types(schema)).parquet(*paths)
    old, new = rows.where(F.col(SEQ) <= int(horizon)), rows.where(F.col(SEQ) > int(horizon))
    folded = old.groupBy(*columns).agg(F.sum(COUNT).alias(COUNT)).where(F.col(COUNT) != 0)
    folded = folded.select(*columns, COUNT, F.lit(int(horizon)).cast("bigint").alias(SEQ))
    kept = new.select(*columns, COUNT, SEQ)
    target = Target(storage, table.folder, f"compact-{horizon}", schema)
    files = folded.unionByName(kept).coalesce(2).mapInArrow(writing(target), spark_types(FILES))
    with in_words():
        return Compacted(written([row[0] for row in files.collect()]).log, tuple(names))
