"""The clock keeps a source's promise: what polls tell adds up to what it answers, as of any position. Nobody can write
to it, so the suite that all other adapters pass is not for it."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.clock import NOW, TODAY
from headwater.model.conditions import Condition
from headwater.model.names import CLOCK, Position, TableName
from headwater.model.source import COUNT, ORDINAL, Question, SourceSpec
from headwater.sources import clock, connect

BEGIN = dt.datetime(2024, 2, 28, 23, 59, 41, tzinfo=dt.UTC)
COLUMNS = {NOW: ["at"], TODAY: ["day"]}
TICK = dt.timedelta(seconds=10)


@pytest.fixture(autouse=True)
def _now() -> Iterator[None]:
    before = clock.present
    yield
    clock.present = before


def source(moment: dt.datetime = BEGIN) -> clock.ClockSource:
    clock.present = lambda: moment
    found = connect(SourceSpec(CLOCK, "clock://10"))
    assert isinstance(found, clock.ClockSource)
    return found


def state(found: clock.ClockSource, table: TableName, at: Position) -> Counter[object]:
    (chunk,) = found.chunks(table, 10)
    batches = found.scan(chunk, COLUMNS[table], at)
    return Counter({row[COLUMNS[table][0]]: row[COUNT] for batch in batches for row in batch.to_pylist()})


@settings(deadline=None)
@given(st.lists(st.floats(0, 200_000), min_size=1, max_size=8), st.sampled_from([[NOW], [TODAY], [NOW, TODAY]]))
def test_what_polls_tell_is_what_it_answers(steps: list[float], tables: list[TableName]) -> None:
    moment = BEGIN
    found = source(moment)
    position = found.position()
    told = {table: state(found, table, position) for table in tables}
    for seconds in steps:
        moment += dt.timedelta(seconds=seconds)
        clock.present = lambda moment=moment: moment  # type: ignore[misc]
        poll = found.poll(position, {table: COLUMNS[table] for table in tables}, 1000)
        assert poll.transactions.num_rows == bool(poll.changes)
        for table, rows in poll.changes.items():
            assert set(rows.column(ORDINAL).to_pylist()) == {0}
            told[table].update({row[COLUMNS[table][0]]: 0 for row in rows.to_pylist()})
            for row in rows.to_pylist():
                told[table][row[COLUMNS[table][0]]] += row[COUNT]
        position = poll.end
        for table in tables:
            assert +told[table] == state(found, table, position)
        assert dt.timedelta(0) <= moment - clock.moment(position) < TICK
        again = found.poll(position, {table: COLUMNS[table] for table in tables}, 1000)
        assert not again.changes
        assert again.end == position


def test_a_day_is_told_at_midnight_only() -> None:
    found = source()
    before = found.position()
    clock.present = lambda: BEGIN + dt.timedelta(seconds=15)
    poll = found.poll(before, {TODAY: ["day"]}, 10)
    assert not poll.changes
    assert poll.end != before
    clock.present = lambda: BEGIN + dt.timedelta(seconds=25)
    rows = found.poll(poll.end, {TODAY: ["day"]}, 10).changes[TODAY].to_pylist()
    assert [(row["day"], row[COUNT]) for row in rows] == [(dt.date(2024, 2, 28), -1), (dt.date(2024, 2, 29), 1)]


def test_it_is_asked_by_key_and_by_condition_as_of_any_moment() -> None:
    found = source()
    at = Position("2024-01-31T12:00:00+00:00")
    day = pa.table({"day": pa.array([dt.date(2024, 2, 1), dt.date(2024, 1, 31)])})
    (batch,) = found.ask(Question(TODAY, ("day",), day, ("day",)), at)
    assert batch.to_pylist() == [{ORDINAL: 1, "day": dt.date(2024, 1, 31), COUNT: 1}]
    later = (Condition("day", ">", dt.date(2024, 1, 31)),)
    assert not list(found.ask(Question(TODAY, ("day",), day, ("day",), later), at))


def test_a_clock_that_was_put_back_tells_nothing_until_it_is_there_again() -> None:
    found = source()
    position = found.position()
    clock.present = lambda: BEGIN - dt.timedelta(hours=1)
    poll = found.poll(position, {NOW: ["at"]}, 10)
    assert not poll.changes
    assert poll.end == position
