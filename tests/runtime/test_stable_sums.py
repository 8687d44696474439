"""Inside a tree a sum of floating numbers does not depend on the order of rows: an old row that is computed again must
cancel the one that was stored, to the last digit."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from sqlglot import exp

from headwater.algebra.dialect import spark_sql
from headwater.algebra.relations import Aggregate, Table, Window, WindowCall
from headwater.algebra.select.scope import column
from headwater.algebra.stable import stable
from headwater.model.errors import ViewSqlError
from headwater.model.names import SourceName, TableName

VALUES = [1e16, 1.0, -1e16, 0.1, 1.0, 0.2]
TABLE = Table(TableName(SourceName("s"), "t"), ("k", "x"), ("c0", "c1"))
CALLS = {"sum": exp.Sum(this=column("c1")), "avg": exp.Avg(this=column("c1"))}


def floating(expression: object, columns: object) -> pa.DataType:
    return pa.float64()


def whole(expression: object, columns: object) -> pa.DataType:
    return pa.int64()


def summed(spark: SparkSession, call: exp.Expr, values: list[float]) -> object:
    rows = spark.createDataFrame([(1, v) for v in values], "c0 int, c1 double").coalesce(1)
    rows.createOrReplaceTempView("stable_sums")
    (found,) = spark.sql(f"SELECT {spark_sql(call)} FROM stable_sums").collect()
    return found[0]


@pytest.mark.spark
@pytest.mark.parametrize("how", CALLS)
def test_the_order_of_rows_does_not_matter(spark: SparkSession, how: str) -> None:
    tree = stable(Aggregate(TABLE, ("c0",), (("c2", CALLS[how]),)), floating)
    assert isinstance(tree, Aggregate)
    ((_, settled),) = tree.calls
    there, back = VALUES, VALUES[::-1]
    assert summed(spark, CALLS[how], there) != summed(spark, CALLS[how], back)  # else this would show nothing
    assert summed(spark, settled, there) == summed(spark, settled, back)
    assert summed(spark, settled, []) is None


def test_whole_numbers_are_left_to_spark() -> None:
    tree = Aggregate(TABLE, ("c0",), (("c2", CALLS["sum"]),))
    assert stable(tree, whole) == tree


def test_a_window_takes_its_rows_in_one_order() -> None:
    tree = stable(Window(TABLE, ("c0",), (WindowCall("c2", CALLS["sum"]),)), floating)
    assert isinstance(tree, Window)
    assert tree.calls[0].ties
    assert tree.calls[0].frame.startswith("ROWS")
    peers = WindowCall("c2", CALLS["sum"], (exp.Ordered(this=column("c0")),))
    with pytest.raises(ViewSqlError, match="RANGE"):
        stable(Window(TABLE, ("c0",), (peers,)), floating)
