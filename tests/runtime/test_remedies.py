"""Every remedy that is printed is followed, word by word: what stands in quotes after an arrow is typed, in its order.

Something is harmed while nothing runs. The next run must say so, halt the views concerned and no others, and offer a
way out; after that way was gone, every view equals its sources.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import headwater
from headwater.cli.main import app
from postgres_server import PostgresServer
from runtime.small_project import Project

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def typed(project: Project, words: str) -> str:
    """Run a command as the remedy has it, confirming what it asks."""
    arguments = words.split()
    if arguments[0] == "apply":
        arguments.append("--yes")
    done = CliRunner().invoke(app, [*arguments, "--project", str(project.folder)])
    assert done.exit_code == 0, (words, done.output)
    return done.output


def follow(project: Project, fixes: set[str]) -> None:
    """Do what remedies say; what several of them say is done once, setup before apply as each of them has it."""
    commands: dict[str, None] = {}
    for fix in sorted(fixes, key=len, reverse=True):
        found = re.findall(r"'headwater ([^']+)'", fix)
        assert found, f"a remedy that names no command: {fix!r}"
        commands.update(dict.fromkeys(found))
    for words in commands:
        typed(project, words)


def halted(warehouse: headwater.Warehouse) -> dict[str, str]:
    return {name: state.fix for name, state in warehouse.cut().views.items() if state.state != "live"}


@dataclass(frozen=True)
class Harm:
    """What is done to a table `t`, and what a person does before following the remedy, where that asks for it."""

    statements: tuple[str, ...]
    mended: tuple[str, ...] = ()
    column: bool = False
    """It is done to the column `name`: a view that does not use it goes on."""


def play(project: Project, harms: Mapping[str, Harm], do: Callable[[str], None]) -> None:
    """One table and one view for each harm, and a pair that nobody harms; all at once, as bad days are."""
    tables = [*harms, "fine"]
    views = [f"CREATE MATERIALIZED VIEW v_{t} AS SELECT id, name, n FROM db.{t};" for t in tables]
    views += [f"CREATE MATERIALIZED VIEW n_{t} AS SELECT n, COUNT(*) AS c FROM db.{t} GROUP BY n;" for t in tables]
    project.write("\n".join(views))
    for table in tables:
        do(f"CREATE TABLE {table} (id integer PRIMARY KEY, name text, n integer)")
        do(f"INSERT INTO {table} VALUES (1, 'one', 1), (2, 'two', 2)")
    warehouse = project.loaded()
    for table, harm in harms.items():
        do(f"INSERT INTO {table} VALUES (3, 'three', 2)")
        for statement in harm.statements:
            do(statement.replace("{t}", table))
    do("UPDATE fine SET n = n + 1")
    warehouse = project.open()
    warehouse.run(until_caught_up=True)
    found = halted(warehouse)
    concerned = {f"v_{t}" for t in harms} | {f"n_{t}" for t, harm in harms.items() if not harm.column}
    assert set(found) == concerned, {n: s.reason for n, s in warehouse.cut().views.items()}
    for table, harm in harms.items():
        for statement in harm.mended:
            do(statement.replace("{t}", table))
    follow(project, set(found.values()))
    check(project)


def check(project: Project) -> None:
    again = project.open()
    again.run(until_caught_up=True)
    assert halted(again) == {}
    assert [(v.view, v.problem) for v in again.verify() if not v.ok] == []


# ── SQLite ───────────────────────────────────────────────────────────────────────────────────────────────────────


SQLITE = {
    "untriggered": Harm(("DROP TRIGGERS OF {t}", "UPDATE {t} SET n = 9 WHERE id = 1")),
    "rebuilt": Harm(
        (
            "CREATE TABLE new_{t} (id integer PRIMARY KEY, name text, n integer)",
            "INSERT INTO new_{t} SELECT id, upper(name), n FROM {t}",
            "DROP TABLE {t}",
            "ALTER TABLE new_{t} RENAME TO {t}",
        )
    ),
}


def test_remedies_at_sqlite(tmp_path: Path, spark: SparkSession) -> None:
    project = Project(tmp_path / "p", "", {"db": ""})

    def do(statement: str) -> None:
        if statement.startswith("DROP TRIGGERS OF"):
            drop_triggers(project, statement.split()[-1])
        else:
            project.execute("db", statement)

    play(project, SQLITE, do)


def drop_triggers(project: Project, table: str) -> None:
    from runtime.world import Sqlite

    with Sqlite(project.folder / "db.db") as db:
        for (name,) in db.execute(f"SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '{table}'"):
            db.execute(f'DROP TRIGGER "{name}"')


def test_a_restored_file_at_sqlite(tmp_path: Path, spark: SparkSession) -> None:
    """Back to a copy, and on from there past the old position; then a column is called something else for a while."""
    project = Project(tmp_path / "p", "CREATE MATERIALIZED VIEW a AS SELECT id, name FROM db.t;", {"db": ""})
    project.execute("db", "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO t VALUES (1, 'one')")
    warehouse = project.loaded()
    project.execute("db", "VACUUM INTO 'backup.db'".replace("backup.db", str(project.folder / "backup.db")))
    project.execute("db", "INSERT INTO t VALUES (2, 'two')")
    warehouse.run(until_caught_up=True)
    for end in ("-wal", "-shm"):
        (project.folder / f"db.db{end}").unlink(missing_ok=True)
    (project.folder / "backup.db").rename(project.folder / "db.db")
    for n in range(10, 30):
        project.execute("db", f"INSERT INTO t VALUES ({n}, 'other past')")
    warehouse = project.open()
    warehouse.run(until_caught_up=True)
    assert set(halted(warehouse)) == {"a"}
    follow(project, set(halted(warehouse).values()))
    check(project)
    project.execute("db", "ALTER TABLE t RENAME COLUMN name TO title")
    warehouse = project.open()
    warehouse.run(until_caught_up=True)
    assert set(halted(warehouse)) == {"a"}
    project.execute("db", "ALTER TABLE t RENAME COLUMN title TO name")
    follow(project, set(halted(warehouse).values()))
    check(project)


# ── PostgreSQL ───────────────────────────────────────────────────────────────────────────────────────────────────

POSTGRES = {
    "rewritten": Harm(("ALTER TABLE {t} ALTER name TYPE text USING upper(name)",), column=True),
    "recreated": Harm(("DROP TABLE {t}; CREATE TABLE {t} (id int PRIMARY KEY, name text, n int)",)),
    "renamed": Harm(("ALTER TABLE {t} RENAME name TO x",), ("ALTER TABLE {t} RENAME x TO name",), column=True),
    "swapped": Harm(("ALTER TABLE {t} ADD other text; ALTER TABLE {t} RENAME name TO x;"
                     " ALTER TABLE {t} RENAME other TO name",), column=True),
    "disabled": Harm(("ALTER TABLE {t} DISABLE TRIGGER ALL; INSERT INTO {t} VALUES (9, 'x', 2);"
                      " ALTER TABLE {t} ENABLE TRIGGER ALL",)),
    "truncated": Harm(("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; TRUNCATE {t}; COMMIT",)),
}  # fmt: skip


@pytest.mark.postgres
@pytest.mark.soak
def test_remedies_at_postgres(tmp_path: Path, spark: SparkSession, postgres: PostgresServer) -> None:
    url = postgres.create_database("remedies")
    project = Project(tmp_path / "p", "", {})
    (project.folder / "headwater.toml").write_text(f'[sources.db]\nurl = "{url}"\n[run]\npoll_seconds = 0.05\n')

    def do(statement: str) -> None:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(statement)  # type: ignore[arg-type] # statements of a test

    play(project, POSTGRES, do)
    do("DROP SCHEMA headwater CASCADE")
    do("UPDATE fine SET n = n + 1")
    warehouse = project.open()
    warehouse.run(until_caught_up=True)
    assert set(halted(warehouse)) == set(warehouse.cut().views)
    follow(project, set(halted(warehouse).values()))
    check(project)
