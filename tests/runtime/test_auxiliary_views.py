"""WITH (auxiliary = 'auto') on the engine: what is kept, that it is exact, and that a next run goes on with it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from runtime.small_project import Project, rows

pytestmark = pytest.mark.spark

TABLES = {"a": "CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, x INTEGER); CREATE INDEX t_k ON t (k)"}
HELD: dict[int, tuple[int | None, int | None]] = {1: (1, 10), 2: (2, 20), 3: (3, None), 4: (None, 5)}
VIEWS = """
CREATE MATERIALIZED VIEW best WITH (auxiliary = 'auto') AS
    SELECT k, SUM(x) AS total FROM a.t GROUP BY k ORDER BY total DESC NULLS LAST, k LIMIT 2;
CREATE MATERIALIZED VIEW above WITH (auxiliary = 'auto', every = 1) AS
    SELECT k, COUNT(*) AS n FROM a.t GROUP BY k HAVING SUM(x) > (SELECT AVG(x) FROM a.t);
CREATE MATERIALIZED VIEW plainly AS SELECT k, MAX(x) AS top FROM a.t GROUP BY k ORDER BY top;
"""


def test_what_is_kept_is_exact_and_goes_on(tmp_path: Path, spark: SparkSession) -> None:
    project = Project(tmp_path / "p", VIEWS, TABLES)
    project.execute("a", "INSERT INTO t VALUES (1, 1, 10), (2, 2, 20), (3, 3, NULL), (4, NULL, 5)")
    warehouse = project.loaded()
    assert set(warehouse.views) == {"best", "best__1", "above", "above__1", "above__2", "plainly"}
    kept = {view.name: view.kept_for for view in warehouse.status().views}
    assert kept == {"best": "", "best__1": "best", "above": "", "above__1": "above", "above__2": "above", "plainly": ""}
    assert rows(warehouse, "best") == [(2, 20), (1, 10)]
    assert rows(warehouse, "above") == [(2, 1)]
    chance, held = random.Random(5), dict(HELD)
    for batch in range(3):  # each by a run of its own: statements are read from the warehouse
        for _ in range(8):
            number = chance.randint(1, 6)
            value = (chance.choice([1, 2, 3, None]), chance.choice([None, *range(30)]))
            if number in held and chance.random() < 0.4:
                del held[number]
                project.execute("a", f"DELETE FROM t WHERE id = {number}")
            else:
                held[number] = value
                k, x = ("NULL" if v is None else v for v in value)
                project.execute("a", f"INSERT OR REPLACE INTO t VALUES ({number}, {k}, {x})")
        if batch:
            warehouse = project.open()
        warehouse.run(until_caught_up=True)
        assert rows(warehouse, "best") == best(held)
        assert sorted(map(repr, rows(warehouse, "above"))) == sorted(map(repr, above(held)))
    assert all(checked.ok for checked in warehouse.verify())
    assert not warehouse.halted()


def groups(held: dict[int, tuple[int | None, int | None]]) -> dict[int | None, list[int | None]]:
    found: dict[int | None, list[int | None]] = {}
    for k, x in held.values():
        found.setdefault(k, []).append(x)
    return found


def total(values: list[int | None]) -> int | None:
    there = [v for v in values if v is not None]
    return sum(there) if there else None


def best(held: dict[int, tuple[int | None, int | None]]) -> list[tuple[object, ...]]:
    totals = [(k, total(values)) for k, values in groups(held).items()]
    totals.sort(key=lambda r: (r[1] is None, -(r[1] or 0), r[0] is not None, r[0] or 0))
    return list(totals[:2])


def above(held: dict[int, tuple[int | None, int | None]]) -> list[tuple[object, ...]]:
    values = [x for _, x in held.values() if x is not None]
    if not values:
        return []
    mean = sum(values) / len(values)
    return [(k, len(v)) for k, v in groups(held).items() if (total(v) is not None and total(v) > mean)]  # type: ignore[operator]
