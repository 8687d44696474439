"""What a poller moved from the log itself is told without asking for it, where that is all there is to tell."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from headwater.model.names import Position
from headwater.sources.postgres import polling, recent
from headwater.sources.postgres.recent import Moved
from headwater.sources.postgres.snapshot import Snapshot
from postgres_server import PostgresServer

from .test_postgres_log import COLUMNS, T, World

_names = itertools.count()


def ints(*values: int) -> recent.Ints:
    return np.array(values, np.int64)


def one(xid: int, **rows: int) -> Moved:
    return Moved(ints(xid), ints(10 * xid), {int(oid[1:]): (ints(0), ints(count)) for oid, count in rows.items()})


def facts(moved: Moved) -> list[tuple[int, int, dict[int, int]]]:
    """Each transaction, when, and how many rows of which table."""
    of: list[dict[int, int]] = [{} for _ in moved.xids]
    for oid, (places, counts) in moved.rows.items():
        for place, count in zip(places.tolist(), counts.tolist(), strict=True):
            of[place][oid] = of[place].get(oid, 0) + count
    return list(zip(moved.xids.tolist(), moved.at.tolist(), of, strict=True))


def test_parts_make_a_whole() -> None:
    whole = Moved.joined([one(7, t1=2), one(7, t1=1, t2=5), Moved.joined([]), one(5, t2=1), one(9)])
    assert facts(whole) == [(7, 70, {1: 3, 2: 5}), (5, 50, {2: 1}), (9, 90, {})]
    assert facts(Moved.joined([whole, one(9, t1=4)]))[-1] == (9, 90, {1: 4})
    assert facts(whole.of([1])) == [(7, 70, {1: 3, 2: 5})]
    assert facts(whole.of([2, 3])) == [(7, 70, {1: 3, 2: 5}), (5, 50, {2: 1})]
    assert (whole.count(1), whole.count(2), whole.count(3)) == (3, 6, 0)
    assert facts(whole.after(Snapshot(5, 8, (5,)))) == [(5, 50, {2: 1}), (9, 90, {})]
    assert facts(whole.shown(Snapshot(5, 8, (5,)))) == [(7, 70, {1: 3, 2: 5})]


@pytest.fixture
def world(postgres: PostgresServer) -> Iterator[World]:
    name = f"recent_{next(_names)}"
    made = World(postgres, name)
    made.source.poll(made.start, {T: COLUMNS}, 1000)  # from here on it is remembered
    yield made
    made.close()
    postgres.drop_database(name)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that the change tables were asked what there is to tell."""
    found: list[int] = []
    tell = polling.tell

    def told(*args: Any) -> Any:
        found.append(1)
        return tell(*args)

    monkeypatch.setattr(polling, "tell", told)
    return found


def test_what_was_just_moved_is_not_asked_for(world: World, asked: list[int]) -> None:
    for n in range(20):
        world.writer.execute("INSERT INTO t VALUES (%s, %s, 'x')", [n, n])
    told, _ = world.told(world.start)
    assert [list(part) for part in told] == [[(n, n, "x")] for n in range(20)]
    assert asked == []


@pytest.mark.parametrize("what", ["moved by another", "truncated", "tagged", "more than a poll", "polled again"])
def test_whatever_else_there_is_is_told(world: World, asked: list[int], what: str) -> None:
    insert, tables = "INSERT INTO t SELECT n, n, 'a' FROM generate_series(%s::int, %s) AS n", {T: COLUMNS}
    world.writer.execute(insert, [1, 10])
    if what == "moved by another":
        other = World.__new__(World)
        other.source = type(world.source)(world.source._spec)
        assert other.as_of(world.start) == Counter()
        other.source.close()
        world.writer.execute(insert, [11, 20])
    elif what == "truncated":
        world.writer.execute("TRUNCATE t")
        world.writer.execute(insert, [11, 20])
    elif what == "tagged":
        with world.writer.transaction():
            world.writer.execute("SELECT headwater.part_of('g1', 2)")
        world.writer.execute(insert, [11, 20])
    elif what == "more than a poll":
        world.writer.execute(insert, [11, 20])
    else:
        world.told(world.start)
        world.writer.execute(insert, [11, 20])
    assert asked == []
    limit = 10 if what == "more than a poll" else 1000
    found: Counter[tuple[Any, ...]] = Counter()
    transactions, at, more = 0, world.start, True
    while more:
        poll = world.source.poll(at, tables, limit)
        transactions += poll.transactions.num_rows
        for row in poll.changes[T].to_pylist():
            found[tuple(row[c] for c in COLUMNS)] += row["__count"]
        at, more = poll.end, poll.more
        if what == "tagged":
            assert poll.transactions.column("global_id").to_pylist() == [None, "g1", None]
    assert {row: n for row, n in found.items() if n} == dict(world.rows())
    assert transactions == {"truncated": 3, "tagged": 3}.get(what, 2)
    assert bool(asked) == (what != "polled again")
    assert world.source.poll(at, tables, limit).end == at


@pytest.mark.parametrize("seed", range(4))
def test_told_is_what_is_asked_for(world: World, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Two pollers, one of which remembers nothing, tell the same of a generated history."""
    random = Random(seed)
    plain = World.__new__(World)
    plain.source = type(world.source)(world.source._spec)
    monkeypatch.setattr(plain.source._reader.log, "recent", lambda _: Moved.joined([]))
    at = {True: world.start, False: world.start}
    for _ in range(25):
        for _ in range(random.randrange(4)):
            low = random.randrange(30)
            world.writer.execute(
                random.choice(
                    [
                        f"INSERT INTO t SELECT n, n % 7, 'i' FROM generate_series({low}, {low + 3}) AS n"
                        " ON CONFLICT (id) DO UPDATE SET v = t.v || 'u'",
                        f"DELETE FROM t WHERE id = {low}",
                        "UPDATE t SET k = k + 1",
                        "TRUNCATE t" if random.random() < 0.2 else "UPDATE t SET v = NULL WHERE id < 5",
                    ]
                )
            )
        told: dict[bool, tuple[list[Counter[tuple[Any, ...]]], Position]] = {}
        for remembers in random.sample([True, False], 2):
            told[remembers] = (world if remembers else plain).told(at[remembers])
        assert told[True][0] == told[False][0]
        at = {remembers: end for remembers, (_, end) in told.items()}
    plain.source.close()
