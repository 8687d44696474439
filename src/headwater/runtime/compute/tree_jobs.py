"""Views that are trees: a batch is one job like any other, and a load one query over the copies."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # as everyone calls it

from headwater.algebra.render import rendered
from headwater.algebra.view import plain, quoted
from headwater.maintenance.operators.program import INPUT
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import Seq, TableName
from headwater.model.written import Tally, Written
from headwater.runtime.compute.aggregating import AggregateWork
from headwater.runtime.compute.failures import carries_errors
from headwater.runtime.compute.frames import repeated
from headwater.runtime.compute.jobs import TallySum, collected, computed, finish_rows
from headwater.runtime.compute.spark import spark_types
from headwater.runtime.compute.tree_tasks import Phase, TreeWork, phase_rows, phase_task, phases
from headwater.runtime.compute.wave_work import WaveWork
from headwater.runtime.compute.writing import FILES, Target, write_rows
from headwater.runtime.project.plan import ViewPlan


def run_tree(
    spark: SparkSession, plan: ViewPlan, wave: WaveWork, target: Target, groups: AggregateWork | None
) -> Written:
    """Compute one batch of a view that is a tree, and write the files of its change."""
    with _work(spark, plan, wave) as (work, tally):
        assert plan.tree is not None
        *before, last = phases(plan.tree.program)
        rows = _through(spark.newSession(), plan, work, before)
        direct = plain(plan.view)
        if groups is None and direct is not None:
            return collected(rows.mapInArrow(_written(work, last, direct, target), spark_types(FILES)), tally)
        core = rows.mapInArrow(phase_task(work, last, plan.core), spark_types(plan.core))
        return collected(finish_rows(plan, core, target, groups, 1), tally)


def tree_ahead(spark: SparkSession, plan: ViewPlan, wave: WaveWork) -> tuple[DataFrame, Any]:
    """The core's changes in one batch, in Spark's cache, and the accumulator that says what they cost."""
    with _work(spark, plan, wave) as (work, tally):
        assert plan.tree is not None
        *before, last = phases(plan.tree.program)
        rows = _through(spark.newSession(), plan, work, before)
        core = rows.mapInArrow(phase_task(work, last, plan.core), spark_types(plan.core))
        return computed(core), tally


@contextmanager
def _work(spark: SparkSession, plan: ViewPlan, wave: WaveWork) -> Iterator[tuple[TreeWork, Any]]:
    assert plan.tree is not None
    tally = spark.sparkContext.accumulator(asdict(Tally()), TallySum())
    folder = Path(tempfile.gettempdir()) / f"headwater-tree-{uuid.uuid4().hex}"
    try:
        yield TreeWork(wave, plan.tree.program, str(folder), tally.add), tally
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # where a task died


def _through(spark: SparkSession, plan: ViewPlan, work: TreeWork, before: list[Phase]) -> DataFrame:
    """Up to the last phase: a session of its own has a name of its own for what is evaluated."""
    rows = spark.range(0, 1, 1, 1)
    assert plan.tree is not None
    for phase in before:
        assert phase.leaving is not None
        given = plan.tree.shapes[phase.leaving.name]
        rows.mapInArrow(phase_task(work, phase, given), spark_types(given)).createOrReplaceTempView(INPUT)
        rows = spark.sql(phase.leaving.sql)
    return rows


def _written(work: TreeWork, last: Phase, direct: Mapping[str, str], target: Target) -> Any:
    renamed = [*direct.items(), (COUNT, COUNT), (SEQ, SEQ)]

    @carries_errors
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        core = phase_rows(work, last, batches)
        rows = pa.table([core.column(c) for _, c in renamed], names=[n for n, _ in renamed])
        yield pa.record_batch([pa.array(write_rows(target, rows.to_batches()), pa.string())], schema=FILES)

    return run


def tree_core(spark: SparkSession, plan: ViewPlan, tables: Mapping[TableName, DataFrame], seq: Seq) -> DataFrame:
    """The tree over copies of its tables (with COUNT), everything labelled `seq`."""
    assert plan.tree is not None
    for name, rows in tables.items():
        repeated(rows).createOrReplaceTempView(quoted(str(name)))
    found = spark.sql(rendered(plan.tree.root))
    columns = [F.col(c) for c in plan.tree.root.columns]
    one, label = F.lit(1).cast("bigint"), F.lit(int(seq)).cast("bigint")
    return found.select(*columns, one.alias(COUNT), label.alias(SEQ))
