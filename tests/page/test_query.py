"""SQL over views at one state: right, read-only, bounded, and blind to everything else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.model.errors import UsageError
from headwater.page.look import Look
from headwater.page.query import Limits, run_query
from headwater.page.states import pinned
from headwater.runtime.project.project import Project

Ask = Callable[..., tuple[pa.Table, bool]]


@pytest.fixture
def ask(unchanged: Project) -> Ask:
    def asked(sql: str, at: str | None = None, limits: Limits | None = None) -> tuple[pa.Table, bool]:
        with pinned(Look(unchanged), None, at) as views:
            return run_query(unchanged.storage, views, sql, limits or Limits())

    return asked


def values(found: tuple[pa.Table, bool]) -> list[Any]:
    return [tuple(row.values()) for row in found[0].to_pylist()]


def test_views_are_joined_at_one_state(ask: Ask) -> None:
    both = 'SELECT p.name, l.n FROM people p, "late" l ORDER BY 1'
    assert values(ask(both)) == [("Anne", 7), ("Anne", 7), ("tab\tand\nline", 7)]
    assert values(ask("SELECT name, count(*) FROM People GROUP BY 1 ORDER BY 1", at="3"))[0] == ("Anne", 2)


def test_only_so_many_rows_come(ask: Ask) -> None:
    rows, more = ask("SELECT * FROM people", limits=Limits(rows=2))
    assert (rows.num_rows, more) == (2, True)
    assert ask("SELECT * FROM people", limits=Limits(rows=3))[1] is False


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('/etc/hostname')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM read_parquet('http://127.0.0.1/x')",
        "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
        "COPY people TO '/tmp/headwater-stolen.csv'",
        "COPY (SELECT 1) TO '/tmp/headwater-stolen.csv'",
        "EXPORT DATABASE '/tmp/headwater-stolen'",
        "ATTACH '/tmp/headwater-stolen.db'",
        "INSTALL httpfs",
        "LOAD '/tmp/x.so'",
        "SET enable_external_access = true",
        "PRAGMA enable_external_access = true",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW people",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP VIEW people",
        "",
        "SELEC 1",
        "SELECT * FROM project",
        "SELECT * FROM duckdb_secrets()",
    ],
)
def test_nothing_else_can_be_read_or_changed(ask: Ask, sql: str) -> None:
    with pytest.raises(UsageError):
        ask(sql)
    assert not list(Path("/tmp").glob("headwater-stolen*"))


def test_a_query_that_takes_long_is_broken_off(ask: Ask) -> None:
    endless = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range = 7"
    with pytest.raises(UsageError, match=r"longer than 0.3 s"):
        ask(endless, limits=Limits(seconds=0.3))


def test_a_query_that_needs_much_memory_is_refused(ask: Ask) -> None:
    with pytest.raises(UsageError, match="needs more than 20MB"):
        ask("SELECT list(range) FROM range(20000000)", limits=Limits(memory="20MB"))


def test_no_setting_says_where_the_project_is(ask: Ask, unchanged: Project) -> None:
    rows, _ = ask("SELECT * FROM duckdb_settings()", limits=Limits(rows=10_000))
    assert str(unchanged.config.folder) not in str(rows.to_pylist())


def test_a_query_that_takes_long_writes_nothing_to_the_terminal(ask: Ask) -> None:
    """After two seconds an engine of DuckDB's own begins to draw how far it is, on whatever standard output is."""
    assert ask("SELECT value FROM duckdb_settings() WHERE name = 'enable_progress_bar'")[0].to_pylist() == [
        {"value": "false"}
    ]
