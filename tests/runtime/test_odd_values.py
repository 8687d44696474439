"""A value that its column's type cannot represent halts the views that use it and names its row; nothing else waits.
Corrected at the source, the views go on from where they stopped."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

import headwater
from headwater.model.errors import HistoryGone
from postgres_server import PostgresServer
from runtime.small_project import Project, rows

pytestmark = [
    pytest.mark.spark,
    pytest.mark.postgres,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::headwater.HeadwaterWarning"),
]

VIEWS = """
CREATE MATERIALIZED VIEW {0}_plain AS SELECT k, n FROM {0}.t;
CREATE MATERIALIZED VIEW {0}_days AS SELECT k, day FROM {0}.t;
CREATE MATERIALIZED VIEW {0}_by_day AS SELECT day, COUNT(*) AS n FROM {0}.t GROUP BY day;
CREATE MATERIALIZED VIEW {0}_over AS SELECT MAX(n) AS most FROM {0}_by_day;
"""


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession, postgres: PostgresServer) -> Project:
    table = "CREATE TABLE t (k INTEGER PRIMARY KEY, n INTEGER, day DATE); INSERT INTO t VALUES (1, 1, '2024-02-29')"
    url = postgres.create_database("odd_values")
    with psycopg.connect(url) as db:
        for statement in table.split(";"):
            db.execute(statement)  # type: ignore[arg-type] # statements of a test
    project = Project(tmp_path / "p", VIEWS.format("lite") + VIEWS.format("pg"), {"lite": table})
    config = project.folder / "headwater.toml"
    config.write_text(f'[sources.pg]\nurl = "{url}"\n{config.read_text()}')
    (project.folder / "url").write_text(url)
    return project


def both(project: Project, lite: str, pg: str) -> headwater.Warehouse:
    """Change both sources, and take it in."""
    project.execute("lite", lite)
    with psycopg.connect((project.folder / "url").read_text()) as db:
        db.execute(pg)  # type: ignore[arg-type] # statements of a test
    warehouse = project.open()
    warehouse.run(until_caught_up=True)
    return warehouse


def test_an_odd_value_halts_those_who_use_it_and_they_go_on_once_it_is_corrected(project: Project) -> None:
    project.loaded()
    warehouse = both(project, "INSERT INTO t VALUES (2, 2, 'yesterday')", "INSERT INTO t VALUES (2, 2, 'infinity')")
    warehouse = both(project, "INSERT INTO t VALUES (3, 3, NULL)", "INSERT INTO t VALUES (3, 3, NULL)")
    states = {str(n): s for n, s in warehouse.cut().views.items()}
    assert {n for n, s in states.items() if s.state == "live"} == {"lite_plain", "pg_plain"}
    for source, shown in (("lite", "yesterday"), ("pg", "infinity")):
        assert rows(warehouse, f"{source}_plain") == [(1, 1), (2, 2), (3, 3)]
        assert rows(warehouse, f"{source}_days") == [row for row in rows(warehouse, f"{source}_days") if row[0] == 1]
        reason = states[f"{source}_days"].reason
        for words in (f"{source}.", "t.day", shown, "k = 2", "transaction"):
            assert words in reason, reason
        assert f"headwater resume {source}_days" in states[f"{source}_days"].fix
    odd = [c for t in warehouse.log() for c in t["changes"] if "unfit" in c]
    assert sorted(next(iter(c["unfit"].values())).strip("'") for c in odd) == ["infinity", "yesterday"]
    stopped = {n: s.seq for n, s in states.items()}
    # corrected, and a run goes on by itself
    warehouse = both(project, "UPDATE t SET day = NULL WHERE k = 2", "UPDATE t SET day = NULL WHERE k = 2")
    states = {str(n): s for n, s in warehouse.cut().views.items()}
    assert {n: s.reason for n, s in states.items() if s.state != "live"} == {}
    for source in ("lite", "pg"):
        assert rows(warehouse, f"{source}_by_day")[-1][1] in (1, 2)
        assert rows(warehouse, f"{source}_over") == [(2,)]
        gap = stopped[f"{source}_days"] + 1
        with pytest.raises(HistoryGone, match="was halted"):
            warehouse.rows(f"{source}_days", gap)
    assert [(v.view, v.ok) for v in warehouse.verify()] == [(n, True) for n in warehouse.cut().views]
