"""What a terminal shows: everything, and nothing that commands it."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import replace
from decimal import Decimal
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest

from cli.conftest import Headwater
from cli.small import CRM, add_view, halt_people, small_project
from cli.terminal import looked_at, on_terminal
from headwater.cli.errors import show
from headwater.cli.printable import cell, json_safe, message, printable
from headwater.cli.rows import fit, framed
from headwater.cli.screen import SafeConsole
from headwater.model.errors import HeadwaterError
from headwater.model.names import Position
from headwater.storage import Storage
from headwater.warehouse.cuts import CutLog

EVIL = "\x1b[31mred\x1b]0;title\x07 \x9b31m \u202egnp.exe \r over\x7f"
BAD = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

TABLE = pa.table(
    {
        "id": [1, 12345678901234],
        "name": ["Ann " * 12, EVIL],
        "amount": pa.array([Decimal("12345678901234.5000"), None], pa.decimal128(20, 4)),
        "note": ["x" * 90, "日本語" * 10],
    }
)


def rendered(table: pa.Table, width: int) -> str:
    console = SafeConsole(file=StringIO(), width=width, emoji=False, highlight=False)
    console.print(framed(table, width))
    return console.file.getvalue()  # type: ignore[attr-defined]  # the StringIO above


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 140, 300])
def test_rows_are_whole_at_any_width(width: int) -> None:
    seen = rendered(TABLE, width)
    assert "…" not in seen
    assert not BAD.search(seen)
    words = re.sub(r"[\s─]", "", seen)
    for name in TABLE.column_names:
        assert name in words
    assert seen.count("x") - seen.count("\\x") - seen.count(".exe") == 90
    assert seen.count("日") == 10
    assert "12345678901234.5000" in seen, "numbers are not broken"
    assert "12345678901234 " in seen
    assert max(map(len, seen.splitlines())) <= width


def test_what_fits_is_a_table_and_what_does_not_is_one_column_a_line() -> None:
    assert rendered(TABLE, 140).splitlines()[0].split() == ["id", "name", "amount", "note"]
    assert rendered(TABLE, 50).splitlines()[1].split() == ["id", "1"]


def test_the_widest_columns_give_way_first() -> None:
    assert fit([5, 50, 20], [5, 16, 16], 60) == [5, 35, 20]
    assert fit([5, 50, 20], [5, 16, 16], 40) == [5, 18, 17] or fit([5, 50, 20], [5, 16, 16], 40) == [5, 17, 18]
    assert fit([5, 50, 20], [5, 16, 16], 30) is None
    assert fit([5, 10**9], [5, 16], 40) == [5, 35]


def test_read_on_a_narrow_terminal(project: Path) -> None:
    seen = looked_at(on_terminal("read", "people", "-p", project, width=40))
    for words in ("12345678901234.5000", "2024-02-29T12:30:00.123456+00:00", "ratio", "3 rows"):
        assert words in seen


def test_log_on_a_narrow_terminal_folds(project: Path) -> None:
    seen = looked_at(on_terminal("log", "-p", project, width=34))
    assert "…" not in seen
    assert seen.count("name=Anne") == 1


@pytest.mark.parametrize("write", [printable, cell, message, json_safe])
def test_nothing_commands_the_terminal(write) -> None:  # type: ignore[no-untyped-def]
    assert not BAD.search(write(EVIL + "\u2028\u0085"))


def test_written_out_it_can_still_be_read() -> None:
    assert printable("a\x1b[1m\u202e\u009b") == "a\\x1b[1m\\u202e\\x9b"
    assert cell("a\tb\nc\rd") == "a⇥b↵c\\x0dd"
    assert message("two\nlines\x07") == "two\nlines\\x07"


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """Names and reasons with control characters, markup and emoji codes in them."""
    folder = small_project(tmp_path / "evil")
    halt_people(folder, f"{EVIL} [/] [bold]x :skull:")
    add_view(folder, "we[/]ird\x1b[31m", seq=4)
    cuts = CutLog(Storage(str(folder / "warehouse")))
    cut = cuts.newest()
    cuts.append(replace(cut, number=cut.number + 1, positions={CRM: Position("1234:1234:")}))
    return folder


@pytest.mark.parametrize("command", [["status"], ["read", "people"], ["sql", "SELECT n FROM nothing"], ["log"]])
def test_names_reasons_and_errors_on_a_terminal(evil: Path, command: list[str]) -> None:
    seen = looked_at(on_terminal(*command, "-p", evil, width=200))
    assert not BAD.search(seen.replace("\n", "")), seen
    if command == ["status"]:
        for words in ("1234:1234:", "we[/]ird\\x1b[31m", "[/] [bold]x :skull:", "\\u202egnp.exe"):
            assert words in seen


def test_json_is_exact_and_safe_to_look_at(headwater: Headwater, evil: Path) -> None:
    query = f"SELECT '{EVIL}' AS e"
    result = headwater("sql", query, "--json", "-p", evil)
    assert not BAD.search(result.stdout.replace("\n", ""))
    assert __import__("json").loads(result.stdout) == {"e": EVIL}
    piped = headwater("sql", query, "-p", evil)
    assert piped.stdout == f"e\n{EVIL}\n".replace("\r", "\\r")


def test_an_error_that_quotes_data(capsys: pytest.CaptureFixture[str]) -> None:
    show([HeadwaterError(f"value {EVIL} does not fit", f"look at {EVIL}")], as_json=False)
    show([HeadwaterError(f"value {EVIL} does not fit")], as_json=True)
    said = capsys.readouterr().err
    assert not BAD.search(said.replace("\n", ""))
    assert "\\x1b[31mred" in said


def test_statements_of_a_fix_stand_alone(capsys: pytest.CaptureFixture[str]) -> None:
    grants = ["GRANT USAGE ON SCHEMA a TO b;", f"GRANT SELECT ON {'very_' * 30}long TO b;"]
    show([HeadwaterError("privileges are missing", "\n".join(["run as its owner:", *grants]))], as_json=False)
    lines = [line.strip() for line in capsys.readouterr().err.splitlines()]
    assert lines[1:] == ["→ run as its owner:", *grants]


def test_help_shows_what_the_docstrings_say(headwater: Headwater) -> None:
    words = " ".join(headwater("setup", "--help").stdout.split())
    assert "(SQLite: _headwater_)" in words
    assert "NULL as \\N, and \\t, \\n, \\r, \\\\ escaped" in " ".join(headwater("read", "--help").stdout.split())


def test_a_database_with_an_evil_table_is_planned_in_plain_letters(headwater: Headwater, tmp_path: Path) -> None:
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "v.sql").write_text("CREATE MATERIALIZED VIEW v AS SELECT a FROM crm.nothing;")
    (tmp_path / "headwater.toml").write_text('[sources.crm]\nurl = "sqlite:///crm.db"\n')
    database = sqlite3.connect(tmp_path / "crm.db")
    database.execute('CREATE TABLE "no\x1b[31mthing" (a int)')
    database.close()
    refused = headwater("setup", "-p", tmp_path)
    assert refused.exit_code == 2
    assert not BAD.search(refused.output.replace("\n", ""))
