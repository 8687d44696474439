"""Schedules: what can be written, when it is due, also where clocks are put forward and back."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.errors import ConfigError
from headwater.model.schedule import Cron, Interval, Schedule, parse_schedule

READ: list[tuple[str, Schedule, str, str]] = [
    # written, value, text, says
    ("30 seconds", Interval(30), "30 seconds", "every 30 seconds"),
    ("1 second", Interval(1), "1 second", "every second"),
    ("90s", Interval(90), "90 seconds", "every 90 seconds"),
    ("10 minutes", Interval(600), "10 minutes", "every 10 minutes"),
    ("600s", Interval(600), "10 minutes", "every 10 minutes"),
    ("every 10 minutes", Interval(600), "10 minutes", "every 10 minutes"),
    ("  Every\t10\n MIN ", Interval(600), "10 minutes", "every 10 minutes"),
    ("every 10m", Interval(600), "10 minutes", "every 10 minutes"),
    ("1 hour", Interval(3600), "1 hour", "every hour"),
    ("every hour", Interval(3600), "1 hour", "every hour"),
    ("60 minutes", Interval(3600), "1 hour", "every hour"),
    ("36h", Interval(129_600), "36 hours", "every 36 hours"),
    ("2 days", Interval(172_800), "2 days", "every 2 days"),
    ("7 days", Interval(604_800), "1 week", "every week"),
    ("0 3 * * *", Cron("0 3 * * *"), "0 3 * * *", "at 03:00 every day"),
    (" 0  3 *\t* mon-Fri", Cron("0 3 * * MON-FRI"), "0 3 * * MON-FRI", "at 03:00 on Monday through Friday"),
    ("*/10 * * * *", Cron("*/10 * * * *"), "*/10 * * * *", "every 10th minute of every hour"),
    ("5 4 L * *", Cron("5 4 L * *"), "5 4 L * *", "at 04:05 on the last day of every month"),
]


@pytest.mark.parametrize(("written", "value", "text", "says"), READ, ids=[r[0] for r in READ])
def test_what_can_be_written(written: str, value: Schedule, text: str, says: str) -> None:
    schedule = parse_schedule(written)
    assert (schedule, schedule.text, schedule.says) == (value, text, says)
    assert parse_schedule(schedule.text) == parse_schedule(text) == schedule


UNREADABLE = [
    ("", "'' is not a schedule"),
    ("often", "'often' is not a schedule"),
    ("10", "'10' is not a schedule"),
    ("ten minutes", "'ten minutes' is not a schedule"),
    ("-3 minutes", "not a schedule"),
    ("1.5 hours", "not a schedule"),
    ("1 hour 30 minutes", "not a schedule"),
    ("0 seconds", "an interval is at least a second"),
    ("500 ms", "'ms' is no unit of time"),
    ("every full moon", "not a schedule"),
    ("every moon", "'moon' is no unit of time"),
    ("٣ minutes", "not a schedule"),
    ("9999999999 days", "not a schedule"),
    ("@daily", "not a schedule"),
    ("0 3 * *", "not a schedule"),
    ("0 0 3 * * *", "not a schedule"),  # six fields, with seconds
    ("60 3 * * *", "bad minute"),
    ("0 24 * * *", "bad hour"),
    ("0 3 32 * *", "bad day-of-month"),
    ("0 3 * 13 *", "bad month"),
    ("0 3 * * mox", "bad day-of-week"),
    ("*/0 * * * *", "bad minute"),
    (f"{'9' * 5000} 3 * * *", "not a schedule"),
    ("0 3 30 2 *", "bad day-of-month"),
    ("0 3 */30 2 TUE#5", "is never due"),
    ("ä ö ü ß é", "bad minute"),
]


@pytest.mark.parametrize(("written", "what"), UNREADABLE)
def test_what_cannot_says_which_forms_there_are(written: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_schedule(written)
    assert what in caught.value.what
    assert "'10 minutes'" in caught.value.fix
    assert "five cron fields" in caught.value.fix


@given(st.integers(1, 999_999_999), st.floats(0, 4e9))
def test_an_interval_is_due_at_its_multiples(seconds: int, after: float) -> None:
    due = Interval(seconds).next(after)
    assert due % seconds == 0
    assert after < due <= after + seconds
    assert parse_schedule(Interval(seconds).text) == Interval(seconds)


@contextmanager
def zone(name: str) -> Iterator[None]:
    """The machine, moved to another time zone."""
    before = os.environ.get("TZ")
    try:
        os.environ["TZ"] = name
        time.tzset()
        yield
    finally:
        os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
        time.tzset()


BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"  # its rules spelled out: no time zone files needed


def utc(text: str) -> float:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp()


DUE = [
    # zone, fields, after (UTC), due (UTC)
    ("UTC", "0 3 * * *", "2026-01-05 02:59:59", "2026-01-05 03:00"),
    ("UTC", "0 3 * * *", "2026-01-05 02:59:59.999999", "2026-01-05 03:00"),
    ("UTC", "0 3 * * *", "2026-01-05 03:00", "2026-01-06 03:00"),
    ("UTC", "0 3 * * *", "2026-01-05 03:00:00.5", "2026-01-06 03:00"),
    ("UTC", "*/10 * * * *", "2026-01-05 03:05", "2026-01-05 03:10"),
    ("UTC", "0 0 29 2 *", "2026-01-05 03:05", "2028-02-29 00:00"),
    ("UTC", "0 0 * * SUN", "2026-01-05 03:05", "2026-01-11 00:00"),
    (BERLIN, "0 3 * * *", "2026-01-05 02:30", "2026-01-06 02:00"),
    (BERLIN, "0 3 * * *", "2026-07-05 00:30", "2026-07-05 01:00"),
    # 29 March 2026: 02:00 → 03:00
    (BERLIN, "30 2 * * *", "2026-03-28 12:00", "2026-03-29 01:00"),
    (BERLIN, "30 2 * * *", "2026-03-29 01:00", "2026-03-30 00:30"),
    (BERLIN, "*/30 * * * *", "2026-03-29 00:30", "2026-03-29 01:00"),
    # 25 October 2026: 03:00 → 02:00
    (BERLIN, "30 2 * * *", "2026-10-24 12:00", "2026-10-25 00:30"),
    (BERLIN, "30 2 * * *", "2026-10-25 00:30", "2026-10-26 01:30"),
    (BERLIN, "30 2 * * *", "2026-10-25 01:10", "2026-10-26 01:30"),
    (BERLIN, "*/30 * * * *", "2026-10-25 00:30", "2026-10-25 01:00"),
    (BERLIN, "*/30 * * * *", "2026-10-25 01:00", "2026-10-25 01:30"),
]


@pytest.mark.parametrize(("where", "fields", "after", "due"), DUE)
def test_cron_fields_are_local_time(where: str, fields: str, after: str, due: str) -> None:
    with zone(where):
        found = parse_schedule(fields).next(utc(after))
        assert dt.datetime.fromtimestamp(found, dt.UTC) == dt.datetime.fromtimestamp(utc(due), dt.UTC)


@pytest.mark.parametrize("fields", ["30 2 * * *", "*/20 * * * *", "15,45 1-3 * * *", "0 */2 * * *"])
def test_due_times_go_forward_through_a_year(fields: str) -> None:
    """Asked a second before, at and a second after a due time, `next` never skips and never repeats."""
    with zone(BERLIN):
        schedule = parse_schedule(fields)
        due = schedule.next(utc("2026-03-27 00:00"))
        for _ in range(300):
            assert schedule.next(due - 1) == due
            after = schedule.next(due)
            assert due < after == schedule.next(due + 1)
            due = after
