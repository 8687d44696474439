"""Every remedy that is printed is followed, word by word: what stands in quotes after an arrow is typed, in its order.

A case harms something while nothing runs. The next run must say so, halt the views concerned and no others, and offer a
way out; after that way was gone, every view equals its sources.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import headwater
from headwater.cli.main import app
from postgres_server import PostgresServer
from runtime.small_project import Project

pytestmark = pytest.mark.spark


def typed(project: Project, words: str) -> str:
    """Run a command as the remedy has it, confirming what it asks."""
    arguments = words.split()
    if arguments[0] == "apply":
        arguments.append("--yes")
    done = CliRunner().invoke(app, [*arguments, "--project", str(project.folder)])
    assert done.exit_code == 0, (words, done.output)
    return done.output


def follow(project: Project, fix: str) -> list[str]:
    """Do what a remedy says."""
    commands = re.findall(r"'headwater ([^']+)'", fix)
    assert commands, f"a remedy that names no command: {fix!r}"
    for words in commands:
        typed(project, words)
    return commands


def halted(warehouse: headwater.Warehouse) -> dict[str, str]:
    return {name: state.fix for name, state in warehouse.cut().views.items() if state.state != "live"}


@dataclass(frozen=True)
class Case:
    """`harm` is done to the project, `mended` before the remedy is followed where the remedy asks for it."""

    harm: Callable[[Project], None]
    concerns: set[str]
    mend: Callable[[Project], None] = field(default=lambda project: None)


# ── SQLite ───────────────────────────────────────────────────────────────────────────────────────────────────────

VIEWS = """
CREATE MATERIALIZED VIEW a AS SELECT id, name, n FROM db.t;
CREATE MATERIALIZED VIEW b AS SELECT k FROM db.u;
CREATE MATERIALIZED VIEW ab AS SELECT name, k FROM db.t JOIN db.u ON n = k;
"""
TABLES = """
CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, n INTEGER); CREATE TABLE u (k INTEGER);
INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2); INSERT INTO u VALUES (1), (2)
"""


def statements(*texts: str) -> Callable[[Project], None]:
    return lambda project: project.execute("db", *texts)


def drop_triggers(project: Project) -> None:
    from runtime.world import Sqlite

    with Sqlite(project.folder / "db.db") as db:
        found = db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 't'")
        for (name,) in found:
            db.execute(f'DROP TRIGGER "{name}"')
        db.execute("UPDATE t SET name = 'unseen' WHERE id = 1")


def restore(project: Project) -> None:
    """Back to the copy made when the project was loaded, and on from there past the old position."""
    for end in ("-wal", "-shm"):
        (project.folder / f"db.db{end}").unlink(missing_ok=True)
    (project.folder / "backup.db").rename(project.folder / "db.db")
    for n in range(10, 30):
        project.execute("db", f"INSERT INTO t VALUES ({n}, 'other past', {n})")


SQLITE = {
    "triggers dropped": Case(drop_triggers, {"a", "ab"}),
    "table rebuilt": Case(
        statements(
            "CREATE TABLE new (id INTEGER PRIMARY KEY, name TEXT, n INTEGER)",
            "INSERT INTO new SELECT id, upper(name), n FROM t",
            "DROP TABLE t",
            "ALTER TABLE new RENAME TO t",
        ),
        {"a", "ab"},
    ),
    "restored from a backup and written on": Case(restore, {"a", "b", "ab"}),
    "column renamed": Case(
        statements("ALTER TABLE t RENAME COLUMN name TO title"),
        {"a", "ab"},
        statements("ALTER TABLE t RENAME COLUMN title TO name"),
    ),
}


@pytest.mark.parametrize("case", SQLITE.values(), ids=SQLITE.keys())
def test_remedies_at_sqlite(tmp_path: Path, spark: SparkSession, case: Case) -> None:
    project = Project(tmp_path / "p", VIEWS, {"db": TABLES})
    warehouse = project.loaded()
    project.execute("db", "PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(project.folder / "db.db", project.folder / "backup.db")
    project.execute("db", "INSERT INTO t VALUES (3, 'three', 2)", "INSERT INTO u VALUES (2)")
    warehouse.run(until_caught_up=True)
    case.harm(project)
    check(project, case)


def check(project: Project, case: Case) -> None:
    warehouse = project.open()
    warehouse.run(until_caught_up=True)
    found = halted(warehouse)
    assert set(found) == case.concerns, {n: s.reason for n, s in warehouse.cut().views.items()}
    case.mend(project)
    for fix in dict.fromkeys(found.values()):
        follow(project, fix)
    again = project.open()
    again.run(until_caught_up=True)
    assert halted(again) == {}
    assert [(v.view, v.ok) for v in again.verify()] == [(v.view, True) for v in again.verify()]


# ── PostgreSQL ───────────────────────────────────────────────────────────────────────────────────────────────────

CREATE = """
CREATE TABLE t (id int PRIMARY KEY, name text, n int); CREATE TABLE u (k int);
INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2); INSERT INTO u VALUES (1), (2)
"""


def run_sql(text: str) -> Callable[[Project], None]:
    def run(project: Project) -> None:
        with psycopg.connect((project.folder / "url").read_text(), autocommit=True) as db:
            db.execute(text)  # type: ignore[arg-type] # statements of a test

    return run


POSTGRES = {
    "a rewritten column": Case(run_sql("ALTER TABLE t ALTER name TYPE text USING upper(name)"), {"a", "ab"}),
    "dropped, created, set up again": Case(
        run_sql("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, name text, n int)"), {"a", "ab"}
    ),
    "names swapped": Case(
        run_sql("ALTER TABLE t ADD other text; ALTER TABLE t RENAME name TO x; ALTER TABLE t RENAME other TO name"),
        {"a", "ab"},
    ),
    "a trigger disabled around a write": Case(
        run_sql("ALTER TABLE u DISABLE TRIGGER ALL; INSERT INTO u VALUES (2); ALTER TABLE u ENABLE TRIGGER ALL"),
        {"b", "ab"},
    ),
    "truncated by an old snapshot": Case(
        run_sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; TRUNCATE u; COMMIT"), {"b", "ab"}
    ),
    "capture dropped": Case(run_sql("DROP SCHEMA headwater CASCADE; INSERT INTO u VALUES (1)"), {"a", "b", "ab"}),
}


@pytest.mark.postgres
@pytest.mark.parametrize("case", POSTGRES.values(), ids=POSTGRES.keys())
def test_remedies_at_postgres(
    tmp_path: Path, spark: SparkSession, postgres: PostgresServer, request: pytest.FixtureRequest, case: Case
) -> None:
    url = postgres.create_database(f"remedy{abs(hash(request.node.nodeid))}")
    project = Project(tmp_path / "p", VIEWS, {})
    (project.folder / "url").write_text(url)
    (project.folder / "headwater.toml").write_text(f'[sources.db]\nurl = "{url}"\n[run]\npoll_seconds = 0.05\n')
    run_sql(CREATE)(project)
    warehouse = project.loaded()
    run_sql("INSERT INTO t VALUES (3, 'three', 2); INSERT INTO u VALUES (2)")(project)
    warehouse.run(until_caught_up=True)
    case.harm(project)
    check(project, case)


@pytest.mark.postgres
def test_a_rewritten_column_concerns_only_the_views_that_use_it(
    tmp_path: Path, spark: SparkSession, postgres: PostgresServer
) -> None:
    """Two views over one table, loaded together."""
    url = postgres.create_database("remedy_apart")
    views = (
        "CREATE MATERIALIZED VIEW a AS SELECT id, name FROM db.t; CREATE MATERIALIZED VIEW n AS SELECT id, n FROM db.t;"
    )
    project = Project(tmp_path / "p", views, {})
    (project.folder / "url").write_text(url)
    (project.folder / "headwater.toml").write_text(f'[sources.db]\nurl = "{url}"\n[run]\npoll_seconds = 0.05\n')
    run_sql(CREATE)(project)
    project.loaded()
    run_sql("ALTER TABLE t ALTER n TYPE int USING n * 2; INSERT INTO t VALUES (9, 'nine', 9)")(project)
    warehouse = project.open()
    warehouse.run(until_caught_up=True)
    assert set(halted(warehouse)) == {"n"}
    assert "was rewritten" in warehouse.cut().views["n"].reason  # type: ignore[index] # a ViewName is a str
    assert len(warehouse.rows("a")) == 3
