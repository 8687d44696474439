"""Batches that are computed without a Spark job: the same states, and a job as soon as few changes meet many rows."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater
from headwater.runtime.compute import asking, computing, connections, here
from headwater.runtime.compute.answers import Answers
from runtime.small_project import Project

pytestmark = pytest.mark.spark

DATABASES = {
    "a": "CREATE TABLE r (id INTEGER PRIMARY KEY, k INTEGER, x REAL)",
    "b": "CREATE TABLE s (id INTEGER PRIMARY KEY, k INTEGER, y INTEGER)",
}
JOINED = "SELECT r.id, r.x, s.y FROM a.r JOIN b.s ON r.k = s.k"
GROUPED = "SELECT s.k, COUNT(*) AS n, SUM(r.x) AS total, MAX(s.y) AS top FROM a.r JOIN b.s ON r.k = s.k GROUP BY s.k"
TOTAL = "SELECT COUNT(*) AS n, SUM(s.y) AS total FROM b.s"
QUERIES = {"joined": JOINED, "grouped": GROUPED, "total": TOTAL, "evaluated": JOINED.replace("s.y", "s.y + 1 AS y")}
VIEWS = "\n".join(f"CREATE MATERIALIZED VIEW {name} AS {query};" for name, query in QUERIES.items())


def change(project: Project, chance: random.Random) -> None:
    number, k = chance.randint(1, 6), chance.choice([1, 1, 2, "NULL"])
    database, table = chance.choice([("a", "r"), ("b", "s")])
    value = chance.choice(["-0.0", "1.5", "NULL"]) if table == "r" else str(chance.randint(-2, 2))
    if chance.random() < 0.3:
        project.execute(database, f"DELETE FROM {table} WHERE id = {number}")
    else:
        project.execute(database, f"INSERT OR REPLACE INTO {table} VALUES ({number}, {k}, {value})")


def recomputed(folder: Path, query: str) -> Counter[tuple[Any, ...]]:
    with sqlite3.connect(":memory:") as db:
        for name in DATABASES:
            db.execute(f"ATTACH '{folder / name}.db' AS {name}")
        return Counter(db.execute(query).fetchall())


def shown(warehouse: headwater.Warehouse, view: str, at: int | None = None) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in warehouse.rows(view, at).to_pylist())


def test_states_are_the_same_with_and_without_jobs(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, bool]] = []
    real = here.run_here

    def counted(plan: Any, *rest: Any) -> Any:
        written = real(plan, *rest)
        done.append((plan.view.name, written is not None))
        return written

    monkeypatch.setattr(computing, "run_here", counted)
    project, chance = Project(tmp_path / "p", VIEWS, DATABASES), random.Random(5)
    for _ in range(20):
        change(project, chance)
    warehouse = project.loaded()

    def played(**settings: object) -> dict[str, set[bool]]:
        """Who was computed here, or given up, in a run with these settings."""
        done.clear()
        project.configure(**settings)
        for _ in range(12):
            change(project, chance)
        project.open().run(until_caught_up=True)
        for name, query in QUERIES.items():
            assert shown(warehouse, name) == recomputed(project.folder, query), (name, settings)
        return {name: {was for view, was in done if view == name} for name in QUERIES}

    assert played() == {"joined": {True}, "grouped": {True}, "total": {True}, "evaluated": set()}
    assert played(small_batch=0) == {name: set() for name in QUERIES}
    monkeypatch.setattr(here, "MOST_ROWS", 0)
    given_up = played()
    assert given_up["joined"] == {False}
    assert given_up["total"] == {True}, "it asks nobody"
    assert not [lane for _, lane in connections._connected if lane], "connections are closed with the run"
    cut = warehouse.cut()
    for at in range(cut.views["joined"].horizon, cut.views["joined"].seq + 1):
        joined = shown(warehouse, "joined", at)
        assert shown(warehouse, "evaluated", at) == Counter(
            {(number, x, None if y is None else y + 1): n for (number, x, y), n in joined.items()}
        )
        assert sum(n for _, n, *_ in shown(warehouse, "grouped", at)) == sum(joined.values())
    assert all(checked.ok for checked in warehouse.verify())


def test_views_of_a_group_share_answers(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of r makes both views ask for the same rows of s, of which they show different columns."""
    queries = {"one": "SELECT r.id, s.y FROM a.r JOIN b.s ON r.k = s.k", "two": JOINED.replace("s.y", "s.id AS sid")}
    views = "\n".join(f"CREATE MATERIALIZED VIEW {name} AS {query};" for name, query in queries.items())
    project = Project(tmp_path / "p", views, DATABASES)
    project.execute("b", *(f"INSERT INTO s VALUES ({n}, {n % 3}, {n})" for n in range(9)))
    warehouse = project.loaded()
    answers, shares = Answers(), []
    real = answers.answer

    def counted(*asked: Any) -> Any:
        rows, shared = real(*asked)
        shares.append(shared)
        return rows, shared

    monkeypatch.setattr(answers, "answer", counted)
    monkeypatch.setattr(asking, "ANSWERS", answers)
    for n in range(6):
        project.execute("a", f"INSERT INTO r VALUES ({n}, {n % 3}, 1.5)")
    project.open().run(until_caught_up=True)
    assert shares.count(True) == shares.count(False) > 0
    for name, query in queries.items():
        assert shown(warehouse, name) == recomputed(project.folder, query), name
