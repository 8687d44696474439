"""Checking a view against its sources, as of exactly its cut.

The tables are copied as of the newest cut P; for an older state s the journal's changes after s are taken back,

    T(s) = T(P) − changes of T in (s, hi]

and Spark runs the view's query as it was written: nothing of the wave takes part. Compared as bags.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # as everyone calls it

from headwater.algebra.view import quoted
from headwater.integrator.journal import Journal, read_changes
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import Seq, TableName, ViewName
from headwater.runtime.catalog import SourceCatalog
from headwater.runtime.config import Config
from headwater.runtime.failures import translated
from headwater.runtime.plans import ViewPlan
from headwater.runtime.spark import spark_types
from headwater.runtime.staging import Progress, StagedCut, Staging, wanted
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut
from headwater.warehouse.reading import Pinned
from headwater.warehouse.table import ChangelogTable

SHOWN = 20


@dataclass(frozen=True)
class Verification:
    """`missing` rows should be in the view and are not, `extra` are and should not; at most SHOWN of each are given,
    `differing` says how many there are."""

    view: ViewName
    seq: Seq
    ok: bool
    rows: int
    missing: Sequence[Mapping[str, Any]] = ()
    extra: Sequence[Mapping[str, Any]] = ()
    differing: int = 0


class Verifier:
    """Recomputes views from copies of their tables."""

    def __init__(self, spark: SparkSession, config: Config, catalog: SourceCatalog, cut: Cut) -> None:
        self._spark, self._config, self._catalog, self._cut = spark, config, catalog, cut
        self._storage = Storage(config.warehouse)

    def verify(
        self, plans: Sequence[ViewPlan], pinned: Mapping[ViewName, Pinned], progress: Progress
    ) -> list[Verification]:
        owner = f"verify-{int(time.time())}-{uuid.uuid4().hex[:8]}"
        at = StagedCut(self._cut.seq, self._cut.positions, owner)
        staged = Staging(self._spark, self._config, self._catalog, at)
        try:
            staged.copy(wanted(plans), progress)
            return [self._verify(plan, pinned[plan.view.name], staged) for plan in plans]
        finally:
            self._storage.delete_folder(f"loads/{owner}")

    def _verify(self, plan: ViewPlan, pinned: Pinned, staged: Staging) -> Verification:
        names = plan.columns.names
        for table in plan.view.tables:
            rows = self._at(table, staged.table(table), pinned.seq)
            repeated(rows).createOrReplaceTempView(quoted(str(table)))
        try:
            expected = self._spark.sql(plan.view.recompute).toDF(*names)
            actual = read_frame(self._spark, self._storage, pinned)
            expected, actual = expected.persist(), actual.persist()
            missing = expected.exceptAll(actual).toArrow().to_pylist()
            extra = actual.exceptAll(expected).toArrow().to_pylist()
            total = actual.count()
            expected.unpersist()
            actual.unpersist()
        except PySparkException as error:
            raise translated(error) from error
        finally:
            for table in plan.view.tables:
                self._spark.catalog.dropTempView(quoted(str(table)))
        floats = [f.name for f in plan.columns if pa.types.is_floating(f.type)]
        if floats and plan.view.aggregation is not None:
            missing, extra = without_rounding(missing, extra, floats)
        return Verification(
            plan.view.name,
            pinned.seq,
            not missing and not extra,
            total,
            missing[:SHOWN],
            extra[:SHOWN],
            len(missing) + len(extra),
        )

    def _at(self, table: TableName, now: DataFrame, seq: Seq) -> DataFrame:
        """The table at `seq`: its copy as of the cut, less what came after."""
        if seq >= self._cut.seq:
            return now
        journal = Journal(self._storage)
        segments = journal.between(seq, self._cut.seq)
        changes = read_changes(self._storage, segments, table, seq, self._cut.seq)
        if changes is None or changes.num_rows == 0:
            return now
        columns = [c for c in now.columns if c != COUNT]
        undone = changes.select([*columns, COUNT])
        undone = undone.cast(pa.schema([*(undone.schema.field(c) for c in columns), pa.field(COUNT, pa.int64())]))
        later = self._spark.createDataFrame(undone).withColumn(COUNT, -F.col(COUNT))
        both = now.unionByName(later.select(*[quoted(c) for c in [*columns, COUNT]]))
        return both.groupBy(*[quoted(c) for c in columns]).agg(F.sum(COUNT).alias(COUNT))


def read_frame(spark: SparkSession, storage: Storage, view: Pinned) -> DataFrame:
    """A view's rows at one state as a Spark DataFrame, duplicates repeated."""
    table = ChangelogTable(storage, view.folder)
    schema = table.schema
    files = [storage.uri(f"{view.folder}/{name}") for name in table.files(view.version)]
    if not files:
        empty = spark.createDataFrame([], spark_types(schema))
        return empty.drop(COUNT, SEQ)
    rows = spark.read.schema(spark_types(schema)).parquet(*files).where(F.col(SEQ) <= int(view.seq))
    columns = [quoted(f.name) for f in schema if f.name not in (COUNT, SEQ)]
    return repeated(rows.groupBy(*columns).agg(F.sum(COUNT).alias(COUNT)))


def repeated(rows: DataFrame) -> DataFrame:
    """Every row as often as it counts."""
    counted = rows.where(F.col(COUNT) > 0)
    many = counted.withColumn("__copy", F.explode(F.array_repeat(F.lit(True), F.col(COUNT).cast("int"))))
    return many.drop(COUNT, "__copy")


def without_rounding(
    missing: list[dict[str, Any]], extra: list[dict[str, Any]], floats: Sequence[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Drop pairs that differ only in the last digits of a float: Spark's own sum of floats depends on the order of
    rows, ours is correctly rounded."""
    rest, left = list(extra), []
    for row in missing:
        twin = next((other for other in rest if _same(row, other, floats)), None)
        if twin is None:
            left.append(row)
        else:
            rest.remove(twin)
    return left, rest


def _same(one: Mapping[str, Any], other: Mapping[str, Any], floats: Sequence[str]) -> bool:
    for name, value in one.items():
        theirs = other[name]
        if name in floats and value is not None and theirs is not None:
            if not (math.isclose(value, theirs, rel_tol=1e-9, abs_tol=1e-9) or (value != value and theirs != theirs)):
                return False
        elif value != theirs:
            return False
    return True
