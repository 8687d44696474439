"""The parts that need neither dbt nor a JVM."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pyarrow as pa
import pytest
from dbt.adapters.headwater import views
from dbt.adapters.headwater.catalog import sql_type
from dbt.adapters.headwater.reading import source_tables
from dbt.adapters.headwater.views import Model, with_freshness

from headwater.model.errors import HeadwaterError
from headwater.model.names import ViewName
from headwater.runtime.change.applying import ApplyPlan, ViewChange
from headwater.runtime.change.requests import OTHERWISE

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


class Warehouse:
    """One whose run sees views/ otherwise, so often."""

    def __init__(self, otherwise: int, what: str = OTHERWISE) -> None:
        self.left, self.what, self.asked = otherwise, what, 0

    def plan_apply(self) -> ApplyPlan:
        return ApplyPlan([ViewChange(ViewName("m"), "create", "new")], {}, 0, {}, [])

    def apply(self, plan: ApplyPlan) -> None:
        self.asked += 1
        if self.asked <= self.left:
            raise HeadwaterError(self.what)


def test_a_run_that_sees_the_views_otherwise_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("M", "select 1", "x")
    for made, asked, said in (
        (Warehouse(2), 3, ""),
        (Warehouse(99), views.TRIES, OTHERWISE),
        (Warehouse(1, "the disk is full"), 1, "the disk is full"),
    ):
        monkeypatch.setattr(views.headwater, "open", lambda project, made=made: made)
        if said:
            with pytest.raises(HeadwaterError, match=said):
                views._apply(Path(), model)
        else:
            assert views._apply(Path(), model) == "CREATE"
        assert made.asked == asked


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
