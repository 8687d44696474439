"""What only SQLite does: REPLACE without a word, values of any type anywhere, transactions nobody announces."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.model.conditions import Condition
from headwater.model.errors import (
    ConfigError,
    PositionTrimmed,
    SchemaChanged,
    SourceRefused,
    SourceUnavailable,
    ValueUnfit,
)
from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import COUNT, ORDINAL, Question, SourceSpec
from headwater.sources.sqlite.adapter import SqliteSource
from headwater.sources.sqlite.files import SqliteFile
from headwater.sources.sqlite.life import parse
from headwater.sources.sqlite.types import TIMESTAMP, codec, spellings

from .rigs import SqliteRig, quote
from .world import Bag, added, fold

SRC = SourceName("src")


@pytest.fixture(params=["wal", "delete"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> SqliteRig:
    return SqliteRig(tmp_path / "app.db", request.param)


@pytest.fixture
def wal(tmp_path: Path) -> SqliteRig:
    return SqliteRig(tmp_path / "app.db", "wal")


def numbers(last: int) -> str:
    return f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {last})"


def table(name: str = "t") -> TableName:
    return TableName(SRC, name)


def now(rig: SqliteRig, name: TableName, columns: list[str]) -> Bag:
    rows = rig.run(f"SELECT {', '.join(map(quote, columns))} FROM {quote(name.table)}")[0]
    return Counter(rows)


def as_of(source: Any, name: TableName, columns: list[str], at: Position, target_rows: int = 3) -> Bag:
    return added(*(fold(source.scan(c, columns, at), columns) for c in source.chunks(name, target_rows)))


def captured(rig: SqliteRig, *ddl: str, name: str = "t") -> Any:
    rig.run(*ddl)
    source = rig.source()
    source.install([table(name)])
    return source


# ── rows that are replaced ───────────────────────────────────────────────────────────────────────────────────────

TABLES = {
    "integer key": "CREATE TABLE t (id INTEGER PRIMARY KEY, u INTEGER UNIQUE, s TEXT)",
    "no integer key": "CREATE TABLE t (id INTEGER, u INTEGER UNIQUE, s TEXT, PRIMARY KEY (id))",
    "text key": "CREATE TABLE t (id TEXT PRIMARY KEY, u INTEGER UNIQUE, s TEXT)",
    "nocase key": "CREATE TABLE t (id TEXT PRIMARY KEY COLLATE NOCASE, u INTEGER UNIQUE, s TEXT)",
    "composite": "CREATE TABLE t (id INTEGER, u INTEGER, s TEXT, PRIMARY KEY (id, u), UNIQUE (u, s))",
    "without rowid": "CREATE TABLE t (id INTEGER PRIMARY KEY, u INTEGER UNIQUE, s TEXT) WITHOUT ROWID",
    "without rowid nocase": "CREATE TABLE t (id TEXT COLLATE NOCASE PRIMARY KEY, u INTEGER UNIQUE, s TEXT)"
    " WITHOUT ROWID",
    "no key": "CREATE TABLE t (id INTEGER, u INTEGER, s TEXT)",
    "shadowed rowid": "CREATE TABLE t (id INTEGER, u INTEGER UNIQUE, s TEXT, rowid TEXT, oid TEXT)",
    "partial index": "CREATE TABLE t (id INTEGER PRIMARY KEY, u INTEGER, s TEXT);"
    "CREATE UNIQUE INDEX p ON t (u) WHERE s = 'a'",
    "generated": "CREATE TABLE t (id INTEGER PRIMARY KEY, u INTEGER, s TEXT, g INTEGER AS (u % 3) STORED UNIQUE)",
    "two uniques": "CREATE TABLE t (id INTEGER PRIMARY KEY, u INTEGER UNIQUE, s TEXT UNIQUE)",
    "on conflict replace": "CREATE TABLE t (id INTEGER PRIMARY KEY, u INTEGER UNIQUE ON CONFLICT REPLACE, s TEXT)",
}
IDS = st.one_of(st.integers(0, 4), st.none())
STATEMENT = st.tuples(
    st.sampled_from(
        [
            "INSERT OR REPLACE INTO t (id, u, s) VALUES (?1, ?2, ?3)",
            "REPLACE INTO t (id, u, s) VALUES (?1, ?2, ?3), (?2, ?1, ?3)",
            "INSERT OR IGNORE INTO t (id, u, s) VALUES (?1, ?2, ?3)",
            "INSERT OR FAIL INTO t (id, u, s) VALUES (?1, ?2, ?3)",
            "INSERT OR ROLLBACK INTO t (id, u, s) VALUES (?1, ?2, ?3)",
            "INSERT INTO t (id, u, s) VALUES (?1, ?2, ?3)",
            "INSERT INTO t (id, u, s) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET s = s || ?3, u = ?1",
            "INSERT INTO t (id, u, s) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            "UPDATE OR REPLACE t SET u = ?1 WHERE id = ?2",
            "UPDATE OR REPLACE t SET u = ?1, s = ?3",
            "UPDATE OR REPLACE t SET id = ?1 WHERE u = ?2",
            "UPDATE OR IGNORE t SET id = ?1, u = ?2 WHERE s = ?3",
            "UPDATE OR REPLACE t SET id = id + 1",
            "UPDATE t SET s = ?3 WHERE id = ?1",
            "UPDATE t SET s = upper(s), id = upper(id) WHERE typeof(id) = 'text' AND id = ?1",
            "DELETE FROM t WHERE id = ?1 OR u = ?2",
            "INSERT OR REPLACE INTO t (id, u, s) SELECT id, u + 1, s FROM t",
            "DELETE FROM t WHERE s = ?3",
        ]
    ),
    IDS,
    IDS,
    st.sampled_from(["a", "A", "b", None]),
)


def run_all(path: str, statements: list[tuple[str, tuple[Any, ...]]], recursive: bool) -> None:
    """In the application's process; a statement that fails is what it is."""
    import sqlite3
    from contextlib import closing, suppress

    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA recursive_triggers = {int(recursive)}")
        connection.execute("PRAGMA synchronous = OFF")
        for sql, values in statements:
            with suppress(sqlite3.Error):
                connection.execute(sql, values)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("recursive", [False, True], ids=["plain", "recursive"])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(before=st.lists(STATEMENT, max_size=8), after=st.lists(STATEMENT, min_size=1, max_size=12))
def test_replaced_rows_are_captured_exactly(
    tmp_path_factory: pytest.TempPathFactory, kind: str, recursive: bool, before: Any, after: Any
) -> None:
    from .rigs import application

    rig = SqliteRig(tmp_path_factory.mktemp("replace") / "app.db", "delete")
    rig.run(*TABLES[kind].split(";"))
    application().submit(run_all, str(rig.path), [(s, v) for s, *v in before], recursive).result()
    columns = ["id", "u", "s", *(["g"] if kind == "generated" else [])]
    first = now(rig, table(), columns)
    source: Any = rig.source()
    source.install([table()])
    positions, states = [source.position()], [first]
    half = len(after) // 2
    for part in (after[:half], after[half:]):
        application().submit(run_all, str(rig.path), [(s, v) for s, *v in part], recursive).result()
        positions.append(source.position())
        states.append(now(rig, table(), columns))
    told = fold(source.poll(positions[0], {table(): columns}, 10**6).changes.values(), columns)
    assert added(states[0], told) == states[-1]
    for at, state in zip(positions, states, strict=True):
        assert as_of(source, table(), columns, at) == state
    source.close()


def test_cascades_are_captured(rig: SqliteRig) -> None:
    rig.run(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY)",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, p INTEGER REFERENCES parent ON DELETE CASCADE ON UPDATE SET NULL)",
        "INSERT INTO parent VALUES (1), (2), (3)",
        "INSERT INTO t VALUES (10, 1), (11, 1), (20, 2), (30, 3)",
    )
    source: Any = rig.source()
    source.install([table(), table("parent")])
    at, before = source.position(), now(rig, table(), ["id", "p"])
    rig.run(
        "PRAGMA foreign_keys = ON",
        "DELETE FROM parent WHERE id = 1",
        "UPDATE parent SET id = 7 WHERE id = 2",
        "REPLACE INTO parent VALUES (3)",
    )
    assert as_of(source, table(), ["id", "p"], at) == before
    told = fold(source.poll(at, {table(): ["id", "p"]}, 100).changes.values(), ["id", "p"])
    assert added(before, told) == now(rig, table(), ["id", "p"])


def test_an_insert_that_is_ignored_says_nothing(rig: SqliteRig) -> None:
    source = captured(rig, "CREATE TABLE t (id INTEGER PRIMARY KEY, u UNIQUE)", "INSERT INTO t VALUES (1, 1)")
    at = source.position()
    rig.run("INSERT OR IGNORE INTO t VALUES (1, 2)", "INSERT OR IGNORE INTO t VALUES (2, 1)")
    assert source.position() == at
    assert source.poll(at, {table(): ["id"]}, 10).transactions.num_rows == 0


def test_a_unique_index_on_an_expression_is_refused(wal: SqliteRig) -> None:
    wal.run("CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT)", "CREATE UNIQUE INDEX e ON t (lower(s))")
    with pytest.raises(SourceRefused, match="expression"):
        wal.source().plan_install([table()])


# ── transactions ─────────────────────────────────────────────────────────────────────────────────────────────────

MARK = "INSERT INTO _headwater_transaction(tag) VALUES (NULL)"


def inserts(*ids: int) -> list[str]:
    return [f"INSERT INTO t VALUES ({n})" for n in ids]


def told(source: Any, after: Position, limit: int = 1000) -> tuple[list[list[int]], Any]:
    poll = source.poll(after, {table(): ["id"]}, limit)
    found: list[list[int]] = [[] for _ in range(poll.transactions.num_rows)]
    for rows in poll.changes.values():
        for row in rows.to_pylist():
            found[row[ORDINAL]].append(row["id"])
    return found, poll


def test_marked_transactions_come_one_by_one(rig: SqliteRig) -> None:
    source = captured(rig, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    start = source.position()
    rig.run("BEGIN", MARK, *inserts(1, 2), "COMMIT", "BEGIN", MARK, *inserts(3), "COMMIT")
    rig.run("BEGIN", MARK, *inserts(4), "ROLLBACK", "BEGIN", MARK, *inserts(5, 6), "COMMIT")
    found, poll = told(source, start)
    assert found == [[1, 2], [3], [5, 6]]
    assert poll.transactions.column("transaction").to_pylist() == ["2", "3", "5"]


def test_unmarked_changes_of_one_poll_are_one_transaction(rig: SqliteRig) -> None:
    source = captured(rig, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    start = source.position()
    rig.run(*inserts(*range(30)))
    found, poll = told(source, start, limit=3)
    assert found == [list(range(30))], "an unmarked group is never split"
    assert not poll.more


def test_marked_and_unmarked_writers_mix(rig: SqliteRig) -> None:
    """Unmarked changes join the marked transaction before them, unless that was already told."""
    source = captured(rig, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    start = source.position()
    rig.run(*inserts(1), "BEGIN", MARK, *inserts(2, 3), "COMMIT", *inserts(4))
    first, poll = told(source, start)
    assert first == [[1], [2, 3, 4]]
    label = poll.transactions.column("transaction").to_pylist()
    rig.run(*inserts(5), "BEGIN", MARK, *inserts(6), "COMMIT")
    second, later = told(source, poll.end)
    assert second == [[5], [6]], "what follows a told transaction is a transaction of its own"
    assert not set(label) & set(later.transactions.column("transaction").to_pylist())


def test_a_limit_cuts_between_marked_transactions_only(rig: SqliteRig) -> None:
    source = captured(rig, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    after = source.position()
    rig.run(*inserts(1, 2, 3), *(s for n in (10, 20, 30) for s in ("BEGIN", MARK, *inserts(n, n + 1), "COMMIT")))
    rounds = []
    more = True
    while more:
        found, poll = told(source, after, limit=3)
        rounds.append(found)
        after, more = poll.end, poll.more
    assert rounds == [[[1, 2, 3]], [[10, 11]], [[20, 21]], [[30, 31]]]


def test_an_empty_mark_is_no_transaction(rig: SqliteRig) -> None:
    source = captured(rig, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    start = source.position()
    rig.run(MARK, MARK, *inserts(1), MARK)
    assert told(source, start)[0] == [[1]]


# ── one snapshot ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_statements_of_one_reading_see_one_state(wal: SqliteRig) -> None:
    wal.run("CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    file = SqliteFile(SRC, str(wal.path))
    with file.reading() as connection:
        assert connection.rows("SELECT count(*) FROM t") == [(1,)]
        wal.run("INSERT INTO t VALUES (2)")
        assert connection.rows("SELECT count(*) FROM t") == [(1,)]
        bound = pa.record_batch({"k": pa.array([0, 1])})
        answers = list(connection.stream("SELECT ?1, count(*) FROM t", bound))
        assert [row["count(*)"] for b in answers for row in b.to_pylist()] == [1, 1]
    with file.reading() as connection:
        assert connection.rows("SELECT count(*) FROM t") == [(2,)]
    file.close()


def test_in_rollback_mode_a_reading_keeps_its_state_and_ends_promptly(tmp_path: Path) -> None:
    rig = SqliteRig(tmp_path / "app.db", "delete")
    source = captured(rig, "CREATE TABLE t (id INTEGER PRIMARY KEY)", *inserts(*range(5)))
    file = SqliteFile(SRC, str(rig.path))
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sqlite3, sys, time\n"
            f"c = sqlite3.connect({str(rig.path)!r}, timeout=20, isolation_level=None)\n"
            "sys.stdin.readline(); t = time.time()\n"
            "c.execute('INSERT INTO t VALUES (100)'); print(time.time() - t)",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin
    with file.reading() as connection:
        assert connection.rows("SELECT count(*) FROM t") == [(5,)]
        holder.stdin.write("\n")
        holder.stdin.flush()
        time.sleep(0.5)
        assert connection.rows("SELECT count(*) FROM t") == [(5,)], "the writer waits for the reader"
    waited = float(holder.communicate()[0])
    assert waited > 0.3
    half = source.scan(source.chunks(table(), 100)[0], ["id"], source.position())
    next(half)
    began = time.time()
    rig.run(*inserts(200))
    assert time.time() - began < 3, "an answer half read keeps nobody from writing"
    assert list(half) == []


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("declared", "arrow"),
    [
        ("INTEGER", pa.int64()),
        ("int", pa.int64()),
        ("UNSIGNED BIG INT", pa.int64()),
        ("INT8", pa.int64()),
        ("TINYINT(1)", pa.int64()),
        ("REAL", pa.float64()),
        ("DOUBLE PRECISION", pa.float64()),
        ("Float", pa.float64()),
        ("DECIMAL(10,2)", pa.decimal128(10, 2)),
        ("numeric( 20 , 5 )", pa.decimal128(20, 5)),
        ("DECIMAL(7)", pa.decimal128(7, 0)),
        ("NUMERIC", pa.decimal128(38, 18)),
        ("DECIMAL(50,2)", None),
        ("TEXT", pa.string()),
        ("VARCHAR(20)", pa.string()),
        ("NATIVE CHARACTER(70)", pa.string()),
        ("CLOB", pa.string()),
        ("BOOLEAN", pa.bool_()),
        ("DATE", pa.date32()),
        ("TIME", pa.string()),
        ("DATETIME", pa.timestamp("us")),
        ("TIMESTAMP", pa.timestamp("us")),
        ("TIMESTAMP WITHOUT TIME ZONE", pa.timestamp("us")),
        ("TIMESTAMPTZ", pa.timestamp("us", "UTC")),
        ("timestamp with time zone", pa.timestamp("us", "UTC")),
        ("TIMESTAMP(6) WITH TIME ZONE", pa.timestamp("us", "UTC")),
        ("BLOB", pa.binary()),
        ("UUID", pa.string()),
        ("JSON", pa.string()),
        ("", None),
        ("GEOMETRY", None),
        ("INTERVAL", None),
        ("POINT", None),
    ],
)
def test_declared_types(declared: str, arrow: pa.DataType | None) -> None:
    found = codec(declared)
    assert (found.type if found else None) == arrow


def read_one(rig: SqliteRig, declared: str, *values: Any) -> list[Any]:
    """The values of one column, through base rows and through the log, which must agree."""
    source = captured(rig, f"CREATE TABLE t (id INTEGER PRIMARY KEY, v {declared})")
    start = source.position()
    rig.run(*((f"INSERT INTO t VALUES ({n}, ?)", (v,)) for n, v in enumerate(values)))
    scanned = as_of(source, table(), ["id", "v"], source.position())
    polled = fold(source.poll(start, {table(): ["id", "v"]}, 10**6).changes.values(), ["id", "v"])
    assert scanned == polled
    assert as_of(source, table(), ["id", "v"], start) == Counter()
    source.close()
    return [v for _, v in sorted(scanned)]


@pytest.mark.parametrize(
    ("declared", "stored", "meant"),
    [
        ("REAL", [1, 2.5, "3", -0.0, 1e308], [1.0, 2.5, 3.0, 0.0, 1e308]),
        ("INTEGER", ["12", 3.0, 2**62], [12, 3, 2**62]),
        ("TEXT", [5, "x", 1.5], ["5", "x", "1.5"]),
        (
            "DECIMAL(10,2)",
            [1.1, 5, "7.25", 0.1, 99999999.99],
            [Decimal(d) for d in ("1.10", "5", "7.25", "0.1", "99999999.99")],
        ),
        ("DECIMAL(22,2)", [2**60, 1.5, -(2**53) - 1], [Decimal(2**60), Decimal("1.5"), Decimal(-(2**53) - 1)]),
        ("NUMERIC", [0.000001, 123456.789, 7], [Decimal("0.000001"), Decimal("123456.789"), Decimal(7)]),
        ("NUMERIC", [1e-18, 12345.6789012345, 0.1], [Decimal("1e-18"), Decimal("12345.6789012345"), Decimal("0.1")]),
        ("BOOLEAN", [1, 0, "1"], [True, False, True]),
        ("JSON", ["1", "1.5", "[1]", "true"], ["1", "1.5", "[1]", "true"]),
        ("DATE", ["2024-02-29"], [dt.date(2024, 2, 29)]),
        (
            "DATETIME",
            ["2024-02-29 01:02:03", "2024-02-29T01:02:03.5", "2024-02-29 01:02", "2024-02-29"],
            [
                dt.datetime(2024, 2, 29, 1, 2, 3),
                dt.datetime(2024, 2, 29, 1, 2, 3, 500000),
                dt.datetime(2024, 2, 29, 1, 2),
                dt.datetime(2024, 2, 29),
            ],
        ),
        (
            "TIMESTAMPTZ",
            ["2024-02-29 01:02:03Z", "2024-02-29T03:02:03.000001+02:00", "2024-02-28 23:32:03-0130"],
            [
                dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.UTC),
                dt.datetime(2024, 2, 29, 1, 2, 3, 1, tzinfo=dt.UTC),
                dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.UTC),
            ],
        ),
    ],
)
def test_stored_values_mean(wal: SqliteRig, declared: str, stored: list[Any], meant: list[Any]) -> None:
    assert read_one(wal, declared, *stored, None) == [*meant, None]


@pytest.mark.parametrize(
    ("declared", "value", "shown"),
    [
        ("INTEGER", "abc", "'abc'"),
        ("INTEGER", 1.5, "1.5"),
        ("REAL", "abc", "'abc'"),
        ("TEXT", b"\x01", "X'01'"),
        ("BLOB", "text", "'text'"),
        ("DECIMAL(10,2)", 1.234, "1.234"),
        ("DECIMAL(10,2)", "abc", "'abc'"),
        ("DECIMAL(4,2)", 123, "123"),
        ("DECIMAL(10,2)", 0.1 + 0.2, "0.30000000000000004"),
        ("BOOLEAN", 2, "2"),
        ("BOOLEAN", "yes", "'yes'"),
        ("DATE", "29.2.2024", "'29.2.2024'"),
        ("DATE", "2023-02-29", "'2023-02-29'"),
        ("DATE", 20240229, "20240229"),
        ("DATETIME", "yesterday", "'yesterday'"),
        ("DATETIME", "2024-02-29 01:02:03Z", "03Z"),
        ("DATETIME", "2024-02-29 25:02:03", "25:02"),
        ("DATETIME", 1709168523, "1709168523"),
        ("TIMESTAMPTZ", "2024-02-29 01:02:03", "01:02:03"),
        ("JSON", b"{}", "X'7B7D'"),
        ("UUID", 5, "5"),
    ],
)
def test_values_that_do_not_fit_are_named(wal: SqliteRig, declared: str, value: Any, shown: str) -> None:
    with pytest.raises(ValueUnfit) as caught:
        read_one(wal, declared, *([None] * 5), value)
    assert "src.t.v" in str(caught.value)
    assert shown in str(caught.value)


def test_text_that_is_not_utf8_is_named(wal: SqliteRig) -> None:
    source = captured(wal, "CREATE TABLE t (v TEXT)", "INSERT INTO t VALUES (CAST(x'61FF' AS TEXT))")
    with pytest.raises(ValueUnfit, match=r"src\.t\.v"):
        as_of(source, table(), ["v"], source.position())


def test_an_unfit_value_far_down_is_found(wal: SqliteRig) -> None:
    source = captured(
        wal,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER, s TEXT)",
        f"{numbers(200_000)} INSERT INTO t SELECT i, i, i FROM n",
        "UPDATE t SET v = 'odd' WHERE id = 150000",
    )
    (chunk,) = source.chunks(table(), 10**6)
    at = source.position()
    with pytest.raises(ValueUnfit, match="'odd'"):
        list(source.scan(chunk, ["v"], at))
    assert sum(b.num_rows for b in source.scan(chunk, ["id", "s"], at)) == 200_000, "other columns are fine"


def test_unsupported_columns_are_captured_around(wal: SqliteRig) -> None:
    source = captured(wal, "CREATE TABLE t (id INTEGER PRIMARY KEY, shape GEOMETRY, anything)")
    schema = source.describe()[table()]
    assert [c.name for c in schema.supported()] == ["id"]
    wal.run("INSERT INTO t VALUES (1, x'00', 5)")
    assert as_of(source, table(), ["id"], source.position()) == Counter({(1,): 1})
    with pytest.raises(ConfigError, match="GEOMETRY"):
        as_of(source, table(), ["shape"], source.position())


@settings(max_examples=200, deadline=None)
@given(st.datetimes(min_value=dt.datetime(1, 1, 1), max_value=dt.datetime(9999, 12, 31)))
def test_every_spelling_of_a_timestamp_reads_as_it(moment: dt.datetime) -> None:
    for value in (moment, moment.replace(microsecond=0), moment.replace(microsecond=0, second=0, minute=0, hour=0)):
        texts = spellings(value)
        assert len(set(texts)) == len(texts)
        assert set(TIMESTAMP.decode([pa.array(texts)]).to_pylist()) == {value}


def test_a_key_finds_every_spelling(wal: SqliteRig) -> None:
    source = captured(
        wal,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME, price DECIMAL(10,2), zoned TIMESTAMPTZ, j JSON)",
        "CREATE INDEX i ON t (at)",
        "INSERT INTO t VALUES (1, '2024-01-02', 1.10, '2024-01-01 00:00:00Z', '1')",
        "INSERT INTO t VALUES (2, '2024-01-02T00:00:00', '1.1', '2024-01-01 02:00:00+02:00', '{}')",
        "INSERT INTO t VALUES (3, '2024-01-02 00:00:00.000', 1.2, '2024-01-01 00:00:00.1Z', '1.0')",
        "INSERT INTO t VALUES (4, '2024-01-02 00:00:01', 5, NULL, NULL)",
    )

    def ids(column: str, value: Any, kind: pa.DataType) -> set[int]:
        question = Question(table(), (column,), pa.table({column: pa.array([value], kind)}), ("id",))
        return {row for (row,) in fold(source.ask(question, source.position()), ["id"])}

    assert ids("at", dt.datetime(2024, 1, 2), pa.timestamp("us")) == {1, 2, 3}
    assert ids("price", Decimal("1.10"), pa.decimal128(10, 2)) == {1, 2}
    assert ids("price", Decimal("5.00"), pa.decimal128(10, 2)) == {4}
    assert ids("zoned", dt.datetime(2024, 1, 1, tzinfo=dt.UTC), pa.timestamp("us", "UTC")) == {1, 2}
    assert ids("j", "1", pa.string()) == {1, 3}


def test_nocase_columns_are_asked_exactly_and_through_their_index(wal: SqliteRig) -> None:
    source = captured(
        wal,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT COLLATE NOCASE)",
        "CREATE INDEX i ON t (s)",
        "INSERT INTO t VALUES (1, 'abc'), (2, 'ABC'), (3, 'abc '), (4, NULL)",
    )
    at = source.position()
    wal.run("DELETE FROM t WHERE id = 2")
    keys = pa.table({"s": ["ABC", "Abc", "abc"]})
    found = fold(source.ask(Question(table(), ("s",), keys, ("id", "s")), at), [ORDINAL, "id", "s"])
    assert found == Counter({(0, 2, "ABC"): 1, (2, 1, "abc"): 1})
    (chunk,) = source.chunks(table(), 10)
    assert fold(source.scan(chunk, ["id"], at, [Condition("s", "=", "ABC")]), ["id"]) == Counter({(2,): 1})
    assert fold(source.scan(chunk, ["id"], at, [Condition("s", "<>", "ABC")]), ["id"]) == Counter({(1,): 1, (3,): 1})
    assert fold(source.scan(chunk, ["id"], at, [Condition("s", "in", ("ABC", "x"))]), ["id"]) == Counter({(2,): 1})
    plan = wal.run("EXPLAIN QUERY PLAN SELECT * FROM t WHERE s = 'a' AND s = 'a' COLLATE BINARY")[0]
    assert "INDEX i (s=?)" in repr(plan)


def test_text_with_a_nul_is_compared_whole(wal: SqliteRig) -> None:
    source = captured(wal, "CREATE TABLE t (s TEXT)", ("INSERT INTO t VALUES (?), (?)", ("a\0b", "a")))
    at, (chunk,) = source.position(), source.chunks(table(), 10)
    assert fold(source.scan(chunk, ["s"], at, [Condition("s", "=", "a\0b")]), ["s"]) == Counter({("a\0b",): 1})
    asked = Question(table(), ("s",), pa.table({"s": ["a\0b"]}), ("s",))
    assert fold(source.ask(asked, at), ["s"]) == Counter({("a\0b",): 1})


def test_a_utf16_database(tmp_path: Path) -> None:
    rig = SqliteRig.__new__(SqliteRig)
    rig.path, rig.spec = tmp_path / "wide.db", SourceSpec(SRC, f"sqlite:///{tmp_path / 'wide.db'}")
    source = captured(rig, "PRAGMA encoding = 'UTF-16le'", "CREATE TABLE t (s TEXT)", "INSERT INTO t VALUES ('ß漢😀')")
    assert as_of(source, table(), ["s"], source.position()) == Counter({("ß漢😀",): 1})


# ── chunks and estimates ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "ddl",
    [
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)",
        "CREATE TABLE t (a INTEGER, b TEXT, PRIMARY KEY (a, b))",
        "CREATE TABLE t (a INTEGER, b TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID",
        "CREATE TABLE t (b TEXT, a INTEGER, PRIMARY KEY (b))",
        "CREATE TABLE t (a INTEGER, b TEXT)",
    ],
)
def test_chunks_are_even_and_complete(wal: SqliteRig, ddl: str) -> None:
    source = captured(wal, ddl)
    wal.run(*(f"INSERT INTO t (a, b) VALUES ({n * n}, 'x{n}')" for n in range(100)))
    at = source.position()
    chunks = source.chunks(table(), 10)
    sizes = [fold(source.scan(c, ["a"], at), ["a"]).total() for c in chunks]
    assert sum(sizes) == 100
    assert (max(sizes) <= 11 and len(sizes) >= 9) if "PRIMARY KEY" in ddl else len(sizes) == 1


def test_one_key_value_that_fills_many_chunks(wal: SqliteRig) -> None:
    source = captured(wal, "CREATE TABLE t (a INTEGER, b INTEGER, PRIMARY KEY (a, b))")
    wal.run(*(f"INSERT INTO t VALUES ({a}, {b})" for a, many in ((1, 3), (2, 40), (3, 3)) for b in range(many)))
    wal.run("INSERT INTO t VALUES (NULL, 1)", "INSERT INTO t VALUES ('text', 1)")
    wal.run("DELETE FROM t WHERE typeof(a) = 'text'")
    at = source.position()
    parts = [fold(source.scan(c, ["a", "b"], at), ["a", "b"]) for c in source.chunks(table(), 5)]
    assert added(*parts) == now(wal, table(), ["a", "b"])
    assert sum(part.total() for part in parts) == 47


def test_row_estimates_are_cheap_and_sane(wal: SqliteRig) -> None:
    wal.run("CREATE TABLE t (id INTEGER PRIMARY KEY)", *inserts(*range(1, 101)))
    wal.run("CREATE TABLE far (id INTEGER PRIMARY KEY)", "INSERT INTO far VALUES (1), (9000000000000000000)")
    wal.run("CREATE TABLE empty (id INTEGER PRIMARY KEY)")
    described = wal.source().describe()
    assert described[table()].rows == 100
    assert (described[table("far")].rows or 0) < 10_000
    assert described[table("empty")].rows == 0
    wal.run("ANALYZE")
    assert wal.source().describe()[table("far")].rows == 2


def test_descriptions(wal: SqliteRig) -> None:
    wal.run(
        "CREATE TABLE t (a INTEGER NOT NULL, b TEXT, c REAL, PRIMARY KEY (b, a))",
        "CREATE INDEX i1 ON t (c, a)",
        "CREATE INDEX i2 ON t (c) WHERE a > 0",
        "CREATE INDEX i3 ON t (a, lower(b))",
        "CREATE VIEW v AS SELECT * FROM t",
        "CREATE VIRTUAL TABLE search USING fts5(body)",
    )
    source = wal.source()
    described = source.describe()
    assert set(described) == {table()}
    schema = described[table()]
    assert schema.key == ("b", "a")
    assert set(schema.indexes) == {("b", "a"), ("c", "a"), ("a",)}
    assert [c.nullable for c in schema.columns] == [False, True, True]
    assert source.resolve("main", "T") == table()


# ── capture that breaks ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        ("DROP TRIGGER _headwater_1_insert", "_headwater_1_insert was dropped"),
        ("ALTER TABLE t RENAME COLUMN s TO z", "column s was dropped or renamed"),
        ("ALTER TABLE t RENAME TO elsewhere", "dropped or renamed"),
        ("DROP TABLE t", "dropped or renamed"),
        ("CREATE UNIQUE INDEX later ON t (s)", "unique key"),
    ],
)
def test_broken_capture_is_told_and_mended_as_a_new_life_of_that_table(wal: SqliteRig, harm: str, reason: str) -> None:
    source = captured(wal, "CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT)")
    good, before = source.capture(), source.identities({table(): ["id"]})
    at = source.position()
    wal.run(harm)
    found = source.capture()
    assert found is not None
    assert found.tables == frozenset()
    assert reason in found.broken[table()]
    wal.run("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, s TEXT)")
    assert source.plan_install([table()])
    source.install([table()])
    mended = source.capture()
    assert mended is not None
    assert mended.tables == {table()}
    assert mended.generation == good.generation, "other tables of the file are not concerned"
    after = source.identities({table(): ["id"]})
    assert before[table()]["id"].became(after[table()]["id"])
    wal.run("INSERT INTO t VALUES (7, 'x')")
    assert fold(source.poll(at, {table(): ["id"]}, 10).changes.values(), ["id"]) == Counter({(7,): 1})


def test_a_column_added_later(wal: SqliteRig) -> None:
    source = captured(wal, "CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    generation = source.capture().generation
    old = source.position()
    wal.run("INSERT INTO t VALUES (2)", "ALTER TABLE t ADD COLUMN x TEXT DEFAULT 'd'", "INSERT INTO t VALUES (3, 'e')")
    assert source.capture().tables == {table()}, "the captured columns have no gap"
    with pytest.raises(SchemaChanged, match="x"):
        as_of(source, table(), ["id", "x"], source.position())
    assert source.install([table()])
    assert source.capture().generation == generation
    at = source.position()
    wal.run("DELETE FROM t WHERE id = 3")
    assert as_of(source, table(), ["id", "x"], at) == Counter({(1, "d"): 1, (2, "d"): 1, (3, "e"): 1})
    assert as_of(source, table(), ["id"], old) == Counter({(1,): 1})
    with pytest.raises(PositionTrimmed, match="begins"):
        as_of(source, table(), ["id", "x"], old)


def test_a_wider_table_widens_the_log(wal: SqliteRig) -> None:
    source = captured(wal, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    wal.run(f"CREATE TABLE wide ({', '.join(f'a{n} INTEGER' for n in range(120))})", "INSERT INTO t VALUES (1)")
    source.install([table("wide")])
    at = source.position()
    wal.run(f"INSERT INTO wide VALUES ({', '.join(map(str, range(120)))})", "INSERT INTO t VALUES (2)")
    assert as_of(source, table("wide"), ["a0", "a119"], source.position()) == Counter({(0, 119): 1})
    poll = source.poll(at, {table("wide"): ["a119", "a7"], table(): ["id"]}, 10)
    assert poll.changes[table("wide")].select(["a119", "a7"]).to_pylist() == [{"a119": 119, "a7": 7}]


def test_ids_go_on_after_everything_was_trimmed_and_deleted(rig: SqliteRig) -> None:
    source = captured(rig, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    rig.run(*inserts(*range(9)))
    early = source.position()
    rig.run(*inserts(9))
    at = source.position()
    assert source.trim(at) == 9
    assert source.position() == at
    rig.run("VACUUM", *inserts(50))
    assert parse(source.position()).id == parse(at).id + 1
    assert as_of(source, table(), ["id"], at) == Counter((n,) for n in range(10))
    with pytest.raises(PositionTrimmed):
        as_of(source, table(), ["id"], early)


def test_trimming_in_slices_leaves_room_for_writers(wal: SqliteRig) -> None:
    source = captured(wal, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    wal.run(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 35000) INSERT INTO t SELECT i FROM n"
    )
    assert source.trim(source.position()) == 34_999
    assert source.trim(source.position()) == 0


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────


def spec(path: Path | str, **options: str) -> SourceSpec:
    return SourceSpec(SRC, f"sqlite:///{path}", tuple(options.items()))


def test_a_missing_file_is_named_and_not_made(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.db"
    for question in (SqliteSource.describe, SqliteSource.position, SqliteSource.capture, SqliteSource.remove):
        with pytest.raises(ConfigError, match=r"nowhere\.db"):
            question(SqliteSource(spec(path)))
    with pytest.raises(ConfigError):
        SqliteSource(spec(path)).install([table()])
    assert not path.exists()


def test_a_file_that_goes_away_may_come_back(rig: SqliteRig) -> None:
    source = captured(rig, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    at = source.position()
    parts = [p for s in ("", "-wal", "-shm") if (p := Path(f"{rig.path}{s}")).exists()]
    for part in parts:
        part.rename(f"{part}.away")
    with pytest.raises(SourceUnavailable, match="gone"):
        source.position()
    for part in parts:
        Path(f"{part}.away").rename(part)
    assert source.position() == at


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("this is no database at all, " * 100)
    with pytest.raises(ConfigError, match="not a usable SQLite database"):
        SqliteSource(spec(path)).describe()
    with pytest.raises(ConfigError):
        SqliteSource(SourceSpec(SRC, "sqlite://"))


@pytest.fixture
def locked(rig: SqliteRig) -> Iterator[SqliteRig]:
    """A file that another process holds for itself."""
    captured(rig, "CREATE TABLE t (id INTEGER PRIMARY KEY)").close()
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import sqlite3, sys; c = sqlite3.connect({str(rig.path)!r}, isolation_level=None)\n"
            "c.execute('BEGIN EXCLUSIVE'); c.execute('INSERT INTO t VALUES (1)')\n"
            "print('locked', flush=True); sys.stdin.readline()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout
    assert holder.stdin
    assert holder.stdout.readline() == "locked\n"
    yield rig
    holder.communicate("\n")


def test_a_locked_database_is_worth_a_retry(locked: SqliteRig) -> None:
    source = SqliteSource(spec(locked.path, busy_seconds="0.2"))
    with pytest.raises(SourceUnavailable, match="locked") as caught:
        source.trim(Position("0"))
    assert caught.value.retry_helps
    if locked.name == "sqlite-wal":
        assert parse(source.position()).id == 0, "in WAL mode readers wait for nobody"
    else:
        with pytest.raises(SourceUnavailable, match="locked"):
            source.position()


def test_a_read_only_file_refuses_capture(wal: SqliteRig, monkeypatch: pytest.MonkeyPatch) -> None:
    wal.run("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    source = wal.source()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(SourceRefused, match="read-only"):
        source.plan_install([table()])
    with pytest.raises(SourceRefused, match="read-only"):
        source.install([table()])
    assert source.describe()


def test_odd_file_names(tmp_path: Path) -> None:
    rig = SqliteRig(tmp_path / "100% späte #1?.db", "wal")
    source = captured(rig, "CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    assert as_of(source, table(), ["id"], source.position()) == Counter({(1,): 1})
    assert {p.name for p in tmp_path.iterdir()} <= {f"{rig.path.name}{s}" for s in ("", "-wal", "-shm")}


def test_answers_have_the_columns_asked_for_in_order(wal: SqliteRig) -> None:
    source = captured(
        wal, "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c DECIMAL(10,2))", "INSERT INTO t VALUES (1, 'x', 1.5)"
    )
    at, (chunk,) = source.position(), source.chunks(table(), 10)
    conditions = [Condition("b", "=", "x"), Condition("c", ">", Decimal("1.00"))]
    (scanned,) = source.scan(chunk, ["c", "a"], at, conditions)
    assert scanned.schema.names == ["c", "a", COUNT]
    question = Question(table(), ("b",), pa.table({"b": ["x"]}), ("c",), tuple(conditions))
    (asked,) = source.ask(question, at)
    assert asked.schema.names == [ORDINAL, "c", COUNT]
    (nothing,) = source.scan(chunk, [], at, conditions)
    assert nothing.schema.names == [COUNT]
    assert nothing.num_rows == 1
