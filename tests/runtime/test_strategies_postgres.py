"""The published algorithms over PostgreSQL: three databases, written to while the views are maintained, each view
judged by the lab's checker at the level that its algorithm gives."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import psycopg
import pytest
from pyspark.sql import SparkSession

import headwater
from postgres_server import PostgresServer
from runtime.small_project import rows
from runtime.test_strategies import LEVELS, judged, view

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(900)]

TABLES = {
    "a": ("r", "CREATE TABLE r (id int PRIMARY KEY, k int, v numeric(9,2)); CREATE INDEX ON r (k)"),
    "b": ("s", "CREATE TABLE s (id int PRIMARY KEY, k int, j int); CREATE INDEX ON s (k); CREATE INDEX ON s (j)"),
    "c": ("t", "CREATE TABLE t (id int PRIMARY KEY, j int, w text, at timestamptz); CREATE INDEX ON t (j)"),
}
VALUES = {"r": "%s, round(random()::numeric, 2)", "s": "%s, %s", "t": "%s, 'w' || %s, now()"}
FEW = ("wave", "sweep", "pvm")
"""Of each view the load takes seconds: all of them are for those who have time."""


def write(url: str, name: str, transactions: int, seed: int) -> None:
    table, r = TABLES[name][0], Random(f"{seed} {name}")
    with psycopg.connect(url) as db:
        for _ in range(transactions):
            for _ in range(r.randint(1, 2)):
                which, key, other = r.randint(1, 8), r.choice([1, 1, 2, None]), r.choice([1, 1, 2, None])
                if r.random() < 0.2:
                    db.execute(f"DELETE FROM {table} WHERE id = %s", (which,))
                    continue
                given = (which, key) if table == "r" else (which, key, other)
                db.execute(f"DELETE FROM {table} WHERE id = %s", (which,))
                db.execute(f"INSERT INTO {table} VALUES (%s, {VALUES[table]})", given)
            db.commit()


@pytest.mark.parametrize(
    ("capture", "algorithms"), [("triggers", FEW), pytest.param("log", tuple(LEVELS), marks=pytest.mark.soak)]
)
def test_each_keeps_its_promise_over_postgresql(
    capture: str, algorithms: tuple[str, ...], tmp_path: Path, postgres: PostgresServer, spark: SparkSession
) -> None:
    urls = {name: postgres.create_database(f"strategies_{capture}_{name}") for name in TABLES}
    for name, url in urls.items():
        with psycopg.connect(url) as db:
            db.execute(TABLES[name][1])
        write(url, name, 8, 0)
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "all.sql").write_text(
        "".join(view(a, "r.id AS r, r.v, s.id AS s, t.w, t.at") for a in algorithms)
    )
    said = "".join(f'[sources.{name}]\nurl = "{url}"\ncapture = "{capture}"\n' for name, url in urls.items())
    (tmp_path / "headwater.toml").write_text(f"{said}[run]\npoll_seconds = 0.05\n")
    warehouse = headwater.open(tmp_path)
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    writers = [threading.Thread(target=write, args=(url, name, 8, 1)) for name, url in urls.items()]
    for writer in writers:
        writer.start()
    warehouse.run(until_caught_up=True)
    for writer in writers:
        writer.join()
    warehouse.run(until_caught_up=True)
    assert {v.view: v.ok for v in warehouse.verify()} == dict.fromkeys(warehouse.cut().views, True)
    content = sorted(rows(warehouse, "wave"), key=repr)
    assert content, "else nothing was at stake"
    for algorithm in algorithms:
        name = algorithm.replace("-", "_")
        assert sorted(rows(warehouse, name), key=repr) == content, algorithm
        assert LEVELS[algorithm] in judged(warehouse, name), algorithm
    if capture == "log":
        warehouse.teardown()
