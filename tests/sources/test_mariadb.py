"""MariaDB and MySQL by their log, against adversaries: what it does not tell, what moves it, what overlaps in it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pymysql
import pytest

from headwater.cli.planning import create_index
from headwater.cli.walking import lookup_of
from headwater.model.errors import (
    CaptureMissing,
    ConfigError,
    LifeChanged,
    PositionTrimmed,
    SchemaChanged,
    SourceRefused,
    SourceUnavailable,
    ValueUnfit,
)
from headwater.model.names import Position, TableName
from headwater.model.source import UNFIT, Chunk, Question, SourceSpec
from headwater.sources import connect
from headwater.sources.mariadb.adapter import MariadbSource
from headwater.sources.mariadb.transactions import Transaction
from headwater.sources.mariadb.window import LogWindow
from mariadb_server import MariadbServer, mariadb_server
from mysql_server import mysql_server

from .log_database import SRC, Bag, Database, fold, scanned, told

SERVERS = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("mariadb", "mysql")]


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> MariadbServer:
    """Of the run."""
    found: MariadbServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def db(server: MariadbServer) -> Iterator[Database]:
    database = Database(server)
    yield database
    database.close()


def upto(last: int) -> str:
    """Numbers from 1, as a relation."""
    digits = " UNION ALL ".join(f"SELECT {n} AS d" for n in range(10))
    places = ", ".join(f"({digits}) AS d{n}" for n in range(5))
    value = " + ".join(f"d{n}.d * {10**n}" for n in range(5))
    return f"(SELECT 1 + {value} AS n FROM {places} HAVING n <= {last}) AS numbers"


# ── transactions ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_transactions_that_overlap_are_told_in_the_order_of_their_commits(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
    start, other = db.source.position(), db.connect()
    other.begin()
    db.run("INSERT INTO t VALUES (1)", by=other)
    db.run("INSERT INTO t VALUES (2)")
    middle = db.source.position()
    assert scanned(db, t, ["id"], middle) == {(2,): 1}
    other.commit()
    assert told(db.source.poll(start, {t: ["id"]}, 10), t) == [{(2,): 1}, {(1,): 1}]
    assert scanned(db, t, ["id"], middle) == {(2,): 1}
    assert scanned(db, t, ["id"], start) == {}


def test_what_was_rolled_back_was_never_told(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
    start = db.source.position()
    db.run("BEGIN", "INSERT INTO t VALUES (1)", "ROLLBACK")
    assert db.source.position() == start
    db.run("BEGIN", "INSERT INTO t VALUES (2)", "SAVEPOINT s", "INSERT INTO t VALUES (3)", "ROLLBACK TO s")
    db.run("INSERT INTO t VALUES (4)", "COMMIT")
    assert told(db.source.poll(start, {t: ["id"]}, 10), t) == [{(2,): 1, (4,): 1}]


def test_xa_is_told_where_it_is_committed(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
    positions = [db.source.position()]
    for name in "one", "two", "three":
        other = db.connect()
        db.run(f"XA START '{name}'", f"INSERT INTO t VALUES ({len(name)}0{name == 'two':d})", by=other)
        db.run(f"XA END '{name}'", f"XA PREPARE '{name}'", by=other)
        other.close()
        positions.append(db.source.position())
    db.run("INSERT INTO t VALUES (1)")
    positions.append(db.source.position())
    while True:
        try:
            db.run("XA COMMIT 'two'", "XA ROLLBACK 'one'", "FLUSH BINARY LOGS", "XA COMMIT 'three'")
            break
        except pymysql.err.OperationalError as error:  # its session is not gone yet
            if error.args[0] != 1397:
                raise
            time.sleep(0.05)
    for n, at in enumerate(positions):
        expected = [{(1,): 1}] if n < 4 else []
        assert told(db.adapter().poll(at, {t: ["id"]}, 10), t) == [*expected, {(301,): 1}, {(500,): 1}]
        assert scanned(db, t, ["id"], at) == ({} if n < 4 else {(1,): 1})
    assert scanned(db, t, ["id"], db.source.position()) == {(1,): 1, (301,): 1, (500,): 1}


def test_one_statement_of_many_rows_and_tables(db: Database) -> None:
    t, u = db.captured("CREATE TABLE t (id int PRIMARY KEY, x int)"), db.captured("CREATE TABLE u (id int)", "u")
    start = db.source.position()
    db.run("BEGIN", f"INSERT INTO t SELECT n, n FROM {upto(5000)}", "INSERT INTO u SELECT id FROM t", "COMMIT")
    db.run("UPDATE t, u SET t.x = 0, u.id = -u.id WHERE t.id = u.id AND t.id <= 2500")
    poll = db.source.poll(start, {t: ["id", "x"], u: ["id"]}, 10)
    assert (poll.transactions.num_rows, poll.more, poll.changes[t].num_rows) == (1, True, 5000)
    rest = db.source.poll(poll.end, {t: ["id", "x"], u: ["id"]}, 10)
    assert (rest.transactions.num_rows, rest.more) == (1, False)
    assert (rest.changes[t].num_rows, rest.changes[u].num_rows) == (5000, 5000)


def test_compressed_events_read_the_same(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, s text)")
    start = db.source.position()
    compressed = (
        "SET GLOBAL log_bin_compress = 1, GLOBAL log_bin_compress_min_len = 10",
        "SET GLOBAL log_bin_compress = 0",
    )
    if db.is_mysql:
        compressed = "SET binlog_transaction_compression = ON", "SET binlog_transaction_compression = OFF"
    db.run(compressed[0])
    try:
        db.run(f"INSERT INTO t VALUES (1, '{'a' * 5000}')", "UPDATE t SET s = repeat('b', 6000)")
        db.run(f"ALTER TABLE t COMMENT '{'c' * 500}'")
    finally:
        db.run(compressed[1])
    (first, second) = told(db.source.poll(start, {t: ["id", "s"]}, 10), t)
    assert first == {(1, "a" * 5000): 1}
    assert second == {(1, "a" * 5000): -1, (1, "b" * 6000): 1}


def test_rows_beyond_a_packet(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, b longblob)")
    start = db.source.position()
    db.run("INSERT INTO t VALUES (1, repeat('x', 10000000)), (2, repeat('y', 9000000))")
    rows = db.source.poll(start, {t: ["id", "b"]}, 10).changes[t]
    assert [len(b) for b in rows.column("b").to_pylist()] == [10_000_000, 9_000_000]


def test_a_log_whose_reading_broke_off_is_not_read_twice(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
    at = db.source.position()
    assert scanned(db, t, ["id"], at) == {}
    db.run("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    keep, kept = LogWindow._keep, list[Transaction]()

    def breaks(window: LogWindow, transaction: Transaction) -> None:
        keep(window, transaction)
        kept.append(transaction)
        if len(kept) == 1:
            raise OSError("the line went dead")

    monkeypatch.setattr(LogWindow, "_keep", breaks)
    with pytest.raises(SourceUnavailable):
        scanned(db, t, ["id"], at)
    assert scanned(db, t, ["id"], at) == {}


# ── what the log does not tell ───────────────────────────────────────────────────────────────────────────────────


def test_rows_that_a_foreign_key_deletes_are_not_in_the_log_so_such_tables_are_refused(db: Database) -> None:
    db.run("CREATE TABLE p (id int PRIMARY KEY)")
    child = "CREATE TABLE {} (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES p (id) {})"
    db.run(child.format("c", "ON DELETE CASCADE"), child.format("n", "ON UPDATE SET NULL"), child.format("r", ""))
    for refused in "c", "n":
        with pytest.raises(SourceRefused, match=r"log does not tell that[\s\S]*DROP FOREIGN KEY"):
            db.source.plan_install([TableName(SRC, refused)])
    assert db.source.install([TableName(SRC, "p"), TableName(SRC, "r")])
    later = db.captured("CREATE TABLE later (id int PRIMARY KEY, p int)", "later")
    db.source.expect(db.source.identities({later: ["id"]}))
    start = db.source.position()
    db.run("INSERT INTO p VALUES (1)", "INSERT INTO later VALUES (1, 1)")
    db.run("ALTER TABLE later ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE", "DELETE FROM p")
    for _ in range(2):
        with pytest.raises((SchemaChanged, CaptureMissing)):
            db.source.poll(start, {later: ["id"]}, 10)
    assert "log does not tell" in db.source.capture().broken[later]  # type: ignore[union-attr]  # it is installed


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE t",
        "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v varchar(20))",
        "RENAME TABLE t TO old, spare TO t",
        "ALTER TABLE t DROP COLUMN v, ADD COLUMN v varchar(20)",
        "ALTER TABLE t RENAME COLUMN v TO w, ADD COLUMN v varchar(20)",
        "ALTER TABLE t MODIFY v varchar(20) CHARACTER SET latin1",
        "SET SESSION binlog_format = 'STATEMENT'; INSERT INTO t VALUES (3, 'c'); SET SESSION binlog_format = 'ROW'",
        "SET SESSION binlog_row_image = 'MINIMAL'; DELETE FROM t; SET SESSION binlog_row_image = 'FULL'",
    ],
)
def test_what_takes_rows_away_in_silence_halts_in_the_very_poll(db: Database, statement: str) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))")
    other = db.captured("CREATE TABLE other (id int)", "other")
    db.run("CREATE TABLE spare (id int PRIMARY KEY, v varchar(20))", "INSERT INTO t VALUES (1, 'a')")
    expected = db.source.identities({t: ["id", "v"], other: ["id"]})
    db.source.expect(expected)
    start = db.source.position()
    db.run("INSERT INTO t VALUES (2, 'b')")
    middle = db.source.position()
    db.run(*statement.split("; "))
    db.run("REPLACE INTO t (id, v) VALUES (4, 'd')", "INSERT INTO other VALUES (1)")
    poll = db.source.poll(start, {t: ["id", "v"], other: ["id"]}, 100)
    assert told(poll, t) == [{(2, "b"): 1}]
    for source in db.source, db.adapter():
        source.expect(expected)
        with pytest.raises(SchemaChanged, match="apply"):
            source.poll(poll.end, {t: ["id", "v"], other: ["id"]}, 100)
        with pytest.raises(SchemaChanged):
            list(source.scan(Chunk(t, 0), ["id", "v"], middle))
        with pytest.raises(SchemaChanged):
            list(source.scan(Chunk(t, 0), ["v"], source.position()))
    if "STATEMENT" not in statement:  # which may fire triggers, whose changes are then not in the log, either
        alone = db.source.poll(poll.end, {other: ["id"]}, 100)
        assert [bag for bag in told(alone, other) if bag] == [{(1,): 1}], "nothing else waits"
    fresh = db.adapter()
    now = fresh.identities({t: ["id", "v"]})
    assert expected[t]["v"].became(now[t]["v"])
    fresh.expect(now)
    at = fresh.position()
    held = fold(fresh.scan(Chunk(t, 0), ["id", "v"], at))
    db.run("INSERT INTO t (id, v) VALUES (5, 'e')")
    assert told(fresh.poll(at, {t: ["id", "v"]}, 10), t) == [{(5, "e"): 1}]
    assert fold(fresh.scan(Chunk(t, 0), ["id", "v"], at)) == held


def test_statements_that_change_no_value_concern_nobody(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, v varchar(20), w int)")
    db.source.expect(db.source.identities({t: ["id", "v"]}))
    positions, states = [db.source.position()], [Counter[tuple[Any, ...]]()]
    for n, statement in enumerate([
        "ALTER TABLE t ADD COLUMN x int FIRST",
        "CREATE INDEX v ON t (v)",
        "ALTER TABLE t DROP COLUMN w, ALGORITHM = COPY",
        "ALTER TABLE t ENGINE = InnoDB",
        "ALTER TABLE t ALTER COLUMN v SET DEFAULT 'x', COMMENT 'TRUNCATE t'",
        "OPTIMIZE TABLE t",
        "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW SET @x = 1",
        "CREATE OR REPLACE VIEW seen AS SELECT * FROM t",
    ]):  # fmt: skip
        db.run(statement, f"INSERT INTO t (id, v) VALUES ({n}, 'v{n}')")
        positions.append(db.source.position())
        states.append(states[-1] + Counter({(n, f"v{n}"): 1}))
    for at, state in zip(positions, states, strict=True):
        assert scanned(db, t, ["id", "v"], at) == state
    assert told(db.source.poll(positions[0], {t: ["id", "v"]}, 100), t) == [{(n, f"v{n}"): 1} for n in range(8)]
    with pytest.raises(PositionTrimmed):
        list(db.adapter().scan(Chunk(t, 0), ["x"], positions[0]))


def test_the_index_that_plan_advises_can_be_made(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, `a``b` int)")
    advised = lookup_of(db.source.describe()[t], ("a`b",), ())
    assert not advised.index
    db.run(create_index(advised))
    assert lookup_of(db.source.describe()[t], ("a`b",), ()).index


def test_engines_without_snapshots_are_refused(db: Database) -> None:
    db.run("CREATE TABLE t (id int) ENGINE = MyISAM")
    with pytest.raises(SourceRefused, match="ENGINE = InnoDB"):
        db.source.plan_install([TableName(SRC, "t")])


# ── the log itself ───────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def another(request: pytest.FixtureRequest, path: Path, settings: Mapping[str, str]) -> Iterator[MariadbServer]:
    """A server that a test may set up, stop and break."""
    request.getfixturevalue(request.param)  # skips where there is none
    start = mysql_server if request.param == "mysql" else mariadb_server
    with start(path, settings) as server:
        yield server


@pytest.fixture(params=SERVERS)
def own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MariadbServer]:
    with another(request, tmp_path, {}) as server:
        yield server


def test_a_log_that_is_purged_reset_crashed_or_restored(own: MariadbServer) -> None:
    db = Database(own)
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
    first = db.source.position()
    db.run("INSERT INTO t VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (2)")
    second = db.source.position()
    assert len(told(db.source.poll(first, {t: ["id"]}, 10), t)) == 2, "across files"

    own.stop(crash=True)
    with pytest.raises(SourceUnavailable):
        db.source.position()
    own.start()
    db.main = db.connect()
    db.run("INSERT INTO t VALUES (3)")
    assert told(db.source.poll(second, {t: ["id"]}, 10), t) == [{(3,): 1}], "a crash is survived"
    assert scanned(db, t, ["id"], second) == {(1,): 1, (2,): 1}

    db.run("FLUSH BINARY LOGS", "INSERT INTO t VALUES (4)")
    (file, *_), *_ = db.run(db.words("SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"))
    third = db.source.position()
    db.source.poll(second, {t: ["id"]}, 10)
    db.run(f"PURGE BINARY LOGS TO '{file}'")
    for source in db.source, db.adapter():
        for ask in (
            lambda s=source: s.poll(first, {t: ["id"]}, 10),
            lambda s=source: s.check(first, [t]),
        ):
            with pytest.raises(PositionTrimmed, match="purged"):
                ask()
    assert scanned(db, t, ["id"], third) == {(n,): 1 for n in range(1, 5)}

    own.stop()
    own.keep_copy()
    own.start()
    db.main = db.connect()
    db.run("INSERT INTO t VALUES (5)")
    fourth = db.source.position()
    own.stop()
    own.restore_copy()
    time.sleep(1.1)  # heads of logs are told apart by the second
    own.start()
    db.main = db.connect()
    db.run("INSERT INTO t VALUES (55)")
    lost(db, t, fourth)
    assert told(db.source.poll(third, {t: ["id"]}, 10), t) == [{(55,): 1}], "what both pasts share still holds"

    fifth = db.source.position()
    time.sleep(1.1)
    db.run(db.words("RESET MASTER", "RESET BINARY LOGS AND GTIDS"))
    for n in range(20):
        db.run(f"INSERT INTO t VALUES ({100 + n})")
    lost(db, t, fifth)
    lost(db, t, third)
    assert "not the one it was" in db.source.capture().broken[t]  # type: ignore[union-attr]  # it is installed
    generation = db.source.capture().generation  # type: ignore[union-attr]  # as above
    assert "anew" in db.source.install([t])[0]
    assert db.source.capture().generation != generation  # type: ignore[union-attr]  # as above
    lost(db, t, fifth)
    now = db.source.position()
    db.run("DELETE FROM t WHERE id < 100")
    assert sum(scanned(db, t, ["id"], now).values()) == 25
    db.source.close()


def lost(db: Database, t: TableName, at: Position) -> None:
    for source in db.source, db.adapter():
        for ask in (
            lambda s=source: s.poll(at, {t: ["id"]}, 10),
            lambda s=source: list(s.scan(Chunk(t, 0), ["id"], at)),
            lambda s=source: s.check(at, [t]),
        ):
            with pytest.raises(LifeChanged):
                ask()


@pytest.fixture(params=SERVERS)
def careless(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MariadbServer]:
    """Its log lacks all that we need."""
    settings = {"binlog-format": "MIXED", "binlog-row-image": "MINIMAL", "binlog-row-metadata": "MINIMAL"}
    more = {"gtid-mode": "OFF", "enforce-gtid-consistency": "OFF", "binlog-row-value-options": "PARTIAL_JSON"}
    with another(request, tmp_path, settings | (more if request.param == "mysql" else {})) as server:
        yield server


def test_a_server_without_a_log_by_rows_is_refused_with_what_to_set(careless: MariadbServer) -> None:
    db = Database(careless)
    db.run("CREATE TABLE t (id int PRIMARY KEY)")
    t = TableName(SRC, "t")
    with pytest.raises(SourceRefused) as refused:
        db.source.plan_install([t])
    statements = [line.strip() for line in refused.value.fix.splitlines()[1:]]
    assert len(statements) == (8 if db.is_mysql else 3)
    db.run(*statements)
    assert db.source.install([t])
    start = db.adapter().position()
    db.run("INSERT INTO t VALUES (1)", by=db.connect())
    assert scanned(db, t, ["id"], start) == {}
    db.close()


# ── who may ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_wrong_passwords_places_and_urls(server: MariadbServer, db: Database) -> None:
    def said(url: str, kind: type[Exception]) -> str:
        with pytest.raises(kind) as caught:
            connect(SourceSpec(SRC, url)).describe()
        assert "verysecret" not in str(caught.value)
        return str(caught.value)

    assert "headwater" in said(server.url(db.name, password="verysecret"), SourceRefused)
    assert "create the database" in said(server.url("nowhere"), SourceRefused)
    assert "cannot be reached" in said("mysql://me:verysecret@127.0.0.1:1/x", SourceUnavailable)
    assert "percent-encoded" in said("mariadb://me:very/secret@127.0.0.1/x", ConfigError)
    assert "names no database" in said("mariadb://me:verysecret@127.0.0.1", ConfigError)
    assert connect(SourceSpec(SRC, server.url(db.name, scheme="mysql"))).describe() == {}


def test_all_that_a_user_lacks_is_said_at_once_as_statements(server: MariadbServer, db: Database) -> None:
    db.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE hidden (id int)")
    user = f"poor_{db.name}"
    db.run(f"CREATE USER {user}@'%' IDENTIFIED BY 'verysecret'", f"GRANT SELECT ON {db.name}.t TO {user}@'%'")
    source = MariadbSource(SourceSpec(SRC, server.url(db.name, user, "verysecret")))
    t = TableName(SRC, "t")
    assert set(source.describe()) == {t}
    with pytest.raises(SourceRefused) as refused:
        source.plan_install([t])
    statements = [line.strip() for line in refused.value.fix.splitlines()[1:]]
    assert statements
    db.run(*(s.removesuffix(";") for s in statements))
    source.close()
    assert source.plan_install([t])
    source.install([t])
    start = source.position()
    db.run("INSERT INTO t VALUES (1)")
    assert told(source.poll(start, {t: ["id"]}, 10), t) == [{(1,): 1}]
    assert fold(source.scan(Chunk(t, 0), ["id"], start)) == {}
    source.remove()
    db.run(f"DROP USER {user}@'%'")


def test_projects_share_a_source_and_do_not_disturb_each_other(db: Database) -> None:
    t, u = db.captured("CREATE TABLE t (id int)"), TableName(SRC, "u")
    db.run("CREATE TABLE u (id int)")
    other = db.adapter(owner="other", owner_label="/there")
    other.install([u])
    assert other.capture().tables == {u}  # type: ignore[union-attr]  # it is installed
    assert db.source.capture().others == ("/there",)  # type: ignore[union-attr]  # as above
    start = db.source.position()
    db.run("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    assert db.source.trim(db.source.position()) == 1
    assert told(other.poll(start, {u: ["id"]}, 10), u) == [{(1,): 1}]
    with pytest.raises(PositionTrimmed):
        db.source.poll(start, {t: ["id"]}, 10)
    assert db.source.remove()
    moved = db.adapter(owner="moved", owner_label="/there")
    assert moved.plan_install([u])
    moved.install([u])
    assert moved.capture().others == ()  # type: ignore[union-attr]  # as above
    assert told(moved.poll(start, {u: ["id"]}, 10), u) == [{(1,): 1}], "it takes the place of the old one"
    assert moved.remove()
    assert not db.run("SHOW TABLES LIKE '\\_headwater%'")


def test_an_idle_source_stays_where_it_is(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int)")
    db.run("BEGIN", "INSERT INTO t VALUES (1)", "INSERT INTO _headwater_parts VALUES (DEFAULT, 'g', 2)", "COMMIT")
    at = db.source.position()
    assert db.source.trim(at) == 1
    assert db.run("SELECT COUNT(*) FROM _headwater_parts") == ((0,),)
    idle = db.source.position()
    for _ in range(3):
        db.source.identities({t: ["id"]})
        poll = db.source.poll(at, {t: ["id"]}, 10)
        assert poll.transactions.num_rows == 0
        assert db.source.trim(poll.end) == 0
        at = poll.end
    assert db.source.position() == idle == at


# ── types ────────────────────────────────────────────────────────────────────────────────────────────────────────

HUGE = 10**37
TYPES: list[tuple[str, pa.DataType | None, list[str]]] = [
    ("tinyint", pa.int8(), ["-128", "127", "0"]),
    ("tinyint(1)", pa.int8(), ["1", "0", "7"]),
    ("tinyint unsigned", pa.int16(), ["255", "0"]),
    ("smallint", pa.int16(), ["-32768", "32767"]),
    ("smallint unsigned", pa.int32(), ["65535"]),
    ("mediumint", pa.int32(), ["-8388608", "8388607"]),
    ("mediumint unsigned", pa.int32(), ["16777215"]),
    ("int(7) unsigned zerofill", pa.int64(), ["4294967295", "42"]),
    ("bigint", pa.int64(), ["-9223372036854775808", "9223372036854775807"]),
    ("bigint unsigned", pa.decimal128(20, 0), ["18446744073709551615", "0", "9223372036854775808"]),
    ("decimal(10,2)", pa.decimal128(10, 2), ["-12345678.90", "0.05", "-0.05", "99999999.99"]),
    ("decimal(38,0)", pa.decimal128(38, 0), [str(HUGE), f"-{HUGE}"]),
    ("decimal(38,37)", pa.decimal128(38, 37), ["-1.0000000000000000000000000000000000001", "0"]),
    ("decimal(65,10)", pa.decimal128(38, 10), ["-1234567890123456789012345678.0123456789", "5"]),
    ("decimal(20,9)", pa.decimal128(20, 9), ["12345678901.123456789", "-0.000000001"]),
    ("decimal(4,4)", pa.decimal128(4, 4), ["0.1234", "-0.0001"]),
    ("float", pa.float32(), ["0.1", "-3.4e38", "1e-38", "16777217", "-0.0"]),
    ("double", pa.float64(), ["0.1", "-1.7976931348623157e308", "2.5e-308", "123456789.12345679", "-0.0"]),
    ("bit(1)", pa.bool_(), ["b'1'", "b'0'"]),
    ("bit(12)", pa.int64(), ["b'100000000001'", "0"]),
    ("bit(64)", pa.decimal128(20, 0), ["18446744073709551615", "1"]),
    ("date", pa.date32(), ["'2024-02-29'", "'0001-01-01'", "'9999-12-31'", "'1969-12-31'"]),
    ("datetime", pa.timestamp("us"), ["'2024-02-29 23:59:59'", "'0001-01-01 00:00:00'"]),
    ("datetime(3)", pa.timestamp("us"), ["'1969-12-31 23:59:59.999'", "'2024-01-01 00:00:00.120'"]),
    ("datetime(6)", pa.timestamp("us"), ["'9999-12-31 23:59:59.999999'", "'2024-01-01 00:00:00.000001'"]),
    ("timestamp NULL", pa.timestamp("us", "UTC"), ["'2024-02-29 23:59:59'", "'1970-01-01 00:00:01'"]),
    ("timestamp(6) NULL", pa.timestamp("us", "UTC"), ["'2038-01-19 03:14:07.999999'", "'2001-01-01 00:00:00.5'"]),
    ("time", pa.string(), ["'838:59:59'", "'-838:59:59'", "'00:00:00'", "'-00:00:01'"]),
    ("time(2)", pa.string(), ["'838:59:59.99'", "'-00:00:00.01'", "'-01:00:00.50'"]),
    ("time(4)", pa.string(), ["'12:00:00.0001'", "'-12:00:00.9999'"]),
    ("time(6)", pa.string(), ["'-838:59:59.000001'", "'100:00:00.5'"]),
    ("year", pa.int16(), ["1901", "2155", "0"]),
    ("char(5)", pa.string(), ["'ab  '", "''", "'ßü漢😀x'"]),
    ("varchar(20)", pa.string(), ["'ab  '", "''", "'it''s \\\\ \"x\"'", "'漢字😀'", "'a\\0b'"]),
    ("varchar(20) CHARACTER SET latin1", pa.string(), ["'é€ß'", "_latin1 X'8190'"]),
    ("varchar(20) CHARACTER SET cp1251", pa.string(), ["'Привет'"]),
    ("varchar(20) CHARACTER SET ucs2", pa.string(), ["'漢a'"]),
    ("varchar(20) CHARACTER SET utf16", pa.string(), ["'漢😀a'"]),
    ("char(5) CHARACTER SET utf32", pa.string(), ["'😀a'"]),
    ("varchar(300)", pa.string(), ["repeat('x', 300)"]),
    ("text", pa.string(), ["repeat('ß', 30000)", "''"]),
    ("mediumtext", pa.string(), ["'m'"]),
    ("json", pa.string(), ["'{\"a\": [1, null]}'"]),
    ("enum('a','B','it''s','','x,y')", pa.string(), ["'a'", "'b'", "'it''s'", "''", "'x,y'"]),
    ("set('a','b','c')", pa.string(), ["'a,c'", "''", "'a,b,c'"]),
    ("enum('ä','€') CHARACTER SET latin1", pa.string(), ["'ä'", "'€'"]),
    ("binary(4)", pa.binary(), ["X'00'", "X'01020000'", "'abcd'"]),
    ("varbinary(20)", pa.binary(), ["X'00FF00'", "''"]),
    ("blob", pa.binary(), ["X'80FE'", "repeat('x', 300)"]),
    ("uuid", None, []),
    ("inet6", None, []),
    ("point", None, []),
    ("varchar(20) CHARACTER SET gbk", None, []),
]


MARIADB_ONLY = {
    "uuid": None,
    "inet6": None,
    "decimal(38,37)": None,
    "time(2)": ["'838:59:58.99'", "'-00:00:00.01'", "'-01:00:00.50'"],
    "time(6)": ["'-838:59:58.000001'", "'100:00:00.5'"],
}
"""What MySQL does not have, and the values that it has instead."""


def test_every_type_reads_the_same_from_table_and_log(db: Database) -> None:
    db.run("SET time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES'")
    types = TYPES
    if db.is_mysql:
        mine = [(kind, arrow, MARIADB_ONLY.get(kind, values)) for kind, arrow, values in TYPES]
        types = [(kind, arrow, values) for kind, arrow, values in mine if values is not None]
    columns = ", ".join(f"c{n} {kind}" for n, (kind, _, _) in enumerate(types))
    t = db.captured(f"CREATE TABLE t (id int PRIMARY KEY, {columns}, v int AS (id + 1) VIRTUAL)")
    described = db.source.describe()[t]
    for n, (kind, arrow, _) in enumerate(types):
        assert described.column(f"c{n}").type == arrow, kind  # type: ignore[union-attr]  # it is there
    assert described.column("v").type is None  # type: ignore[union-attr]  # as above
    names = [f"c{n}" for n, (_, arrow, _) in enumerate(types) if arrow is not None]
    start, number = db.source.position(), 0
    for n, (_, _, values) in enumerate(types):
        for value in values:
            number += 1
            db.run(f"INSERT INTO t (id, c{n}) VALUES ({number}, {value})")
    filled = db.source.position()
    whole = scanned(db, t, ["id", *names], filled)
    assert len(whole) == number
    poll = db.source.poll(start, {t: ["id", *names]}, 10_000)
    assert sum((Counter(bag) for bag in told(poll, t)), Counter()) == whole
    assert poll.changes[t].schema.field("c9").type == pa.decimal128(20, 0)
    rows = {row[0]: row for row in whole}
    for n, (kind, arrow, values) in enumerate(types):
        if arrow is None:
            continue
        index = 1 + names.index(f"c{n}")
        distinct = list({row[index] for row in rows.values() if row[index] is not None})
        assert len(distinct) >= len(set(values)) - 1, kind
        keys = pa.table([pa.array(distinct, arrow)], names=["k"])
        asked = fold(db.source.ask(Question(t, (f"c{n}",), keys, ("id",)), filled))
        assert asked == {(row[0],): 1 for row in rows.values() if row[index] is not None}, kind
    db.run("DELETE FROM t")
    assert scanned(db, t, ["id", *names], filled) == whole, "from the log alone"
    assert scanned(db, t, ["id", *names], start) == {}


def test_values_that_no_type_holds_are_named(db: Database) -> None:
    db.run("SET sql_mode = ''")
    t = db.captured(
        "CREATE TABLE t (id int PRIMARY KEY, d date, a datetime, s timestamp NULL, x decimal(65,0), ok int)"
    )
    start = db.source.position()
    db.run("INSERT INTO t VALUES (1, '0000-00-00', '2024-00-05 10:00:00', '0000-00-00 00:00:00', 1e50, 7)")
    poll = db.source.poll(start, {t: ["id", "d", "a", "s", "x", "ok"]}, 10)
    (row,) = poll.changes[t].to_pylist()
    assert [row[c] for c in ("d", "a", "s", "x")] == [None] * 4
    for said in ('"id = 1"', "0000-00-00", "2024-00-05 10:00:00", "1" + "0" * 50):
        assert said in row[UNFIT]
    assert told(db.source.poll(start, {t: ["id", "ok"]}, 10), t) == [{(1, 7): 1}]
    at = db.source.position()
    assert scanned(db, t, ["id", "ok"], at) == {(1, 7): 1}
    for column in "d", "a", "s", "x":
        with pytest.raises(ValueUnfit, match="id = 1"):
            scanned(db, t, [column], at)
    db.run("DELETE FROM t")
    assert scanned(db, t, ["ok"], at) == {(7,): 1}
    with pytest.raises(ValueUnfit):
        scanned(db, t, ["d"], at)


def test_floats_have_all_their_digits(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, f float, d double)")
    start, chance = db.source.position(), Random(3)
    values = [
        (n, chance.uniform(-1, 1) * 10 ** chance.randint(-30, 30), chance.random() * 10.0 ** chance.randint(-300, 300))
        for n in range(300)
    ]
    with db.main.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, %s, %s)", values)
    at = db.source.position()
    whole = scanned(db, t, ["id", "f", "d"], at)
    assert {(n, d) for n, _, d in whole} == {(n, d) for n, _, d in values}
    assert (
        sum((Counter(bag) for bag in told(db.source.poll(start, {t: ["id", "f", "d"]}, 10_000), t)), Counter()) == whole
    )


def test_keys_are_found_through_the_index_however_texts_compare(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, s varchar(50), d decimal(10,2), KEY (s), KEY (d))")
    db.run(f"INSERT INTO t SELECT n, concat('Key', n), n FROM {upto(20000)}", "ANALYZE TABLE t")
    at = db.source.position()
    read = "SELECT ROWS_READ FROM information_schema.TABLE_STATISTICS WHERE TABLE_SCHEMA = DATABASE()"
    if db.is_mysql:
        read = "SELECT COUNT_FETCH FROM performance_schema.table_io_waits_summary_by_table"
        read += " WHERE OBJECT_SCHEMA = DATABASE() AND OBJECT_NAME = 't'"
    else:
        db.run("SET GLOBAL userstat = 1")
    before = sum(int(n) for (n,) in db.run(read))
    for key, values in (("s", ["Key5", "key6", "KEY7 "]), ("d", [Decimal("5.00")]), ("id", [5, 6])):
        keys = pa.table({key: pa.array(values)})
        found = fold(db.source.ask(Question(t, (key,), keys, ("id",)), at))
        assert found == ({(5,): 1, (6,): 1} if key == "id" else {(5,): 1}), "exactly equal ones only"
    assert 0 < sum(int(n) for (n,) in db.run(read)) - before < 100, "no table was read as a whole"
    if not db.is_mysql:
        db.run("SET GLOBAL userstat = 0")


# ── histories ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(3))
def test_random_histories_of_sessions_that_overlap(db: Database, seed: int) -> None:
    """Several sessions, each with a transaction open: whatever commits when, every position is one state."""
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, k int, s varchar(10), KEY (k))")
    h = db.captured("CREATE TABLE h (k int, s varchar(10))", "h")
    chance, sessions = Random(seed), [db.connect() for _ in range(3)]
    columns = {t: ["id", "k", "s"], h: ["k", "s"]}
    for session in sessions:
        db.run("SET innodb_lock_wait_timeout = 0", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", by=session)
        session.begin()

    def state() -> dict[TableName, Bag]:
        return {
            table: Counter(db.run(f"SELECT {', '.join(names)} FROM {table.table}")) for table, names in columns.items()
        }

    history = [(db.source.position(), state())]
    for step in range(60):
        session, number = chance.choice(sessions), chance.randint(1, 12)
        match chance.randint(0, 9):
            case 0 | 1 | 2:
                statement = f"INSERT IGNORE INTO t VALUES ({number}, {number % 3}, '{chance.choice('aAbB')}')"
            case 3:
                statement = f"UPDATE t SET k = k + 1, s = 'x{step}' WHERE id = {number}"
            case 4:
                statement = f"DELETE FROM t WHERE id = {number}"
            case 5:
                statement = f"INSERT INTO h VALUES ({number % 2}, '{chance.choice('aA')}'), (NULL, NULL)"
            case 6:
                statement = f"DELETE FROM h WHERE k = {number % 2} LIMIT 1"
            case 7:
                statement = "ROLLBACK"
            case _:
                statement = "COMMIT"
        try:
            db.run(statement, by=session)
        except pymysql.err.OperationalError:
            session.rollback()
        if statement in ("COMMIT", "ROLLBACK"):
            session.begin()
        if chance.random() < 0.05:
            db.run("FLUSH BINARY LOGS")
        history.append((db.source.position(), state()))
    last = history[-1][1]
    for at, held in history[::3]:
        for table, names in columns.items():
            assert scanned(db, table, names, at) == held[table]
            keys = pa.table({"k": pa.array([0, 1, 2, 3], pa.int32())})
            asked = fold(db.source.ask(Question(table, ("k",), keys, tuple(names)), at))
            place = names.index("k")
            assert asked == Counter({row: n for row, n in held[table].items() if row[place] in (0, 1, 2, 3)})
        poll = db.source.poll(at, columns, 100_000)
        for table in columns:
            total = Counter(held[table])
            for bag in told(poll, table):
                total.update(bag)
                assert min(total.values(), default=0) >= 0, "no state in between is impossible"
            assert Counter({row: n for row, n in total.items() if n}) == last[table]


def test_the_types_that_the_docs_list_are_those(db: Database) -> None:
    text = (Path(__file__).parents[2] / "docs" / "mariadb.md").read_text()
    listed = [line.split(" | ")[:2] for line in text.splitlines() if line.startswith("| `")]
    assert len(listed) > 25
    declared = [kind.strip("|` ") for kind, _ in listed]
    db.run(f"CREATE TABLE t ({', '.join(f'c{n} {kind} NULL' for n, kind in enumerate(declared))})")
    spark = {
        "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean",
        "date32[day]": "date",
        "timestamp[us]": "timestamp", "timestamp[us, tz=UTC]": "timestamp with time zone",
    }  # fmt: skip
    for column, (kind, shown) in zip(db.source.describe()[TableName(SRC, "t")].columns, listed, strict=True):
        found = str(column.type).replace("decimal128", "decimal").replace(", ", ",") if column.type else "None"
        assert spark.get(str(column.type), found) == shown, kind
