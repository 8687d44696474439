"""MariaDB by triggers, against adversaries: what fires none, what overlaps, who is killed, who waits for whom."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pymysql
import pytest

from headwater.model.errors import (
    CaptureMissing,
    LifeChanged,
    PositionTrimmed,
    SchemaChanged,
    SourceRefused,
    SourceUnavailable,
    ValueUnfit,
)
from headwater.model.names import Position, TableName
from headwater.model.source import CAPTURE, UNFIT, Chunk, Question, SourceSpec
from headwater.sources.mariadb.triggers import rounds
from headwater.sources.mariadb.triggers.adapter import TriggerSource
from mariadb_server import MariadbServer, find, mariadb_server

from .log_database import SRC, Bag, Database, fold, told
from .test_mariadb import TYPES

pytestmark = pytest.mark.mariadb

_numbers = itertools.count()


class Bare(Database):
    """A database of a server without a log."""

    source: TriggerSource  # type: ignore[assignment]  # the same port

    def adapter(self, **options: str) -> TriggerSource:  # type: ignore[override]  # as above
        return TriggerSource(SourceSpec(SRC, self.url, ((CAPTURE, "triggers"), *options.items())))


@pytest.fixture
def db(mariadb_bare: MariadbServer) -> Iterator[Bare]:
    database = Bare(mariadb_bare)
    yield database
    database.close()


def scanned(db: Bare, table: TableName, columns: list[str], at: Position) -> Bag:
    return fold(db.source.scan(Chunk(table, 0), columns, at))


# ── rounds ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_who_commits_late_is_told_late_whatever_his_ids(db: Bare) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
    start, late = db.source.position(), db.connect()
    late.begin()
    db.run("INSERT INTO t VALUES (1)", by=late)
    db.run("INSERT INTO t VALUES (2)", "BEGIN", "INSERT INTO t VALUES (3)", "ROLLBACK")
    db.run("BEGIN", "INSERT INTO t VALUES (4)", "SAVEPOINT s", "INSERT INTO t VALUES (5)", "ROLLBACK TO s", "COMMIT")
    middle = db.source.position()
    db.run("INSERT INTO t VALUES (6)", by=late)
    assert db.source.position() == middle, "nothing that is not committed counts"
    db.run("INSERT INTO t VALUES (7)")
    db.source.trim(middle)
    db.source.position()  # a round whose changes have higher numbers than those that are still to come
    late.commit()
    poll = db.source.poll(middle, {t: ["id"]}, 100)
    assert told(poll, t) == [{(7,): 1}, {(1,): 1, (6,): 1}]
    assert scanned(db, t, ["id"], middle) == {(2,): 1, (4,): 1}
    assert scanned(db, t, ["id"], poll.end) == {(n,): 1 for n in (1, 2, 4, 6, 7)}
    with pytest.raises(PositionTrimmed):
        scanned(db, t, ["id"], start)
    assert db.source.trim(poll.end) == 3
    assert db.run("SELECT COUNT(*) FROM _headwater_of_t, _headwater_ranges") == ((0,),)


def test_nobody_waits_for_anybody(db: Bare) -> None:
    """Writers are at work on both sides of what is numbered and forgotten; a lock would time out at once."""
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, v int)")
    db.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    open_ones = []
    for n in range(10, 14):
        one = db.connect()
        db.run("SET innodb_lock_wait_timeout = 1", by=one)
        one.begin()
        db.run(f"INSERT INTO t VALUES ({n}, 0)", by=one)
        open_ones.append(one)
        db.run(f"INSERT INTO t VALUES ({n + 10}, 0)")
    begun = time.monotonic()
    at = db.source.position()
    assert db.source.trim(at) == 6
    db.run("INSERT INTO t VALUES (30, 0)")
    other = db.connect()
    other.begin()  # a poll that has read, and not committed its round yet
    db.run("SELECT generation FROM _headwater_capture FOR UPDATE", "SELECT * FROM _headwater_of_t", by=other)
    for n, one in enumerate(open_ones):
        db.run(f"UPDATE t SET v = 7 WHERE id = {n % 2 + 1}", by=one)
        one.commit()
    other.rollback()
    assert time.monotonic() - begun < 0.9
    total = scanned(db, t, ["id", "v"], db.source.position())
    assert total == Counter(db.run("SELECT id, v FROM t"))


def test_a_prepared_transaction_survives_a_crash_and_is_told_when_it_is_committed(tmp_path: Path) -> None:
    with own_server(tmp_path) as server:
        db = Bare(server)
        t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
        other = db.connect()
        db.run("XA START 'x'", "INSERT INTO t VALUES (1)", "XA END 'x'", "XA PREPARE 'x'", by=other)
        db.run("INSERT INTO t VALUES (2)")
        middle = db.source.position()
        server.stop(crash=True)
        with pytest.raises(SourceUnavailable):
            db.source.position()
        server.start()
        db.main = db.connect()
        db.run("INSERT INTO t VALUES (3)")
        db.source.trim(middle)
        later = db.source.position()
        assert scanned(db, t, ["id"], later) == {(2,): 1, (3,): 1}
        db.run("XA COMMIT 'x'")
        assert told(db.source.poll(later, {t: ["id"]}, 10), t) == [{(1,): 1}]
        assert told(db.source.poll(middle, {t: ["id"]}, 10), t) == [{(3,): 1}, {(1,): 1}]


def test_two_who_poll_at_once_number_nothing_twice(db: Bare) -> None:
    """Who waits for the other's round reads what is left by then, not what was there when he began to wait."""
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
    start, first, found = db.source.position(), db.connect(), list[Position]()
    db.run("INSERT INTO t VALUES (1)")
    rounds.lock(first)
    last = rounds.number_within(first)
    waiting = threading.Thread(target=lambda: found.append(db.source.position()))
    waiting.start()
    time.sleep(0.3)
    assert not found, "he waits"
    first.commit()
    waiting.join()
    assert [at.partition("@")[0] for at in found] == [str(last)]
    assert told(db.source.poll(start, {t: ["id"]}, 10), t) == [{(1,): 1}]


KILLED = """
import os, signal, sys
from headwater.model.names import SourceName
from headwater.model.source import SourceSpec
from headwater.sources.mariadb.triggers import rounds
from headwater.sources.mariadb.triggers.adapter import TriggerSource
numbered = rounds.number_within
def die(*a, **k):
    last = numbered(*a, **k)
    print(last, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
rounds.number_within = die
TriggerSource(SourceSpec(SourceName("shop"), sys.argv[1], (("capture", "triggers"),))).position()
"""


def test_a_poller_that_is_killed_between_reading_and_numbering_leaves_nothing(db: Bare) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
    start = db.source.position()
    db.run("INSERT INTO t VALUES (1)")
    done = subprocess.run([sys.executable, "-c", KILLED, db.url], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    assert int(done.stdout) == int(start.partition("@")[0]) + 1, "it had numbered"
    db.run("INSERT INTO t VALUES (2)")
    assert told(db.source.poll(start, {t: ["id"]}, 10), t) == [{(1,): 1, (2,): 1}]


@pytest.mark.parametrize(("seed", "pieces"), [(0, 100), pytest.param(1, 0, marks=pytest.mark.soak)])
def test_hammered_by_writers_every_position_is_a_state(
    db: Bare, seed: int, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every transaction moves amounts and writes down what it moved. So at any position the one table is the sum of
    the other; if a transaction were torn, lost or told twice, it would not be. Also where gaps are too many to look
    them up one by one (`pieces`)."""
    a = db.captured("CREATE TABLE a (id int PRIMARY KEY, v int NOT NULL, KEY (v))", "a")
    m = db.captured("CREATE TABLE m (id int NOT NULL, by_how_much int NOT NULL)", "m")
    db.run("INSERT INTO a SELECT seq, 0 FROM seq_1_to_8")
    monkeypatch.setattr(rounds, "_PIECES", pieces)
    start = db.source.position()
    stop, failures, deadlocks = threading.Event(), list[BaseException](), Counter[str]()

    def write(number: int) -> None:
        chance, connection = Random(100 * seed + number), db.connect()
        level = chance.choice(["READ COMMITTED", "REPEATABLE READ"])
        db.run(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}", by=connection)
        while not stop.is_set():
            try:
                connection.begin()
                for _ in range(chance.randint(1, 4)):
                    row, amount = chance.randint(1, 8), chance.randint(-9, 9)
                    if chance.random() < 0.2:
                        db.run("SAVEPOINT s", f"UPDATE a SET v = v + 1000 WHERE id = {row}", by=connection)
                        db.run(f"INSERT INTO m VALUES ({row}, 77)", "ROLLBACK TO s", by=connection)
                    db.run(f"UPDATE a SET v = v + {amount} WHERE id = {row}", by=connection)
                    db.run(f"INSERT INTO m VALUES ({row}, {amount})", by=connection)
                    if chance.random() < 0.1:
                        time.sleep(0.01)
                if chance.random() < 0.2:
                    connection.rollback()
                    deadlocks["rolled back"] += 1
                else:
                    connection.commit()
                    deadlocks["committed"] += 1
            except pymysql.err.OperationalError as error:
                if error.args[0] not in (1213, 1205):
                    failures.append(error)
                connection.rollback()
                deadlocks["deadlock"] += 1
            except BaseException as error:
                failures.append(error)
                return

    def sums(rows: Bag) -> Counter[int]:
        found: Counter[int] = Counter()
        for (row, amount), count in rows.items():
            found[row] += amount * count
        return found

    def agree(source: TriggerSource, at: Position) -> tuple[Bag, Bag]:
        held = fold(source.scan(Chunk(a, 0), ["id", "v"], at))
        moved = fold(source.scan(Chunk(m, 0), ["id", "by_how_much"], at))
        assert {r: v for r, v in sums(moved).items() if v} == {r: v for r, v in held if v}, at
        assert len(held) == 8
        return held, moved

    threads = [threading.Thread(target=write, args=[n]) for n in range(4)]
    for thread in threads:
        thread.start()
    seen = list[tuple[Position, tuple[Bag, Bag]]]()
    after, sources = start, [db.adapter() for _ in range(2)]
    state_a, state_m = agree(db.source, start)
    until = time.monotonic() + 3
    try:
        while time.monotonic() < until:
            source = sources[len(seen) % 2]
            poll = source.poll(after, {a: ["id", "v"], m: ["id", "by_how_much"]}, 50)
            for bag_a, bag_m in zip(told(poll, a), told(poll, m), strict=True):
                state_a.update(bag_a)
                state_m.update(bag_m)
            after = poll.end
            at = source.position()
            seen.append((at, agree(source, at)))
            keep = {k: v for k, v in state_a.items() if v}, {k: v for k, v in state_m.items() if v}
            assert agree(source, after) == keep, "what was told is what is there"
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures
    assert deadlocks["committed"] > 20
    assert deadlocks["rolled back"]
    for at, states in seen[:: max(1, len(seen) // 12)]:
        assert agree(db.source, at) == states, "a position changed its answer"
    end = db.source.position()
    assert agree(db.source, end)[0] == Counter(db.run("SELECT id, v FROM a"))
    assert agree(db.source, end)[1] == Counter(db.run("SELECT * FROM m"))
    db.source.trim(seen[len(seen) // 2][0])
    for at, states in seen[len(seen) // 2 :: 5]:
        assert agree(db.source, at) == states, "trimming took what it must not"


# ── what writers do ──────────────────────────────────────────────────────────────────────────────────────────────


def test_statements_that_write_in_other_ways(db: Bare, tmp_path: Path) -> None:
    t = db.captured(
        "CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, u int UNIQUE, v varchar(20),"
        " twice int AS (u * 2) STORED, never int AS (u * 3) VIRTUAL)"
    )
    u = db.captured("CREATE TABLE u (id int)", "u")
    db.run("CREATE TRIGGER before_all BEFORE INSERT ON t FOR EACH ROW SET NEW.v = UPPER(NEW.v)")
    db.run("CREATE TRIGGER after_all AFTER INSERT ON t FOR EACH ROW INSERT INTO u VALUES (NEW.u)")
    db.run("SET sql_mode = 'ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH', NAMES latin1, time_zone = 'SYSTEM'")
    names = ["id", "u", "v", "twice"]
    at, held = db.source.position(), Counter[tuple[object, ...]]()
    for statement in [
        "INSERT INTO t (u, v) VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "REPLACE INTO t (id, u, v) VALUES (1, 2, 'takes two')",
        "INSERT INTO t (u, v) VALUES (3, 'x') ON DUPLICATE KEY UPDATE v = 'upsert'",
        "INSERT IGNORE INTO t (u, v) VALUES (3, 'ignored'), (4, 'd')",
        "UPDATE t, u SET t.v = 'many', u.id = u.id + 100 WHERE t.u = u.id",
        "UPDATE t SET id = id + 50 ORDER BY id DESC",
        "UPDATE t SET u = NULL WHERE u = 4",
        "DELETE t, u FROM t JOIN u WHERE t.v = 'many' AND u.id > 100",
        "INSERT INTO t (id, u, v) SELECT 900 + u, u + 10, v FROM t WHERE u IS NOT NULL",
    ]:
        db.run(statement)
        poll = db.source.poll(at, {t: names, u: ["id"]}, 100)
        for bag in told(poll, t):
            held.update(bag)
        at = poll.end
        truth = Counter(db.run(f"SELECT {', '.join(names)} FROM t"))
        assert {k: n for k, n in held.items() if n} == truth, statement
        assert scanned(db, t, names, at) == truth
        assert scanned(db, u, ["id"], at) == Counter(db.run("SELECT id FROM u"))
    db.run("INSERT INTO t (u) VALUES (77)")
    assert db.run("SELECT MAX(id) = LAST_INSERT_ID() FROM t") == ((1,),), "the application's own"


def test_an_hour_that_comes_twice_is_copied_as_it_is(db: Bare) -> None:
    t = db.captured("CREATE TABLE t (at timestamp(6) NULL, n int)")
    start = db.source.position()
    db.run("SET time_zone = '+00:00'")
    db.run("INSERT INTO t VALUES ('2024-10-27 00:30:00', 1), ('2024-10-27 01:30:00', 2)")
    db.run("SET time_zone = '+02:00'", "UPDATE t SET n = n + 10")
    at = db.source.position()
    (first, second) = scanned(db, t, ["at", "n"], at)
    assert abs(first[0] - second[0]).total_seconds() == 3600
    assert scanned(db, t, ["at", "n"], start) == {}


def test_every_type_reads_the_same_from_table_and_changes(db: Bare) -> None:
    db.run("SET time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES'")
    columns = ", ".join(f"c{n} {kind}" for n, (kind, _, _) in enumerate(TYPES))
    t = db.captured(f"CREATE TABLE t (id int PRIMARY KEY, {columns}, v int AS (id + 1) VIRTUAL)")
    names = [f"c{n}" for n, (_, arrow, _) in enumerate(TYPES) if arrow is not None]
    start, number = db.source.position(), 0
    for n, (_, _, values) in enumerate(TYPES):
        for value in values:
            number += 1
            db.run(f"INSERT INTO t (id, c{n}) VALUES ({number}, {value})")
    filled = db.source.position()
    whole = scanned(db, t, ["id", *names], filled)
    assert len(whole) == number
    poll = db.source.poll(start, {t: ["id", *names]}, 10_000)
    assert sum((Counter(bag) for bag in told(poll, t)), Counter()) == whole
    for n, (kind, arrow, values) in enumerate(TYPES):
        if arrow is not None and values:
            assert poll.changes[t].schema.field(f"c{n}").type == arrow, kind
    db.run("DELETE FROM t")
    assert scanned(db, t, ["id", *names], filled) == whole, "from the changes alone"
    assert scanned(db, t, ["id", *names], start) == {}
    assert db.source.capture().tables == {t}  # type: ignore[union-attr]  # there was no gap


def test_values_that_no_type_holds_are_named(db: Bare) -> None:
    db.run("SET sql_mode = 'ALLOW_INVALID_DATES'")
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, d date, a datetime, x decimal(65,0), ok int)")
    start = db.source.position()
    db.run("INSERT INTO t VALUES (1, '0000-00-00', '2024-02-31 10:00:00', 1e50, 7)")
    (row,) = db.source.poll(start, {t: ["id", "d", "a", "x", "ok"]}, 10).changes[t].to_pylist()
    assert [row[c] for c in ("d", "a", "x")] == [None] * 3
    for said in ('"id = 1"', "0000-00-00", "2024-02-31 10:00:00", "1" + "0" * 50):
        assert said in row[UNFIT]
    at = db.source.position()
    assert scanned(db, t, ["id", "ok"], at) == {(1, 7): 1}
    db.run("DELETE FROM t")
    assert scanned(db, t, ["ok"], at) == {(7,): 1}
    with pytest.raises(ValueUnfit, match="id = 1"):
        scanned(db, t, ["d"], at)


# ── what fires no trigger ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE t",
        pytest.param("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v varchar(20))", marks=pytest.mark.soak),
        pytest.param("RENAME TABLE t TO old, spare TO t", marks=pytest.mark.soak),
        "ALTER TABLE t DROP COLUMN v, ADD COLUMN v varchar(20)",
        pytest.param("ALTER TABLE t DROP COLUMN v; ALTER TABLE t ADD COLUMN v varchar(20)", marks=pytest.mark.soak),
        pytest.param("ALTER TABLE t MODIFY v varchar(2)", marks=pytest.mark.soak),
        "ALTER TABLE t MODIFY v varchar(2000); INSERT INTO t VALUES (9, repeat('x', 1000))",
        pytest.param("ALTER TABLE t ADD COLUMN w int", marks=pytest.mark.soak),
        "DROP TRIGGER _headwater_delete_t; DELETE FROM t",
        pytest.param("TRUNCATE _headwater_of_t", marks=pytest.mark.soak),
        pytest.param("OPTIMIZE TABLE t", marks=pytest.mark.soak),
    ],
)
def test_what_fires_no_trigger_halts_in_the_very_poll(db: Bare, statement: str) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))")
    other = db.captured("CREATE TABLE other (id int)", "other")
    db.run("CREATE TABLE spare (id int PRIMARY KEY, v varchar(20))", "INSERT INTO t VALUES (1, 'a')")
    expected = db.source.identities({t: ["id", "v"], other: ["id"]})
    db.source.expect(expected)
    db.run("INSERT INTO t VALUES (2, 'b')")
    middle = db.source.position()
    db.run(*statement.split("; "))
    db.run("REPLACE INTO t (id, v) VALUES (4, 'dd')", "INSERT INTO other VALUES (1)")  # writers go on
    for source in db.source, db.adapter():
        source.expect(expected)
        for ask in (
            lambda s=source: s.poll(middle, {t: ["id", "v"], other: ["id"]}, 100),
            lambda s=source: list(s.scan(Chunk(t, 0), ["id", "v"], middle)),
            lambda s=source: list(s.scan(Chunk(t, 0), ["id"], s.position())),
            lambda s=source: s.check(middle, [t]),
        ):
            with pytest.raises((CaptureMissing, SchemaChanged), match="setup"):
                ask()
        assert told(source.poll(middle, {other: ["id"]}, 100), other)[-1] == {(1,): 1}, "nothing else waits"
    capture = db.source.capture()
    assert capture is not None
    assert set(capture.broken) == {t}
    assert capture.tables == {other}
    assert any("anew" in line for line in db.source.install([t, other]))
    now = db.adapter().identities({t: ["id", "v"], other: ["id"]})
    assert expected[t]["v"].became(now[t]["v"])
    assert not expected[other]["id"].became(now[other]["id"])
    db.source.expect(now)
    with pytest.raises(PositionTrimmed):
        scanned(db, t, ["id"], middle)
    at = db.source.position()
    held = scanned(db, t, ["id", "v"], at)
    db.run("INSERT INTO t (id, v) VALUES (5, 'e')")
    assert told(db.source.poll(at, {t: ["id", "v"]}, 10), t) == [{(5, "e"): 1}]
    assert scanned(db, t, ["id", "v"], at) == held
    assert scanned(db, other, ["id"], middle) == {}


def test_a_trigger_that_was_dropped_and_made_again_by_somebody_is_a_gap(db: Bare) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
    at = db.source.position()
    ((_, _, text, *_),) = db.run("SHOW CREATE TRIGGER _headwater_insert_t")
    db.run("DROP TRIGGER _headwater_insert_t", "INSERT INTO t VALUES (1)", text)
    with pytest.raises(CaptureMissing, match="made again"):
        db.source.poll(at, {t: ["id"]}, 10)


def test_a_column_that_is_dropped_stops_no_writer_and_is_a_gap(db: Bare) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, v int)")
    at = db.source.position()
    db.run("ALTER TABLE t DROP COLUMN v", "INSERT INTO t VALUES (1)", "UPDATE t SET id = 2", "DELETE FROM t")
    assert db.run("SELECT COUNT(*), MAX(why) FROM _headwater_gaps")[0][0] == 3
    with pytest.raises((CaptureMissing, SchemaChanged)):
        db.source.poll(at, {t: ["id"]}, 10)
    db.source.install([t])
    at = db.source.position()
    db.run("INSERT INTO t VALUES (3)")
    assert told(db.source.poll(at, {t: ["id"]}, 10), t) == [{(3,): 1}]
    assert db.run("SELECT COUNT(*) FROM _headwater_gaps") == ((0,),)


def test_tables_that_a_foreign_key_changes_in_silence_are_refused(db: Bare) -> None:
    db.run("CREATE TABLE p (id int PRIMARY KEY)")
    db.run("CREATE TABLE c (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)")
    with pytest.raises(SourceRefused, match="triggers"):
        db.source.plan_install([TableName(SRC, "c")])
    later = db.captured("CREATE TABLE later (id int PRIMARY KEY, p int)", "later")
    start = db.source.position()
    db.run("INSERT INTO p VALUES (1)", "INSERT INTO later VALUES (1, 1)", "SET foreign_key_checks = 0")
    db.run("ALTER TABLE later ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE", "SET foreign_key_checks = 1")
    db.run("DELETE FROM p")
    with pytest.raises(CaptureMissing):
        db.source.poll(start, {later: ["id"]}, 10)
    assert "triggers" in db.source.capture().broken[later]  # type: ignore[union-attr]  # it is installed


def test_engines_without_snapshots_are_refused(db: Bare) -> None:
    db.run("CREATE TABLE t (id int) ENGINE = Aria")
    with pytest.raises(SourceRefused, match="ENGINE = InnoDB"):
        db.source.plan_install([TableName(SRC, "t")])


# ── lives ────────────────────────────────────────────────────────────────────────────────────────────────────────


def own_server(folder: Path):  # type: ignore[no-untyped-def]  # a context
    if find() is None:
        pytest.skip("there is no MariaDB server")
    return mariadb_server(folder, {"skip-log-bin": "1", "innodb-flush-log-at-trx-commit": "1"})


@pytest.mark.soak
def test_a_database_that_was_restored_is_another_life(tmp_path: Path) -> None:
    with own_server(tmp_path) as own:
        db = Bare(own)
        t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
        db.run("INSERT INTO t VALUES (1)")
        shared = db.source.position()
        own.stop()
        own.keep_copy()
        own.start()
        db.main = db.connect()
        db.run("INSERT INTO t VALUES (2)")
        lost = db.source.position()
        own.stop()
        own.restore_copy()
        own.start()
        db.main = db.connect()
        for _ in range(2):  # it is not there yet, and then it is another one
            for source in db.source, db.adapter():
                for ask in (
                    lambda s=source: s.poll(lost, {t: ["id"]}, 10),
                    lambda s=source: list(s.scan(Chunk(t, 0), ["id"], lost)),
                    lambda s=source: s.check(lost, [t]),
                    lambda s=source: s.trim(lost),
                ):
                    with pytest.raises(LifeChanged, match="restored"):
                        ask()
            db.run("REPLACE INTO t VALUES (3)")
            db.source.position()
        with pytest.raises(CaptureMissing, match="altered"):  # the files of a restored table are new
            db.source.poll(shared, {t: ["id"]}, 10)
        assert db.source.install([t])
        again = db.source.position()
        db.source.remove()
        db.source.install([t])
        with pytest.raises(LifeChanged, match="anew"):
            db.source.poll(again, {t: ["id"]}, 10)


# ── who may, and who else ────────────────────────────────────────────────────────────────────────────────────────


def test_all_that_a_user_lacks_is_said_at_once_as_statements(mariadb_bare: MariadbServer, db: Bare) -> None:
    db.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE hidden (id int)")
    user = f"poor_{db.name}"
    db.run(f"CREATE USER {user}@'%' IDENTIFIED BY 'verysecret'", f"GRANT SELECT ON {db.name}.t TO {user}@'%'")
    source = TriggerSource(SourceSpec(SRC, mariadb_bare.url(db.name, user, "verysecret")))
    t = TableName(SRC, "t")
    with pytest.raises(SourceRefused) as refused:
        source.plan_install([t])
    statements = [line.strip() for line in refused.value.fix.splitlines()[1:]]
    assert any("PROCESS" in statement for statement in statements)
    db.run(*(s.removesuffix(";") for s in statements))
    source.close()
    assert source.plan_install([t])
    source.install([t])
    start = source.position()
    db.run(f"CREATE USER app_{db.name}@'%'", f"GRANT INSERT ON {db.name}.t TO app_{db.name}@'%'")
    app = mariadb_bare.connect(db.name, user=f"app_{db.name}", password="")
    db.run("INSERT INTO t VALUES (1)", by=app)  # whoever writes needs no right on capture's tables
    app.close()
    assert told(source.poll(start, {t: ["id"]}, 10), t) == [{(1,): 1}]
    assert fold(source.scan(Chunk(t, 0), ["id"], start)) == {}
    source.trim(source.position())
    source.remove()
    assert not db.run("SHOW TABLES LIKE '\\_headwater%'")
    db.run(f"DROP USER {user}@'%'", f"DROP USER app_{db.name}@'%'")


def test_projects_share_a_source_and_do_not_disturb_each_other(db: Bare) -> None:
    t, u = db.captured("CREATE TABLE t (id int)"), TableName(SRC, "u")
    db.run("CREATE TABLE u (id int)")
    other = db.adapter(owner="other", owner_label="/there")
    other.install([u])
    assert other.capture().tables == {u}  # type: ignore[union-attr]  # it is installed
    assert db.source.capture().others == ("/there",)  # type: ignore[union-attr]  # as above
    start = db.source.position()
    db.run("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    assert db.source.trim(db.source.position()) == 0, "the other one needs it"
    assert told(other.poll(start, {u: ["id"]}, 10), u) == [{(1,): 1}]
    with pytest.raises(PositionTrimmed):
        db.source.poll(start, {t: ["id"]}, 10)
    db.run("TRUNCATE u")
    assert db.adapter(owner="third").install([u])
    assert other.capture().tables == {u}, "who mends a capture mends it for all"  # type: ignore[union-attr]  # as above
    assert db.source.remove()
    moved = db.adapter(owner="moved", owner_label="/there")
    moved.install([u])
    assert moved.capture().others == ("third",)  # type: ignore[union-attr]  # as above
    assert db.adapter(owner="third").remove()
    assert moved.remove()
    assert not db.run("SHOW TABLES LIKE '\\_headwater%'")
    assert not db.run("SHOW TRIGGERS")


def test_an_installation_that_fails_or_is_killed_leaves_nothing_at_work(db: Bare) -> None:
    t, u = db.captured("CREATE TABLE t (id int)"), TableName(SRC, "u")
    db.run("CREATE TABLE u (id int)", "CREATE TRIGGER _headwater_delete_u AFTER INSERT ON t FOR EACH ROW SET @x = 1")
    holder = db.connect()
    holder.begin()
    db.run("SELECT * FROM u", by=holder)
    started = time.monotonic()
    worker = threading.Thread(target=lambda: db.adapter().install([u]))
    worker.start()
    time.sleep(0.5)
    holder.commit()  # who held the table has ended; the installation goes on
    worker.join()
    assert time.monotonic() - started < 20
    assert db.source.capture().tables == {t, u}  # type: ignore[union-attr]  # it is installed
    db.run("CREATE TABLE _headwater_of_ghost (id int)")
    db.run("CREATE TABLE w (id int)", "CREATE TRIGGER _headwater_insert_w AFTER INSERT ON w FOR EACH ROW SET @x = 1")
    db.source.release([t])
    left = {row[0] for row in db.run("SHOW TRIGGERS")}
    assert left == {"_headwater_insert_t", "_headwater_update_t", "_headwater_delete_t", "_headwater_tag"}
    assert {r[0] for r in db.run("SHOW TABLES LIKE '\\_headwater\\_of%'")} == {"_headwater_of_t"}


def test_an_idle_source_stays_where_it_is(db: Bare) -> None:
    t = db.captured("CREATE TABLE t (id int)")
    db.run("BEGIN", "INSERT INTO t VALUES (1)", "INSERT INTO _headwater_parts VALUES (DEFAULT, 'g', 2)", "COMMIT")
    at = db.source.position()
    assert db.source.trim(at) == 2
    for own in "_headwater_parts", "_headwater_tags", "_headwater_of_t", "_headwater_ranges":
        assert db.run(f"SELECT COUNT(*) FROM {own}") == ((0,),)
    idle = db.source.position()
    for _ in range(3):
        poll = db.source.poll(at, {t: ["id"]}, 10)
        assert poll.transactions.num_rows == 0
        assert db.source.trim(poll.end) == 0
        at = poll.end
    assert db.source.position() == idle == at
    assert db.run("SELECT COUNT(*) FROM _headwater_rounds") == ((1,),)


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def tagged(number: int) -> str:
    return f"INSERT INTO _headwater_parts (global_id, parts) VALUES ('g{number}', 2)"


def test_tagged_transactions_of_one_poll_are_told_one_by_one(db: Bare) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, v int)")
    start, other = db.source.position(), db.connect()
    db.run("BEGIN", tagged(1), "INSERT INTO t VALUES (1, 1), (2, 2)", "COMMIT")
    db.run("BEGIN", tagged(2), "UPDATE t SET v = 5 WHERE id = 1", "COMMIT", by=other)
    db.run("BEGIN", tagged(99), "DELETE FROM t", "ROLLBACK")
    db.run("BEGIN", tagged(3), "UPDATE t SET v = 6", "COMMIT")
    poll = db.source.poll(start, {t: ["id", "v"]}, 100)
    assert poll.transactions.column("global_id").to_pylist() == ["g1", "g2", "g3"]
    assert told(poll, t) == [
        {(1, 1): 1, (2, 2): 1},
        {(1, 1): -1, (1, 5): 1},
        {(1, 5): -1, (1, 6): 1, (2, 2): -1, (2, 6): 1},
    ]
    third = poll.transactions.column("transaction").to_pylist()[2]
    assert scanned(db, t, ["id", "v"], poll.before[third]) == {(1, 5): 1, (2, 2): 1}


def test_untagged_changes_of_a_session_that_tagged_before_are_never_in_the_wrong_place(db: Bare) -> None:
    """It commits nothing of its own between two tagged transactions that it comes after."""
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, v int)")
    db.run("INSERT INTO t VALUES (1, 0)")
    start, other = db.source.position(), db.connect()
    db.run("BEGIN", tagged(1), "UPDATE t SET v = 1", "COMMIT")
    db.run("BEGIN", tagged(2), "UPDATE t SET v = 2", "COMMIT", by=other)
    db.run("UPDATE t SET v = 3")  # after both
    poll = db.source.poll(start, {t: ["id", "v"]}, 100)
    assert told(poll, t) == [{(1, 0): -1, (1, 3): 1}], "one state: nobody knows where the untagged one belongs"
    assert poll.transactions.column("global_id").to_pylist() == ["g2"]
    db.run("BEGIN", tagged(4), "UPDATE t SET v = 4", "COMMIT", "UPDATE t SET v = 5")  # nobody else came between
    db.run("BEGIN", tagged(6), "UPDATE t SET v = 6", "COMMIT", by=other)
    poll = db.source.poll(poll.end, {t: ["id", "v"]}, 100)
    assert told(poll, t) == [{(1, 3): -1, (1, 5): 1}, {(1, 5): -1, (1, 6): 1}]


def test_a_writer_that_waits_too_long_for_a_tag_fails_and_leaves_no_gap(db: Bare) -> None:
    """Its statement is undone, so nothing is missing; a deadlock is one, too."""
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, v int)")
    db.run("INSERT INTO t VALUES (1, 0), (2, 0)", "SET innodb_lock_wait_timeout = 1")
    start, other = db.source.position(), db.connect()
    db.run("BEGIN", tagged(1), "COMMIT")  # from now on it looks whether its tag is the newest
    db.run("BEGIN", tagged(2), by=other)
    with pytest.raises(pymysql.err.OperationalError) as refused:
        db.run("UPDATE t SET v = 1 WHERE id = 1")
    assert refused.value.args[0] == 1205
    db.run("SET innodb_lock_wait_timeout = 50", "BEGIN", "SELECT * FROM t WHERE id = 1 FOR UPDATE")
    codes = list[int]()

    def write() -> None:
        try:
            db.run("UPDATE t SET v = 2 WHERE id = 1", by=other)  # waits for the row, and the row's holder for the tag
        except pymysql.err.OperationalError as error:
            codes.append(error.args[0])

    waiting = threading.Thread(target=write)
    waiting.start()
    time.sleep(0.3)
    try:
        db.run("UPDATE t SET v = 3 WHERE id = 1", "COMMIT")
    except pymysql.err.OperationalError as error:
        codes.append(error.args[0])
    waiting.join()
    assert codes == [1213], "one of them is the victim"
    other.commit()
    db.main.rollback()
    poll = db.source.poll(start, {t: ["id", "v"]}, 100)
    assert db.run("SELECT COUNT(*) FROM _headwater_gaps") == ((0,),)
    assert scanned(db, t, ["id", "v"], poll.end) == Counter(db.run("SELECT * FROM t"))


def test_questions_find_their_rows_among_many_changes(db: Bare) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, k int, KEY (k))")
    db.run("INSERT INTO t SELECT seq, seq % 100 FROM seq_1_to_3000")
    start = db.source.position()
    db.run("UPDATE t SET k = k + 1")
    keys = pa.table({"k": pa.array([5, 250], pa.int32())})
    for at, row in ((start, 5), (db.source.position(), 4)):
        found = fold(db.source.ask(Question(t, ("k",), keys, ("id", "k")), at))
        assert found == {(n, 5): 1 for n in range(row, 3001, 100)}
    many = pa.table({"k": pa.array(range(2000), pa.int32())})
    assert fold(db.source.ask(Question(t, ("k",), many, ("id",)), start)) == {(n,): 1 for n in range(1, 3001)}
