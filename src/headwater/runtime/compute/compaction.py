"""Compaction: history up to the horizon becomes one folded state, small files become large ones.

    rows with seq <= horizon      summed up, labelled with the horizon
    rows after it                 as they are

Folding is linear, so any subset of a table's files may be compacted by itself, beside maintenance that adds others;
`at=s` for s >= horizon returns the same before, during and after. The files replaced stay on disk until nobody can be
reading them any more.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 # as everyone calls it

from headwater.algebra.view import quoted
from headwater.kept.files import FilesKept
from headwater.kept.runs import Index
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import Seq
from headwater.runtime.commit.chores import Fold
from headwater.runtime.commit.folding import Rewritten
from headwater.runtime.compute.failures import translated_errors
from headwater.runtime.compute.living_spark import LivingSpark
from headwater.runtime.compute.spark import spark_types
from headwater.runtime.compute.writing import FILES, Target, writing, written
from headwater.storage import Storage
from headwater.warehouse.table import ChangelogTable


class SparkCompactor:
    """Called in the thread of the chores."""

    def __init__(self, spark: LivingSpark, storage: Storage) -> None:
        self._living, self._storage = spark, storage

    def compact(self, fold: Fold) -> Rewritten:
        table = ChangelogTable(self._storage, fold.folder)
        wanted = self._kept(table, fold.names).indexes()
        with self._living.using() as spark:
            done = compact_files(spark, self._storage, table, fold.names, fold.horizon, wanted)
        if not self._storage.local:  # whoever wrote them may have been on another machine
            self._kept(table, [file.name for file in done.added]).index(wanted)
        return done

    def _kept(self, table: ChangelogTable, names: Sequence[str]) -> FilesKept:
        return FilesKept(self._storage, table.schema, [self._storage.path(f"{table.folder}/{name}") for name in names])


def compact_files(
    spark: SparkSession,
    storage: Storage,
    table: ChangelogTable,
    names: Sequence[str],
    horizon: Seq,
    wanted: tuple[Index, ...] = (),
) -> Rewritten:
    """Rewrite files of a table, folding what lies at or before the horizon; new files get the indexes `wanted`."""
    schema = table.schema
    columns = [quoted(f.name) for f in schema if f.name not in (COUNT, SEQ)]
    paths = [storage.uri(f"{table.folder}/{name}") for name in names]
    rows = spark.read.schema(spark_types(schema)).parquet(*paths)
    old, new = rows.where(F.col(SEQ) <= int(horizon)), rows.where(F.col(SEQ) > int(horizon))
    folded = old.groupBy(*columns).agg(F.sum(COUNT).alias(COUNT)).where(F.col(COUNT) != 0)
    folded = folded.select(*columns, COUNT, F.lit(int(horizon)).cast("bigint").alias(SEQ))
    kept = new.select(*columns, COUNT, SEQ)
    target = Target(storage, table.folder, f"compact-{horizon}", schema, indexes=wanted)
    # apart, so that a folded state is recognised by its single transaction and not folded again
    parts = [frame.mapInArrow(writing(target), spark_types(FILES)) for frame in (folded.coalesce(2), kept.coalesce(2))]
    files = parts[0].union(parts[1])
    with translated_errors():
        return Rewritten(written([row[0] for row in files.collect()]).log, tuple(names))
