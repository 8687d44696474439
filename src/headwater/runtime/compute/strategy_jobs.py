"""The Spark job of a batch whose ViewChanges are tasks: one job of two stages.

    ViewChanges, `parallel` at a time → [all effects to one task] → CommitManager → files, or expressions and groups

Invariant: the second stage is one task, and it has the effects of every update or fails. So the order of commits is
decided in one place, and a task of the first stage that Spark runs again changes nothing but that order (`divided`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.algebra.view import plain
from headwater.maintenance.strategies.divided import committed_together
from headwater.model.written import Tally, Written
from headwater.runtime.compute.aggregating import AggregateWork
from headwater.runtime.compute.failures import carries_errors
from headwater.runtime.compute.jobs import TallySum, collected, finish_rows, part_numbers, write_plain
from headwater.runtime.compute.spark import spark_types
from headwater.runtime.compute.strategy_tasks import PARCELS, packed, share_effects, unpacked
from headwater.runtime.compute.wave_work import WaveWork
from headwater.runtime.compute.writing import FILES, Target
from headwater.runtime.project.plan import ViewPlan


def run_shares(
    spark: SparkSession, plan: ViewPlan, work: WaveWork, target: Target, groups: AggregateWork | None
) -> Written:
    """Compute one batch of one view, its updates divided over `work.parts` tasks, and write the files of its change."""
    tally = spark.sparkContext.accumulator(asdict(Tally()), TallySum())

    @carries_errors
    def handle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in part_numbers(batches):
            effects, cost = share_effects(work, part)
            tally.add(asdict(cost))
            yield from packed(effects)

    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")  # it would make a job of each stage, and plan anew between
    tasks = session.range(0, work.parts, 1, work.parts)
    effects = tasks.mapInArrow(handle, spark_types(PARCELS)).repartition(1)
    direct = plain(plan.view)
    if groups is None and direct is not None:

        @carries_errors
        def commit_and_write(parcels: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            core = committed_together(work.view, [unpacked(parcels, plan.core)])
            yield pa.record_batch([pa.array(write_plain(core, direct, target), pa.string())], schema=FILES)

        return collected(effects.mapInArrow(commit_and_write, spark_types(FILES)), tally)

    @carries_errors
    def commit(parcels: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        core = committed_together(work.view, [unpacked(parcels, plan.core)])
        yield from core.to_batches(max_chunksize=65536)

    core = effects.mapInArrow(commit, spark_types(plan.core))
    return collected(finish_rows(plan, core, target, groups, 1), tally)
