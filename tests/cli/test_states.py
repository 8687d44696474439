"""Which state is read: by number, by time, of the views that a query mentions."""

from __future__ import annotations

import datetime as dt
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

import headwater as hw
from cli.conftest import Headwater
from cli.small import add_view, small_project
from headwater.model.errors import UsageError
from headwater.model.names import Seq, ViewName
from headwater.runtime.reading.mentions import mentioned, occurring
from headwater.runtime.reading.moments import parse_at
from headwater.storage import Storage
from headwater.warehouse.cuts import CutLog

NOW = dt.datetime(2024, 5, 31, 12, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("1042", 1042),
        ("10 minutes ago", NOW - dt.timedelta(minutes=10)),
        ("1.5 h ago", NOW - dt.timedelta(hours=1.5)),
        ("30s ago", NOW - dt.timedelta(seconds=30)),
        ("2 days ago", NOW - dt.timedelta(days=2)),
        ("2024-05-31T11:00:00Z", dt.datetime(2024, 5, 31, 11, tzinfo=dt.UTC)),
        ("2024-05-31 11:00", dt.datetime(2024, 5, 31, 11).astimezone()),
    ],
)
def test_what_a_time_means(said: str, meant: object) -> None:
    assert parse_at(said, NOW) == meant


@pytest.mark.parametrize("said", ["yesterday", "-1", "10 moons ago", "", "12:00", "9" * 400 + " days ago"])
def test_what_is_no_time_is_explained(said: str) -> None:
    with pytest.raises(UsageError, match="is no state"):
        parse_at(said, NOW)


@pytest.fixture
def moving(tmp_path: Path) -> tuple[Path, list[float]]:
    """The small project again, with a cut for each of its transactions; the times between the cuts."""
    folder = small_project(tmp_path / "moving")
    cuts = CutLog(Storage(str(folder / "warehouse")))
    last, between = cuts.newest(), []
    people = last.views[ViewName("people")]
    for number, seq in enumerate((1, 2, 3), 2):
        time.sleep(0.05)
        between.append(time.time())
        time.sleep(0.05)
        state = replace(people, seq=Seq(seq))
        cuts.append(replace(last, number=number, seq=Seq(seq), views={ViewName("people"): state}))
    time.sleep(0.05)
    return folder, [*between, time.time()]


def test_a_time_is_the_newest_cut_by_then(headwater: Headwater, moving: tuple[Path, list[float]]) -> None:
    folder, times = moving
    moments = [dt.datetime.fromtimestamp(t).astimezone() for t in times]
    for moment, names in ((moments[1], ["Ann", "Ann"]), (moments[3], ["Anne", "Anne", "tab\tand\nline"])):
        read = headwater("read", "people", "--at", moment.isoformat(), "--json", "-p", folder)
        assert [json.loads(line)["name"] for line in read.stdout.splitlines()] == names
        query = headwater("sql", "SELECT count(*) AS n FROM people", "--at", moment.isoformat(), "--json", "-p", folder)
        assert json.loads(query.stdout)["n"] == len(names)
        assert hw.open(folder).rows("people", at=moment).column("name").to_pylist() == names
    with hw.open(folder).session(at=moments[2]) as session:
        assert session.rows("people").num_rows == 3
        assert session.rows("people").column("name").to_pylist()[:2] == ["Ann", "Ann"]


def test_times_without_a_state_are_explained(headwater: Headwater, moving: tuple[Path, list[float]]) -> None:
    folder, _ = moving
    early = headwater("read", "people", "--at", "3 days ago", "-p", folder)
    assert early.exit_code == 2
    assert "the oldest one is of" in early.stderr
    late = headwater("read", "people", "--at", "2999-01-01", "-p", folder)
    assert late.exit_code == 2
    assert "has not come yet" in late.stderr
    assert headwater("read", "people", "--at", "soon", "-p", folder).exit_code == 2
    add_view(folder, "newer")
    absent = headwater("read", "newer", "--at", dt.datetime.fromtimestamp(moving[1][3]).isoformat(), "-p", folder)
    assert "newer was not there yet" in absent.stderr


def test_a_view_that_lags_does_not_decide_for_one_that_does_not(tmp_path: Path) -> None:
    """A periodic view holds the cut's own number back; the state of the other at that time is still the one shown."""
    folder = small_project(tmp_path / "two")
    add_view(folder, "slow", seq=1, horizon=1)
    cuts = CutLog(Storage(str(folder / "warehouse")))
    cuts.append(replace(cuts.newest(), number=3, seq=Seq(1)))
    assert hw.open(folder).rows("people", at=dt.datetime.now(dt.UTC)).column("name").to_pylist()[0] == "Anne"


def test_an_old_state_of_one_view_does_not_need_the_others(headwater: Headwater, tmp_path: Path) -> None:
    folder = small_project(tmp_path / "two")
    add_view(folder, "newer")
    result = headwater("sql", "SELECT count(*) AS newer FROM people", "--at", 1, "--json", "-p", folder)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == {"newer": 2}
    both = headwater("sql", "SELECT * FROM people, newer", "--at", 1, "-p", folder)
    assert both.exit_code == 2
    assert "state 1 of view newer" in both.stderr


VIEWS = [ViewName(n) for n in ("orders", "Order Lines", "a", 'q"t')]


@pytest.mark.parametrize(
    ("query", "views"),
    [
        ("SELECT * FROM ORDERS", ["orders"]),
        ('SELECT * FROM "Order Lines" x', ["Order Lines"]),
        ('SELECT * FROM "q""t"', ['q"t']),
        ("WITH c AS (SELECT * FROM orders) SELECT a FROM c", ["orders"]),
        ("SELECT orders FROM a", ["a"]),
        ("SELECT 'orders' FROM a WHERE EXISTS (SELECT 1 FROM orders)", ["orders", "a"]),
        ("SELECT 1", VIEWS),
    ],
)
def test_what_a_query_mentions(query: str, views: list[str]) -> None:
    found = occurring(query, VIEWS)
    assert set(views) <= set(found)
    assert mentioned(query, found, "postgres") == views


def test_a_query_the_parser_does_not_know_keeps_what_occurs_in_it() -> None:
    assert mentioned("SELEC % FROM orders a", VIEWS, "postgres") == VIEWS
