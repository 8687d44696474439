"""Batches of an aggregation that are computed before the one before them is: the core's changes wait for their groups.

The wave of a batch asks as of the batch's end and reads the journal; it does not know what groups keep. So it runs
beside the batch before, and what is left to do in its turn is short. Where the coordinator computed it the rows are in
memory; where Spark did, in Spark's cache, which computes again what it has lost.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.model.written import Tally, Written
from headwater.runtime.commit.tables import ViewTables
from headwater.runtime.compute.aggregating import AggregateWork
from headwater.runtime.compute.culprit import blamed
from headwater.runtime.compute.failures import DEATH_FIX, ComputationFailed, ProcessDied
from headwater.runtime.compute.here import finished_here
from headwater.runtime.compute.jobs import collected, finish_rows, wave_ahead
from headwater.runtime.compute.living_spark import LivingSpark
from headwater.runtime.compute.targets import aggregation, log_target
from headwater.runtime.compute.tree_jobs import tree_ahead
from headwater.runtime.compute.wave_work import WaveWork
from headwater.runtime.compute.writing import Target
from headwater.runtime.scheduling.families import Batch
from headwater.runtime.view import ManagedView


@dataclass(frozen=True)
class GroupsLater:
    """What is needed to finish a batch: the groups are looked at when they are as the batch before has left them."""

    living: LivingSpark
    tables: ViewTables
    view: ManagedView
    batch: Batch
    noted: Callable[[ManagedView, Written], Written]

    def targets(self) -> tuple[Target, AggregateWork | None]:
        return log_target(self.tables, self.view, str(self.batch)), aggregation(self.tables, self.view, self.batch.hi)


@dataclass(frozen=True)
class RowsHere:
    """Computed by the coordinator."""

    later: GroupsLater
    rows: pa.Table
    cost: Tally

    def finished(self) -> Written:
        with self.later.living.using():
            return self.later.noted(self.later.view, finished_here(self.rows, self.cost, *self.later.targets()))

    def dropped(self) -> None:
        pass


@dataclass(frozen=True)
class RowsInSpark:
    """Computed by a job of their own."""

    later: GroupsLater
    spark: SparkSession
    wave: WaveWork
    core: DataFrame
    cost: Any

    @staticmethod
    def of(later: GroupsLater, spark: SparkSession, wave: WaveWork) -> RowsInSpark:
        plan = later.view.plan
        core, cost = (wave_ahead if plan.tree is None else tree_ahead)(spark, plan, wave)
        return RowsInSpark(later, spark, wave, core, cost)

    def finished(self) -> Written:
        plan = self.later.view.plan
        with self.later.living.using() as spark:
            if spark is not self.spark:
                raise ProcessDied("the JVM that computed for it died", DEATH_FIX)
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", str(self.later.view.name))
            target, groups = self.later.targets()
            parts = self.wave.parts if plan.tree is None else 1
            try:
                written = collected(finish_rows(plan, self.core, target, groups, parts), self.cost)
            except ComputationFailed as error:
                raise blamed(error, spark, plan, self.wave) from error
            finally:
                self.dropped()
            return self.later.noted(self.later.view, written)

    def dropped(self) -> None:
        with suppress(Exception):  # with a JVM that is gone, its cache is too
            self.core.unpersist()
