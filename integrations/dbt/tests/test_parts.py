"""The parts that need neither dbt nor a JVM."""

from __future__ import annotations

import tomllib

import pyarrow as pa
import pytest
from dbt.adapters.headwater.catalog import sql_type
from dbt.adapters.headwater.reading import source_tables
from dbt.adapters.headwater.views import Model, with_freshness

TOML = '[sources.a]\nurl = "sqlite:///a.db"\n[views]\npath = "views"\n'


def test_a_statement() -> None:
    model = Model("m", "select 1 -- one", "model.p.m", {"consistency": "it's", "every": "3"})
    lines = model.statement.splitlines()
    assert lines[1] == "CREATE MATERIALIZED VIEW m WITH (consistency = 'it''s', every = 3) AS"
    assert lines[-2:] == ["select 1 -- one", ";"], "a comment does not swallow the end"
    assert Model("m", "select 1", "x").statement.splitlines()[1] == "CREATE MATERIALIZED VIEW m AS"


def test_freshness_comes_changes_and_goes() -> None:
    text = with_freshness(with_freshness(TOML, "b", "2 min"), "a", "5 s")
    assert tomllib.loads(text)["views"] == {"path": "views", "a": {"freshness": "5 s"}, "b": {"freshness": "2 min"}}
    assert text.startswith(TOML)
    assert with_freshness(text, "a", "5 s") == text
    assert tomllib.loads(with_freshness(text, "a", "9 s"))["views"]["a"] == {"freshness": "9 s"}
    assert with_freshness(with_freshness(text, "a", ""), "b", "") == TOML
    assert with_freshness(TOML, "c", "") == TOML


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select * from shop.orders o join v on v.id = o.id", {("shop", "", "orders")}),
        ("select * from SHOP.sales.orders", {("shop", "sales", "orders")}),
        ("select shop.id from shop", set()),
        ("with shop as (select 1) select 'shop.orders' from shop", set()),
        ("not sql at all (", set()),
    ],
)
def test_tables_of_sources_that_a_query_names(sql: str, found: set[tuple[str, str, str]]) -> None:
    assert source_tables(sql, ["shop", "crm"]) == found


def test_types_are_called_as_models_call_them() -> None:
    kinds = [pa.int64(), pa.decimal128(10, 2), pa.timestamp("us", "UTC"), pa.timestamp("us"), None]
    assert [sql_type(kind, "point") for kind in kinds] == [
        "bigint", "decimal(10,2)", "timestamp", "timestamp_ntz", "point",
    ]  # fmt: skip
