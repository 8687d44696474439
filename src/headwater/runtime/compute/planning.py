"""Making views ready to run: Spark checks their expressions and says which types they have."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # as everyone calls it
from pyspark.sql.types import DoubleType, FloatType, StructField

from headwater.algebra.conditions import check_equalities
from headwater.algebra.meanings import surprises
from headwater.algebra.relations import Relation
from headwater.algebra.spoken import called
from headwater.algebra.view import Output, ViewDefinition, quoted
from headwater.maintenance.wave import core_schema
from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import ViewSqlError
from headwater.model.names import TableName, ViewName, view_table
from headwater.model.schema import TableSchema
from headwater.runtime.compute.determinism import check_determinism
from headwater.runtime.compute.representable import check_numbers, check_types
from headwater.runtime.compute.spark import arrow_types, spark_types
from headwater.runtime.compute.tree_planning import plan_tree
from headwater.runtime.project.fingerprints import fingerprint, needed_schema
from headwater.runtime.project.plan import PlannedTree, ViewPlan


def plan_views(
    spark: SparkSession,
    views: Mapping[ViewName, ViewDefinition],
    tables: Mapping[ViewName, Mapping[TableName, TableSchema]],
) -> dict[ViewName, ViewPlan]:
    """Plan several views, parents before their children."""
    plans: dict[ViewName, ViewPlan] = {}
    for name, view in views.items():
        plans[name] = plan_view(spark, view, tables[name], {p: plans[p] for p in view.parents})
    return plans


def plan_view(
    spark: SparkSession,
    view: ViewDefinition,
    tables: Mapping[TableName, TableSchema],
    parents: Mapping[ViewName, ViewPlan],
) -> ViewPlan:
    """Have Spark check the view's expressions; raises ViewSqlError with Spark's own reason."""
    spark = spark.newSession()  # temporary views of its own: others may be planning or checking now
    schemas = {name: needed_schema(view, tables[name]) for name in view.base_tables}
    schemas |= {view_table(parent.view.name): _columns_of(view, parent) for parent in parents.values()}
    check_equalities(view, schemas)
    tree: PlannedTree | None = None
    types: dict[str, pa.DataType] = {}
    try:
        if view.tree is None:
            core = core_schema(view, schemas)
        else:
            sizes = {name: table.rows for name, table in tables.items() if table.rows is not None}
            tree = _planned_tree(spark, view, view.tree, schemas, sizes)
            core = tree.core
        empty = spark.createDataFrame([], spark_types(core))
        if view.aggregation:
            prepared = arguments(view, empty)
            check_types(view, prepared.schema)
            check_numbers(view, arrow_types(prepared.schema))
            grouped = _grouped(view, prepared)
            result = finish(view, grouped)
            check_types(view, grouped.schema, result.schema)
            types = {f.name: f.type for f in (*arrow_types(prepared.schema), *arrow_types(grouped.schema))}
        else:
            result = outputs(view, empty)
            check_types(view, result.schema)
        # the query as a whole must mean the same to Spark: a cheap check that it can be recomputed
        for name in view.tables:
            spark.createDataFrame([], spark_types(schemas[name])).createOrReplaceTempView(quoted(str(name)))
        check_determinism(view, spark.sql(view.recompute))
    except PySparkException as error:
        raise ViewSqlError(
            f"view {view.name} ({view.file}:{view.line}): Spark refuses it: {_in_words(reason(error), view)}",
            "expressions are Spark SQL; cast where types do not fit",
        ) from None
    finally:
        for name in view.tables:
            spark.catalog.dropTempView(quoted(str(name)))
    fields = [pa.field(f.name, f.type) for f in arrow_types(result.schema) if f.name not in (COUNT, SEQ)]
    log = pa.schema([*fields, pa.field(COUNT, pa.int64()), pa.field(SEQ, pa.int64())])
    mark = fingerprint(view, tables, [parents[p].fingerprint for p in view.parents])
    return ViewPlan(view, schemas, core, log, types, mark, dict(parents), surprises(view, schemas), tree)


def _planned_tree(
    spark: SparkSession,
    view: ViewDefinition,
    tree: Relation,
    schemas: Mapping[TableName, pa.Schema],
    sizes: Mapping[TableName, int],
) -> PlannedTree:
    try:
        return plan_tree(spark, tree, schemas, sizes)
    except ViewSqlError as error:
        raise ViewSqlError(f"{view.file}:{view.line}: view {view.name}: {error.what}", error.fix) from None


def _in_words(text: str, view: ViewDefinition) -> str:
    """Spark's words, with what a person calls the columns in place of the names that a tree gives them."""
    said = called(view.tree) if view.tree is not None else {}
    return re.sub(r"\bc\d+\b", lambda found: said.get(found[0], found[0]), text)


def _columns_of(view: ViewDefinition, parent: ViewPlan) -> pa.Schema:
    """The columns of a parent that a view needs."""
    wanted = {c for o in view.occurrences if o.table == view_table(parent.view.name) for c in o.columns}
    return pa.schema([f for f in parent.columns if f.name in wanted])


def outputs(view: ViewDefinition, core: DataFrame) -> DataFrame:
    """σ and π: the view's columns from its core."""
    return _selected(_filtered(core, view.residual), view.outputs)


def arguments(view: ViewDefinition, core: DataFrame) -> DataFrame:
    """The aggregation's keys and arguments from the core."""
    assert view.aggregation is not None
    return _selected(_filtered(core, view.residual), (*view.aggregation.keys, *view.aggregation.arguments))


def finish(view: ViewDefinition, grouped: DataFrame, passing: str = "") -> DataFrame:
    """HAVING and the output expressions over groups; rows where `passing` holds are let through HAVING."""
    assert view.aggregation is not None
    if view.aggregation.having:
        condition = f"({view.aggregation.having})"
        grouped = grouped.where(f"{passing} OR {condition}" if passing else condition)
    extra = [c for c in grouped.columns if c.startswith("__") and c not in (COUNT, SEQ)]
    return _selected(grouped, view.aggregation.outputs, extra)


def reason(error: PySparkException) -> str:
    """The first sentence of Spark's message, without its plan dump."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return text.split(" SQLSTATE")[0]


def _filtered(frame: DataFrame, conditions: tuple[str, ...]) -> DataFrame:
    for condition in conditions:
        frame = frame.where(condition)
    return frame


def _selected(frame: DataFrame, wanted: tuple[Output, ...], extra: list[str] | None = None) -> DataFrame:
    columns = [F.expr(o.expression).alias(o.name) for o in wanted]
    chosen = frame.select(*columns, *(F.col(quoted(n)) for n in (COUNT, SEQ, *(extra or ()))))
    return chosen.withColumns({f.name: _one_zero(f) for f in chosen.schema if isinstance(f.dataType, _FLOATS)})


_FLOATS = (DoubleType, FloatType)


def _one_zero(field: StructField) -> Column:
    """−0.0 as 0.0. They are equal, and Spark's own groups make one of them, so a row that was read back and one that
    was computed would not cancel."""
    value = F.col(quoted(field.name))
    return F.when(value == 0, F.lit(0.0).cast(field.dataType)).otherwise(value)


def _grouped(view: ViewDefinition, prepared: DataFrame) -> DataFrame:
    """The aggregation as Spark itself would do it, for its types only."""
    assert view.aggregation is not None
    calls = [F.expr(call.sql).alias(call.name) for call in view.aggregation.calls]
    keys = [F.col(k.name) for k in view.aggregation.keys]
    marks = [F.lit(0).cast("bigint").alias(COUNT), F.lit(0).cast("bigint").alias(SEQ)]
    grouped = prepared.groupBy(*keys).agg(*calls, F.count("*").alias("__rows"))
    names = [k.name for k in view.aggregation.keys] + [c.name for c in view.aggregation.calls]
    return grouped.select(*names, *marks)
