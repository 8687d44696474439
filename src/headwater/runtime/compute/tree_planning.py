"""Making a tree ready to run: Spark says the types of its columns, operator by operator, and refuses what it must."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.algebra.dialect import spark_sql
from headwater.algebra.relations import Expression, Name, Relation
from headwater.algebra.stable import stable
from headwater.algebra.typing import INPUT, types_of
from headwater.maintenance.operators.running import shapes
from headwater.maintenance.operators.writing import changes_of
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import TableName
from headwater.runtime.compute.spark import arrow_types, spark_types
from headwater.runtime.project.plan import PlannedTree


def plan_tree(
    spark: SparkSession, tree: Relation, schemas: Mapping[TableName, pa.Schema], sizes: Mapping[TableName, int]
) -> PlannedTree:
    """Raises what Spark raises."""

    def analyze(sql: str, given: pa.Schema) -> pa.Schema:
        spark.createDataFrame([], spark_types(given)).createOrReplaceTempView(INPUT)
        return arrow_types(spark.sql(sql).schema)

    types = types_of(tree, schemas, analyze)

    def type_of(expression: Expression, columns: tuple[Name, ...]) -> pa.DataType:
        given = pa.schema([pa.field(c, types[c]) for c in columns] or [pa.field("one_", pa.int32())])
        return analyze(f"SELECT {spark_sql(expression)} AS it FROM {INPUT}", given).field("it").type

    settled = stable(tree, type_of)
    program = changes_of(settled, types, sizes)
    fields = [pa.field(c, types[c]) for c in tree.columns]
    core = pa.schema([*fields, pa.field(COUNT, pa.int64()), pa.field(SEQ, pa.int64())])
    return PlannedTree(settled, program, shapes(program), core)
