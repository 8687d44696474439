"""First loads: views computed from scratch as of one cut.

The tables are copied as of the cut (`staging`), Spark joins the copies, and from there on a load is like any batch: the
same expressions, the same aggregation, the same files. The view's history begins at the cut's `seq`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # as everyone calls it

from headwater.algebra.view import Occurrence, ViewDefinition, quoted
from headwater.maintenance.keys import common_type
from headwater.model.changelog import COUNT, SEQ
from headwater.model.conditions import Condition, Scalar
from headwater.model.names import Seq, TableName
from headwater.model.written import Written
from headwater.runtime.commit.tables import ViewTables
from headwater.runtime.compute.failures import translated_errors
from headwater.runtime.compute.jobs import finish_rows
from headwater.runtime.compute.recompute import evaluated, write_change
from headwater.runtime.compute.spark import spark_types
from headwater.runtime.compute.targets import aggregation, log_target
from headwater.runtime.compute.tasks import written
from headwater.runtime.compute.tree_jobs import tree_core
from headwater.runtime.project.plan import ViewPlan
from headwater.runtime.view import ManagedView


def load_view(
    spark: SparkSession, store: ViewTables, view: ManagedView, tables: Mapping[TableName, DataFrame], seq: Seq
) -> Written:
    """Compute a view from copies of its tables (with COUNT) and write its files."""
    if view.periodic:
        return write_change(store, view, evaluated(spark, view.plan, tables), seq)
    if view.plan.view.tree is not None:
        core = tree_core(spark, view.plan, tables, seq)
    else:
        core = joined_core(view.plan, [tables[o.table] for o in view.plan.view.occurrences], seq)
    parts = int(spark.conf.get("spark.sql.shuffle.partitions") or 4)
    target, groups = log_target(store, view, f"load-{seq}"), aggregation(store, view, seq, first=True)
    files = finish_rows(view.plan, core, target, groups, parts)
    with translated_errors():
        return written([row[0] for row in files.collect()])


def joined_core(plan: ViewPlan, tables: Sequence[DataFrame], seq: Seq) -> DataFrame:
    """T1 ⋈ … ⋈ Tn with counts multiplied, everything labelled `seq`."""
    view = plan.view
    result: DataFrame | None = None
    for index, (occurrence, table) in enumerate(zip(view.occurrences, tables, strict=True)):
        one = _occurrence(occurrence, table, index)
        if result is None:
            result = one
            continue
        on = _join_condition(plan, index)
        result = result.crossJoin(one) if on is None else result.join(one, on)
    assert result is not None
    counts = [F.col(_count(i)) for i in range(len(tables))]
    total = counts[0]
    for count in counts[1:]:
        total = total * count
    columns = [F.col(quoted(f.name)) for f in plan.core if f.name not in (COUNT, SEQ)]
    return result.select(*columns, total.alias(COUNT), F.lit(int(seq)).cast("bigint").alias(SEQ))


def _occurrence(occurrence: Occurrence, table: DataFrame, index: int) -> DataFrame:
    for condition in occurrence.conditions:
        table = table.where(_spark_condition(condition))
    columns = [F.col(quoted(c)).alias(occurrence.core(c)) for c in occurrence.columns]
    return table.select(*columns, F.col(COUNT).alias(_count(index)))


def _count(index: int) -> str:
    return f"{COUNT}{index}"


def _join_condition(plan: ViewPlan, index: int) -> Column | None:
    """The equalities between this occurrence and the ones before it; None if there are none."""
    result: Column | None = None
    for equality in plan.view.equalities:
        if index not in (equality.left[0], equality.right[0]) or max(equality.left[0], equality.right[0]) != index:
            continue
        names = [plan.view.occurrences[i].core(c) for i, c in (equality.left, equality.right)]
        types = [_type_of(plan, plan.view, *side) for side in (equality.left, equality.right)]
        wanted = _spark_type(common_type(*types))
        left, right = (F.col(quoted(n)).cast(wanted) if types[0] != types[1] else F.col(quoted(n)) for n in names)
        result = left == right if result is None else result & (left == right)
    return result


def _type_of(plan: ViewPlan, view: ViewDefinition, index: int, column: str) -> pa.DataType:
    return plan.schemas[view.occurrences[index].table].field(column).type


def _spark_type(kind: pa.DataType) -> str:
    return str(spark_types(pa.schema([pa.field("it", kind)]))["it"].dataType.simpleString())


def _spark_condition(condition: Condition) -> Column:
    column = F.col(quoted(condition.column))
    if condition.operator == "is null":
        return column.isNull()
    if condition.operator == "is not null":
        return column.isNotNull()
    if isinstance(condition.value, tuple):
        return column.isin(*map(_literal, condition.value))
    assert condition.value is not None
    value = _literal(condition.value)
    compared = {
        "=": column == value,
        "<>": column != value,
        "<": column < value,
        "<=": column <= value,
        ">": column > value,
        ">=": column >= value,
    }
    return compared[condition.operator]


def _literal(value: Scalar) -> Column:
    """A date goes as text: on the way through Java's calendar the years before 1000 get lost."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return F.lit(value.isoformat()).cast("date")
    return F.lit(value)
