"""Bags as Spark frames: rows with COUNT, and the few things done with them outside the waves."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # as everyone calls it

from headwater.algebra.view import quoted
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import Seq
from headwater.runtime.compute.spark import spark_types
from headwater.storage import Storage


def undone(session: SparkSession, now: DataFrame, later: pa.Table | None) -> DataFrame:
    """A table (with COUNT) less changes that came later."""
    if later is None or later.num_rows == 0:
        return now
    columns = [c for c in now.columns if c != COUNT]
    taken = later.select([*columns, COUNT])
    back = session.createDataFrame(taken, spark_types(taken.schema)).withColumn(COUNT, -F.col(COUNT))
    both = now.unionByName(back.select(*[quoted(c) for c in [*columns, COUNT]]))
    return both.groupBy(*[quoted(c) for c in columns]).agg(F.sum(COUNT).alias(COUNT))


def state_of(session: SparkSession, storage: Storage, files: Sequence[str], columns: pa.Schema, at: Seq) -> DataFrame:
    """The fold of a changelog's files (paths): these columns and COUNT."""
    schema = spark_types(pa.schema([*columns, pa.field(COUNT, pa.int64()), pa.field(SEQ, pa.int64())]))
    reader = session.read.schema(schema)
    rows = reader.parquet(*map(storage.uri_of, files)) if files else session.createDataFrame([], schema)
    names = [quoted(f.name) for f in columns]
    folded = rows.where(F.col(SEQ) <= int(at)).groupBy(*names).agg(F.sum(COUNT).alias(COUNT))
    return folded.where(F.col(COUNT) != 0)


def minus(now: DataFrame, before: DataFrame, columns: pa.Schema) -> DataFrame:
    """What must be added to `before` to get `now`; both with COUNT."""
    names = [quoted(f.name) for f in columns]
    both = now.unionByName(before.withColumn(COUNT, -F.col(COUNT)))
    return both.groupBy(*names).agg(F.sum(COUNT).alias(COUNT)).where(F.col(COUNT) != 0)


def repeated(rows: DataFrame) -> DataFrame:
    """Every row as often as it counts."""
    counted = rows.where(F.col(COUNT) > 0)
    many = counted.withColumn("__copy", F.explode(F.array_repeat(F.lit(True), F.col(COUNT).cast("int"))))
    return many.drop(COUNT, "__copy")
