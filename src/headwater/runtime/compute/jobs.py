"""The Spark jobs: one per batch and view, one per first load.

    wave → [expressions] → files                                         a view of plain columns needs no middle part
    wave → [expressions] → groups (+ auxiliary files) → [HAVING, expressions] → files

or a published algorithm in place of the wave, where the view says so (`strategy_tasks`, `strategy_jobs`).

The parts in brackets are Spark SQL; the others are Arrow programs in `tasks`. Nothing is shuffled except rows of the
same group, and only when a batch is large enough to have several parts. What comes back to the driver are descriptions
of files, to be committed or forgotten. A small batch of which Spark has nothing to evaluate needs no job (`here`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from pyspark import AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # as everyone calls it

from headwater.algebra.methods import WAVE
from headwater.algebra.view import plain, quoted
from headwater.maintenance.aggregate import result_schema
from headwater.model.changelog import COUNT, SEQ
from headwater.model.written import Tally, Written
from headwater.runtime.compute.aggregating import AggregateWork, aggregating
from headwater.runtime.compute.failures import carries_errors, translated_errors
from headwater.runtime.compute.leaving import taking_out, with_taken_out
from headwater.runtime.compute.planning import arguments, finish, outputs
from headwater.runtime.compute.spark import spark_types
from headwater.runtime.compute.strategy_tasks import strategy_changes
from headwater.runtime.compute.wave_work import WaveWork
from headwater.runtime.compute.waves import core_changes
from headwater.runtime.compute.writing import FILE, FILES, Target, write_rows, writing, written
from headwater.runtime.project.plan import ViewPlan


class TallySum(AccumulatorParam[Any]):
    def zero(self, value: Any) -> Any:
        return dict.fromkeys(value, 0)

    def addInPlace(self, value1: Any, value2: Any) -> Any:  # noqa: N802 # Spark's name
        return {k: value1.get(k, 0) + value2.get(k, 0) for k in value1 | value2}


def run_wave(
    spark: SparkSession, plan: ViewPlan, work: WaveWork, target: Target, groups: AggregateWork | None
) -> Written:
    """Compute one batch of one view and write the files of its change."""
    direct = plain(plan.view)
    if groups is None and direct is not None:
        tally = spark.sparkContext.accumulator(asdict(Tally()), TallySum())

        @carries_errors
        def compute_and_write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for part in part_numbers(batches):
                files, cost = _written(work, part, target, direct)
                tally.add(asdict(cost))
                yield pa.record_batch([pa.array(files, pa.string())], schema=FILES)

        return collected(spark.range(0, 1, 1, 1).mapInArrow(compute_and_write, spark_types(FILES)), tally)
    core, cost = wave_core(spark, plan, work)
    if plan.view.taken_out_by:
        change = outputs(plan.view, core).coalesce(1).mapInArrow(taking_out(work, plan.log), spark_types(plan.log))
        return collected(change.mapInArrow(writing(target), spark_types(FILES)), cost)
    return collected(finish_rows(plan, core, target, groups, work.parts), cost)


def wave_core(spark: SparkSession, plan: ViewPlan, work: WaveWork) -> tuple[DataFrame, Any]:
    """The core's changes in one batch, and the accumulator that says what they cost once they are computed."""
    tally = spark.sparkContext.accumulator(asdict(Tally()), TallySum())

    @carries_errors
    def compute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in part_numbers(batches):
            core, cost = _computed(work, part)
            tally.add(asdict(cost))
            yield from core.cast(plan.core).to_batches(max_chunksize=65536)

    return spark.range(0, 1, 1, 1).mapInArrow(compute, spark_types(plan.core)), tally


def wave_ahead(spark: SparkSession, plan: ViewPlan, work: WaveWork) -> tuple[DataFrame, Any]:
    """The same, computed and in Spark's cache."""
    core, tally = wave_core(spark, plan, work)
    return computed(core), tally


def computed(core: DataFrame) -> DataFrame:
    """Rows in Spark's cache."""
    core = core.persist()
    with translated_errors():
        core.write.format("noop").mode("overwrite").save()
    return core


def _computed(work: WaveWork, part: int) -> tuple[pa.Table, Tally]:
    """The core's changes, by the wave or by the algorithm that the view names."""
    return core_changes(work) if work.view.maintenance == WAVE else strategy_changes(work, part)


def _written(work: WaveWork, part: int, target: Target, direct: Mapping[str, str]) -> tuple[list[str], Tally]:
    """A part of a batch of a view of plain columns: descriptions of its files, and what it cost."""
    core, cost = _computed(work, part)
    rows = with_taken_out(work, _plain_rows(core, direct))
    return list(write_rows(target, rows.to_batches())), cost


def write_plain(core: pa.Table, direct: Mapping[str, str], target: Target) -> list[str]:
    """Rows of the core as rows of a view of plain columns: descriptions of its files."""
    return list(write_rows(target, _plain_rows(core, direct).to_batches()))


def _plain_rows(core: pa.Table, direct: Mapping[str, str]) -> pa.Table:
    renamed = [*direct.items(), (COUNT, COUNT), (SEQ, SEQ)]
    return pa.table([core.column(c) for _, c in renamed], names=[n for n, _ in renamed])


def finish_rows(plan: ViewPlan, core: DataFrame, target: Target, groups: AggregateWork | None, parts: int) -> DataFrame:
    """From the core's rows to files of the view: the part that waves and first loads share."""
    if groups is None:
        return outputs(plan.view, core).mapInArrow(writing(target), spark_types(FILES))
    assert plan.view.aggregation is not None
    prepared = arguments(plan.view, core)
    keys = [quoted(k.name) for k in plan.view.aggregation.keys]
    if not keys:
        prepared = (_never_nothing(prepared) if groups.first else prepared).coalesce(1)
    elif parts > 1:
        prepared = prepared.repartition(parts, *keys)
    schema = pa.schema([*result_schema(plan.view.aggregation, plan.types), pa.field(FILE, pa.string())])
    grouped = prepared.mapInArrow(aggregating(groups), spark_types(schema))
    finished = finish(plan.view, grouped, passing=f"{quoted(FILE)} IS NOT NULL")
    return finished.mapInArrow(writing(target), spark_types(FILES))


def _never_nothing(prepared: DataFrame) -> DataFrame:
    """The same rows and one that counts 0. Without GROUP BY there is one group even of nothing, but Spark makes no task
    for a relation that it knows, or learns while running, to be empty: nobody would be there to say so."""
    nulls = [F.lit(None).cast(f.dataType).alias(f.name) for f in prepared.schema if f.name not in (COUNT, SEQ)]
    zeros = [F.lit(0).cast("bigint").alias(name) for name in (COUNT, SEQ)]
    one = prepared.sparkSession.range(1).select(*nulls, *zeros)
    return prepared.unionByName(one)


def part_numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """Which parts of the batch a task is to compute."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def collected(files: DataFrame, tally: Any) -> Written:
    with translated_errors():
        rows = files.collect()
    return written([row[0] for row in rows], tally.value)
