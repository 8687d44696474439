"""A project from plan to verify, through the command line, on Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cli.conftest import Headwater
from postgres_server import PostgresServer

VIEWS = """
CREATE MATERIALIZED VIEW by_city AS SELECT city, COUNT(*) AS n FROM crm.people GROUP BY city;
CREATE MATERIALIZED VIEW orders AS SELECT o.id, p.name FROM shop.orders o JOIN crm.people p ON p.id = o.person
WHERE o.status = 'open';
"""


def write(file: Path, *statements: str) -> None:
    """As an application would: from another process."""
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=10); [*map(c.execute, sys.argv[2:])]; c.commit()"
    )
    subprocess.run([sys.executable, "-c", code, str(file), *statements], check=True)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "all.sql").write_text(VIEWS)
    toml = (
        '[sources.crm]\nurl = "sqlite:///crm.db"\n[sources.shop]\nurl = "sqlite:///shop.db"\n[warehouse]\nhistory = 1\n'
    )
    (tmp_path / "headwater.toml").write_text(toml)
    people = "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, city TEXT)"
    write(tmp_path / "crm.db", people, "INSERT INTO people VALUES (1, 'Ann', 'Ulm'), (2, 'Bo', 'Ulm')")
    orders = "CREATE TABLE orders (id INTEGER PRIMARY KEY, person INT, status TEXT)"
    write(tmp_path / "shop.db", orders, "INSERT INTO orders VALUES (7, 1, 'open'), (8, 2, 'shipped')")
    return tmp_path


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.spark
def test_from_plan_to_verify(headwater: Headwater, shop: Path, spark: SparkSession) -> None:
    plan = json.loads(headwater("plan", "-p", shop, "--json").stdout)
    assert plan["ok"]
    orders = next(v for v in plan["views"] if v["view"] == "orders")
    assert orders["questions"] == 2
    assert orders["orders"]["o"] == [{"alias": "p", "on": ["p.id = o.person"]}]
    assert orders["columns"] == {"id": "bigint", "name": "string"}
    assert any("no index" in w and "shop.orders by person" in w for w in plan["warnings"])
    assert "by person (no index), with status = 'open'" in headwater("plan", "-p", shop).stdout

    refused = headwater("run", "--until-caught-up", "-p", shop)
    assert refused.exit_code == 1
    assert "headwater setup" in refused.stderr
    assert headwater("setup", "-p", shop).exit_code == 0
    assert headwater("setup", "-p", shop).exit_code == 0

    loaded = headwater("run", "--until-caught-up", "-p", shop)
    assert loaded.exit_code == 0, loaded.output
    assert "caught up at cut" in loaded.stdout
    write(shop / "crm.db", "UPDATE people SET city = 'Graz' WHERE id = 2")
    write(shop / "shop.db", "UPDATE orders SET status = 'open' WHERE id = 8")
    events = objects(headwater("run", "--until-caught-up", "-p", shop, "--json").stdout)
    assert (events[-1]["event"], events[-1]["how"], events[-1]["seq"]) == ("stopped", "caught up", 2)

    assert objects(headwater("read", "by_city", "-p", shop, "--json").stdout) == [
        {"city": "Graz", "n": 1},
        {"city": "Ulm", "n": 1},
    ]
    for at in ([], ["--at", "1"]):
        checked = headwater("verify", "-p", shop, "--json", *at)
        assert checked.exit_code == 0, checked.output
        verdict = json.loads(checked.stdout)
        assert verdict["ok"]
        assert [(v["view"], v["ok"], v["missing"], v["extra"]) for v in verdict["views"]] == [
            ("by_city", True, [], []),
            ("orders", True, [], []),
        ]
    assert headwater("compact", "-p", shop).exit_code == 0
    published = json.loads(headwater("publish", "-p", shop, "--json").stdout)
    assert [v["view"] for v in published["views"]] == ["by_city", "orders"]
    assert headwater("teardown", "--yes", "-p", shop).exit_code == 0
    assert len(objects(headwater("read", "orders", "-p", shop, "--json").stdout)) == 2


@pytest.mark.spark
def test_verify_shows_what_differs(headwater: Headwater, shop: Path, spark: SparkSession) -> None:
    headwater("setup", "-p", shop)
    headwater("run", "--until-caught-up", "-p", shop)
    # a change that capture forgot: the source cannot take it back when it is asked about the past
    write(shop / "crm.db", "UPDATE people SET city = 'Oulu' WHERE id = 1", "DELETE FROM _headwater_changes")
    result = headwater("verify", "by_city", "-p", shop)
    assert result.exit_code == 1, result.output
    assert "city=Oulu, n=1" in result.stdout
    as_json = headwater("verify", "by_city", "-p", shop, "--json")
    assert as_json.exit_code == 1
    (view,) = json.loads(as_json.stdout)["views"]
    assert not view["ok"]
    assert sorted(row["city"] for row in view["missing"]) == ["Oulu", "Ulm"]
    assert view["extra"] == [{"city": "Ulm", "n": 2}]


@pytest.mark.spark
def test_plan_reports_every_problem(headwater: Headwater, shop: Path, spark: SparkSession) -> None:
    (shop / "views" / "broken.sql").write_text("CREATE MATERIALIZED VIEW x AS SELEC 1;")
    (shop / "views" / "typo.sql").write_text("CREATE MATERIALIZED VIEW y AS SELECT p.nam FROM crm.people p;")
    (shop / "views" / "types.sql").write_text(
        "CREATE MATERIALIZED VIEW z AS SELECT upper(name, 3) AS u FROM crm.people;"
    )
    result = headwater("plan", "-p", shop, "--json")
    assert result.exit_code == 2
    plan = json.loads(result.stdout)
    said = " ".join(e["error"] for e in plan["errors"])
    assert len(plan["errors"]) == 3
    assert "broken.sql" in said
    assert "'nam'" in said
    assert "Spark refuses" in said
    assert [v["view"] for v in plan["views"]] == ["by_city", "orders"]


@pytest.mark.postgres
def test_a_wrong_password_is_refused_and_not_repeated(
    headwater: Headwater, tmp_path: Path, postgres: PostgresServer
) -> None:
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "v.sql").write_text("CREATE MATERIALIZED VIEW v AS SELECT a FROM shop.t;")
    (tmp_path / "headwater.toml").write_text(f'[sources.shop]\nurl = "{postgres.url(password="hunter2")}"\n')
    result = headwater("setup", "-p", tmp_path)
    assert result.exit_code == 2
    assert "password authentication failed" in result.stderr
    assert "hunter2" not in result.output
    assert "hunter2" not in headwater("status", "-p", tmp_path, "--json").output
