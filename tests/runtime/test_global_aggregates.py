"""An aggregate without GROUP BY always has its one row, whatever there is to aggregate: nothing, something, nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater
from runtime.world import Sqlite

pytestmark = pytest.mark.spark

JOIN = "FROM a.e e JOIN b.f f ON f.k = e.k"
QUERIES = {
    "alone": "SELECT COUNT(*) AS n FROM a.e",
    "joined": f"SELECT COUNT(*) AS n {JOIN}",
    "crossed": "SELECT COUNT(*) AS n FROM a.e e CROSS JOIN b.f f",
    "selfjoined": "SELECT COUNT(*) AS n, SUM(x.v) AS s FROM b.f x JOIN b.f y ON x.k = y.k",
    "sums": f"SELECT SUM(f.v) AS s, MIN(f.v) AS low, MAX(f.v) AS high, AVG(f.v) AS mean, COUNT(f.v) AS n {JOIN}",
    "distinct": f"SELECT COUNT(DISTINCT f.v) AS n, SUM(DISTINCT f.v) AS s {JOIN}",
    "residual": f"SELECT COUNT(*) AS n {JOIN} WHERE f.v + e.k > 3",
    "impossible": "SELECT COUNT(*) AS n FROM a.e WHERE 1 = 0",
    "having_nothing": f"SELECT COUNT(*) AS n {JOIN} HAVING COUNT(*) = 0",
    "having_something": f"SELECT COUNT(*) AS n {JOIN} HAVING COUNT(*) > 0",
    "constant": f"SELECT 1 AS one {JOIN} HAVING MAX(f.v) IS NULL",
    "computed": f"SELECT COALESCE(SUM(f.v), -1) + COUNT(*) AS n {JOIN}",
    "grouped": f"SELECT e.k, COUNT(*) AS n {JOIN} GROUP BY e.k",
}
LEVELS = {
    "every": "WITH (consistency = 'complete', every = 2)",
    "strong": "WITH (consistency = 'strong')",
    "convergent": "WITH (consistency = 'convergent')",
    "periodic": "WITH (consistency = 'periodic', schedule = '1 hour')",
}
OVER_VIEWS = """
CREATE MATERIALIZED VIEW pairs AS SELECT e.k, f.v FROM a.e e JOIN b.f f ON f.k = e.k;
CREATE MATERIALIZED VIEW over_a_view AS SELECT COUNT(*) AS n, SUM(v) AS s FROM pairs;
CREATE MATERIALIZED VIEW over_two_views AS SELECT COUNT(*) AS n FROM pairs p, pairs q WHERE p.k = q.k;
CREATE MATERIALIZED VIEW over_a_global AS SELECT SUM(n) AS n, COUNT(*) AS rows FROM over_a_view;
CREATE MATERIALIZED VIEW over_both AS SELECT COUNT(*) AS n FROM pairs p JOIN b.f f ON f.v = p.v;
"""


def everything() -> str:
    views = [f"CREATE MATERIALIZED VIEW {name} AS {query};" for name, query in QUERIES.items()]
    views += [
        f"CREATE MATERIALIZED VIEW sums_{level} {promise} AS {QUERIES['sums']};" for level, promise in LEVELS.items()
    ]
    return "\n".join(views) + OVER_VIEWS


class Project:
    """Two SQLite files, `a.e (k)` and `b.f (k, v)`, both empty."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "views").mkdir(parents=True)
        (folder / "views" / "all.sql").write_text(everything())
        (folder / "headwater.toml").write_text(
            '[sources.a]\nurl = "sqlite:///a.db"\n[sources.b]\nurl = "sqlite:///b.db"\n[run]\npoll_seconds = 0.05\n'
        )
        for source, table in {"a": "e (k INTEGER)", "b": "f (k INTEGER, v INTEGER)"}.items():
            self.write(source, "PRAGMA journal_mode = WAL")
            self.write(source, f"CREATE TABLE {table}")

    def write(self, source: str, *statements: str) -> None:
        with Sqlite(self.folder / f"{source}.db") as db:
            for statement in statements:
                db.execute(statement)

    def shown(self) -> dict[str, list[tuple[Any, ...]]]:
        """Run, and return every view's rows."""
        warehouse = headwater.open(self.folder)
        warehouse.run(until_caught_up=True)
        return {name: [tuple(r.values()) for r in warehouse.rows(name).to_pylist()] for name in warehouse.views}


NOTHING: dict[str, list[tuple[Any, ...]]] = {
    "alone": [(0,)],
    "sums": [(None, None, None, None, 0)],
    "selfjoined": [(0, None)],
    "distinct": [(0, None)],
    "having_something": [],
    "constant": [(1,)],
    "computed": [(-1,)],
    "grouped": [],
    "pairs": [],
    "over_a_view": [(0, None)],
    "over_a_global": [(0, 1)],
}


def of_nothing(name: str) -> list[tuple[Any, ...]]:
    return NOTHING.get(name, NOTHING["sums" if name.startswith("sums") else "alone"])


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_nothing_then_something_then_nothing(tmp_path: Path, spark: SparkSession) -> None:
    project = Project(tmp_path / "project")
    headwater.open(project.folder).setup()
    project.write("a", "INSERT INTO e VALUES (1), (2), (2)")  # one side of the joins stays empty
    first = project.shown()
    assert first.pop("alone") == [(3,)]
    assert first == {name: of_nothing(name) for name in first}

    project.write("b", "INSERT INTO f VALUES (2, 5), (2, 1), (9, NULL)")
    assert project.shown() == {
        "alone": [(3,)],
        "joined": [(4,)],
        "crossed": [(9,)],
        "selfjoined": [(5, 12)],
        "sums": [(12, 1, 5, 3.0, 4)],
        "distinct": [(2, 6)],
        "residual": [(2,)],
        "impossible": [(0,)],
        "having_nothing": [],
        "having_something": [(4,)],
        "constant": [],
        "computed": [(16,)],
        "grouped": [(2, 4)],
        **{f"sums_{level}": [(12, 1, 5, 3.0, 4)] for level in LEVELS},
        "pairs": [(2, 1), (2, 1), (2, 5), (2, 5)],
        "over_a_view": [(4, 12)],
        "over_two_views": [(16,)],
        "over_a_global": [(4, 1)],
        "over_both": [(4,)],
    }

    project.write("a", "DELETE FROM e")
    project.write("b", "DELETE FROM f")
    last = project.shown()
    assert last == {name: of_nothing(name) for name in last}
