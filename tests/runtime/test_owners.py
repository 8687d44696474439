"""Two projects on one database: neither trims, removes or disturbs what the other needs."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from postgres_server import PostgresServer
from runtime.small_project import Project, rows

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(900)]


def test_two_projects_share_a_database_and_one_leaves(
    tmp_path: Path, spark: SparkSession, postgres: PostgresServer
) -> None:
    url = postgres.create_database("shared")

    def change(*texts: str) -> None:
        with psycopg.connect(url) as db:
            for text in texts:
                db.execute(text)  # type: ignore[arg-type] # statements of a test

    change("CREATE TABLE t (x int)", "CREATE TABLE u (y int)")
    views = {
        "one": "CREATE MATERIALIZED VIEW a AS SELECT x FROM db.t; CREATE MATERIALIZED VIEW b AS SELECT y FROM db.u;",
        "two": "CREATE MATERIALIZED VIEW a AS SELECT x, y FROM db.t JOIN db.u ON x = y;",
    }
    projects = {}
    for name, text in views.items():
        projects[name] = Project(tmp_path / name, text, {})
        (tmp_path / name / "headwater.toml").write_text(f'[sources.db]\nurl = "{url}"\n[run]\npoll_seconds = 0.05\n')
        projects[name].loaded()
    one, two = (projects[name].open() for name in views)
    change("INSERT INTO t VALUES (1), (2)", "INSERT INTO u VALUES (2)")
    with one.engine() as engine:
        engine.start(one.plans())
        engine.catch_up()
        for name, position in engine.cut.positions.items():  # one has seen it all, and lets it go
            one.catalog.source(name).trim(position)
    assert rows(one, "a") == [(1,), (2,)]
    two.run(until_caught_up=True)
    assert rows(two, "a") == [(2, 2)]
    one.teardown()
    change("INSERT INTO t VALUES (2)", "DELETE FROM u", "INSERT INTO u VALUES (1)")
    two = projects["two"].open()
    two.run(until_caught_up=True)
    assert rows(two, "a") == [(1, 1)]
    assert all(v.ok for v in two.verify())
    two.teardown()
    with psycopg.connect(url) as db:
        assert db.execute("SELECT to_regnamespace('headwater')").fetchone() == (None,)
