"""Partitioned tables captured by the log: writes through the table and straight into partitions, partitions that come
and go, and what cannot be told and is said."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

import pytest

from headwater.model.errors import CaptureMissing, SourceRefused
from headwater.model.names import TableName
from headwater.model.source import CAPTURE, SourceSpec
from headwater.sources.postgres.adapter import PostgresSource
from postgres_server import PostgresServer

from .test_postgres_log import T, World, captured, look, summed

pytestmark = pytest.mark.postgres

PARTED = """
CREATE TABLE t (id int, k int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE INDEX ON t (k);
CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (10);
CREATE TABLE t_2 (v text, gone int, k int, id int NOT NULL);
ALTER TABLE t_2 DROP gone;
ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES FROM (10) TO (20);
CREATE TABLE t_3 PARTITION OF t FOR VALUES FROM (20) TO (40) PARTITION BY RANGE (id);
CREATE TABLE t_31 PARTITION OF t_3 FOR VALUES FROM (20) TO (30);
INSERT INTO t SELECT n, n % 3, 'v' FROM generate_series(5, 25, 5) AS n;
"""
_names = itertools.count()


@pytest.fixture
def world(postgres_untimed: PostgresServer) -> Iterator[World]:
    name = f"parted_{next(_names)}"
    made = World(postgres_untimed, name, PARTED)
    yield made
    made.close()
    postgres_untimed.drop_database(name)


def run(world: World, *statements: str) -> None:
    for statement in statements:
        world.writer.execute(statement)  # type: ignore[arg-type]  # a test's own text


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak), pytest.param(2, marks=pytest.mark.soak)])
def test_random_histories_are_exact_at_every_position(world: World, seed: int) -> None:
    chance = Random(seed)
    states = [(world.start, world.rows())]
    new = itertools.count(40, 10)
    for _ in range(60):
        number, k = chance.randint(1, 29), chance.choice([1, 2, 3, None])
        straight = "t_1" if number < 10 else "t_2" if number < 20 else "t_31"
        into = chance.choice(["t", straight])
        match chance.randint(0, 10):
            case 0 | 1 | 2 | 3:
                insert = f"INSERT INTO {into} (id, k, v) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
                world.writer.execute(insert, [number, k, "x"])  # type: ignore[arg-type]  # a test's own text
            case 4 | 5:
                world.writer.execute(f"UPDATE {into} SET k = %s WHERE id = %s", [k, number])  # type: ignore[arg-type]  # as above
            case 6:
                other = 30 - number  # from one partition to another
                run(world, f"DELETE FROM t WHERE id = {other}", f"UPDATE t SET id = {other} WHERE id = {number}")
            case 7:
                run(world, f"DELETE FROM {into} WHERE id = {number}")
            case 8:
                run(world, f"UPDATE {into} SET v = v || '!'")
            case 9:
                if chance.random() < 0.3:
                    run(world, f"TRUNCATE {into}")
            case _:
                at = next(new)
                run(world, f"CREATE TABLE t_{at} PARTITION OF t FOR VALUES FROM ({at}) TO ({at + 10})",
                    f"INSERT INTO t VALUES ({at}, 1, 'new')")  # fmt: skip
                assert any("new partitions" in line for line in world.source.install([T]))
                run(world, f"UPDATE t SET v = 'ready' WHERE id = {at}")
                if chance.random() < 0.5:
                    run(world, f"TRUNCATE t_{at}")
        if chance.random() < 0.3:
            states.append((world.source.position(), world.rows()))
    last = world.rows()
    for at, state in states:
        assert world.as_of(at) == state
        assert summed([state, *world.told(at)[0]]) == last
    world.source.remove()
    left = world.writer.execute("SELECT FROM pg_class WHERE relname LIKE 't%' AND relreplident = 'f'").rowcount
    assert left == 0, "replica identities are what they were"


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (["ALTER TABLE t DETACH PARTITION t_1"], "dropped or detached"),
        (["DROP TABLE t_2"], "dropped or detached"),
        (["ALTER TABLE t DETACH PARTITION t_1", "DELETE FROM t_1",
          "ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES FROM (0) TO (10)"], "was detached"),
        (["ALTER TABLE t DETACH PARTITION t_3", "ALTER TABLE t ATTACH PARTITION t_3 FOR VALUES FROM (20) TO (40)"],
         "was detached"),
        (["CREATE TABLE more (id int PRIMARY KEY, k int, v text)", "INSERT INTO more VALUES (50, 1, 'unseen')",
          "ALTER TABLE t ATTACH PARTITION more FOR VALUES FROM (50) TO (60)"], "was attached"),
        (["CREATE TABLE more PARTITION OF t FOR VALUES FROM (50) TO (60)", "INSERT INTO t VALUES (50, 1, 'a')",
          "UPDATE t SET v = 'b' WHERE id = 50"], "without its old rows"),
        (["CREATE TABLE more PARTITION OF t FOR VALUES FROM (50) TO (60)", "INSERT INTO t VALUES (50, 1, 'a')",
          "DELETE FROM more", "ALTER TABLE more REPLICA IDENTITY FULL"], "without its old rows"),
        (["CREATE TABLE more PARTITION OF t FOR VALUES FROM (50) TO (60)", "INSERT INTO t VALUES (50, 1, 'a')",
          "TRUNCATE more"], "truncated before"),
        (["CREATE TABLE more PARTITION OF t FOR VALUES FROM (50) TO (60)", "INSERT INTO t VALUES (50, 1, 'a')",
          "DROP TABLE more"], "written and is gone"),
        (["ALTER TABLE t_1 REPLICA IDENTITY DEFAULT"], "REPLICA IDENTITY FULL"),
        (["ALTER TABLE t_1 REPLICA IDENTITY DEFAULT", "UPDATE t SET v = 'x'", "ALTER TABLE t_1 REPLICA IDENTITY FULL"],
         "without its old rows"),
        (["ALTER TABLE t_1 DISABLE TRIGGER USER"], "TRUNCATE trigger"),
        (["ALTER TABLE t_1 DISABLE TRIGGER USER", "TRUNCATE t_1", "ALTER TABLE t_1 ENABLE TRIGGER USER"],
         "TRUNCATE trigger"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_said_and_setup_mends_it(world: World, done: list[str], said: str) -> None:
    run(world, "INSERT INTO t VALUES (1, 1, 'a')", *done)
    with pytest.raises(CaptureMissing, match=said):
        look(world)
    assert world.source.install([T])
    at, before = world.source.position(), world.rows()
    run(world, "UPDATE t SET v = 'new'", "DELETE FROM t WHERE k = 1")
    assert world.as_of(at) == before
    assert summed([before, *world.told(at)[0]]) == world.rows()


def test_a_truncate_before_setup_came_is_a_gap_also_when_it_is_read_later(world: World) -> None:
    run(world, "CREATE TABLE more PARTITION OF t FOR VALUES FROM (50) TO (60)", "INSERT INTO t VALUES (50, 1, 'a')")
    run(world, "TRUNCATE more")
    assert any("new partitions" in line for line in world.source.install([T]))
    with pytest.raises(CaptureMissing, match="truncated before"):
        look(world)


@pytest.mark.parametrize("ways", [("triggers", "log"), ("log", "triggers", "log")])
def test_the_way_is_changed_without_losing_a_transaction(world: World, ways: tuple[str, ...]) -> None:
    world.source.remove()
    sources = [PostgresSource(SourceSpec(T.source, world.url, ((CAPTURE, way),))) for way in ways]
    at = []
    for number, source in enumerate(sources):
        source.install([T])
        world.source = source
        at.append((source.position(), world.rows()))
        run(world, f"INSERT INTO t VALUES ({number + 1}, 1, 'a')", "UPDATE t_2 SET v = v || 'b'", "TRUNCATE t_31")
        run(world, "INSERT INTO t_31 (id, k) VALUES (21, 1)")
    last = world.rows()
    for position, rows in at:
        assert world.as_of(position) == rows
        assert summed([rows, *world.told(position)[0]]) == last
    assert captured(world).tables == {T}
    for source in sources:
        source.close()


def test_without_a_primary_key_writers_would_be_refused(world: World) -> None:
    run(world, "CREATE TABLE keyless (id int) PARTITION BY RANGE (id)")
    keyless = TableName(T.source, "keyless", "public")
    with pytest.raises(SourceRefused, match="no primary key"):
        world.source.plan_install([T, keyless])


def test_it_is_told_what_to_do_about_new_partitions(world: World) -> None:
    assert any("after creating partitions" in line for line in world.source.advice([T]))
