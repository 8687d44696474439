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
from headwater.runtime.compute.failures import in_words
from headwater.runtime.compute.jobs import written
from headwater.runtime.compute.spark import spark_types
from headwater.runtime.compute.tasks import FILES, Target, writing
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
    """A file of a changelog: how many rows, from which transaction to which."""

    name: str
    rows: int
    low: int
    high: int

    @property
    def one_state(self) -> bool:
        """All of one transaction: a first load, or history folded before."""
        return self.low == self.high

    def foldable(self, horizon: int) -> float:
        """About how many of its rows lie at or before the horizon."""
        share = (min(horizon, self.high) - self.low + 1) / (self.high - self.low + 1)
        return self.rows * max(0.0, share)


def log_files(table: ChangelogTable) -> list[LogFile]:
    """The files of a table's newest version, with their statistics."""
    rows = pa.table(table.delta.get_add_actions(flatten=True)).to_pylist()
    return [LogFile(r["path"], r["num_records"], r[f"min.{SEQ}"], r[f"max.{SEQ}"]) for r in rows]


def worth_compacting(files: Sequence[LogFile], horizon: Seq) -> list[str]:
    """The files to compact now, by their cost: small ones when there are many; all of them when about as many rows can
    be folded as there are in states folded already, so that a row is rewritten a few times in its life, not every time.
    """
    base = sum(f.rows for f in files if f.one_state and f.rows >= SMALL_ROWS)
    foldable = sum(f.foldable(horizon) for f in files if not f.one_state)
    if foldable > max(4 * SMALL_ROWS, base):
        return [f.name for f in files]
    small = [f for f in files if f.rows < SMALL_ROWS]
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
    # apart, so that a folded state is recognised by its single transaction and not folded again
    parts = [frame.mapInArrow(writing(target), spark_types(FILES)) for frame in (folded.coalesce(2), kept.coalesce(2))]
    files = parts[0].union(parts[1])
    with in_words():
        return Compacted(written([row[0] for row in files.collect()]).log, tuple(names))
