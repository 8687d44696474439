"""PostgreSQL captured by its own log: what triggers do not see, what the log does not tell, and what may happen to the
slot, the publication and the tables' columns."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from headwater.model.errors import CaptureMissing, PositionTrimmed, SourceRefused, SourceUnavailable
from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import (
    CAPTURE,
    COUNT,
    LOG_LIMIT,
    ORDINAL,
    Capture,
    Held,
    Joined,
    JoinQuestion,
    Question,
    SourceSpec,
)
from headwater.sources.postgres import log, log_limit, log_marks, log_needs, moving
from headwater.sources.postgres.adapter import PostgresSource
from headwater.sources.postgres.moving import Columns
from headwater.sources.postgres.pgoutput import Relation
from postgres_server import PostgresServer

from .rig_postgres import OBJECTS

pytestmark = pytest.mark.postgres

T = TableName(SourceName("src"), "t", "public")
COLUMNS = ("id", "k", "v")
_names = itertools.count()


PLAIN = "CREATE TABLE t (id int PRIMARY KEY, k int, v text); CREATE INDEX ON t (k)"


class World:
    """A database with one table, its writer, and a source that captures it by the log."""

    def __init__(self, server: PostgresServer, name: str, definition: str = PLAIN) -> None:
        self.url = server.create_database(name)
        self.writer = psycopg.connect(self.url, autocommit=True)
        self.writer.execute(definition)  # type: ignore[arg-type]  # a test's own text
        self.source = PostgresSource(SourceSpec(T.source, self.url, ((CAPTURE, "log"),)))
        self.installed = self.source.install([T])
        self.start = self.source.position()

    def rows(self, *columns: str) -> Counter[tuple[Any, ...]]:
        chosen = columns or COLUMNS
        return Counter(self.writer.execute(f"SELECT {', '.join(chosen)} FROM t").fetchall())  # type: ignore[arg-type]  # a test's own text

    def as_of(self, at: Position, columns: tuple[str, ...] = COLUMNS) -> Counter[tuple[Any, ...]]:
        """By scanning, and by asking for every key."""
        scanned: Counter[tuple[Any, ...]] = Counter()
        for chunk in self.source.chunks(T, 1000):
            for batch in self.source.scan(chunk, columns, at):
                for row in batch.to_pylist():
                    scanned[tuple(row[c] for c in columns)] += row[COUNT]
        keys = pa.table({"k": pa.array(range(-5, 50), pa.int32())})
        asked: Counter[tuple[Any, ...]] = Counter()
        for batch in self.source.ask(Question(T, ("k",), keys, columns), at):
            for row in batch.to_pylist():
                asked[tuple(row[c] for c in columns)] += row[COUNT]
        if "k" in columns:
            place = columns.index("k")
            assert +asked == Counter({row: n for row, n in scanned.items() if n and row[place] is not None})
        return Counter({row: n for row, n in scanned.items() if n})

    def told(
        self, after: Position, columns: tuple[str, ...] = COLUMNS
    ) -> tuple[list[Counter[tuple[Any, ...]]], Position]:
        poll = self.source.poll(after, {T: columns}, 1_000_000)
        found = [Counter[tuple[Any, ...]]() for _ in range(poll.transactions.num_rows)]
        for row in poll.changes[T].to_pylist():
            found[row[ORDINAL]][tuple(row[c] for c in columns)] += row[COUNT]
        return found, poll.end

    def close(self) -> None:
        self.source.close()
        self.writer.close()


@pytest.fixture
def world(postgres_untimed: PostgresServer) -> Iterator[World]:
    name = f"logged_{next(_names)}"
    made = World(postgres_untimed, name)
    yield made
    made.close()
    postgres_untimed.drop_database(name)


def summed(parts: list[Counter[tuple[Any, ...]]]) -> Counter[tuple[Any, ...]]:
    whole: Counter[tuple[Any, ...]] = Counter()
    for part in parts:
        for row, count in part.items():
            whole[row] += count
    return Counter({row: n for row, n in whole.items() if n})


def test_no_trigger_sees_rows(world: World) -> None:
    triggers = world.writer.execute("SELECT tgname FROM pg_trigger WHERE tgrelid = 't'::regclass").fetchall()
    assert triggers == [("headwater_truncate",)]
    assert any("by the log" in line for line in world.installed)


@pytest.mark.parametrize(
    "statements",
    [
        ["INSERT INTO t SELECT n, n % 3, repeat('x', n) FROM generate_series(1, 20) AS n"],
        ["INSERT INTO t VALUES (1, 1, 'a')", "UPDATE t SET v = NULL", "UPDATE t SET id = 2", "DELETE FROM t"],
        ["SET session_replication_role = replica", "INSERT INTO t VALUES (1, 1, 'a')", "DELETE FROM t WHERE id = 1"],
        ["BEGIN; INSERT INTO t VALUES (1, 1, 'a'); SAVEPOINT s; INSERT INTO t VALUES (2, 2, 'b'); ROLLBACK TO s;"
         " SAVEPOINT r; INSERT INTO t VALUES (3, 3, 'c'); RELEASE r; COMMIT"],
        ["BEGIN; INSERT INTO t VALUES (1, 1, 'a'); PREPARE TRANSACTION 'p'", "COMMIT PREPARED 'p'"],
        ["INSERT INTO t VALUES (1, 1, 'a'), (2, NULL, 'b')", "TRUNCATE t", "INSERT INTO t VALUES (3, 1, '')"],
        ["BEGIN; INSERT INTO t VALUES (1, 1, 'a'); TRUNCATE t; INSERT INTO t VALUES (2, 1, 'b'); COMMIT"],
        ["INSERT INTO t VALUES (1, 1, E'a\\tb\\nc\\\\d\\r\"e\"(f),g')", "INSERT INTO t VALUES (2, 1, 'ä€😀 ')"],
        ["ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
         "INSERT INTO t SELECT 1, 1, string_agg(md5(n::text), '') FROM generate_series(1, 500) AS n",
         "UPDATE t SET k = 2", "UPDATE t SET k = 3"],
        ["ALTER TABLE t ADD parent int REFERENCES t ON DELETE CASCADE", "INSERT INTO t VALUES (1, 1, 'a')",
         "INSERT INTO t VALUES (2, 1, 'b', 1)", "DELETE FROM t WHERE id = 1"],
        ["ALTER TABLE t DISABLE TRIGGER USER", "INSERT INTO t VALUES (1, 1, 'a')"],
    ],
)  # fmt: skip
def test_whatever_is_committed_is_told(world: World, statements: list[str]) -> None:
    positions, states = [world.start], [world.rows()]
    for statement in statements:
        world.writer.execute(statement)  # type: ignore[arg-type]  # a test's own text
        if "DISABLE TRIGGER" in statement:
            with pytest.raises(CaptureMissing, match="disabled"):
                world.source.check(world.start, [T])
            return
        positions.append(world.source.position())
        states.append(world.rows())
    for at, state in zip(positions, states, strict=True):
        assert world.as_of(at) == state
    transactions, _ = world.told(world.start)
    assert summed(transactions) == states[-1]
    for at, state in zip(positions, states, strict=True):
        assert summed([state, *world.told(at)[0]]) == states[-1]


def test_copy_and_a_large_transaction(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "AT_ONCE", 1_000)
    with world.writer.cursor().copy("COPY t FROM STDIN") as copy:
        for n in range(20_000):
            copy.write(f"{n}\t{n % 7}\tv{n}\n")
    world.writer.execute("UPDATE t SET k = k + 1 WHERE id % 2 = 0")
    (first, second), end = world.told(world.start)
    assert sum(first.values()) == 20_000
    assert sum(n for n in second.values() if n > 0) == 10_000
    assert world.as_of(end) == world.rows()
    assert not world.as_of(world.start)


def test_transactions_that_overlap_are_told_in_the_order_of_the_log(world: World) -> None:
    """Those with smaller ids commit last; without commit times only the log knows."""
    others = [psycopg.connect(world.url) for _ in range(6)]
    for n, other in enumerate(others):
        other.execute("INSERT INTO t VALUES (%s, 1, 'x')", [n])
    order = [3, 5, 0, 4, 1, 2]
    for n in order:
        others[n].commit()
    transactions, _ = world.told(world.start)
    assert [row[0] for one in transactions for row in one] == order
    for other in others:
        other.close()


@pytest.mark.parametrize("seed", range(4))
def test_random_histories_are_exact_at_every_position(world: World, seed: int) -> None:
    chance = Random(seed)
    states = [(world.start, world.rows())]
    for _ in range(60):
        number, k = chance.randint(1, 12), chance.choice([1, 2, 3, None])
        match chance.randint(0, 9):
            case 0 | 1 | 2 | 3:
                world.writer.execute(
                    "INSERT INTO t VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", [number, k, "x" * number]
                )
            case 4 | 5:
                world.writer.execute("UPDATE t SET k = %s WHERE id = %s", [k, number])
            case 6 | 7:
                world.writer.execute("DELETE FROM t WHERE id = %s", [number])
            case 8:
                world.writer.execute("UPDATE t SET v = v || '!'")
            case _:
                if chance.random() < 0.2:
                    world.writer.execute("TRUNCATE t")
        if chance.random() < 0.3:
            states.append((world.source.position(), world.rows()))
        if chance.random() < 0.1:
            world.told(states[-1][0])
    last = world.rows()
    for at, state in states:
        assert world.as_of(at) == state
        assert summed([state, *world.told(at)[0]]) == last
    trimmed = states[len(states) // 2][0]
    world.source.trim(trimmed)
    assert world.as_of(states[-1][0]) == states[-1][1]


def test_columns_that_come_and_go(world: World) -> None:
    world.writer.execute("INSERT INTO t VALUES (1, 1, 'a')")
    world.writer.execute("ALTER TABLE t ADD extra text DEFAULT 'd'")
    world.writer.execute("INSERT INTO t VALUES (2, 2, 'b', 'e')")
    assert world.as_of(world.source.position()) == world.rows()
    world.writer.execute("INSERT INTO t VALUES (3, 3, 'c', 'f')")
    world.writer.execute("ALTER TABLE t DROP extra")
    world.writer.execute("INSERT INTO t VALUES (4, 4, 'd')")
    assert world.as_of(world.source.position()) == world.rows()
    assert not world.as_of(world.start)


def test_names_that_change_hands_are_a_gap(world: World) -> None:
    world.writer.execute("ALTER TABLE t ADD w text")
    world.source.position()
    world.writer.execute("INSERT INTO t VALUES (1, 1, 'v', 'w')")
    world.writer.execute("ALTER TABLE t RENAME v TO x; ALTER TABLE t RENAME w TO v; ALTER TABLE t RENAME x TO w")
    world.source.position()
    with pytest.raises(CaptureMissing, match="altered while"):
        world.source.check(world.start, [T])
    world.source.install([T])
    at = world.source.position()
    world.writer.execute("INSERT INTO t VALUES (2, 2, 'a', 'b')")
    assert world.as_of(at) == Counter({(1, 1, "w"): 1})


@pytest.mark.parametrize(
    ("before", "after", "told", "layout"),
    [
        ("1 a 7, 2 b 7", "1 a 7, 2 b 7", "a b", "1 2"),
        ("1 a 7", "1 a 7, 3 c 9", "a c", "1 3"),
        ("1 a 7, 2 b 7", "1 a 7", "a b", "1 2"),
        ("1 a 7, 2 b 7", "1 b 9, 2 a 9", "a b", None),
        ("1 a 7", "1 b 9", "a", None),
        ("1 a 7", "1 b 9", "b", None),
        ("1 a 7", "1 a 9", "a", None),
        ("1 a 7", "3 a 9", "a", None),
    ],
)
def test_which_columns_names_stand_for(before: str, after: str, told: str, layout: str | None) -> None:
    def columns(text: str) -> Columns:
        found = [one.split() for one in text.split(", ")]
        return Columns.read(json.dumps([[int(number), name, by] for number, name, by in found]))

    assert columns(before).layout(Relation(1, tuple(told.split())), columns(after)) == layout


SLOT = "(SELECT slot FROM headwater.log)"


@pytest.mark.parametrize(
    ("meddling", "said"),
    [
        (f"SELECT pg_drop_replication_slot({SLOT})", "slot"),
        (f"SELECT pg_logical_slot_get_binary_changes({SLOT}, NULL, NULL, 'proto_version', '1', 'publication_names',"
         " 'headwater')", "somebody else"),
        ("ALTER PUBLICATION headwater DROP TABLE t", "publication"),
        ("ALTER PUBLICATION headwater DROP TABLE t; ALTER PUBLICATION headwater ADD TABLE t", "publication"),
        ("ALTER PUBLICATION headwater SET (publish = 'insert')", "publication"),
        ("DROP PUBLICATION headwater", "publication"),
        ("ALTER TABLE t REPLICA IDENTITY DEFAULT", "REPLICA IDENTITY"),
        ("ALTER TABLE t REPLICA IDENTITY DEFAULT; UPDATE t SET v = 'x'; ALTER TABLE t REPLICA IDENTITY FULL",
         "REPLICA IDENTITY"),
        ("DROP TRIGGER headwater_truncate ON t", "headwater_truncate"),
    ],
)  # fmt: skip
def test_meddling_is_noticed_and_setup_mends_it(world: World, meddling: str, said: str) -> None:
    world.writer.execute("INSERT INTO t VALUES (1, 1, 'a')")
    world.writer.execute(meddling)  # type: ignore[arg-type]  # a test's own text
    world.writer.execute("INSERT INTO t VALUES (2, 1, 'b')")
    with pytest.raises(CaptureMissing, match=said):
        look(world)
    assert world.source.install([T])
    at = world.source.position()
    before = world.rows()
    world.writer.execute("UPDATE t SET v = 'new'")
    assert world.as_of(at) == before
    assert summed([before, *world.told(at)[0]]) == world.rows()


def look(world: World) -> None:
    """As a run does: it polls, and looks at its tables now and then."""
    world.told(world.start)
    world.source.check(world.start, [T])
    world.told(world.start)


def test_nothing_is_left_behind(world: World) -> None:
    world.writer.execute("INSERT INTO t VALUES (1, 1, 'a')")
    world.told(world.start)
    said = world.source.remove()
    assert any("slot" in line for line in said)
    for what in (
        "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()",
        "SELECT pubname FROM pg_publication",
        "SELECT tgname FROM pg_trigger WHERE tgrelid = 't'::regclass",
        "SELECT relname FROM pg_class WHERE relname = 't' AND relreplident <> 'd'",
        "SELECT nspname FROM pg_namespace WHERE nspname = 'headwater'",
    ):
        assert world.writer.execute(what).fetchall() == []  # type: ignore[arg-type]  # a test's own text


def test_an_idle_source_is_left_alone(world: World) -> None:
    world.writer.execute("INSERT INTO t VALUES (1, 1, 'a')")
    first = world.source.position()
    assert [world.source.position() for _ in range(3)] == [first] * 3
    polls = [world.source.poll(first, {T: COLUMNS}, 1000) for _ in range(2)]
    assert [(poll.end, poll.transactions.num_rows) for poll in polls] == [(first, 0)] * 2
    world.writer.execute("UPDATE t SET k = 2")
    end = world.source.poll(first, {T: COLUMNS}, 1000).end
    assert [world.source.poll(end, {T: COLUMNS}, 1000).end for _ in range(3)] == [end] * 3 != [first] * 3


def test_what_others_write_does_not_hold_the_log(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "QUIET_BYTES", 10_000)
    monkeypatch.setattr(log, "HELD_BYTES", 10_000)
    world.writer.execute("CREATE TABLE other AS SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
    for _ in range(2):  # what one look passes over, the next lets go
        world.source.position()
    row = world.writer.execute(
        f"SELECT pg_current_wal_lsn() - confirmed_flush_lsn < 100000 FROM pg_replication_slots WHERE slot_name = {SLOT}"
    ).fetchone()
    assert row == (True,)
    assert log_limit.held(world.writer, None) is not None


SMALL = "INSERT INTO t SELECT n, n % 40, repeat(md5(n::text), 8) FROM generate_series(1, 8000) AS n"


def read_anew(world: World) -> int:
    """So much of the log is read by everyone who looks, told or not."""
    row = world.writer.execute(
        f"SELECT (pg_current_wal_lsn() - restart_lsn)::bigint FROM pg_replication_slots WHERE slot_name = {SLOT}"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_what_was_told_is_not_read_again_and_again(world: World) -> None:
    world.writer.execute(SMALL)
    assert read_anew(world) > 2 << 20
    told, at = world.told(world.start)
    assert summed(told) == world.rows()
    looks = 0
    while read_anew(world) > log_marks.LATE_BYTES and looks < 10:
        assert world.told(at)[0] == []
        at, looks = world.source.position(), looks + 1
    assert looks <= 2, "a mark was made behind what was told, and the slot is let go beyond it"
    before = world.as_of(at)
    world.writer.execute("DELETE FROM t WHERE id > 10")
    told, end = world.told(at)
    assert -summed(told) == Counter({row: n for row, n in before.items() if row[0] > 10})
    assert world.as_of(end) == world.rows()


def test_a_role_that_may_make_no_marks_waits_for_the_servers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It notes now and then how far it has come, so that the slot can be let go when a mark is there."""
    monkeypatch.setattr(log_marks, "_SINCE", 10**9)
    clock = [0.0]
    monkeypatch.setattr(log_marks.time, "monotonic", lambda: clock[0])
    world.source.close()
    world.source = PostgresSource(SourceSpec(T.source, world.url, ((CAPTURE, "log"),)))
    world.writer.execute(SMALL)
    told, at = world.told(world.start)
    assert summed(told) == world.rows()
    for _ in range(4):
        at = world.told(at)[1]
    still = at
    assert [world.told(at)[1] for _ in range(3)] == [still] * 3, "an idle source stays as it is"
    assert read_anew(world) > log_marks.LATE_BYTES
    world.writer.execute("SELECT pg_log_standby_snapshot()")
    world.writer.execute("CREATE TABLE other ()")
    for _ in range(4):
        clock[0] += log_marks.EVERY + 1
        at = world.told(at)[1]
    assert read_anew(world) < log_marks.LATE_BYTES


MEGABYTES = "INSERT INTO other SELECT repeat(md5(n::text), 30) FROM generate_series(1, 1500) AS n"


@pytest.mark.parametrize("who", ["poll", "ask", "look"])
def test_a_log_that_nobody_reads_is_given_up_and_said(world: World, who: str) -> None:
    """Beyond the limit the slot goes, its tables have a gap, and setup begins anew."""
    limited = SourceSpec(T.source, world.url, ((CAPTURE, "log"), (LOG_LIMIT, "2000000")))
    world.source.close()
    world.source = PostgresSource(limited)
    world.writer.execute("CREATE TABLE other (x text); INSERT INTO t VALUES (1, 1, 'a')")
    held = captured(world).held
    assert held is not None
    assert held.limit == 2_000_000
    assert not held.warning
    world.writer.execute(MEGABYTES)
    world.writer.execute(MEGABYTES)
    if who == "ask":
        with pytest.raises(SourceUnavailable, match="altered while it was read"):
            world.as_of(world.start)
    if who == "look":
        found = captured(world)
        assert found.held is None
        assert "given up" in found.broken[T]
    with pytest.raises(CaptureMissing, match=r"given up: the server kept .* MB of its log"):
        look(world)
    assert not world.writer.execute(f"SELECT FROM pg_replication_slots WHERE slot_name = {SLOT}").rowcount
    assert T not in captured(world).tables
    assert world.source.install([T])
    assert captured(world).tables == {T}
    at, before = world.source.position(), world.rows()
    world.writer.execute("UPDATE t SET v = 'new'")
    assert world.as_of(at) == before
    with pytest.raises(PositionTrimmed):
        world.as_of(world.start)


def test_what_is_held_is_warned_of(world: World) -> None:
    assert "given up" in Held(5, 10).warning
    assert not Held(4, 10).warning
    assert not Held(5, None).warning
    assert not Held(10, 10).too_much
    world.writer.execute("CREATE TABLE other (x text)")
    world.writer.execute(MEGABYTES)
    held = log_limit.guard(world.writer, None)
    assert held is not None
    assert held.bytes > 1_000_000
    assert held.limit is None
    assert any("max_slot_wal_keep_size" in line for line in world.source.advice([T]))
    world.writer.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '64MB'")
    world.writer.execute("SELECT pg_reload_conf()")
    try:
        deadline = time.monotonic() + 5
        while (held := log_limit.held(world.writer, 10**9)) and held.limit == 10**9 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert held is not None
        assert held.limit == 64 << 20
    finally:
        world.writer.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
        world.writer.execute("SELECT pg_reload_conf()")


def captured(world: World) -> Capture:
    found = world.source.capture()
    assert found is not None
    return found


@pytest.fixture
def role(world: World) -> Iterator[str]:
    """The url of a role that may connect, and nothing else."""
    world.writer.execute('DROP ROLE IF EXISTS "plain reader"; CREATE ROLE "plain reader" LOGIN PASSWORD \'p\'')
    yield world.url.replace(world.url.partition("://")[2].rpartition("@")[0], "plain%20reader:p")
    world.writer.execute('DROP OWNED BY "plain reader"; DROP ROLE "plain reader"')


def test_a_role_that_may_not_is_told_what_to_run(world: World, role: str) -> None:
    """What it is told is run as it stands, and then it may."""
    world.source.remove()
    world.writer.execute("DROP ROLE IF EXISTS keeper; CREATE ROLE keeper; ALTER TABLE t OWNER TO keeper")
    automatic = PostgresSource(SourceSpec(T.source, role, ((CAPTURE, "auto"),)))
    source = PostgresSource(SourceSpec(T.source, role, ((CAPTURE, "log"),)))
    for said in ("lacks SELECT and TRIGGER", "may not use replication slots"):
        with pytest.raises(SourceRefused, match=said) as refused:
            source.plan_install([T])
        if "slots" in said:
            assert any("triggers" in line for line in automatic.plan_install([T]))
        first, *statements = refused.value.fix.splitlines()
        assert first == "run"
        for statement in statements:
            assert statement.strip().endswith(";")
            world.writer.execute(statement)  # type: ignore[arg-type]  # as a person would paste it
    assert source.install([T])
    world.writer.execute("INSERT INTO t VALUES (1, 1, 'a')")
    assert source.position()
    source.remove()
    source.close()
    automatic.close()
    world.writer.execute("DROP OWNED BY keeper; DROP ROLE keeper")


@pytest.mark.parametrize("way", ["log", "triggers"])
def test_a_dba_runs_what_is_printed_and_the_role_polls(
    world: World, role: str, way: str, postgres_untimed: PostgresServer
) -> None:
    """The role may create nothing, and owns nothing."""
    world.source.remove()
    other = TableName(T.source, "Other t", "its schema")
    world.writer.execute('CREATE SCHEMA "its schema"; CREATE TABLE "its schema"."Other t" (id int PRIMARY KEY)')
    world.source = PostgresSource(SourceSpec(T.source, role, ((CAPTURE, way), ("owner", "me"), ("owner_label", "/me"))))
    before = set(world.writer.execute(OBJECTS).fetchall())
    printed = "\n".join(world.source.script([T, other]))
    assert set(world.writer.execute(OBJECTS).fetchall()) == before
    with pytest.raises(SourceRefused):
        world.source.install([T, other])
    postgres_untimed.psql(world.url, printed)
    assert world.source.script([T, other]) == []
    assert [line.split(" ")[0] for line in world.source.install([T, other])] == ["share", "share"]
    assert world.source.install([T, other]) == []
    assert captured(world).tables == {T, other}
    at = world.source.position()
    world.writer.execute("INSERT INTO t SELECT n, n % 3, 'x' FROM generate_series(1, 9) AS n")
    world.writer.execute("UPDATE t SET v = 'y' WHERE k = 1")
    world.writer.execute("TRUNCATE t")
    world.writer.execute("INSERT INTO t VALUES (1, 1, 'z')")
    assert not world.as_of(at)
    transactions, end = world.told(at)
    assert len(transactions) == 4
    assert world.as_of(end) == summed(transactions) == world.rows()
    assert world.source.trim(end) > 0
    assert world.as_of(end) == world.rows()
    third = TableName(T.source, "third", "public")
    world.writer.execute("CREATE TABLE third (id int)")
    more = "\n".join(world.source.script([T, other, third]))
    assert "third" in more
    assert "Other t" not in more
    postgres_untimed.psql(world.url, more)
    assert len(world.source.install([T, other, third])) == 1
    assert summed([world.as_of(end), *world.told(end)[0]]) == world.rows()
    removed = PostgresSource(SourceSpec(T.source, world.url, (("owner", "me"), ("owner_label", "/me"))))
    removed.remove()
    removed.close()


def test_what_is_printed_mends_and_changes_the_way(world: World, role: str, postgres_untimed: PostgresServer) -> None:
    """A capture that is broken, and one by triggers that is to be by the log from now on."""
    world.writer.execute('GRANT SELECT ON t TO "plain reader"')
    world.source.remove()
    first = PostgresSource(SourceSpec(T.source, world.url))
    first.install([T])
    world.source = PostgresSource(SourceSpec(T.source, role, ((CAPTURE, "log"),)))
    at = first.position()
    first.close()
    world.writer.execute("INSERT INTO t VALUES (1, 1, 'a')")
    with pytest.raises(SourceRefused, match="permission denied"):
        world.source.install([T])
    for lines in (7, 200):  # what it takes to look at the capture that is there, then the rest
        written = "\n".join(world.source.script([T]))
        assert written.count("\n") <= lines
        postgres_untimed.psql(world.url, written)
    world.writer.execute("UPDATE t SET v = 'b'")
    assert summed(world.told(at)[0]) == world.rows()
    assert not world.as_of(at)
    world.writer.execute(f"SELECT pg_drop_replication_slot({SLOT})")
    with pytest.raises(CaptureMissing):
        look(world)
    postgres_untimed.psql(world.url, "\n".join(world.source.script([T])))
    assert world.source.script([T]) == []
    at = world.source.position()
    world.writer.execute("UPDATE t SET v = 'c'")
    assert summed([world.as_of(at), *world.told(at)[0]]) == world.rows()
    with pytest.raises(SourceRefused, match="more than statements"):
        PostgresSource(SourceSpec(T.source, role, ((CAPTURE, "triggers"),))).script([T])


def test_a_server_that_cannot_is_told_what_to_set() -> None:
    lacks = [log_needs.Lack("wal_level is replica", "ALTER SYSTEM SET wal_level = logical;"), log_needs.Lack("b", "B;")]
    assert log_needs._said(lacks) == (
        "wal_level is replica, b",
        "run\n    ALTER SYSTEM SET wal_level = logical;\n    B;",
    )
    standby = log_needs.Lack("the server is a standby", otherwise="connect to the primary")
    assert log_needs._said([*lacks, standby]) == ("the server is a standby", "connect to the primary")
    assert log_needs._said([]) is None


@pytest.mark.parametrize("ways", [("triggers", "log"), ("log", "triggers"), ("triggers", "log", "triggers", "log")])
def test_the_way_is_changed_without_losing_a_transaction(world: World, ways: tuple[str, ...]) -> None:
    """While somebody writes: every position before and after is exact, and what is told is what was committed."""
    world.source.remove()
    stopping, numbers = threading.Event(), itertools.count(1)

    def write() -> None:
        with psycopg.connect(world.url, autocommit=True) as writer:
            while not stopping.is_set():
                n = next(numbers)
                writer.execute("INSERT INTO t VALUES (%s, %s, 'x')", [n, n % 40])
                writer.execute("UPDATE t SET v = v || 'y' WHERE id = %s", [n // 2])
                if n % 5 == 0:
                    writer.execute("DELETE FROM t WHERE id = %s", [n - 3])

    first = PostgresSource(SourceSpec(T.source, world.url, ((CAPTURE, ways[0]),)))
    first.install([T])
    world.source = first
    at = [first.position()]
    thread = threading.Thread(target=write)
    thread.start()
    try:
        for way in ways[1:]:
            time.sleep(0.3)
            at.append(world.source.position())
            other = PostgresSource(SourceSpec(T.source, world.url, ((CAPTURE, way),)))
            assert any("without a gap" in line for line in other.install([T]))
            world.source.close()
            world.source = other
            time.sleep(0.3)
            at.append(other.position())
    finally:
        stopping.set()
        thread.join()
    last = world.rows()
    assert last
    for position in at:
        assert summed([world.as_of(position), *world.told(position)[0]]) == last
    assert not world.as_of(at[0])
    slots = world.writer.execute("SELECT FROM pg_replication_slots WHERE database = current_database()").rowcount
    assert slots == (ways[-1] == "log")


@pytest.mark.parametrize("ways", [("triggers", "log"), ("log", "triggers")])
def test_who_knew_the_other_way_is_exact_after_the_change(world: World, ways: tuple[str, str]) -> None:
    """A reader that lives on while the way is changed, as the connections of Spark's workers do."""
    world.source.remove()
    first = PostgresSource(SourceSpec(T.source, world.url, ((CAPTURE, ways[0]),)))
    first.install([T])
    world.writer.execute("INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')")
    at, before = first.position(), world.rows()
    world.source = first
    assert world.as_of(at) == before
    other = PostgresSource(SourceSpec(T.source, world.url, ((CAPTURE, ways[1]),)))
    other.install([T])
    other.close()
    world.writer.execute("UPDATE t SET v = 'new'")
    world.writer.execute("DELETE FROM t WHERE id = 2")
    assert world.as_of(at) == before
    keys = pa.table({"k": pa.array([1, 2, 3], pa.int32())})
    joined = JoinQuestion(
        (Joined(T, ("v",)), Joined(T, ("id",), (), (("id", 0, "id"),))), ((0, "k"),), keys, ("v", "id")
    )
    found = [tuple(row.values()) for batch in first.ask_join(joined, at) for row in batch.to_pylist()]
    assert Counter({(n, v, i): c for n, v, i, c in found}) == {(0, "a", 1): 1, (1, "b", 2): 1}
