"""read, sql, log and status on a warehouse that exists, without a JVM."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Headwater


def test_rows_are_objects_that_lose_nothing_and_duplicates_are_repeated(headwater: Headwater, project: Path) -> None:
    result = headwater("read", "people", "--project", project, "--json")
    assert result.exit_code == 0
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [r["name"] for r in rows] == ["Anne", "Anne", "tab\tand\nline"]
    assert rows[0] == {
        "id": 1,
        "name": "Anne",
        "amount": "12345678901234.5000",
        "day": "2024-02-29",
        "at": "2024-02-29T12:30:00.123456+00:00",
        "raw": "00ff",
        "ratio": "NaN",
    }
    assert rows[2]["amount"] is None
    assert rows[2]["ratio"] == 0.1


def test_an_older_state_is_read_by_its_number(headwater: Headwater, project: Path) -> None:
    at = headwater("read", "PEOPLE", "--at", 1, "-p", project, "--json")
    assert [json.loads(line)["name"] for line in at.stdout.splitlines()] == ["Ann", "Ann"]
    assert len(headwater("read", "people", "--limit", 1, "-p", project, "--json").stdout.splitlines()) == 1


def test_a_pipe_gets_one_line_per_row(headwater: Headwater, project: Path) -> None:
    head, *rows = headwater("read", "people", "-p", project).stdout.splitlines()
    assert head.split("\t")[:3] == ["id", "name", "amount"]
    assert len(rows) == 3
    assert rows[2].split("\t")[:3] == ["2", "tab\\tand\\nline", "\\N"]


def test_sql_runs_over_the_views_at_one_state(headwater: Headwater, project: Path) -> None:
    query = "SELECT count(*) AS n, max(name) AS last FROM people"
    assert json.loads(headwater("sql", query, "-p", project, "--json").stdout) == {"n": 3, "last": "tab\tand\nline"}
    assert json.loads(headwater("sql", query, "--at", 1, "-p", project, "--json").stdout) == {"n": 2, "last": "Ann"}
    moment = json.loads(headwater("sql", "SELECT now() AS n, 1.5 AS x", "-p", project, "--json").stdout)
    assert isinstance(moment["n"], str)


def test_log_lines_have_the_promised_shape(headwater: Headwater, project: Path) -> None:
    lines = [json.loads(line) for line in headwater("log", "-p", project, "--json").stdout.splitlines()]
    assert [line["seq"] for line in lines] == [1, 2, 3]
    assert lines[2] == {
        "seq": 3,
        "source": "crm",
        "transaction": "c",
        "committed_at": "2024-02-29T12:30:00.123456+00:00",
        "global": None,
        "changes": [
            {"table": "crm.people", "count": -1, "row": {"id": 1, "name": "Ann"}},
            {"table": "crm.people", "count": 1, "row": {"id": 1, "name": "Anne"}},
        ],
    }
    some = headwater("log", "--from", 2, "--to", 2, "-p", project, "--json")
    assert [json.loads(line)["seq"] for line in some.stdout.splitlines()] == [2]
    assert len(headwater("log", "-p", project).stdout.splitlines()) == 5


def test_status_is_one_object(headwater: Headwater, project: Path) -> None:
    result = headwater("status", "-p", project, "--json")
    assert result.exit_code == 0
    status = json.loads(result.stdout)
    assert (status["cut"]["seq"], status["cut"]["positions"], status["running"]) == (3, {"crm": "3"}, None)
    assert [s["name"] for s in status["sources"]] == ["crm"]
    (view,) = status["views"]
    assert (view["name"], view["seq"], view["rows"], view["level"], view["state"]) == (
        "people",
        3,
        3,
        "complete",
        "live",
    )
    assert "people" in headwater("status", "-p", project).stdout


def test_wrong_names_and_states_are_the_users_input(headwater: Headwater, project: Path) -> None:
    wrong = headwater("read", "peple", "-p", project)
    assert wrong.exit_code == 2
    assert "did you mean 'people'?" in wrong.stderr
    asked = headwater("read", "people", "--at", 99, "-p", project, "--json")
    assert asked.exit_code == 2
    assert set(json.loads(asked.stderr)) == {"error", "fix"}
    assert headwater("read", "people", "--at", 0, "-p", project).exit_code == 2
    assert headwater("sql", "SELEC 1", "-p", project).exit_code == 2
    assert "people" in headwater("sql", "SELECT * FROM nothing", "-p", project).stderr


def test_reading_starts_no_jvm_and_imports_no_spark(project: Path) -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from headwater.cli.main import app\n"
        "for c in (['status'], ['read', 'people'], ['sql', 'SELECT 1 AS a'], ['log']):\n"
        f"    assert CliRunner().invoke(app, [*c, '-p', {str(project)!r}]).exit_code == 0, c\n"
        "assert not [m for m in sys.modules if m.partition('.')[0] in ('pyspark', 'py4j', 'sqlglot')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("where", "names"),
    [
        (["id=1"], ["Anne", "Anne"]),
        (["ID=1", "name=Anne"], ["Anne", "Anne"]),
        (["id=1", "name=Ann"], []),
        (["amount=12345678901234.5"], ["Anne", "Anne"]),
        (["day=2024-02-29", "ratio=NaN"], ["Anne", "Anne"]),
        ([r"day=\N"], ["tab\tand\nline"]),
        (["name="], []),
        (["id=3"], []),
    ],
)
def test_rows_are_looked_up(headwater: Headwater, project: Path, where: list[str], names: list[str]) -> None:
    asked = [part for one in where for part in ("--where", one)]
    done = headwater("read", "people", *asked, "--json", "-p", project)
    assert done.exit_code == 0, done.output
    assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == names


def test_rows_are_looked_up_in_an_old_state(headwater: Headwater, project: Path) -> None:
    done = headwater("read", "people", "--where", "id=1", "--at", "2", "--json", "-p", project)
    assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == ["Ann", "Ann"]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("id", "is not COLUMN=VALUE"),
        ("idd=1", "did you mean 'id'?"),
        ("id=one", "'one' is no value of column id (int64)"),
        ("day=yesterday", "'yesterday' is no value of column day"),
    ],
)
def test_what_cannot_be_looked_up(headwater: Headwater, project: Path, where: str, said: str) -> None:
    done = headwater("read", "people", "--where", where, "-p", project)
    assert done.exit_code != 0
    assert said in done.stderr
