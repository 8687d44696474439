"""Percentiles on the engine: continued from what groups keep, at the root of a query and of a tree, and asked through;
the same as recomputation at every transaction. What an earlier version did not keep is loaded again."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headwater
from headwater.algebra import aggregation, parse, refusals, trees
from runtime.small_project import Project, rows

pytestmark = pytest.mark.spark

DATABASES = {"a": "CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, x REAL); CREATE TABLE n (g INTEGER PRIMARY KEY)"}
INNER = "SELECT g, MEDIAN(x) AS mid, PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY x DESC) AS d FROM a.t GROUP BY g"
VIEWS = f"""
CREATE MATERIALIZED VIEW kept AS {INNER};
CREATE MATERIALIZED VIEW asked AS SELECT q.g, q.mid, q.d FROM ({INNER}) q JOIN a.n ON q.g = n.g;
CREATE MATERIALIZED VIEW over_tree AS SELECT g, MEDIAN(x) FILTER (WHERE x > 0) AS mid, PERCENTILE(x, 1) AS d
    FROM (SELECT g, x FROM a.t UNION ALL SELECT g, NULL FROM a.t) q GROUP BY g;
"""
MARK = "INSERT INTO _headwater_transaction(tag) VALUES (NULL)"
Row = tuple[int, float | None]
Table = dict[int, Row]


def changed(table: Table, chance: random.Random) -> str:
    """One transaction."""
    row = chance.choice([*table, 0, 0, 0, 0]) or max(table, default=0) + 1
    if row in table and chance.random() < 0.5:
        del table[row]
        return f"DELETE FROM t WHERE id = {row}"
    table[row] = chance.randint(1, 2), chance.choice([None, 0.0, chance.randint(-20, 20) / 4])
    value = "NULL" if table[row][1] is None else table[row][1]
    return f"INSERT OR REPLACE INTO t VALUES ({row}, {table[row][0]}, {value})"


def played(project: Project, table: Table, chance: random.Random, number: int, mark: str = MARK) -> None:
    """So many transactions, told apart by a mark."""
    project.execute("a", *(text for _ in range(number) for text in (mark, changed(table, chance))))


def expected(table: list[Row], positive: bool) -> list[tuple[object, ...]]:
    found = []
    for group in {g for g, _ in table}:
        values = sorted(x for g, x in table if g == group and x is not None)
        if positive:
            some = [x for x in values if x > 0]
            found.append((group, statistics.median(some) if some else None, max(values, default=None)))
        else:
            place = max(1, -(-len(values) // 4))
            found.append((group, statistics.median(values), values[-place]) if values else (group, None, None))
    return sorted(found)


def test_every_state_is_the_recomputed_one(tmp_path: Path, spark: SparkSession) -> None:
    project, chance, table = Project(tmp_path / "p", VIEWS, DATABASES), random.Random(3), Table()
    project.execute("a", "INSERT INTO n VALUES (1)", "INSERT INTO n VALUES (2)")
    played(project, table, chance, 40, "SELECT 1")
    warehouse = project.loaded()
    state = Counter(table.values())
    at = warehouse.cut().seq
    for _ in range(3):
        played(project, table, chance, 15)
        project.open().run(until_caught_up=True)
    seen = 0
    for transaction in warehouse.log(at + 1):
        for change in transaction["changes"]:
            state[change["row"]["g"], change["row"]["x"]] += change["count"]
        for view in ("kept", "asked", "over_tree"):
            wanted = expected(list(state.elements()), view == "over_tree")
            assert sorted(rows(warehouse, view, transaction["seq"])) == wanted, (view, transaction)
        seen += 1
    assert seen > 30
    assert sorted(state.elements(), key=repr) == sorted(table.values(), key=repr)
    assert all(verdict.ok for verdict in warehouse.verify())


def test_what_an_earlier_version_did_not_keep_is_loaded_again(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = "SELECT g FROM kept WHERE d > 0"
    views = f"CREATE MATERIALIZED VIEW kept AS {INNER}; CREATE MATERIALIZED VIEW child AS {child};"
    project, chance, table = Project(tmp_path / "p", views, DATABASES), random.Random(4), Table()
    played(project, table, chance, 20, "SELECT 1")
    with monkeypatch.context() as earlier:
        for module in (aggregation, refusals, trees):
            earlier.setattr(module, "percentile_call", lambda node: None)
        earlier.setattr(parse, "percentiles", lambda node: [])
        project.loaded()
    folders = list((project.folder / "warehouse" / "views" / "kept").iterdir())
    assert not any((folder / "auxiliary").exists() for folder in folders)
    played(project, table, chance, 20)
    warehouse = headwater.open(project.folder)
    warehouse.run(until_caught_up=True)
    assert not warehouse.halted()
    assert sorted(rows(warehouse, "kept")) == expected(list(table.values()), False)
    wanted = [(g,) for g, _, d in expected(list(table.values()), False) if isinstance(d, float) and d > 0]
    assert sorted(rows(warehouse, "child")) == wanted
    played(project, table, chance, 1)
    warehouse.run(until_caught_up=True)
    assert sorted(rows(warehouse, "kept")) == expected(list(table.values()), False)
