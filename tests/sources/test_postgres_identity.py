"""What a name stands for: columns that became others, captures that were interrupted, partitions that came and went.

All of it is looked at in the snapshot that reads: what happened before the very next poll is said by it.
"""

from __future__ import annotations

import json
import threading
import time

import psycopg
import pyarrow as pa
import pytest

from headwater.model.errors import CaptureMissing, SchemaChanged, SourceRefused, ValueUnfit
from headwater.model.names import Position, TableName
from headwater.model.source import UNFIT, Chunk, Question, SourceSpec
from headwater.sources.postgres.adapter import PostgresSource

from .postgres_database import SRC, Database, asked, db, fold, scanned

__all__ = ["db"]

pytestmark = pytest.mark.postgres


def expecting(db: Database, definition: str, columns: list[str]) -> tuple[TableName, Position]:
    t = db.captured(definition)
    db.source.expect(db.source.identities({t: columns}))
    return t, db.source.position()


def check_refused(db: Database, t: TableName, column: str, start: Position, words: str) -> None:
    """By the poll, the question and the scan; by an adapter that knew the table, and by one that did not."""
    other = PostgresSource(SourceSpec(SRC, db.url))
    other.expect(db.source._known.expected)
    keys = pa.table({"id": pa.array([1], pa.int32())})
    for source in (db.source, other):
        for attempt in (
            lambda s: s.poll(start, {t: ["id", column]}, 10),
            lambda s: list(s.scan(Chunk(t, 0), [column], start)),
            lambda s: list(s.ask(Question(t, ("id",), keys, (column,)), start)),
        ):
            with pytest.raises(SchemaChanged, match=rf"pg\.public\.t\.{column} .*{words}"):
                attempt(source)
        assert source.poll(start, {t: ["id"]}, 100).transactions.num_rows >= 0, "other columns are read as before"
    other.close()


# ── columns ──────────────────────────────────────────────────────────────────────────────────────────────────────

BECAME = {
    "rewritten in place": ("v text", "ALTER TABLE t ALTER COLUMN v TYPE text USING upper(v)", "rewritten"),
    "twice as much": ("v int", "ALTER TABLE t ALTER COLUMN v TYPE int USING v * 2", "rewritten"),
    "less exact": ("v timestamp", "ALTER TABLE t ALTER COLUMN v TYPE timestamp(0)", "rewritten"),
    "dropped and added": ("v int", "ALTER TABLE t DROP COLUMN v; ALTER TABLE t ADD COLUMN v int DEFAULT 7", "another"),
    "names swapped": (
        "v int, w int",
        "ALTER TABLE t RENAME v TO x; ALTER TABLE t RENAME w TO v; ALTER TABLE t RENAME x TO w",
        "another",
    ),
    "labels renamed": ("v mood", "ALTER TYPE mood RENAME VALUE 'up' TO 'high'", "enumeration"),
    "labels of a domain renamed": ("v temper", "ALTER TYPE mood RENAME VALUE 'up' TO 'high'", "enumeration"),
    "another domain": ("v positive", "ALTER TABLE t ALTER COLUMN v TYPE bigint", "rewritten"),
    "an expression": (
        "w int DEFAULT 1, v int GENERATED ALWAYS AS (w * 2) STORED",
        "ALTER TABLE t ALTER COLUMN v SET EXPRESSION AS (w * 3)",
        "rewritten",
    ),
}


@pytest.mark.parametrize("case", BECAME)
@pytest.mark.parametrize("while_polling", [True, False])
def test_a_column_that_became_another_is_said(db: Database, case: str, while_polling: bool) -> None:
    columns, harm, words = BECAME[case]
    db.run("CREATE TYPE mood AS ENUM ('up', 'down')", "CREATE DOMAIN temper AS mood", "CREATE DOMAIN positive AS int")
    t, start = expecting(db, f"CREATE TABLE t (id int PRIMARY KEY, {columns})", ["id", "v"])
    db.run("INSERT INTO t (id) VALUES (1)")
    if while_polling:
        assert db.source.poll(start, {t: ["id", "v"]}, 10).transactions.num_rows == 1
        assert len(scanned(db, t, ["id", "v"], start)) == 0
    db.run(harm, "INSERT INTO t (id) VALUES (2)")
    check_refused(db, t, "v", start, words)
    db.source.expect(db.source.identities({t: ["id", "v"]}))
    now = db.source.position()
    db.run("INSERT INTO t (id) VALUES (3)")
    assert db.source.poll(now, {t: ["id", "v"]}, 10).transactions.num_rows == 1, "loaded anew, it goes on"
    assert scanned(db, t, ["id"], now) == {(1,): 1, (2,): 1}


def test_a_renamed_table_is_no_longer_there(db: Database) -> None:
    t, start = expecting(db, "CREATE TABLE t (id int)", ["id"])
    db.run("ALTER TABLE t RENAME TO u", "INSERT INTO u VALUES (1)")
    for attempt in (
        lambda: db.source.poll(start, {t: ["id"]}, 10),
        lambda: scanned(db, t, ["id"], start),
        lambda: db.source.identities({t: ["id"]}),
    ):
        with pytest.raises(SchemaChanged):
            attempt()
    with pytest.raises(CaptureMissing):
        db.source.check(start, [t])


HARMLESS = [
    "VACUUM FULL t",
    "ALTER TABLE t ALTER COLUMN v SET NOT NULL",
    "ALTER TABLE t ALTER COLUMN v SET DEFAULT 'x'",
    "ALTER TABLE t ADD COLUMN more int DEFAULT 5",
    "ALTER TABLE t ADD COLUMN rewriting float DEFAULT random()",
    "CREATE INDEX ON t (v)",
    "CLUSTER t USING t_pkey",
    "ANALYZE t; VACUUM FREEZE t; VACUUM FREEZE pg_trigger; VACUUM FULL pg_trigger; VACUUM FULL pg_attribute",
    "ALTER TYPE mood ADD VALUE 'new'",
    "ALTER TABLE t DROP COLUMN n",
    "ALTER TABLE t ENABLE TRIGGER ALL",
    "COMMENT ON COLUMN t.v IS 'said'; GRANT SELECT ON t TO PUBLIC",
]


def test_what_leaves_the_values_alone_disturbs_nobody(db: Database) -> None:
    db.run("CREATE TYPE mood AS ENUM ('up', 'down')")
    columns = ["id", "v", "m"]
    t, start = expecting(db, "CREATE TABLE t (id int PRIMARY KEY, v text, n int, m mood)", columns)
    db.run("INSERT INTO t VALUES (1, 'a', 1, 'up')")
    after, told = start, 0
    for n, statement in enumerate(HARMLESS, 2):
        identities = db.source.identities({t: columns})
        for one in statement.split("; "):
            db.run(one)
        assert not any(identities[t][c].became(db.source.identities({t: columns})[t][c]) for c in columns), statement
        db.source.expect(identities)
        db.run(f"INSERT INTO t (id, v, m) VALUES ({n}, 'b', 'down')")
        poll = db.source.poll(after, {t: columns}, 100)
        told += poll.transactions.num_rows
        after = poll.end
        assert scanned(db, t, columns, start) == {}
        assert len(scanned(db, t, columns, after)) == n
        assert fold(asked(db, t, {"id": pa.array([n], pa.int32())}, columns, after)) == {(n, "b", "down"): 1}
    assert told == len(HARMLESS) + 1
    assert db.source.capture().broken == {}


def test_a_table_altered_while_it_is_polled(db: Database) -> None:
    """The poll waits for the ALTER, and finds another table than the one it knew."""
    t, start = expecting(db, "CREATE TABLE t (id int PRIMARY KEY, v int)", ["id", "v"])
    db.run("INSERT INTO t VALUES (1, 1)")
    assert db.source.poll(start, {t: ["id", "v"]}, 10).transactions.num_rows == 1
    altering = db.connect(autocommit=False)
    altering.execute("ALTER TABLE t ALTER COLUMN v TYPE int USING v * 2")
    said: list[BaseException] = []

    def poll() -> None:
        try:
            db.source.poll(start, {t: ["id", "v"]}, 10)
        except BaseException as error:
            said.append(error)

    poller = threading.Thread(target=poll)
    poller.start()
    time.sleep(0.3)
    altering.commit()
    poller.join(10)
    assert [type(error) for error in said] == [SchemaChanged]


def test_identities_of_what_is_not_there(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int)")
    db.run("CREATE TABLE u (id int)")
    with pytest.raises(SchemaChanged, match="no column 'x'"):
        db.source.identities({t: ["x"]})
    with pytest.raises(CaptureMissing, match="not captured"):
        db.source.identities({TableName(SRC, "u", "public"): ["id"]})
    with pytest.raises(SchemaChanged, match="does not exist"):
        db.source.identities({TableName(SRC, "nowhere", "public"): ["id"]})
    before = db.source.identities({t: ["id"]})
    db.run("DROP TRIGGER headwater_insert ON t")
    db.source.install([t])
    assert before[t]["id"].place != db.source.identities({t: ["id"]})[t]["id"].place, "another life of its capture"


# ── a capture that was interrupted ───────────────────────────────────────────────────────────────────────────────

INTERRUPTED = {
    "ALTER TABLE t DISABLE TRIGGER headwater_insert": "headwater_insert is disabled",
    "ALTER TABLE t DISABLE TRIGGER ALL": "is disabled",
    "ALTER TABLE t DISABLE TRIGGER headwater_insert; INSERT INTO t VALUES (2, 2);"
    " ALTER TABLE t ENABLE TRIGGER headwater_insert": "disabled for a while",
    "DROP TRIGGER headwater_update ON t": "headwater_update is gone",
    "ALTER TABLE t SET UNLOGGED": "not logged",
    "CREATE TABLE child () INHERITS (t)": "inherit",
    "CREATE TABLE over (id int, v int) PARTITION BY LIST (id); ALTER TABLE over ATTACH PARTITION t DEFAULT": "part of",
    "BEGIN ISOLATION LEVEL REPEATABLE READ; TRUNCATE t; COMMIT": "repeatable read",
}


@pytest.mark.parametrize("harm", INTERRUPTED)
def test_an_interrupted_capture_is_said_by_the_next_poll(db: Database, harm: str) -> None:
    t, start = expecting(db, "CREATE TABLE t (id int NOT NULL, v int)", ["id", "v"])
    u = db.captured("CREATE TABLE u (id int)", "u")
    at = db.source.position()
    db.run("INSERT INTO t VALUES (1, 1)")
    assert db.source.poll(start, {t: ["id"]}, 10).transactions.num_rows == 1
    db.run(harm)
    for attempt in (
        lambda: db.source.poll(start, {t: ["id"]}, 10),
        lambda: scanned(db, t, ["id"], start),
        lambda: db.source.check(start, [t]),
        lambda: db.source.identities({t: ["id"]}),
    ):
        with pytest.raises(CaptureMissing, match=INTERRUPTED[harm]) as caught:
            attempt()
        assert "headwater setup" in caught.value.fix
    assert INTERRUPTED[harm] in db.source.capture().broken[t]
    db.source.check(at, [u])
    assert db.source.poll(at, {u: ["id"]}, 10).transactions.num_rows == 0, "the others go on"


def test_row_level_security_switched_on_later_is_said(db: Database) -> None:
    db.run("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN PASSWORD 'p'", "CREATE TABLE t (id int)")
    db.run(f'GRANT CREATE ON DATABASE "{db.name}" TO reader', "GRANT SELECT, TRIGGER ON t TO reader")
    source = PostgresSource(SourceSpec(SRC, db.server.url(db.name, "reader", "p")))
    t = TableName(SRC, "t", "public")
    source.install([t])
    at = source.position()
    db.run("INSERT INTO t VALUES (1)", "ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    with pytest.raises(CaptureMissing, match="row level security"):
        list(source.scan(Chunk(t, 0), ["id"], at))
    db.run("ALTER TABLE t DISABLE ROW LEVEL SECURITY")
    assert fold(source.poll(at, {t: ["id"]}, 10).changes[t]) == {(1,): 1}
    source.remove()
    source.close()
    db.run("DROP OWNED BY reader", "DROP ROLE reader")


def test_renamed_and_truncated_takes_away_its_own_rows(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int)")
    db.run("INSERT INTO t VALUES (1)")
    at = db.source.position()
    db.run("ALTER TABLE t RENAME TO u", "CREATE TABLE t (id int)", "INSERT INTO t VALUES (9)", "TRUNCATE u")
    u = TableName(SRC, "u", "public")
    assert fold(db.source.poll(at, {u: ["id"]}, 10).changes[u]) == {(1,): -1}
    db.run("DROP TABLE t", "INSERT INTO u VALUES (2)", "TRUNCATE u")
    assert scanned(db, u, ["id"], db.source.position()) == {}
    assert t not in db.source.capture().tables


def test_an_old_snapshot_writes_the_table_as_it_is(db: Database) -> None:
    """A REPEATABLE READ transaction sees an old catalog, and writes rows of the new shape."""
    t = db.captured("CREATE TABLE t (id int, gone int, v text)")
    start = db.source.position()
    old = db.connect()
    old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
    db.run("ALTER TABLE t DROP COLUMN gone", "ALTER TABLE t ADD COLUMN w text")
    old.execute("INSERT INTO t VALUES (1, 'v', 'w'); COMMIT")
    assert fold(db.source.poll(start, {t: ["id", "v", "w"]}, 10).changes[t]) == {(1, "v", "w"): 1}


# ── partitions ───────────────────────────────────────────────────────────────────────────────────────────────────

PARTED = (
    "CREATE TABLE t (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);"
    "CREATE TABLE p1 PARTITION OF t FOR VALUES FROM (0) TO (10);"
    "CREATE TABLE p2 (v text, dropped int, id int NOT NULL); ALTER TABLE p2 DROP COLUMN dropped;"
    "ALTER TABLE t ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20)"
)


def test_partitions_are_seen_however_they_are_written(db: Database) -> None:
    t, start = expecting(db, PARTED, ["id", "v"])
    db.run("INSERT INTO t VALUES (1, 'a'), (11, 'b')", "INSERT INTO p2 (id, v) VALUES (12, 'straight')")
    db.run("UPDATE t SET id = 13 WHERE id = 1", "UPDATE p2 SET v = 'B' WHERE id = 11", "DELETE FROM p2 WHERE id = 12")
    state = {(13, "a"): 1, (11, "B"): 1}
    assert fold(db.source.poll(start, {t: ["id", "v"]}, 100).changes[t]) == state
    at = db.source.position()
    assert scanned(db, t, ["id", "v"], start) == {}
    db.run("CREATE TABLE p3 PARTITION OF t FOR VALUES FROM (20) TO (30)", "INSERT INTO p3 VALUES (21, 'new')")
    poll = db.source.poll(at, {t: ["id", "v"]}, 100)
    assert fold(poll.changes[t]) == {(21, "new"): 1}
    assert "headwater_truncate on 1 new partitions" in db.source.plan_install([t])[0]
    db.source.install([t])
    assert db.source.plan_install([t]) == []
    db.run("TRUNCATE p3", "INSERT INTO p3 VALUES (22, 'again')")
    assert fold(db.source.poll(poll.end, {t: ["id", "v"]}, 100).changes[t]) == {(21, "new"): -1, (22, "again"): 1}
    db.run("TRUNCATE t")
    assert fold(db.source.poll(start, {t: ["id", "v"]}, 100).changes[t]) == {}
    assert scanned(db, t, ["id", "v"], db.source.position()) == {}
    assert scanned(db, t, ["id", "v"], at) == state
    db.run("VACUUM FULL p1", "ALTER TABLE t ALTER COLUMN v SET DEFAULT 'x'")
    assert db.source.capture().broken == {}


GAPS = {
    "ALTER TABLE t DETACH PARTITION p1": "dropped or detached",
    "DROP TABLE p1": "dropped or detached",
    "ALTER TABLE t DETACH PARTITION p1; INSERT INTO p1 VALUES (5, 'x');"
    " ALTER TABLE t ATTACH PARTITION p1 FOR VALUES FROM (0) TO (10)": "p1 (was detached|is not captured|was attached)",
    "CREATE TABLE p3 (id int NOT NULL, v text); INSERT INTO p3 VALUES (21, 'x');"
    " ALTER TABLE t ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30)": "p3 was attached",
    "BEGIN; CREATE TABLE p3 (id int NOT NULL, v text); INSERT INTO p3 VALUES (21, 'x');"
    " ALTER TABLE t ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30); COMMIT": "p3 was attached",
    "CREATE TABLE p3 PARTITION OF t FOR VALUES FROM (20) TO (30); INSERT INTO t VALUES (21, 'x'); TRUNCATE p3":
        "p3 was truncated",
    "CREATE TABLE p3 PARTITION OF t FOR VALUES FROM (20) TO (30); INSERT INTO t VALUES (21, 'x'); DROP TABLE p3":
        "dropped or detached",
    "ALTER TABLE p1 DISABLE TRIGGER ALL; INSERT INTO p1 VALUES (6, 'x'); ALTER TABLE p1 ENABLE TRIGGER ALL":
        "p1 was detached, or its triggers were disabled",
    "ALTER TABLE p1 DISABLE TRIGGER headwater_truncate; TRUNCATE p1; ALTER TABLE p1 ENABLE TRIGGER headwater_truncate":
        "p1 was detached, or its triggers were disabled",
    "CREATE TABLE p3 PARTITION OF t FOR VALUES FROM (20) TO (30); ALTER TABLE p3 DISABLE TRIGGER ALL;"
    " INSERT INTO p3 VALUES (21, 'x'); ALTER TABLE p3 ENABLE TRIGGER ALL": "p3 was written while",
    "CREATE UNLOGGED TABLE p3 PARTITION OF t FOR VALUES FROM (20) TO (30)": "p3 is not logged",
    "BEGIN ISOLATION LEVEL REPEATABLE READ; TRUNCATE p1; COMMIT": "repeatable read",
}  # fmt: skip


@pytest.mark.parametrize("harm", GAPS)
def test_what_partitions_hide_is_said_by_the_next_poll(db: Database, harm: str) -> None:
    t, start = expecting(db, PARTED, ["id", "v"])
    db.run("INSERT INTO t VALUES (1, 'a'), (11, 'b')")
    first = db.source.poll(start, {t: ["id", "v"]}, 10)
    db.run(*harm.split("; "))
    for attempt in (
        lambda: db.source.poll(first.end, {t: ["id", "v"]}, 10),
        lambda: scanned(db, t, ["id", "v"], first.end),
        lambda: db.source.check(first.end, [t]),
    ):
        with pytest.raises(CaptureMissing, match=GAPS[harm]):
            attempt()
    assert db.source.capture().tables == frozenset()
    if "UNLOGGED" in harm:
        with pytest.raises(SourceRefused) as caught:
            db.source.install([t])
        db.run(caught.value.fix.removeprefix("run "))
    db.source.install([t])
    assert db.source.capture().tables == {t}
    at = db.source.position()
    if "UNLOGGED" not in harm:  # that one was never written, and nothing had to be captured anew
        with pytest.raises(SchemaChanged, match="recreated"):
            scanned(db, t, ["id", "v"], at)
    db.source.expect(db.source.identities({t: ["id", "v"]}))
    assert set(scanned(db, t, ["id", "v"], at)) == set(db.main.execute("SELECT id, v FROM t").fetchall())


def test_an_old_snapshot_meets_a_new_partition(db: Database) -> None:
    """It cannot see the partition's catalog: the row is not lost in silence, and the writer is not disturbed."""
    t, start = expecting(db, PARTED, ["id", "v"])
    old = db.connect()
    old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
    db.run("CREATE TABLE p3 PARTITION OF t FOR VALUES FROM (20) TO (30)")
    old.execute("INSERT INTO t VALUES (21, 'x'); COMMIT")
    with pytest.raises(CaptureMissing, match="began before it was altered"):
        db.source.poll(start, {t: ["id", "v"]}, 10)


def test_who_owns_a_table_may_still_create_its_partitions(db: Database) -> None:
    db.run("DROP ROLE IF EXISTS boss", "CREATE ROLE boss", "GRANT ALL ON SCHEMA public TO boss", "SET ROLE boss")
    db.run(PARTED, "RESET ROLE")
    t = TableName(SRC, "t", "public")
    db.source.install([t])
    start, function = db.source.position(), capture_function(db)
    db.run("SET ROLE boss", "CREATE TABLE p3 PARTITION OF t FOR VALUES FROM (20) TO (30)")
    db.run("INSERT INTO p3 VALUES (21, 'x')", "CREATE TABLE mine (id int, v text)")
    db.run(f"CREATE TRIGGER abuse AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION {function}()")
    db.run("INSERT INTO mine VALUES (1, 'nothing of ours')", "RESET ROLE")
    assert fold(db.source.poll(start, {t: ["id", "v"]}, 10).changes[t]) == {(21, "x"): 1}
    db.run("DROP TRIGGER abuse ON mine")
    db.source.remove()
    db.run("DROP OWNED BY boss CASCADE", "DROP ROLE boss")


def capture_function(db: Database) -> str:
    row = db.main.execute("SELECT 'headwater.headwater_capture_' || oid FROM headwater.tables").fetchone()
    assert row is not None
    return str(row[0])


# ── only what is asked, values that do not fit ───────────────────────────────────────────────────────────────────

ODD = {
    "date": ["'infinity'", "'0044-03-15 BC'", "'20000-01-01'"],
    "timestamp": ["'-infinity'", "'20000-01-01'"],
    "timestamptz": ["'0044-03-15 BC'", "'infinity'"],
    "numeric": ["'NaN'", "1e30", "1.0000000000000000001", "'Infinity'"],
    "numeric(50,10)": ["12345678901234567890123456789012345", "-1e32"],
}


@pytest.mark.parametrize("kind", ODD)
def test_one_odd_value_concerns_its_column_only(db: Database, kind: str) -> None:
    t = db.captured(f"CREATE TABLE t (id int, k text, odd {kind}, fine int, PRIMARY KEY (id, k))")
    start = db.source.position()
    for n, value in enumerate(ODD[kind]):
        db.run(f"INSERT INTO t VALUES ({n}, 'k', {value}, {n})")
    db.run("INSERT INTO t VALUES (99, 'k', NULL, 99)", "DELETE FROM t WHERE id = 0")
    rows = db.source.poll(start, {t: ["fine", "odd"]}, 100).changes[t].to_pylist()
    marks = [(row["fine"], row["odd"], json.loads(row[UNFIT]) if row[UNFIT] else None) for row in rows]
    shown = dict(db.main.execute("SELECT id, odd::text FROM t").fetchall())
    for fine, odd, mark in marks:
        assert odd is None
        if fine == 99:
            assert mark is None
        elif fine in shown:
            assert mark == {"key": f"id = {fine}, k = k", "values": {"odd": shown[fine]}}
        else:
            assert mark["key"] == "id = 0, k = k"
    assert fold(db.source.poll(start, {t: ["fine"]}, 100).changes[t])[(99,)] == 1
    now = db.source.position()
    assert len(scanned(db, t, ["fine"], start)) == 0
    with pytest.raises(ValueUnfit, match=r"pg\.public\.t\.odd: the value .* of the row with id = \d+, k = k"):
        scanned(db, t, ["odd"], now)
    with pytest.raises(ValueUnfit, match=r"id = 1, k = k"):
        asked(db, t, {"id": pa.array([1], pa.int32())}, ["odd"], now)


def test_columns_that_nobody_asks_for_may_hold_anything(db: Database) -> None:
    db.run("CREATE TYPE mood AS ENUM ('up', 'down')", "CREATE TABLE other (id int)")
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, r regclass, m mood, d int, x int)")
    start = db.source.position()
    db.run("INSERT INTO t VALUES (1, 'other', 'up', 5, -5)", "DROP TABLE other")
    db.run("ALTER TYPE mood RENAME VALUE 'up' TO 'high'", "ALTER TABLE t ALTER COLUMN d TYPE text USING 'five'")
    db.run("CREATE DOMAIN positive AS int CHECK (VALUE > 0)", "UPDATE t SET x = 5", "DELETE FROM t")
    db.run("ALTER TABLE t ALTER COLUMN x TYPE positive")
    assert fold(db.source.poll(start, {t: ["id"]}, 10).changes[t]) == {}
    assert db.source.poll(start, {t: ["id", "x"]}, 10).changes[t]["x"].to_pylist() == [-5, -5, 5, 5]
    assert scanned(db, t, ["id"], start) == {}
    assert fold(asked(db, t, {"id": pa.array([1], pa.int32())}, ["id"], start)) == {}


def test_unlogged_tables_are_refused(db: Database) -> None:
    db.run("CREATE UNLOGGED TABLE t (id int)")
    t = TableName(SRC, "t", "public")
    with pytest.raises(SourceRefused, match="UNLOGGED") as caught:
        db.source.plan_install([t])
    assert caught.value.fix == 'run ALTER TABLE "public"."t" SET LOGGED;'
    db.run(caught.value.fix.removeprefix("run "))
    db.source.install([t])


def test_all_of_a_source_is_captured_or_nothing(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.sources.postgres.patience.LOCK_TIMEOUT", "50ms")
    db.run("CREATE TABLE a (id int)", "CREATE TABLE b (id int)")
    before = db.objects()
    busy = db.connect(autocommit=False)
    busy.execute("INSERT INTO b VALUES (1)")
    with pytest.raises(Exception, match=r"pg\.public\.b is in use"):
        db.source.install([TableName(SRC, name, "public") for name in "ab"])
    busy.rollback()
    assert db.objects() == before
    with pytest.raises(psycopg.errors.UndefinedTable):
        db.run("SELECT * FROM headwater.tables")
