"""Spark as the machinery of a run."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from headwater.algebra.view import ViewDefinition
from headwater.model.names import TableName, ViewName
from headwater.model.schema import TableSchema
from headwater.runtime.commit.tables import ViewTables
from headwater.runtime.compute.compaction import SparkCompactor
from headwater.runtime.compute.computing import SparkCompute
from headwater.runtime.compute.living_spark import LivingSpark
from headwater.runtime.compute.loading import SparkLoader
from headwater.runtime.compute.planning import plan_view
from headwater.runtime.ports import Machinery
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.config import Config
from headwater.runtime.project.plan import ViewPlan
from headwater.storage import Storage
from headwater.warehouse.cuts import CutLog


class SparkPlanner:
    def __init__(self, spark: LivingSpark) -> None:
        self._living = spark

    def __call__(
        self, view: ViewDefinition, tables: Mapping[TableName, TableSchema], parents: Mapping[ViewName, ViewPlan]
    ) -> ViewPlan:
        with self._living.using() as spark:
            return plan_view(spark, view, tables, parents)


def spark_machinery(config: Config, spark: SparkSession, catalog: SourceCatalog) -> Machinery:
    storage, living = Storage(config.warehouse), LivingSpark(config, spark)
    tables = ViewTables(storage)
    compute = SparkCompute(config, living, catalog, tables)
    return Machinery(
        storage=storage,
        compute=compute,
        loader=SparkLoader(config, living, catalog, tables),
        compactor=SparkCompactor(living, storage),
        plan=SparkPlanner(living),
        tables=tables,
        cuts=CutLog(storage),
        cancel=living.cancel_jobs,
        close=compute.close,
    )
