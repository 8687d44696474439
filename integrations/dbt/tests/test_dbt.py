"""dbt on a real project: run, test, docs, show; after changes at the sources and of a model; what is refused."""

from __future__ import annotations

import json
import tomllib

import pytest

import headwater
from conftest import World


@pytest.fixture(scope="module")
def ran(world: World) -> World:
    code, said = world.dbt("run")
    assert code == 0, said
    return world


def rows(world: World, view: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = headwater.open(world.folder).rows(view).to_pylist()
    return found


def test_models_are_maintained_views(ran: World) -> None:
    results = ran.results()
    assert {name: result["adapter_response"]["code"] for name, result in results.items()} == {
        "open_orders": "CREATE",
        "per_city": "CREATE",
    }
    assert [row["name"] for row in rows(ran, "open_orders")] == ["Ada", "Grace"]
    assert rows(ran, "per_city") == [
        {"city": "Ghent", "orders": 1, "amount": 40},
        {"city": "Graz", "orders": 1, "amount": 25},
    ]
    file = (ran.folder / "views" / "open_orders.sql").read_text()
    assert file.startswith("-- made by dbt of model.tour.open_orders: edit the model\n")
    assert "WITH (consistency = 'complete', auxiliary = 'auto') AS" in file
    levels = {name: state.level for name, state in headwater.open(ran.folder).cut().views.items()}
    assert (levels["open_orders"], levels["per_city"]) == ("complete", "strong")
    assert headwater.open(ran.folder).config.freshness == {"open_orders": 5.0}


def test_tests_read_the_newest_cut(ran: World) -> None:
    code, said = ran.dbt("test")
    assert code == 0, said
    assert "PASS=7" in said, said


def test_show_and_macros_read_it_too(ran: World) -> None:
    code, said = ran.dbt("show", "--inline", "select sum(amount) as total from {{ ref('per_city') }}")
    assert code == 0, said
    assert "65" in said
    code, said = ran.dbt("show", "--inline", "drop table per_city")
    assert code != 0
    assert "Traceback" not in said


def test_docs_say_what_there_is(ran: World) -> None:
    code, said = ran.dbt("docs", "generate")
    assert code == 0, said
    found = json.loads((ran.dbt_folder / "target" / "catalog.json").read_text())
    assert found["errors"] is None
    view = found["nodes"]["model.tour.open_orders"]
    assert {name: column["type"] for name, column in view["columns"].items()} == {
        "id": "bigint", "name": "string", "city": "string", "amount": "bigint",
    }  # fmt: skip
    assert view["metadata"]["type"] == "materialized view"
    assert view["stats"]["consistency"]["value"] == "complete"
    assert view["stats"]["sources"]["value"] == "crm, shop"
    assert list(found["sources"]["source.tour.shop.orders"]["columns"]) == ["id", "customer", "amount", "status"]


def test_what_happened_since_is_taken_in_and_a_changed_model_is_replaced(ran: World) -> None:
    ran.execute("shop", "INSERT INTO orders VALUES (4, 2, 100, 'open')")
    ran.execute("crm", "UPDATE customers SET city = 'Lyon' WHERE id = 1")
    ran.model("per_city.sql", "select city, max(amount) as most from {{ ref('dear') }} group by city")
    code, said = ran.dbt("run")
    assert code == 0, said
    codes = {name: result["adapter_response"]["code"] for name, result in ran.results().items()}
    assert codes == {"open_orders": "MAINTAINED", "per_city": "REPLACE"}
    assert rows(ran, "per_city") == [{"city": "Graz", "most": 100}, {"city": "Lyon", "most": 40}]
    assert all(verified.ok for verified in headwater.open(ran.folder).verify())
    code, said = ran.dbt("test")
    assert code == 1
    failed = [name for name, result in ran.results().items() if result["status"] == "fail"]
    assert failed == ["accepted_values_open_orders_city__Ghent__Graz"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("tabled", "{{ config(materialized='table') }} select 1 as a", "materialized='table' is not for Headwater"),
        ("wrong", "select nothing from {{ source('shop', 'orders') }}", "unknown column 'nothing'"),
        ("loud", "{{ config(consistency='loud') }} select id from {{ source('shop', 'orders') }}", "'loud'"),
        ("own", "select id from {{ source('shop', 'orders') }}", "is not made of model.tour.own"),
    ],
)
def test_what_cannot_be_maintained_is_said_and_leaves_nothing_behind(
    ran: World, name: str, text: str, said: str
) -> None:
    written = "CREATE MATERIALIZED VIEW own AS SELECT id FROM shop.orders;"
    if name == "own":
        (ran.folder / "views" / "own.sql").write_text(written)
    ran.model(f"{name}.sql", text)
    try:
        code, output = ran.dbt("run", "--select", name)
        assert code == 1
        assert said in output
        assert "Traceback" not in output
        file = ran.folder / "views" / f"{name}.sql"
        assert file.read_text() == written if name == "own" else not file.exists()
    finally:
        (ran.dbt_folder / "models" / f"{name}.sql").unlink()
        (ran.folder / "views" / "own.sql").unlink(missing_ok=True)


def test_a_project_that_is_not_there_is_said(ran: World) -> None:
    profile = ran.dbt_folder / "profiles.yml"
    before = profile.read_text()
    profile.write_text(before.replace('".."', '"/"'))
    try:
        code, said = ran.dbt("run")
    finally:
        profile.write_text(before)
    assert code != 0
    assert "no headwater.toml" in said
    assert "Traceback" not in said


def test_settings_are_still_the_persons(ran: World) -> None:
    text = (ran.folder / "headwater.toml").read_text()
    assert text.startswith('[sources.shop]\nurl = "sqlite:///shop.db"\n')
    assert tomllib.loads(text)["views"] == {"open_orders": {"freshness": "5 s"}}
