"""What a view may promise: its options, and over views of which levels."""

from __future__ import annotations

import pytest

from headwater.algebra import ViewDefinition, define, parse_views
from headwater.algebra.promise import promise_of
from headwater.model.consistency import Level
from headwater.model.errors import HeadwaterError, UnknownName, ViewSqlError

from .shop import CATALOG, views


def view(options: str) -> ViewDefinition:
    """The view v with these options, which begin in line 3 of f.sql."""
    (parsed,) = parse_views(f"\nCREATE MATERIALIZED VIEW v WITH (\n{options}\n) AS SELECT id FROM shop.orders", "f.sql")
    return define(parsed, CATALOG)


GOOD = [
    ("consistency = 'complete'", Level.COMPLETE, 1, ""),
    ("every = 10", Level.COMPLETE, 10, ""),
    ("EVERY = 1", Level.COMPLETE, 1, ""),
    ("every = '10'", Level.COMPLETE, 10, ""),
    ("every = +10", Level.COMPLETE, 10, ""),
    ("every = 1000000000", Level.COMPLETE, 1_000_000_000, ""),
    ("every = 007, consistency = complete", Level.COMPLETE, 7, ""),
    ("consistency = strong", Level.STRONG, 1, ""),
    ("consistency = 'convergent'", Level.CONVERGENT, 1, ""),
    ("consistency = 'periodic', schedule = '10 minutes'", Level.PERIODIC, 1, "10 minutes"),
    ("schedule = 'every 600s',\nConsistency = PERIODIC", Level.PERIODIC, 1, "10 minutes"),
    ("consistency = periodic, schedule = '0  3 * * mon'", Level.PERIODIC, 1, "0 3 * * MON"),
    ('consistency = "periodic", schedule = "1 hour"', Level.PERIODIC, 1, "1 hour"),
]


@pytest.mark.parametrize(("options", "level", "every", "schedule"), GOOD)
def test_options(options: str, level: Level, every: int, schedule: str) -> None:
    defined = view(options)
    assert (defined.level, defined.every, defined.schedule) == (level, every, schedule)


def test_the_default_is_complete() -> None:
    (defined,) = views("CREATE MATERIALIZED VIEW v AS SELECT id FROM shop.orders").values()
    assert (defined.level, defined.every, defined.schedule) == (Level.COMPLETE, 1, "")


NUMBER = "is not a whole number from 1 to 1000000000"

WRONG: list[tuple[str, int, str, str]] = [
    # options, the line that is blamed, what, fix
    ("consistency = 'weak'", 3, "unknown value of option consistency 'weak'", "complete, convergent, periodic, strong"),
    ("consistency = 'strng'", 3, "'strng' of view v", "'strong'"),
    ("consistency = 'größte'", 3, "unknown value of option consistency 'größte'", "there are"),
    ("consistency = ''", 3, "unknown value of option consistency ''", "there are"),
    ("consistency = 'complete-10'", 3, "'complete-10'", "'complete'"),
    ("evry = 3", 3, "unknown option 'evry' of view v", "'every'"),
    ("every = 3,\nrefresh = 'on commit'", 4, "unknown option 'refresh'", "consistency, every, groups, maintenance"),
    ("every = 0", 3, f"option every = 0 {NUMBER}", "every = 10"),
    ("every = -3", 3, f"option every = -3 {NUMBER}", "every = 10"),
    ("every = 2.5", 3, f"option every = 2.5 {NUMBER}", "every = 10"),
    ("every = 1e3", 3, f"option every = 1e3 {NUMBER}", "every = 10"),
    ("every = '10 minutes'", 3, f"option every = 10 minutes {NUMBER}", "transactions"),
    ("every = ''", 3, NUMBER, "every = 10"),
    ("every = '٣'", 3, NUMBER, "every = 10"),
    ("every = - 'x'", 3, f"option every = -x {NUMBER}", "every = 10"),
    ("every = ten", 3, f"option every = ten {NUMBER}", "every = 10"),
    ("every = 1000000001", 3, NUMBER, "every = 10"),
    (f"every = {'9' * 5000}", 3, NUMBER, "every = 10"),
    ("consistency = strong,\nevery = 3", 4, "option every counts the states of a complete view", "remove every"),
    ("every = 1,\nconsistency = convergent", 3, "this one is convergent", "consistency = 'complete'"),
    ("consistency = periodic,\nevery = 3", 4, "this one is periodic", "said by schedule"),
    ("consistency = periodic", 3, "must say when it is recomputed", "schedule = '10 minutes'"),
    ("schedule = '1 hour'", 3, "option schedule is for a periodic view, and this one is complete", "'periodic'"),
    ("consistency = strong,\nschedule = '1 hour'", 4, "this one is strong", "remove schedule"),
    ("consistency = periodic,\nschedule = 'often'", 4, "option schedule: 'often' is not a schedule", "'30 seconds'"),
    ("consistency = periodic, schedule = ''", 3, "'' is not a schedule", "five cron fields"),
    ("consistency = periodic, schedule = 10", 3, "'10' is not a schedule", "five cron fields"),
    ("consistency = periodic, schedule = '0 25 * * *'", 3, "bad hour", "five cron fields"),
    ("consistency = periodic, schedule = '3 o''clock'", 3, "is not a schedule", "five cron fields"),
    # several at once: first what is not known at all, then what does not fit together, then the values
    ("every = 0, consistency = weak,\nfoo = 1", 4, "unknown option 'foo'", "every"),
    ("every = 0,\nconsistency = weak", 4, "unknown value of option consistency 'weak'", "there are"),
    ("consistency = strong, schedule = 'often',\nevery = 0", 4, "option every counts", "remove every"),
    ("schedule = 'often',\nevery = 0", 3, "option schedule is for a periodic view", "remove schedule"),
]


@pytest.mark.parametrize(("options", "line", "what", "fix"), WRONG)
def test_wrong_options(options: str, line: int, what: str, fix: str) -> None:
    with pytest.raises((ViewSqlError, UnknownName)) as caught:
        view(options)
    error = caught.value
    assert isinstance(error, HeadwaterError)
    assert f"f.sql:{line}" in error.what
    assert "view v" in error.what
    assert what in error.what
    assert fix in error.fix


UNREADABLE = [
    ("every = ", "4:1:", "found ')' where a value for every should stand"),
    ("every = , consistency = strong", "3:9:", "found ',' where a value for every should stand"),
    ("every = --3", "4:1:", "found ')' where a value for every should stand"),  # what follows -- is a comment
    ("every = (3)", "3:9:", "found '(' where a value for every should stand"),
    ("every = 10L", "3:9:", "the value of every goes on"),
    ("every = 10 20", "3:12:", "the value of every goes on"),
    ("consistency = periodic, schedule = 10 minutes", "3:39:", "the value of schedule goes on"),
    ("consistency = strong every = 3", "3:22:", "the value of consistency goes on"),
    ("every 3", "3:7:", "found '3' where = should stand"),
]


@pytest.mark.parametrize(("options", "place", "what"), UNREADABLE)
def test_options_that_cannot_be_read_are_pointed_at(options: str, place: str, what: str) -> None:
    with pytest.raises(ViewSqlError) as caught:
        view(options)
    assert caught.value.what.startswith(f"f.sql:{place}")
    assert what in caught.value.what
    assert caught.value.fix


# a view of the row's kind over a view of the column's kind
RULES = """
            complete  every_2  every_4  every_6  strong  hourly  daily  convergent
complete    yes       no       no       no       no      no      no     no
every_2     yes       yes      no       no       no      no      no     no
every_4     yes       yes      yes      no       no      no      no     no
every_6     yes       yes      no       yes      no      no      no     no
strong      yes       yes      yes      yes      yes     no      no     no
hourly      yes       yes      yes      yes      yes     yes     no     no
daily       yes       yes      yes      yes      yes     no      yes    no
convergent  yes       yes      yes      yes      yes     no      no     yes
"""
KINDS = {
    "complete": "consistency = 'complete'",
    "every_2": "every = 2",
    "every_4": "every = 4",
    "every_6": "consistency = complete, every = 6",
    "strong": "consistency = 'strong'",
    "hourly": "consistency = 'periodic', schedule = '1 hour'",
    "daily": "consistency = 'periodic', schedule = '0 3 * * *'",
    "convergent": "consistency = 'convergent'",
}


def rules() -> list[tuple[str, str, bool]]:
    head, *lines = [line.split() for line in RULES.strip().splitlines()]
    return [(line[0], over, word == "yes") for line in lines for over, word in zip(head, line[1:], strict=True)]


def over(child: str, *parents: str) -> ViewDefinition:
    """The view v of kind `child`, over a view of each other kind; these are read in line 2 of v.sql."""
    made = [f"CREATE MATERIALIZED VIEW of_{p} WITH ({KINDS[p]}) AS SELECT id FROM shop.orders;" for p in parents]
    froms = ", ".join(f"of_{p}" for p in parents)
    first = f"CREATE MATERIALIZED VIEW v WITH ({KINDS[child]}) AS SELECT 1 AS x\nFROM {froms}, crm.customers;\n"
    return list(views(first + "".join(made)).values())[-1]


@pytest.mark.parametrize(("child", "parent", "allowed"), rules())
def test_a_view_promises_no_more_than_what_it_reads(child: str, parent: str, allowed: bool) -> None:
    if allowed:
        assert over(child, parent).parents == (f"of_{parent}",)
        return
    with pytest.raises(ViewSqlError) as caught:
        over(child, parent)
    assert caught.value.what.startswith("v.sql:2: view v: a view that is ")
    assert f"cannot read of_{parent}, which is " in caught.value.what
    assert caught.value.fix.startswith("write ")


SAID = [
    (
        ("complete", "strong"),
        "a view that is complete cannot read of_strong, which is strong: it cannot be more than what it reads, "
        "and strong is less than complete",
        "write consistency = 'strong' here, or change of_strong",
    ),
    (
        ("complete", "every_4", "every_6"),
        "a view that is complete cannot read of_every_4, which is complete every 4: 1 is no multiple of 4, "
        "so states are owed that of_every_4 skips",
        "write every = 12, or consistency = 'strong'",
    ),
    (
        ("every_6", "complete", "every_4"),
        "a view that is complete every 6 cannot read of_every_4, which is complete every 4: 6 is no multiple of 4, "
        "so states are owed that of_every_4 skips",
        "write every = 8, or consistency = 'strong'",
    ),
    (
        ("convergent", "strong", "daily"),
        "a view that is convergent cannot read of_daily, which is periodic (0 3 * * *): a periodic view is right only "
        "when it is recomputed",
        "write consistency = 'periodic', schedule = '0 3 * * *' here, or change of_daily",
    ),
    (
        ("hourly", "daily"),
        "a view that is periodic (1 hour) cannot read of_daily, which is periodic (0 3 * * *): a periodic view is "
        "right only when it is recomputed",
        "write schedule = '0 3 * * *' in both, or another in both",
    ),
]


@pytest.mark.parametrize(("kinds", "what", "fix"), SAID)
def test_the_refusal_says_why_and_what_to_do(kinds: tuple[str, ...], what: str, fix: str) -> None:
    with pytest.raises(ViewSqlError) as caught:
        over(*kinds)
    assert caught.value.what == f"v.sql:2: view v: {what}"
    assert caught.value.fix == fix


def test_a_periodic_view_may_read_several_kinds() -> None:
    assert over("hourly", "complete", "every_6", "strong", "hourly").schedule == "1 hour"


def test_the_same_schedule_may_be_written_in_two_ways() -> None:
    child = list(
        views(
            "CREATE MATERIALIZED VIEW u WITH (consistency = periodic, schedule = '60 minutes') AS"
            " SELECT id FROM shop.orders;"
            "CREATE MATERIALIZED VIEW v WITH (consistency = periodic, schedule = 'every hour') AS SELECT id FROM u"
        ).values()
    )[-1]
    assert str(promise_of(child)) == "periodic (1 hour)"
