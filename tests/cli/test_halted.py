"""A halted view is readable, and whoever reads it is told what its rows are."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

import headwater as hw
from cli.conftest import Headwater
from cli.small import add_view, halt_people, small_project
from cli.terminal import looked_at, on_terminal


@pytest.fixture
def halted(tmp_path: Path) -> Path:
    folder = small_project(tmp_path / "halted")
    halt_people(folder)
    add_view(folder, "other", seq=4)
    return folder


COMMANDS = (["read", "people"], ["sql", "SELECT id FROM people"], ["sql", 'SELECT * FROM "people" p, other'])


@pytest.mark.parametrize("command", COMMANDS)
def test_rows_of_a_halted_view_come_with_a_warning(headwater: Headwater, halted: Path, command: list[str]) -> None:
    result = headwater(*command, "-p", halted)
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 4
    for words in ("warning: view people is halted", "state 3", "column name was dropped", "headwater apply"):
        assert words in result.stderr
    assert headwater(*command, "--strict", "-p", halted).exit_code == 1
    as_json = headwater(*command, "--strict", "--json", "-p", halted)
    assert as_json.exit_code == 1
    assert len([json.loads(line) for line in as_json.stdout.splitlines()]) == 3
    told = json.loads(as_json.stderr)
    assert (told["view"], told["state"], told["seq"], told["reason"]) == (
        "people",
        "halted",
        3,
        "column name was dropped",
    )
    assert "headwater apply" in told["fix"]


def test_a_query_that_does_not_read_it_is_not_bothered(headwater: Headwater, halted: Path) -> None:
    for query in ("SELECT n FROM other", "SELECT n AS people FROM other", "SELECT 'people' AS a, n FROM other"):
        result = headwater("sql", query, "--strict", "-p", halted)
        assert (result.exit_code, result.stderr) == (0, ""), query


def test_a_state_from_before_it_was_halted_is_as_good_as_ever(headwater: Headwater, halted: Path) -> None:
    older = headwater("read", "people", "--at", 2, "--strict", "-p", halted)
    assert (older.exit_code, older.stderr) == (0, "")
    beyond = headwater("read", "people", "--at", 4, "--strict", "-p", halted)
    assert beyond.exit_code == 1
    assert "halted" in beyond.stderr


def test_a_query_nobody_can_read_counts_as_mentioning_every_view_it_may(headwater: Headwater, halted: Path) -> None:
    result = headwater("sql", "SHOW TABLES", "--strict", "-p", halted)
    assert "people is halted" in result.stderr or result.exit_code == 2


def test_on_a_terminal_the_warning_is_the_last_thing_said(halted: Path) -> None:
    seen = looked_at(on_terminal("read", "people", "-p", halted, width=200)).strip().splitlines()
    assert seen[-2].startswith("warning: view people is halted")
    assert "Anne" in seen[2]


def test_publishing_it_says_so(headwater: Headwater, halted: Path) -> None:
    result = headwater("publish", "-p", halted)
    assert result.exit_code == 0
    assert "view people is halted" in result.stderr


def test_in_python_it_is_a_warning_and_an_attribute(halted: Path) -> None:
    warehouse = hw.open(halted)
    assert warehouse.halted() == {"people": "column name was dropped"}
    with pytest.warns(hw.HeadwaterWarning, match="people is halted") as caught:
        warehouse.rows("people")
    assert caught[0].filename == __file__
    with pytest.warns(hw.ViewHalted, match="column name was dropped"):
        warehouse.query("SELECT count(*) FROM people")
    with warehouse.session() as session, pytest.warns(hw.ViewHalted) as caught:
        session.rows("people")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warehouse.rows("other")
        warehouse.rows("people", at=3)
        warehouse.query("SELECT n FROM other")
