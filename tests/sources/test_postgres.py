"""What only PostgreSQL can get wrong: snapshots, commit order, DDL, types, privileges, lost connections.

The reference state at a position is read by PostgreSQL itself: a REPEATABLE READ transaction tells its own snapshot
(the position) and the table's rows in it. Whatever the adapter answers as of that position later must fold to those
rows.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from headwater.model.conditions import Condition, meets
from headwater.model.errors import (
    CaptureMissing,
    ConfigError,
    HeadwaterError,
    PositionTrimmed,
    SchemaChanged,
    SourceRefused,
    SourceUnavailable,
    UnknownName,
    ValueUnfit,
)
from headwater.model.names import Position, TableName
from headwater.model.source import COUNT, ORDINAL, UNFIT, Chunk, Poll, Question, SourceSpec
from headwater.sources.postgres.adapter import PostgresSource
from headwater.sources.postgres.snapshot import Snapshot
from headwater.sources.postgres.sql import answer_statement
from postgres_server import PASSWORD, PostgresServer

from .postgres_database import SRC, Database, asked, db, fold, scanned

__all__ = ["db"]

pytestmark = pytest.mark.postgres


def drain(db: Database, after: Position, tables: dict[TableName, Sequence[str]], limit: int) -> Iterator[Poll]:
    while True:
        poll = db.source.poll(after, tables, limit)
        yield poll
        after = poll.end
        if not poll.more:
            return


@contextmanager
def reference(db: Database, query: str) -> Iterator[tuple[Position, Counter[tuple[Any, ...]]]]:
    with psycopg.connect(db.url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("LOCK TABLE t IN ACCESS SHARE MODE")  # before the snapshot: TRUNCATE is not MVCC-safe
        row = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
        assert row is not None
        yield Position(row[0]), Counter(connection.execute(query).fetchall())


# ── order, and nothing lost or doubled ───────────────────────────────────────────────────────────────────────────


def test_commits_out_of_id_order_are_neither_lost_nor_doubled(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, v text)")
    old, young = db.connect(autocommit=False), db.connect(autocommit=False)
    start = db.source.position()
    old.execute("INSERT INTO t VALUES (1, 'old')")
    young.execute("INSERT INTO t VALUES (2, 'young')")
    young.commit()
    first = db.source.poll(start, {t: ["id", "v"]}, 100)
    assert fold(first.changes[t]) == {(2, "young"): 1}
    assert scanned(db, t, ["id"], first.end) == {(2,): 1}
    old.commit()
    second = db.source.poll(first.end, {t: ["id", "v"]}, 100)
    assert fold(second.changes[t]) == {(1, "old"): 1}
    assert scanned(db, t, ["id"], first.end) == {(2,): 1}, "as of the first end, the older transaction is not there yet"
    assert not db.source.poll(second.end, {t: ["id", "v"]}, 100).transactions


def test_order_follows_overwrites_not_transaction_ids(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, v int)")
    db.run("INSERT INTO t VALUES (1, 0), (2, 0)")
    start = db.source.position()
    old, young = db.connect(autocommit=False), db.connect(autocommit=False)
    old.execute("UPDATE t SET v = 1 WHERE id = 2")  # draws the smaller transaction id
    young.execute("UPDATE t SET v = v + 10 WHERE id = 1")
    young.commit()
    old.execute("UPDATE t SET v = v + 100 WHERE id = 1")
    old.commit()
    poll = db.source.poll(start, {t: ["id", "v"]}, 100)
    told = [fold(poll.changes[t].filter(pa.compute.equal(poll.changes[t][ORDINAL], i))) for i in range(2)]
    assert told == [{(1, 0): -1, (1, 10): 1}, {(1, 10): -1, (1, 110): 1, (2, 0): -1, (2, 1): 1}]


def test_a_cut_names_only_what_lies_below_it(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
    start = db.source.position()
    old = db.connect(autocommit=False)
    old.execute("INSERT INTO t VALUES (0)")
    for i in range(1, 51):
        db.run(f"INSERT INTO t VALUES ({i})")
    old.execute("INSERT INTO t VALUES (1000)")
    old.commit()  # small transaction id, last in order
    seen: list[int] = []
    for poll in drain(db, start, {t: ["id"]}, 10):
        seen += poll.changes[t].sort_by([(ORDINAL, "ascending"), ("id", "ascending")])["id"].to_pylist()
        assert poll.transactions.num_rows <= 10
        assert len(Snapshot.parse(poll.end).xip) == (1 if poll.more else 0), "the old transaction and no other"
        assert scanned(db, t, ["id"], poll.end) == Counter((i,) for i in seen)
    assert seen == [*range(1, 51), 0, 1000]


def test_one_transaction_over_several_tables_and_untouched_ones(db: Database) -> None:
    a = db.captured("CREATE TABLE a (x int)", "a")
    b = db.captured("CREATE TABLE b (x int)", "b")
    start = db.source.position()
    with db.main.transaction():
        db.run("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (2)", "INSERT INTO a VALUES (3)")
    db.run("INSERT INTO b VALUES (4)")
    both = db.source.poll(start, {a: ["x"], b: ["x"]}, 100)
    assert both.transactions.num_rows == 2
    assert both.changes[a][ORDINAL].to_pylist() == [0, 0]
    assert both.changes[b][ORDINAL].to_pylist() == [0, 1]
    only = db.source.poll(start, {a: ["x"]}, 100)
    assert only.transactions.num_rows == 1
    assert not db.source.poll(only.end, {a: ["x"]}, 100).transactions
    near = only.transactions["committed_at"][0].as_py()
    assert abs(near - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=1)
    assert db.source.waiting(start) == 4
    assert db.source.waiting(both.end) == 0


def test_a_transaction_larger_than_the_limit_comes_whole(db: Database) -> None:
    t = db.captured("CREATE TABLE t (x int)")
    start = db.source.position()
    db.run("INSERT INTO t SELECT generate_series(1, 1000)", "INSERT INTO t VALUES (0)")
    first, second = drain(db, start, {t: ["x"]}, 10)
    assert (first.changes[t].num_rows, first.more) == (1000, True)
    assert (second.changes[t].num_rows, second.more) == (1, False)


def test_savepoints_and_rollbacks(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
    start = db.source.position()
    with db.main.transaction():
        db.run("INSERT INTO t VALUES (1)", "SAVEPOINT s", "INSERT INTO t VALUES (2)", "ROLLBACK TO s")
        db.run("SAVEPOINT u", "INSERT INTO t VALUES (3)", "RELEASE u")
    db.run("BEGIN", "INSERT INTO t VALUES (4)", "ROLLBACK")
    poll = db.source.poll(start, {t: ["id"]}, 100)
    assert poll.transactions.num_rows == 1
    assert fold(poll.changes[t]) == {(1,): 1, (3,): 1}


def test_every_kind_of_statement(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, v int)")
    start = db.source.position()
    db.run(
        "INSERT INTO t SELECT i, i FROM generate_series(1, 5) AS i",
        "INSERT INTO t VALUES (5, 0), (6, 6) ON CONFLICT (id) DO UPDATE SET v = 50",
        "MERGE INTO t USING (VALUES (1, 10), (7, 7)) AS s (id, v) ON t.id = s.id"
        " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v)",
        "UPDATE t SET v = v WHERE id = 2",
        "WITH gone AS (DELETE FROM t WHERE id = 3 RETURNING *) UPDATE t SET v = 40 WHERE id = 4",
    )
    with db.main.cursor().copy("COPY t FROM STDIN") as copy:
        copy.write_row((8, 8))
    now = db.source.position()
    state = Counter(db.main.execute("SELECT id, v FROM t").fetchall())
    assert fold(db.source.poll(start, {t: ["id", "v"]}, 100).changes[t]) == state
    assert scanned(db, t, ["id", "v"], now) == state
    assert scanned(db, t, ["id", "v"], start) == {}


def test_truncate_takes_every_row_away(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int)")
    db.run("INSERT INTO t VALUES (1), (1), (2)")
    full = db.source.position()
    db.run("TRUNCATE t", "INSERT INTO t VALUES (9)")
    assert fold(db.source.poll(full, {t: ["id"]}, 100).changes[t]) == {(1,): -2, (2,): -1, (9,): 1}
    assert scanned(db, t, ["id"], full) == {(1,): 2, (2,): 1}
    assert asked(db, t, {"id": pa.array([1], pa.int32())}, ["id"], full)[COUNT].to_pylist().count(-1) == 0


@pytest.mark.parametrize("how", ["TRUNCATE t", "ALTER TABLE t ALTER COLUMN v TYPE bigint USING v * 1"])
def test_a_reader_that_waited_for_a_table_rewrite_still_answers_exactly(db: Database, how: str) -> None:
    """Both are not MVCC-safe: an older snapshot finds the rewritten table empty."""
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, v int)")
    db.run("INSERT INTO t SELECT i, i FROM generate_series(1, 100) AS i")
    at = db.source.position()
    db.source.describe()
    writer = db.connect(autocommit=False)
    writer.execute(how)
    answers: list[Counter[tuple[Any, ...]]] = []
    reader = threading.Thread(target=lambda: answers.append(scanned(db, t, ["id"], at)))
    reader.start()
    time.sleep(0.3)
    assert reader.is_alive()
    writer.commit()
    reader.join(10)
    assert answers == [Counter({(i,): 1 for i in range(1, 101)})]


def test_truncate_under_repeatable_read_is_owned_up_to(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int)")
    generation = db.source.capture().generation
    with psycopg.connect(db.url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1")
        db.run("INSERT INTO t VALUES (1)")  # invisible to that snapshot, gone with TRUNCATE all the same
        connection.execute("TRUNCATE t")
    assert "repeatable read" in db.source.capture().broken[t]
    assert "anew, because" in db.source.plan_install([t])[0]
    db.source.install([t])
    capture = db.source.capture()
    assert (capture.generation, capture.tables, capture.broken) == (generation, {t}, {})


# ── the as-of promise under fire ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", [1, 2])
def test_hammer(db: Database, seed: int) -> None:
    """Six writers; meanwhile reference states are taken. During and after: ask and scan as of each equal it, polls
    of any limit add up to it, and replaying transactions one by one never takes away a row that is not there."""
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, g int NOT NULL, v text)")
    db.run("CREATE INDEX ON t (g)", "INSERT INTO t SELECT i, i % 7, 'v' FROM generate_series(1, 60) AS i")
    stop = time.monotonic() + 4
    failures: list[BaseException] = []
    start = db.source.position()
    begun = scanned(db, t, ["id", "g", "v"], start)

    def write(number: int) -> None:
        dice = random.Random(f"{seed}/{number}")
        connection = db.connect()
        connection.execute("SET deadlock_timeout = '10ms'")
        while time.monotonic() < stop:
            try:
                with connection.transaction(force_rollback=dice.random() < 0.1):
                    for _ in range(dice.choice([1, 1, 2, 6])):
                        key, g = dice.randint(1, 80), dice.randint(0, 6)
                        match dice.randrange(6):
                            case 0 | 1:
                                connection.execute(
                                    "INSERT INTO t VALUES (%s, %s, 'n') ON CONFLICT DO NOTHING", [key, g]
                                )
                            case 2:
                                connection.execute("DELETE FROM t WHERE id = %s", [key])
                            case 3:
                                connection.execute("UPDATE t SET g = g + 1, v = %s WHERE g = %s", [str(key), g])
                            case _:
                                connection.execute("UPDATE t SET g = %s WHERE id = %s", [g, key])
                        if dice.random() < 0.3:
                            time.sleep(dice.random() / 100)
                    if dice.random() < 0.01:
                        connection.execute("TRUNCATE t")
            except psycopg.errors.DeadlockDetected:
                pass
            except BaseException as error:
                failures.append(error)
                return

    writers = [threading.Thread(target=write, args=(i,)) for i in range(6)]
    for writer in writers:
        writer.start()
    states: list[tuple[Position, Counter[tuple[Any, ...]]]] = []
    after, limits, polls = start, random.Random(seed), []
    while any(writer.is_alive() for writer in writers):
        with reference(db, "SELECT id, g, v FROM t") as state:
            states.append(state)
        poll = db.source.poll(after, {t: ["id", "g", "v"]}, limits.choice([1, 5, 40]))
        polls.append(poll)
        after = poll.end
        at, expected = states[limits.randrange(len(states))]
        assert scanned(db, t, ["id", "g", "v"], at) == expected
    assert not failures, failures
    polls += drain(db, after, {t: ["id", "g", "v"]}, 17)
    for at, expected in states[:: max(1, len(states) // 25)]:
        assert scanned(db, t, ["id", "g", "v"], at) == expected
        by_id = asked(db, t, {"id": pa.array(range(90), pa.int32())}, ["id", "g", "v"], at)
        assert fold(by_id) == expected
        by_group = asked(db, t, {"g": pa.array(range(3), pa.int32())}, ["id", "g", "v"], at)
        assert fold(by_group) == Counter({row: n for row, n in expected.items() if row[1] < 3})
    replayed, told = Counter(begun), set()
    for poll in polls:
        labels = poll.transactions["transaction"].to_pylist()
        assert not told & set(labels), "a transaction was told twice"
        told |= set(labels)
        rows: list[list[tuple[tuple[Any, ...], int]]] = [[] for _ in labels]
        for row in poll.changes[t].to_pylist():
            rows[row[ORDINAL]].append(((row["id"], row["g"], row["v"]), row[COUNT]))
        for transaction in rows:
            for row_, count in transaction:
                replayed[row_] += count
            assert all(count in (0, 1) for count in replayed.values()), "not a state of the table"
        now = Counter({row: n for row, n in replayed.items() if n})
        if poll in polls[:: max(1, len(polls) // 20)]:
            assert scanned(db, t, ["id", "g", "v"], poll.end) == now
    assert +replayed == Counter(db.main.execute("SELECT id, g, v FROM t").fetchall())
    assert len(told) > 100


@pytest.mark.parametrize(
    "definition",
    [
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "CREATE TABLE t (id text PRIMARY KEY, v text)",
        "CREATE TABLE t (id text, v text)",
        "CREATE TABLE t (id uuid, v text, PRIMARY KEY (id, v))",
        "CREATE TABLE t (id timestamptz PRIMARY KEY, v text)",
        "CREATE TABLE t (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);"
        "CREATE TABLE p1 PARTITION OF t FOR VALUES FROM (0) TO (700); CREATE TABLE p2 PARTITION OF t DEFAULT",
    ],
)
def test_chunks_cover_every_row_once(db: Database, definition: str) -> None:
    t = db.captured(definition)
    kind = db.source.describe()[t].column("id").declared
    value = {
        "integer": "(i * i)",
        "text": "'k' || i",
        "uuid": "md5(i::text)::uuid",
        "timestamp with time zone": "'2024-01-01Z'::timestamptz + i * interval '1 hour'",
    }[kind]
    db.run(
        f"INSERT INTO t SELECT {value}, 'v' || i FROM generate_series(-5, 1000) AS i ON CONFLICT DO NOTHING",
        "ANALYZE t",
    )
    at = db.source.position()
    expected = Counter(dict.fromkeys(db.main.execute("SELECT v FROM t"), 1))
    chunks = db.source.chunks(t, 100)
    assert len(chunks) > 5
    db.run("DELETE FROM t WHERE v LIKE '%1'", "UPDATE t SET v = 'w' || v WHERE v LIKE '%2'")
    parts = [fold(db.source.scan(chunk, ["v"], at)) for chunk in chunks]
    assert sum(parts, Counter()) == expected
    assert sum(len(part) for part in parts) == len(expected), "no row in two chunks"
    assert max(len(part) for part in parts) < 400


def test_chunks_of_skewed_keys_are_even(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id bigint PRIMARY KEY)")
    db.run(
        "INSERT INTO t SELECT CASE WHEN i < 9000 THEN i ELSE i * 10::bigint ^ 9 END FROM generate_series(1, 10000) AS i"
    )
    sizes = [sum(fold(db.source.scan(c, ["id"], db.source.position())).values()) for c in db.source.chunks(t, 1000)]
    assert sum(sizes) == 10_000
    assert max(sizes) < 2000


def test_index_is_used_for_few_and_for_many_keys(db: Database) -> None:
    t = db.captured("CREATE TABLE t (a int, b text, v text, PRIMARY KEY (a, b))")
    db.run("INSERT INTO t SELECT i, 'b' || i, 'v' FROM generate_series(1, 100000) AS i")
    at = db.source.position()
    with db.source._connections.borrow() as connection:
        table = db.source._known.table(connection, t)
    for n in (10, 20_000):
        keys = pa.table({"a": pa.array(range(n), pa.int32()), "b": [f"b{i}" for i in range(n)]})
        for key in (("a", "b"), ("b", "a"), ("a",)):
            question = Question(t, key, keys.select(key), ("a", "v"))
            statement = answer_statement(
                table, question, [table.columns["a"], table.columns["v"]], at, (0, n)
            ).at_once()
            with db.source._connections.borrow() as connection, connection.transaction():
                connection.execute("SET LOCAL enable_seqscan = off")  # as `ask` does
                rows = connection.execute(sql.SQL("EXPLAIN {}").format(statement)).fetchall()
            plan = "\n".join(row[0] for row in rows)
            assert "t_pkey" in plan, plan
            assert "Seq Scan" not in plan, plan
    assert asked(db, t, {"a": keys["a"], "b": keys["b"]}, ["a"], at).num_rows == 19_999


# ── types ────────────────────────────────────────────────────────────────────────────────────────────────────────

VALUES: dict[str, list[str]] = {
    "smallint": ["-32768", "32767", "NULL"],
    "integer": ["-2147483648", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "real": ["0.1", "'NaN'", "'-Infinity'", "3.4028235e38", "1e-45"],
    "double precision": ["0.1::float8 + 0.2::float8", "'NaN'", "'Infinity'", "'-0'", "5e-324"],
    "numeric(10,2)": ["99999999.99", "-0.01", "1.10"],
    "numeric(38,0)": ["99999999999999999999999999999999999999"],
    "numeric(5,-2)": ["1234500"],
    "numeric(2,4)": ["0.0012"],
    "numeric": ["1.000000000000000001", "12345678901234567890.5", "1.00"],
    "boolean": ["true", "false"],
    "text": ["''", "'NULL'", "E'a\\nb\\r\"c\\\\d,e(f)'", "' x '", "'ünï→𝄞'", "E'\\\\.'", "E'\\\\N'", "NULL"],
    "varchar(20)": ["''", "'abc '"],
    "char(5)": ["'ab'", "''"],
    "name": ["'n'"],
    "date": ["'0001-01-01'", "'9999-12-31'", "'2024-02-29'"],
    "time": ["'00:00:00'", "'23:59:59.999999'", "'12:00:00.5'"],
    "timestamp": ["'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'", "'1883-11-18 12:03:58'"],
    "timestamptz": ["'1883-11-18 12:03:58-07:36:02'", "'2024-07-01 00:00:00.000001+05:30'"],
    "bytea": ["''", "'\\x00ff0a2c22'", "NULL", "'\\x5c'"],
    "uuid": ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"],
    "json": ["'null'", '\'{"a" :  1, "a": "\\u0000"}\'', "'\"\\u00e9\"'", "NULL", "'[1.10]'"],
    "jsonb": ["'null'", '\'{"b": 1.10, "a": "é"}\'', "NULL"],
    "mood": ["'so so'", "'it''s \"great\"'"],
    "positive": ["1", "NULL"],
}


def test_all_types_base_rows_equal_change_rows(db: Database) -> None:
    db.run("""CREATE TYPE mood AS ENUM ('so so', 'it''s "great"')""", "CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(VALUES))
    t = db.captured(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    # a writer with every setting that changes how values read as text
    writer = db.connect()
    for setting in (
        "extra_float_digits = -10",
        "DateStyle = 'German'",
        "TimeZone = 'Asia/Kolkata'",
        "bytea_output = 'escape'",
        "IntervalStyle = 'iso_8601'",
    ):
        writer.execute(f"SET {setting}")
    start = db.source.position()
    longest = max(len(values) for values in VALUES.values())
    for i in range(longest):
        row = ", ".join(values[i] if i < len(values) else "NULL" for values in VALUES.values())
        writer.execute(f"INSERT INTO t VALUES ({i}, {row})")
    names = ["id", *(f"c{i}" for i in range(len(VALUES)))]
    schema = db.source.describe()[t]
    assert all(schema.column(name).type is not None for name in names)
    now = db.source.position()
    base = pa.Table.from_batches(db.source.scan(Chunk(t, 0), names, now)).sort_by("id")
    change = db.source.poll(start, {t: names}, 100).changes[t].drop_columns([ORDINAL]).sort_by("id")
    assert base.schema == change.schema

    def exact(table: pa.Table) -> list[str]:
        return [repr(row) for row in table.to_pylist()]  # repr: NaN equals NaN, -0.0 is not 0.0

    assert exact(base) == exact(change)
    writer.execute("DELETE FROM t")
    both = pa.Table.from_batches(db.source.scan(Chunk(t, 0), names, now)).sort_by("id")
    assert exact(both) == exact(base)
    rows = {kind: base[f"c{i}"].to_pylist()[: len(VALUES[kind])] for i, kind in enumerate(VALUES)}
    assert rows["bigint"] == [-(2**63), 2**63 - 1]
    assert rows["double precision"][0] == 0.30000000000000004
    assert rows["numeric"] == [Decimal("1.000000000000000001"), Decimal("12345678901234567890.5"), Decimal("1")]
    assert rows["numeric(5,-2)"] == [Decimal(1234500)]
    assert rows["boolean"] == [True, False]
    assert rows["text"] == ["", "NULL", 'a\nb\r"c\\d,e(f)', " x ", "ünï→𝄞", "\\.", "\\N", None]
    assert rows["char(5)"] == ["ab", ""]
    assert rows["date"] == [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29)]
    assert rows["time"] == ["00:00:00", "23:59:59.999999", "12:00:00.5"]
    assert rows["timestamp"][1] == dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
    assert rows["timestamptz"][1] == dt.datetime(2024, 6, 30, 18, 30, 0, 1, dt.UTC)
    assert rows["bytea"] == [b"", b'\x00\xff\n,"', None, b"\\"]
    assert rows["uuid"] == ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]
    assert rows["json"] == ["null", '{"a" :  1, "a": "\\u0000"}', '"\\u00e9"', None, "[1.10]"]
    assert rows["jsonb"] == ["null", '{"a": "é", "b": 1.10}', None]
    assert rows["mood"] == ["so so", 'it\'s "great"']
    # every value finds its row again
    for i, kind in enumerate(VALUES):
        keys = base[f"c{i}"].drop_null().unique()
        answer = asked(db, t, {f"c{i}": keys}, [f"c{i}"], now)
        assert fold(answer).total() == base[f"c{i}"].length() - base[f"c{i}"].null_count, kind


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("numeric", "1.0000000000000000001"),
        ("numeric", "'NaN'"),
        ("numeric", "1e25"),
        ("date", "'infinity'"),
        ("timestamp", "'-infinity'"),
        ("timestamptz", "'0044-03-15 BC'"),
    ],
)
def test_values_that_do_not_fit_are_named(db: Database, kind: str, value: str) -> None:
    t = db.captured(f'CREATE TABLE t (id int, "When" {kind})')
    start = db.source.position()
    db.run(f"INSERT INTO t VALUES (1, NULL), (2, {value})")
    with pytest.raises(ValueUnfit, match=r"pg\.public\.t\.When: the value .* of the row with \(2,"):
        scanned(db, t, ["When"], db.source.position())
    rows = db.source.poll(start, {t: ["When"]}, 100).changes[t]
    assert rows.column_names == ["When", COUNT, ORDINAL, UNFIT]
    assert rows["When"].to_pylist() == [None, None]
    first, second = rows[UNFIT].to_pylist()
    assert first is None
    assert json.loads(second)["key"].startswith("(2,")
    shown = db.main.execute('SELECT "When"::text FROM t WHERE id = 2').fetchone()
    assert json.loads(second)["values"] == {"When": shown[0]}
    assert UNFIT not in db.source.poll(start, {t: ["id"]}, 100).changes[t].column_names, "nobody asked for it"
    assert scanned(db, t, ["id"], start) == {}, "the connection is still good"


def test_unsupported_columns_are_described_and_left_alone(db: Database) -> None:
    t = db.captured(
        "CREATE TABLE t (id int, p point, i int[], r int4range, v int GENERATED ALWAYS AS (id * 2) VIRTUAL)"
    )
    schema = db.source.describe()[t]
    assert {c.name: (c.type, c.declared) for c in schema.columns if c.name != "id"} == {
        "p": (None, "point"),
        "i": (None, "integer[]"),
        "r": (None, "int4range"),
        "v": (None, "integer"),
    }
    start = db.source.position()
    db.run("INSERT INTO t VALUES (1, '(1,2)', '{1,NULL}', '[1,5)')")
    assert fold(db.source.poll(start, {t: ["id"]}, 10).changes[t]) == {(1,): 1}
    with pytest.raises(SchemaChanged, match="point"):
        scanned(db, t, ["p"], start)


def test_keys_are_compared_exactly(db: Database) -> None:
    try:
        db.run("CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    except psycopg.errors.FeatureNotSupported:  # a server built without ICU has deterministic collations only
        db.run('CREATE COLLATION anycase FROM "C"')
    db.run("CREATE TYPE mood AS ENUM ('up', 'down')")
    t = db.captured("CREATE TABLE t (s text COLLATE anycase, c char(4), u uuid, m mood, i smallint, o time)")
    for column in "scumio":
        db.run(f"CREATE INDEX ON t ({column})")
    u = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    at = db.source.position()
    db.run(f"INSERT INTO t VALUES ('Ab', 'x', '{u}', 'up', 7, '10:00')")
    for at_ in (db.source.position(), at):
        expect = 1 if at_ != at else 0
        cases: dict[str, list[Any]] = {
            "s": ["Ab", "AB", "ab", "A\x00b"],
            "c": ["x", "x ", "X"],
            "u": [u, u.upper(), "nonsense"],
            "m": ["up", "UP", "sideways"],
            "i": [7, 7 + 2**16, -(2**40)],
            "o": ["10:00:00", "10:00", "25:00:00", "10:00:00.0"],
        }
        for column, keys in cases.items():
            answer = asked(db, t, {column: pa.array(keys)}, [column], at_)
            assert fold(answer).total() == expect, column
            assert set(answer[ORDINAL].to_pylist()) <= {0}
    assert db.source.describe()[t].columns[0].type == pa.string()


def test_conditions_mean_what_they_mean_in_arrow(db: Database) -> None:
    t = db.captured(
        "CREATE TABLE t (id int PRIMARY KEY, s text, f float8, n numeric(8,2), d date, b bool, ts timestamptz)"
    )
    start = db.source.position()
    db.run(
        "INSERT INTO t VALUES (1, 'a', 1.5, 1.50, '2024-01-01', true, '2024-01-01Z'),"
        " (2, 'A', 'NaN', 2, NULL, false, NULL), (3, NULL, NULL, NULL, '2025-01-01', NULL, '2025-01-01Z'),"
        " (4, '', '-Infinity', -1, '2023-01-01', true, NULL)"
    )
    now = db.source.position()
    everything = pa.Table.from_batches(db.source.scan(Chunk(t, 0), ["id", "s", "f", "n", "d", "b", "ts"], now))
    conditions = [
        Condition("s", "=", "a"),
        Condition("s", "<>", "a"),
        Condition("s", "in", ("a", "", "x'y")),
        Condition("s", "in", ()),
        Condition("s", "is null"),
        Condition("s", "is not null"),
        Condition("b", "=", True),
        Condition("b", "<>", True),
        Condition("d", ">=", dt.date(2024, 1, 1)),
        Condition("ts", "<", dt.datetime(2025, 1, 1, tzinfo=dt.UTC)),
        *(Condition("n", op, Decimal("1.50")) for op in ("=", "<>", "<", "<=", ">", ">=")),
        *(Condition("id", op, 2) for op in ("=", "<>", "<", "<=", ">", ">=")),
        *(Condition("f", op, 1) for op in ("=", "<>", "<", "<=", ">", ">=")),
        Condition("id", "in", (1, 4, 9)),
    ]
    for condition in conditions:
        expected = sorted(meets(everything, [condition])["id"].to_pylist())
        found = pa.Table.from_batches(db.source.scan(Chunk(t, 0), ["id"], now, [condition]))
        assert sorted(found["id"].to_pylist()) == expected, condition
        before = pa.Table.from_batches(db.source.scan(Chunk(t, 0), ["id"], start, [condition]))
        assert Counter(before["id"].to_pylist()) == Counter(dict.fromkeys(expected, 2)), condition
        assert fold(before) == {}
        question = Question(t, ("id",), pa.table({"id": pa.array(range(6), pa.int32())}), ("id",), (condition,))
        assert sorted(pa.Table.from_batches(db.source.ask(question, now))["id"].to_pylist()) == expected, condition


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────

AWKWARD = ['Ta"b.le', "таблица 表", "MixedCase", "x" * 63, "select", "a'b", "{0} %s {}", "tab%le"]


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_names(db: Database, name: str) -> None:
    other = name[::-1]
    q, o = sql.Identifier(name), sql.Identifier(other)
    db.main.execute(sql.SQL("CREATE SCHEMA {}").format(o))
    db.main.execute(
        sql.SQL(
            "CREATE TABLE {}.{} ({} int PRIMARY KEY, {} text, n int, headwater_rows int, headwater_layout int)"
        ).format(o, q, q, sql.Identifier("k." + other[:50]))
    )
    t = TableName(SRC, name, other)
    db.source.install([t])
    assert db.source.capture().tables == {t}
    assert db.source.resolve(other, name) == t
    assert db.source.resolve("", name) == t
    start = db.source.position()
    db.main.execute(sql.SQL("INSERT INTO {}.{} VALUES (1, 'x', 2, 3, 4)").format(o, q))
    columns = [name, "k." + other[:50], "n", "headwater_rows"]
    assert fold(db.source.poll(start, {t: columns}, 10).changes[t]) == {(1, "x", 2, 3): 1}
    assert scanned(db, t, columns, start) == {}
    assert fold(asked(db, t, {name: pa.array([1], pa.int32())}, columns, db.source.position())) == {(1, "x", 2, 3): 1}
    assert len(db.source.chunks(t, 10)) == 1
    db.main.execute(sql.SQL("TRUNCATE {}.{}").format(o, q))
    assert scanned(db, t, [name], db.source.position()) == {}


def test_resolve(db: Database) -> None:
    db.run("CREATE SCHEMA a", "CREATE SCHEMA b", "CREATE TABLE public.t (x int)", "CREATE TABLE a.t (x int)")
    db.run('CREATE TABLE a."Once" (x int)', "CREATE TABLE a.twin (x int)", "CREATE TABLE b.twin (x int)")
    db.run('CREATE TABLE a."T" (x int)', 'CREATE TABLE b."CASE" (x int)', 'CREATE TABLE b."Case" (x int)')
    found = {
        ("", "t"): ("public", "t"),
        ("a", "t"): ("a", "t"),
        ("A", "t"): None,  # a.t or a."T"
        ("", "once"): ("a", "Once"),
        ("A", "ONCE"): ("a", "Once"),
        ("", "twin"): None,
        ("b", "Twin"): ("b", "twin"),
        ("b", "case"): None,
        ("b", "Case"): ("b", "Case"),
        ("", "nothing"): None,
        ("", "pg_class"): None,
    }
    for (schema, table), expected in found.items():
        assert db.source.resolve(schema, table) == (expected and TableName(SRC, expected[1], expected[0])), (
            schema,
            table,
        )


def test_describe(db: Database) -> None:
    db.run(
        "CREATE TABLE t (b text, a int NOT NULL, c int, PRIMARY KEY (b, a))",
        "CREATE INDEX ON t (c) WHERE c > 5",
        "CREATE INDEX ON t ((c + 1))",
        "CREATE INDEX ON t (c, a) INCLUDE (b)",
        "CREATE INDEX ON t USING gin (to_tsvector('simple', b))",
        "CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE part PARTITION OF parted DEFAULT",
        "CREATE VIEW v AS SELECT 1 AS one",
    )
    found = db.source.describe()
    assert {t.table for t in found} == {"t", "parted"}
    schema = found[TableName(SRC, "t", "public")]
    assert (schema.key, schema.indexes, schema.rows) == (("b", "a"), (("b", "a"), ("c", "a")), None)
    assert [(c.name, c.type, c.nullable) for c in schema.columns] == [
        ("b", pa.string(), False),
        ("a", pa.int32(), False),
        ("c", pa.int32(), True),
    ]
    db.source.install([TableName(SRC, "parted", "public")])
    start = db.source.position()
    db.run("INSERT INTO parted VALUES (1)", "INSERT INTO t VALUES ('b', 1, 1)", "ANALYZE t")
    parted = TableName(SRC, "parted", "public")
    assert fold(db.source.poll(start, {parted: ["id"]}, 10).changes[parted]) == {(1,): 1}
    assert {t.schema for t in db.source.describe()} == {"public"}
    assert db.source.describe()[TableName(SRC, "t", "public")].rows == 1


# ── DDL ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_ddl_breaks_neither_writers_nor_what_was_captured_before(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, gone text, v text, n int)")
    writer = db.connect()  # one session, so that its cached plans meet every change
    start = db.source.position()
    writer.execute("""INSERT INTO t VALUES (1, 'x,"(y)', 'a "quoted", one', 5)""")
    db.run("ALTER TABLE t ADD COLUMN extra int DEFAULT 7")
    writer.execute("INSERT INTO t VALUES (2, 'x', NULL, 6)")
    db.run("ALTER TABLE t DROP COLUMN gone")
    writer.execute("INSERT INTO t VALUES (3, '', 7)")
    db.run("ALTER TABLE t RENAME COLUMN v TO w")
    writer.execute("UPDATE t SET n = n + 1 WHERE id = 1")
    db.run("ALTER TABLE t ALTER COLUMN n TYPE bigint")
    writer.execute("INSERT INTO t VALUES (4, 'last', 5000000000)")
    db.run("ALTER TABLE t ADD COLUMN gone date")
    writer.execute("DELETE FROM t WHERE id = 2")
    state = Counter(db.main.execute("SELECT id, w, n FROM t").fetchall())
    assert state == {(1, 'a "quoted", one', 6): 1, (3, "", 7): 1, (4, "last", 5000000000): 1}
    poll = db.source.poll(start, {t: ["id", "w", "n"]}, 100)
    assert fold(poll.changes[t]) == state
    assert poll.transactions.num_rows == 6
    assert scanned(db, t, ["id", "w", "n"], start) == {}
    assert db.source.capture().tables == {t}


def test_columns_that_change_under_a_reader_are_said_so(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, v int)")
    db.run("INSERT INTO t VALUES (1, 1)")
    at = db.source.position()
    assert scanned(db, t, ["v"], at) == {(1,): 1}
    db.run("ALTER TABLE t RENAME COLUMN v TO w")
    with pytest.raises(SchemaChanged, match="v was dropped or renamed"):
        scanned(db, t, ["v"], at)
    with pytest.raises(SchemaChanged, match="no column 'v'"):
        scanned(db, t, ["v"], at)
    assert scanned(db, t, ["w"], at) == {(1,): 1}
    db.run("ALTER TABLE t ALTER COLUMN w TYPE text USING 'text ' || w")
    with pytest.raises(SchemaChanged, match="is text now, it was integer"):
        scanned(db, t, ["w"], at)
    db.run("DROP TABLE t")
    with pytest.raises(SchemaChanged):
        scanned(db, t, ["w"], at)
    assert "dropped" in db.source.capture().broken[t]
    db.run("CREATE TABLE t (id int PRIMARY KEY, w text)")
    with pytest.raises(HeadwaterError):
        scanned(db, t, ["w"], at)
    with pytest.raises(CaptureMissing):
        scanned(db, t, ["w"], at)
    assert t in db.source.capture().broken
    db.source.install([t])
    assert db.source.capture().tables == {t}
    with pytest.raises(PositionTrimmed):
        scanned(db, t, ["w"], at)


# ── capture: coming, going, breaking ─────────────────────────────────────────────────────────────────────────────


def test_capture_comes_and_goes_without_a_trace(db: Database) -> None:
    db.run("CREATE TABLE t (id int)", 'CREATE TABLE "Other" (id int)')
    before = db.objects()
    t, other = TableName(SRC, "t", "public"), TableName(SRC, "Other", "public")
    assert db.source.capture() is None
    assert db.source.remove() == []
    assert len(db.source.plan_install([t])) == 2
    assert db.objects() == before, "planning changes nothing"
    assert len(db.source.install([t])) == 2
    assert db.source.install([t]) == []
    first = db.source.capture()
    assert len(db.source.install([t, other])) == 1
    second = db.source.capture()
    assert first.generation == second.generation
    assert (first.tables, second.tables) == ({t}, {t, other})
    db.run("INSERT INTO t VALUES (1)")
    assert db.source.remove()[-1] == "dropped schema headwater"
    assert db.source.remove() == []
    assert db.objects() == before
    db.source.install([t])
    assert db.source.capture().generation != first.generation
    with pytest.raises(UnknownName, match=r"public\.tt"):
        db.source.plan_install([TableName(SRC, "tt", "public")])


def test_broken_capture_is_found(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int)")
    for harm, reason in {
        "ALTER TABLE t DISABLE TRIGGER headwater_update": "headwater_update is disabled",
        "DROP TRIGGER headwater_insert ON t": "headwater_insert is gone",
        "DROP TRIGGER headwater_truncate ON t": "headwater_truncate is gone",
        "ALTER TABLE t DISABLE TRIGGER ALL": "is disabled",
        "DROP TABLE t; CREATE TABLE t (id int)": "dropped",
    }.items():
        before = db.source.position()
        db.run(harm)
        capture = db.source.capture()
        assert capture.tables == frozenset()
        assert reason in capture.broken[t]
        db.source.install([t])
        assert (db.source.capture().tables, db.source.capture().broken) == ({t}, {})
        with pytest.raises(PositionTrimmed, match="began after"):
            db.source.poll(before, {t: ["id"]}, 10)
    db.run("ALTER TABLE t RENAME TO u")
    u = TableName(SRC, "u", "public")
    assert db.source.capture().tables == {u}
    assert "is called pg.public.u now" in db.source.capture().broken[t]


def test_a_table_added_later_is_answerable_only_since_then(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int)")
    early = db.source.position()
    u = db.captured("CREATE TABLE u (id int)", "u")
    assert scanned(db, t, ["id"], early) == {}
    with pytest.raises(PositionTrimmed, match=r"capture of u began after position"):
        scanned(db, u, ["id"], early)
    assert scanned(db, u, ["id"], db.source.position()) == {}


def test_install_waits_for_writers_and_misses_none(db: Database) -> None:
    db.run("CREATE TABLE t (id int)")
    t = TableName(SRC, "t", "public")
    writer = db.connect(autocommit=False)
    writer.execute("INSERT INTO t VALUES (1)")
    installer = threading.Thread(target=lambda: PostgresSource(db.source._spec).install([t]))
    installer.start()
    time.sleep(0.5)
    early = db.source.position()
    writer.commit()
    installer.join(20)
    with pytest.raises(PositionTrimmed):
        scanned(db, t, ["id"], early)
    at = db.source.position()
    db.run("INSERT INTO t VALUES (2)")
    assert scanned(db, t, ["id"], at) == {(1,): 1}


def test_install_gives_up_on_a_table_in_use(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.sources.postgres.patience.LOCK_TIMEOUT", "50ms")
    db.run("CREATE TABLE t (id int)")
    writer = db.connect(autocommit=False)
    writer.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(SourceUnavailable, match=r"pg\.public\.t is in use") as caught:
        db.source.install([TableName(SRC, "t", "public")])
    assert caught.value.retry_helps
    writer.rollback()
    db.source.install([TableName(SRC, "t", "public")])


def test_writers_need_no_rights_on_capture(db: Database) -> None:
    db.run("DROP ROLE IF EXISTS clerk", "CREATE ROLE clerk")
    t = db.captured("CREATE TABLE t (id int)")
    db.run("GRANT ALL ON t TO clerk")
    start = db.source.position()
    db.run("SET ROLE clerk", "SET search_path = pg_temp", "INSERT INTO public.t VALUES (1), (2)")
    db.run("UPDATE public.t SET id = id + 1", "TRUNCATE public.t", "INSERT INTO public.t VALUES (5)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.run("SELECT * FROM headwater.tables")
    db.run("RESET ROLE")
    assert fold(db.source.poll(start, {t: ["id"]}, 100).changes[t]) == {(5,): 1}
    db.run("DROP OWNED BY clerk", "DROP ROLE clerk")


def test_missing_privileges_name_the_grant(db: Database) -> None:
    db.run('DROP ROLE IF EXISTS "re\'ader"', "CREATE ROLE \"re'ader\" LOGIN PASSWORD 'p'", "CREATE TABLE t (id int)")
    db.run("CREATE SCHEMA s", "CREATE TABLE s.t (id int)")
    t, hidden = TableName(SRC, "t", "public"), TableName(SRC, "t", "s")
    before = db.objects()
    source = PostgresSource(SourceSpec(SRC, db.server.url(db.name, "re'ader", "p")))
    assert set(source.describe()) == {t, hidden}, "what may not be read is there all the same"
    assert source.resolve("s", "t") == hidden
    grants = [
        f'GRANT CREATE ON DATABASE "{db.name}" TO "re\'ader";',
        'GRANT SELECT, TRIGGER ON TABLE "public"."t" TO "re\'ader";',
        'GRANT USAGE ON SCHEMA "s" TO "re\'ader";',
        'GRANT SELECT, TRIGGER ON TABLE "s"."t" TO "re\'ader";',
    ]
    with pytest.raises(SourceRefused) as caught:
        source.install([t, hidden])
    assert [line.strip() for line in caught.value.fix.splitlines()] == ["run", *grants]
    for grant in grants[:-1]:
        db.run(grant)
    with pytest.raises(SourceRefused) as caught:
        source.install([t, hidden])
    assert caught.value.fix == f"run {grants[-1]}"
    assert source.capture() is None, "all or nothing"
    db.run(grants[-1])
    source.install([t, hidden])
    db.run("INSERT INTO t VALUES (1)")
    assert fold(source.scan(Chunk(t, 0), ["id"], source.position())) == {(1,): 1}
    db.run("ALTER TABLE s.t ENABLE ROW LEVEL SECURITY", "DROP TRIGGER headwater_insert ON s.t")
    with pytest.raises(SourceRefused, match="row level security"):
        source.install([hidden])
    db.run("ALTER TABLE s.t DISABLE ROW LEVEL SECURITY")
    source.remove()
    source.close()
    db.run('DROP OWNED BY "re\'ader"', 'DROP ROLE "re\'ader"')
    assert {o for o in db.objects() if "headwater" in o} == set()
    assert {o.split("{")[0] for o in before} == {o.split("{")[0] for o in db.objects()}, "but for what we granted"


def test_inheritance_is_refused(db: Database) -> None:
    db.run("CREATE TABLE parent (id int)", "CREATE TABLE child () INHERITS (parent)")
    for table in ("parent", "child"):
        with pytest.raises(SourceRefused, match="inheritance"):
            db.source.plan_install([TableName(SRC, table, "public")])


def test_someone_elses_schema_headwater_is_left_alone(db: Database) -> None:
    db.run("CREATE SCHEMA headwater", "CREATE TABLE headwater.mine (id int)", "CREATE TABLE t (id int)")
    before = db.objects()
    with pytest.raises(SourceRefused, match="not Headwater's"):
        db.source.install([TableName(SRC, "t", "public")])
    assert db.source.capture() is None
    assert db.source.remove() == []
    assert db.objects() == before


def test_trim(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int)")
    positions = [db.source.position()]
    for i in range(4):
        db.run(f"INSERT INTO t VALUES ({i})")
        positions.append(db.source.position())
    assert db.source.trim(positions[2]) == 2
    assert db.source.trim(positions[1]) == 0, "never back"
    assert scanned(db, t, ["id"], positions[2]) == {(0,): 1, (1,): 1}
    assert db.source.poll(positions[2], {t: ["id"]}, 10).transactions.num_rows == 2
    for attempt in (
        lambda: scanned(db, t, ["id"], positions[1]),
        lambda: asked(db, t, {"id": pa.array([77], pa.int32())}, ["id"], positions[1]),
        lambda: asked(db, t, {"id": pa.array([], pa.int32())}, ["id"], positions[1]),
        lambda: db.source.poll(positions[1], {t: ["id"]}, 10),
    ):
        with pytest.raises(PositionTrimmed) as caught:
            attempt()
        assert caught.value.retry_helps
    assert db.source.trim(positions[4]) == 2
    idle = db.source.position()
    assert db.source.trim(idle) == 0
    assert db.source.position() == idle, "nothing to forget, nothing written"
    assert db.source.waiting(positions[4]) == 0
    with pytest.raises(HeadwaterError, match="not a position"):
        db.source.trim(Position("17"))


def test_trim_keeps_what_a_position_does_not_show(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int)")
    old = db.connect(autocommit=False)
    old.execute("INSERT INTO t VALUES (1)")
    db.run("INSERT INTO t VALUES (2)")
    at = db.source.position()
    old.commit()
    assert db.source.trim(at) == 1
    assert fold(db.source.poll(at, {t: ["id"]}, 10).changes[t]) == {(1,): 1}
    assert scanned(db, t, ["id"], at) == {(2,): 1}


def test_without_capture_everything_says_so(db: Database) -> None:
    db.run("CREATE TABLE t (id int)", "CREATE TABLE u (id int)")
    t, u = (TableName(SRC, name, "public") for name in "tu")
    at = db.source.position()
    for attempt in (
        lambda: scanned(db, t, ["id"], at),
        lambda: db.source.poll(at, {t: ["id"]}, 10),
        lambda: db.source.trim(at),
        lambda: db.source.waiting(at),
    ):
        with pytest.raises(CaptureMissing):
            attempt()
    db.source.install([t])
    with pytest.raises(CaptureMissing):
        scanned(db, u, ["id"], db.source.position())


# ── streams and connections ──────────────────────────────────────────────────────────────────────────────────────


def test_streams_may_be_nested_and_abandoned(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, v text)")
    db.run("INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 200000) AS i")
    at = db.source.position()
    outer = db.source.scan(Chunk(t, 0), ["id", "v"], at)
    next(outer)
    assert asked(db, t, {"id": pa.array([5], pa.int32())}, ["id"], at).num_rows == 1
    outer.close()
    assert sum(batch.num_rows for batch in db.source.scan(Chunk(t, 0), ["id", "v"], at)) == 200_000
    idle = db.main.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND application_name = 'headwater'"
    )
    assert idle.fetchone() == (0,)


def test_wrong_password_role_database_and_host(db: Database, postgres: PostgresServer) -> None:
    def failure(url: str) -> HeadwaterError:
        with pytest.raises(HeadwaterError) as caught:
            PostgresSource(SourceSpec(SRC, url)).position()
        error = caught.value
        assert error.fix
        assert PASSWORD not in str(error)
        assert "hunter2" not in repr(error)
        assert error.__cause__ is None
        return error

    assert isinstance(failure(postgres.url(db.name, password="hunter2")), SourceRefused)
    assert isinstance(failure(postgres.url(db.name, user="nobody-here")), SourceRefused)
    missing = failure(postgres.url("no such database"))
    assert isinstance(missing, SourceRefused)
    assert "no such database" in str(missing)
    closed = failure("postgresql://u:hunter2@127.0.0.1:1/shop")
    assert isinstance(closed, SourceUnavailable)
    assert "127.0.0.1:1/shop" in str(closed)
    assert closed.retry_helps
    assert isinstance(failure("postgresql://u:hunter2@no-such-host.invalid/shop"), SourceUnavailable)
    with pytest.raises(ConfigError) as caught:
        PostgresSource(SourceSpec(SRC, "postgresql://u:hunter2@[/x?y"))
    assert "hunter2" not in str(caught.value)
    assert PASSWORD not in repr(db.source) + repr(db.source._spec)


def test_a_lost_connection_comes_back(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
    db.run("INSERT INTO t SELECT generate_series(1, 300000)")
    at = db.source.position()
    stream = db.source.scan(Chunk(t, 0), ["id"], at)
    next(stream)
    db.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headwater'")
    with pytest.raises(SourceUnavailable) as caught:
        list(stream)
    assert caught.value.retry_helps
    assert sum(batch.num_rows for batch in db.source.scan(Chunk(t, 0), ["id"], at)) == 300_000


def test_server_restart(db: Database, postgres: PostgresServer) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
    db.run("INSERT INTO t VALUES (1)")
    at = db.source.position()
    postgres.stop()
    try:
        for _ in range(2):
            with pytest.raises(SourceUnavailable):
                db.source.position()
    finally:
        postgres.start()
    db.main = db.connect()
    db.run("INSERT INTO t VALUES (2)")
    assert fold(db.source.poll(at, {t: ["id"]}, 10).changes[t]) == {(2,): 1}
    assert scanned(db, t, ["id"], at) == {(1,): 1}
