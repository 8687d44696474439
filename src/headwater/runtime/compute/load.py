"""First loads: views computed from scratch as of one cut.

The tables are copied as of the cut (`staging`), Spark joins the copies, and from there on a load is like any batch: the
same expressions, the same aggregation, the same files. The view's history begins at the cut's `seq`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # as everyone calls it

from headwater.algebra.view import Equality, Occurrence, ViewDefinition, quoted
from headwater.maintenance.blocks import Contracted
from headwater.maintenance.graph import JoinStep, steps
from headwater.maintenance.keys import common_type
from headwater.maintenance.wave import no_parent
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
from headwater.runtime.compute.tree_jobs import tree_core
from headwater.runtime.compute.writing import written
from headwater.runtime.project.plan import ViewPlan
from headwater.runtime.view import ManagedView


def load_view(
    spark: SparkSession,
    store: ViewTables,
    view: ManagedView,
    tables: Mapping[TableName, DataFrame],
    seq: Seq,
    over: Contracted | None = None,
) -> Written:
    """Compute a view from copies of its tables (with COUNT) and write its files; `over` blocks that were joined at
    their sources, if there are any."""
    if view.periodic:
        return write_change(store, view, evaluated(spark, view.plan, tables), seq)
    if view.plan.view.tree is not None:
        core = tree_core(spark, view.plan, tables, seq)
    elif over is not None:
        core = core_over_blocks(view.plan, over, tables, seq)
    else:
        check_parents(view.plan, [tables[o.table] for o in view.plan.view.occurrences])
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


def core_over_blocks(plan: ViewPlan, over: Contracted, tables: Mapping[TableName, DataFrame], seq: Seq) -> DataFrame:
    """The same, where some of the tables come joined."""
    of = {o.core(c): plan.schemas[o.table].field(c) for o in plan.view.occurrences for c in o.columns}
    blocks = {t: pa.schema([of[c].with_name(c) for c in block.columns]) for t, block in over.blocks.items()}
    marks = [f for f in plan.core if f.name in (COUNT, SEQ)]
    core = [plan.core.field(name).with_name(inner) for name, inner in over.names.items()]
    inner = replace(plan, view=over.view, schemas={**plan.schemas, **blocks}, core=pa.schema([*core, *marks]))
    rows = joined_core(inner, [tables[o.table] for o in over.view.occurrences], seq)
    named = [F.col(quoted(over.names[f.name])).alias(f.name) for f in plan.core if f.name in over.names]
    return rows.select(*named, COUNT, SEQ)


def check_parents(plan: ViewPlan, tables: Sequence[DataFrame]) -> None:
    """That every row finds the rows that it refers to, where the view counts on that (`keeping/relying`)."""
    view = plan.view
    if not view.parents_relied_on:
        return
    (root,) = set(range(len(tables))) - {r.occurrence for r in view.relies}
    walk = [step for step in steps(view) if root in step.origins]
    names = {name for step in walk for name in step.near}
    rows = _there(_occurrence(view.occurrences[root], tables[root], root), names, root)
    for step in walk:
        target = view.occurrences[step.target]
        columns = names | {target.core(column) for column in step.far}
        found = _there(_occurrence(target, tables[step.target], step.target), columns, step.target)
        on = _equal(plan, [Equality(_side(view, step.start, n), (step.target, f)) for n, f in _pairs(step)])
        if step.target in view.parents_relied_on:
            known = reduce(and_, [F.col(quoted(name)).isNotNull() for name in step.near])
            with translated_errors():
                lost = rows.where(known).join(found, on, "left_anti").limit(1).collect()
            if lost:
                raise no_parent(view, step, lost[0].asDict())
        if any(later.start == step.target for later in walk):
            rows = rows.crossJoin(found) if on is None else rows.join(found, on)


def _there(rows: DataFrame, columns: Collection[str], index: int) -> DataFrame:
    """The different values of these columns, of rows that are there."""
    mine = [F.col(quoted(c)) for c in rows.columns if c in columns]
    return rows.groupBy(*mine).agg(F.sum(_count(index)).alias(_count(index))).where(F.col(_count(index)) != 0)


def _pairs(step: JoinStep) -> list[tuple[str, str]]:
    return list(zip(step.near, step.far, strict=True))


def _side(view: ViewDefinition, index: int, name: str) -> tuple[int, str]:
    return index, name.removeprefix(f"{view.occurrences[index].alias}.")


def _occurrence(occurrence: Occurrence, table: DataFrame, index: int) -> DataFrame:
    for condition in occurrence.conditions:
        table = table.where(_spark_condition(condition))
    columns = [F.col(quoted(c)).alias(occurrence.core(c)) for c in occurrence.columns]
    return table.select(*columns, F.col(COUNT).alias(_count(index)))


def _count(index: int) -> str:
    return f"{COUNT}{index}"


def _join_condition(plan: ViewPlan, index: int) -> Column | None:
    """The equalities between this occurrence and the ones before it; None if there are none."""
    return _equal(plan, [e for e in plan.view.equalities if max(e.left[0], e.right[0]) == index])


def _equal(plan: ViewPlan, equalities: Sequence[Equality]) -> Column | None:
    result: Column | None = None
    for equality in equalities:
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
