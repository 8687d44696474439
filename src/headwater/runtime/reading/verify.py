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
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # as everyone calls it

from headwater.algebra.view import quoted
from headwater.integrator.journal import Journal, read_changes
from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import HeadwaterError, HistoryGone
from headwater.model.names import Seq, TableName, ViewName
from headwater.runtime.compute.failures import translated_errors
from headwater.runtime.compute.frames import repeated, undone
from headwater.runtime.compute.spark import spark_types
from headwater.runtime.compute.staging import Progress, StagedCut, Staging, wanted
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.config import Config
from headwater.runtime.project.plan import ViewPlan
from headwater.runtime.reading.order import disorder
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut
from headwater.warehouse.reading import Pinned, count_rows
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
    problem: str = ""
    """What else is wrong: it could not be recomputed, or its states are not in the order its sources committed."""


class Verifier:
    """Recomputes views from copies of their tables, parents before the views that read them."""

    def __init__(self, spark: SparkSession, config: Config, catalog: SourceCatalog, cut: Cut) -> None:
        self._spark, self._config, self._catalog, self._cut = spark.newSession(), config, catalog, cut
        self._storage = Storage(config.warehouse)
        self._journal = Journal(self._storage)

    def verify(
        self, plans: Sequence[ViewPlan], pinned: Mapping[ViewName, Pinned], progress: Progress
    ) -> list[Verification]:
        """Compare each of these views, at the state `pinned` names, with its query over the sources' tables."""
        owner = f"verify-{int(time.time())}-{uuid.uuid4().hex[:8]}"
        # as of the newest cut, which our pin holds at the sources; the journal takes back what came after older states
        newest = max([self._cut.seq, *(pinned[p.view.name].seq for p in plans)])
        segment = self._journal.reaching(newest)
        at = StagedCut(self._cut.seq, self._cut.positions, owner)
        if segment is not None:
            at = StagedCut(segment.hi, segment.positions, owner)
        staged = Staging(self._spark, self._config, self._catalog, at)
        try:
            staged.copy(wanted(_with_parents(plans)), progress)
            found = [self._verify(plan, pinned[plan.view.name], staged) for plan in plans]
            return [self._ordered(plan, one) for plan, one in zip(plans, found, strict=True)]
        finally:
            self._storage.delete_folder(f"loads/{owner}")

    def _verify(self, plan: ViewPlan, pinned: Pinned, staged: Staging) -> Verification:
        try:
            with translated_errors():
                expected = self._expected(plan, pinned.seq, staged)
                missing, extra = _compared(expected, read_frame(self._spark, self._storage, pinned))
        except HistoryGone as error:  # it did not run while others did
            return self.unverified(plan.view.name, pinned, error)
        floats = [f.name for f in plan.columns if pa.types.is_floating(f.type)]
        if floats and (plan.view.aggregation is not None or plan.view.tree is not None):
            missing, extra = without_rounding(missing, extra, floats)
        return Verification(
            plan.view.name,
            pinned.seq,
            not missing and not extra,
            count_rows(self._storage, pinned, None) or 0,
            missing[:SHOWN],
            extra[:SHOWN],
            len(missing) + len(extra),
        )

    def unverified(self, view: ViewName, pinned: Pinned, error: HeadwaterError | None) -> Verification:
        """A view that cannot be recomputed at present."""
        why = error.what if error is not None else "its definition is not known"
        return Verification(view, pinned.seq, False, 0, problem=why)

    def _ordered(self, plan: ViewPlan, found: Verification) -> Verification:
        """Taking the journal back cannot show that it is in the wrong order: the sources' own commit times can."""
        wrong = disorder(self._journal, self._catalog, plan.sources, found.seq)
        return replace(found, ok=False, problem=wrong) if wrong else found

    def _expected(self, plan: ViewPlan, seq: Seq, staged: Staging) -> DataFrame:
        """The view's query at `seq`, over tables as they were then and its parents' own expectations."""
        parents = {name: self._expected(parent, seq, staged) for name, parent in plan.parents.items()}
        for table in plan.view.base_tables:
            repeated(self._at(table, staged, seq)).createOrReplaceTempView(quoted(str(table)))
        for name, rows in parents.items():
            rows.createOrReplaceTempView(quoted(name))
        return self._spark.sql(plan.view.recompute).toDF(*plan.columns.names)

    def _at(self, table: TableName, staged: Staging, seq: Seq) -> DataFrame:
        """The table at `seq`: its copy, less what came after."""
        segments = self._journal.between(seq, staged.seq)
        now = staged.table(table)
        columns = [name for name in now.columns if name != COUNT]
        return undone(self._spark, now, read_changes(self._storage, segments, table, seq, staged.seq, columns))


def _compared(expected: DataFrame, actual: DataFrame) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows that one has more often than the other; each is computed once."""
    both = expected.withColumn(COUNT, F.lit(1)).union(actual.withColumn(COUNT, F.lit(-1)))
    rows = both.groupBy(*map(quoted, expected.columns)).agg(F.sum(COUNT).alias(COUNT)).where(F.col(COUNT) != 0)
    differing = rows.toArrow().to_pylist()
    missing = [row for row in differing for _ in range(row[COUNT])]
    extra = [row for row in differing for _ in range(-row[COUNT])]
    for row in differing:
        del row[COUNT]
    return missing, extra


def _with_parents(plans: Sequence[ViewPlan]) -> list[ViewPlan]:
    """These views and every view they are computed from."""
    found: dict[ViewName, ViewPlan] = {}
    for plan in plans:
        for parent in _with_parents(list(plan.parents.values())):
            found[parent.view.name] = parent
        found[plan.view.name] = plan
    return list(found.values())


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
