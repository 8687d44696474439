"""A MariaDB captured by triggers, from plan to teardown, through the command line, on Spark."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cli.conftest import Headwater
from mariadb_server import MariadbServer

pytestmark = [pytest.mark.mariadb, pytest.mark.spark, pytest.mark.soak]  # a minute or two; sources are tested beside it

VIEW = """
CREATE MATERIALIZED VIEW open_orders AS SELECT o.id, p.name FROM shop.orders o JOIN shop.people p ON p.id = o.person
WHERE o.status = 'open';
CREATE MATERIALIZED VIEW by_city AS SELECT city, COUNT(*) AS n FROM shop.people GROUP BY city;
"""


class Shop:
    """A project over one database, and what an application does there."""

    def __init__(self, server: MariadbServer, name: str, folder: Path) -> None:
        self.server, self.name, self.folder = server, name, folder
        self.url = server.create_database(name)
        (folder / "views").mkdir()
        (folder / "views" / "all.sql").write_text(VIEW)
        self.run("CREATE TABLE people (id int PRIMARY KEY, name varchar(20), city varchar(20))")
        self.run("CREATE TABLE orders (id int PRIMARY KEY, person int, status varchar(20), KEY (person))")
        self.run("INSERT INTO people VALUES (1, 'Ann', 'Ulm'), (2, 'Bo', 'Ulm')")
        self.run("INSERT INTO orders VALUES (7, 1, 'open'), (8, 2, 'shipped')")

    def captured(self, how: str) -> None:
        source = f'[sources.shop]\nurl = "{self.url}"\ncapture = "{how}"\n'
        (self.folder / "headwater.toml").write_text(f"{source}[warehouse]\nhistory = 1\n")

    def run(self, *statements: str) -> Any:
        with contextlib.closing(self.server.connect(self.name)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()

    def rows(self, headwater: Headwater, view: str) -> list[Any]:
        shown = headwater("read", view, "-p", self.folder, "--json").stdout
        return sorted(tuple(json.loads(line).values()) for line in shown.splitlines())


@pytest.fixture
def bare(mariadb_bare: MariadbServer, tmp_path: Path) -> Iterator[Shop]:
    yield Shop(mariadb_bare, "by_triggers", tmp_path)
    mariadb_bare.drop_database("by_triggers")


@pytest.fixture
def logged(mariadb: MariadbServer, tmp_path: Path) -> Iterator[Shop]:
    yield Shop(mariadb, "goes_over", tmp_path)
    mariadb.drop_database("goes_over")


def test_from_plan_to_teardown_without_a_log(headwater: Headwater, bare: Shop, spark: SparkSession) -> None:
    bare.captured("auto")
    plan = headwater("plan", "-p", bare.folder)
    assert plan.exit_code == 0, plan.output
    said = " ".join(plan.output.split())
    for words in ("captured by triggers", "log_bin is off", "binlog_row_image = FULL", "_headwater_of_people"):
        assert words in said
    assert headwater("run", "--until-caught-up", "-p", bare.folder).exit_code == 1
    assert headwater("setup", "-p", bare.folder).exit_code == 0
    loaded = headwater("run", "--until-caught-up", "-p", bare.folder)
    assert loaded.exit_code == 0, loaded.output
    bare.run("UPDATE people SET city = 'Graz' WHERE id = 2", "UPDATE orders SET status = 'open' WHERE id = 8")
    assert headwater("run", "--until-caught-up", "-p", bare.folder).exit_code == 0
    assert bare.rows(headwater, "by_city") == [("Graz", 1), ("Ulm", 1)]
    assert bare.rows(headwater, "open_orders") == [(7, "Ann"), (8, "Bo")]
    for at in ([], ["--at", "1"]):
        checked = headwater("verify", "-p", bare.folder, *at)
        assert checked.exit_code == 0, checked.output
    assert headwater("status", "-p", bare.folder).exit_code == 0

    bare.run("TRUNCATE orders", "INSERT INTO orders VALUES (9, 1, 'open')", "DELETE FROM people WHERE id = 2")
    headwater("run", "--until-caught-up", "-p", bare.folder)
    status = headwater("status", "-p", bare.folder).output
    assert "halted" in status
    assert bare.rows(headwater, "by_city") == [("Ulm", 1)], "nobody else waits"
    assert bare.rows(headwater, "open_orders") == [(7, "Ann"), (8, "Bo")], "the last state that is known"
    for command in (["setup"], ["apply", "--yes"], ["run", "--until-caught-up"], ["verify"]):
        done = headwater(*command, "-p", bare.folder)
        assert done.exit_code == 0, done.output
    assert bare.rows(headwater, "open_orders") == [(9, "Ann")]
    assert headwater("teardown", "--yes", "-p", bare.folder).exit_code == 0
    assert bare.run("SHOW TABLES") == (("orders",), ("people",))
    assert bare.run("SHOW TRIGGERS") == ()


def test_going_over_from_the_log_to_triggers_and_back(headwater: Headwater, logged: Shop, spark: SparkSession) -> None:
    for n, how in enumerate(["log", "triggers", "log"]):
        logged.captured(how)
        if n:
            logged.run(f"INSERT INTO people VALUES ({10 + n}, 'while it went over', 'Ulm')")
            headwater("run", "--until-caught-up", "-p", logged.folder)
            assert logged.rows(headwater, "by_city") == [("Ulm", n * 2)], "it shows what it knew"
        for command in (["setup"], ["apply", "--yes"], ["run", "--until-caught-up"]):
            done = headwater(*command, "-p", logged.folder)
            assert done.exit_code == 0, (how, command, done.output)
        logged.run(f"INSERT INTO people VALUES ({20 + n}, 'x', 'Ulm')")
        if n == 0:
            logged.run("DELETE FROM people WHERE id = 20")
        for command in (["run", "--until-caught-up"], ["verify"]):
            done = headwater(*command, "-p", logged.folder)
            assert done.exit_code == 0, (how, command, done.output)
        assert logged.rows(headwater, "by_city") == [("Ulm", n * 2 + 2)]
    assert headwater("teardown", "--yes", "-p", logged.folder).exit_code == 0
    assert logged.run("SHOW TABLES") == (("orders",), ("people",))
