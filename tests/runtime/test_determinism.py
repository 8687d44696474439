"""What Spark's own plan shows to be no function of the sources is refused before anything is loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from algebra.shop import ORDERS, view
from headwater.algebra import functions
from headwater.model.errors import ConfigError, ViewSqlError
from headwater.runtime.compute.planning import plan_view
from headwater.runtime.compute.spark import start_spark
from headwater.runtime.project.config import Config

pytestmark = pytest.mark.spark

REFUSED = {
    "day > 'today'": "'today' is read as a DATE",
    "made_at > ' NOW '": "' NOW ' is read as a TIMESTAMP",
    "made_at > '10:00'": "'10:00' is read as a TIMESTAMP",
    "day IN ('2024-01-01', 'yesterday')": "'yesterday' is read as a DATE",
    "day BETWEEN '2024-01-01' AND 'tomorrow UTC'": "'tomorrow UTC' is read as a DATE",
    "year('now') > 2000": "'now' is read as a DATE",
    "date_add('today', qty) > day": "'today' is read as a DATE",
    "CAST(concat('no', 'w') AS TIMESTAMP) > made_at": "is read as a TIMESTAMP",
    "coalesce(day, 'today') = day": "'today' is read as a DATE",
    "hour(sku) > 3": "the text orders.sku is read as a TIMESTAMP",
    "CAST(sku AS TIMESTAMP) > made_at": "the text orders.sku is read as a TIMESTAMP",
    "to_date('to' || 'day') > day": "is read as a DATE",
    "to_timestamp(sku) > made_at": "the text orders.sku is read as a TIMESTAMP",
}
KEPT = [
    "day > '2024-01-01'",
    "made_at > '2024-01-01 10:00:00'",
    "made_at > 'epoch'",
    "status = 'today' OR status < 'now'",
    "CAST(CAST(sku AS TIMESTAMP_NTZ) AS DATE) > day",
    "to_timestamp(sku, 'yyyy-MM-dd HH:mm:ss') > made_at",
    "CAST(sku AS DATE) > day",
]
PLAIN = {"cardinality"}
"""What Spark sorts among the others, and is a function of one row."""


def plan(spark: SparkSession, where: str) -> None:
    found = view(f"SELECT id FROM shop.orders WHERE {where} OR id = 0")
    plan_view(spark, found, {ORDERS.name: ORDERS}, {})


@pytest.mark.parametrize("where", REFUSED)
def test_refused(spark: SparkSession, where: str) -> None:
    with pytest.raises(ViewSqlError) as caught:
        plan(spark, where)
    assert REFUSED[where] in caught.value.what
    assert "function of its sources alone" in caught.value.what
    assert caught.value.fix


@pytest.mark.parametrize("where", KEPT)
def test_kept(spark: SparkSession, where: str) -> None:
    plan(spark, where)


def test_every_function_of_spark_that_is_no_function_of_one_row_is_known(spark: SparkSession) -> None:
    """Spark says of each of its functions which kind it is, and in words whether it is deterministic."""
    refused = functions.OTHER_AGGREGATES | functions.GENERATORS | functions.NONDETERMINISTIC
    known = refused | set(functions.MAINTAINED.values()) | PLAIN
    context = spark.sparkContext
    assert context._jvm is not None
    catalog = spark._jsparkSession.sessionState().catalog()
    missing = {}
    for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect():
        name = row[0].rpartition(".")[2]
        if not name.isidentifier() or name in known:
            continue
        found = catalog.lookupFunctionInfo(context._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name))
        said = f"{found.getUsage()} {found.getNote()}".lower()
        if found.getGroup() in ("agg_funcs", "generator_funcs", "table_funcs") or "non-deterministic" in said:
            missing[name] = found.getGroup(), said
    assert not missing


def test_settings_that_change_what_sql_means_are_refused(spark: SparkSession) -> None:
    plain = Config(folder=Path(), sources={}, warehouse="", views=Path())
    active = start_spark(plain)
    assert active.sparkContext is spark.sparkContext
    with pytest.raises(ConfigError, match=r"spark.sql.session.timeZone to Europe/Rome"):
        start_spark(replace(plain, spark_options={"spark.sql.session.timeZone": "Europe/Rome"}))
    active.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(ConfigError, match=r"the running Spark session sets spark.sql.ansi.enabled to false"):
            start_spark(plain)
    finally:
        active.conf.set("spark.sql.ansi.enabled", "true")
