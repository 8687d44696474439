"""A rig is one real database that a contract test may write to, and the adapter under test that reads it.

The suite (`test_contract.py`) knows only this protocol. A new adapter joins with one more entry in `RIGS`:

    # tests/sources/rig_postgres.py
    @contextmanager
    def open_postgres(request: pytest.FixtureRequest) -> Iterator[Rig]: ...
    RIGS.append(pytest.param(open_postgres, id="postgres", marks=pytest.mark.postgres))

Rows are dicts of Python values; every column of the table is present. By logical type:

    int int · float float (no NaN) · decimal(p,s) Decimal · text str · bool bool · date date · time str 'HH:MM:SS'
    timestamp naive datetime · timestamptz datetime in UTC · bytes bytes · uuid str, lower case · json str

What the adapter hands back (`pa.Table.to_pylist`) must equal them; a `datetime.time` may stand for a time.
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import multiprocessing
import re
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest

from headwater.model.names import SourceName, TableName
from headwater.model.source import Source, SourceSpec

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Insert:
    table: TableName
    row: Row


@dataclass(frozen=True)
class Delete:
    """Takes away exactly one row equal to `row` (NULL equals NULL), although there may be several."""

    table: TableName
    row: Row


@dataclass(frozen=True)
class Update:
    """Turns exactly one row equal to `old` into `new`, with the engine's UPDATE where it has one."""

    table: TableName
    old: Row
    new: Row


Change = Insert | Delete | Update


class Rig(Protocol):
    name: str
    exact_transactions: bool
    """Whether a poll tells one transaction from the next. If not, what one poll saw is one transaction."""

    @property
    def spec(self) -> SourceSpec: ...

    def source(self) -> Source:
        """A fresh adapter object on the same database; callable many times, from many threads."""
        ...

    def create(
        self,
        table: str,
        columns: Mapping[str, str],
        key: Sequence[str] = (),
        unique: Sequence[Sequence[str]] = (),
        indexes: Sequence[Sequence[str]] = (),
    ) -> TableName:
        """CREATE TABLE, with logical types; key columns are NOT NULL, all others may be NULL."""
        ...

    def transaction(self, *changes: Change, part_of: tuple[str, int] | None = None) -> None:
        """All changes in one committed transaction, tagged as a part if `part_of` says (global id, number of parts).
        Callable from many threads at once."""
        ...

    def age(self) -> None:
        """Make the capture that is installed what it was before transactions could be tagged."""
        ...

    def objects(self) -> set[str]:
        """Everything that exists in the database (tables, triggers, functions, schemas…), as comparable text."""
        ...

    def reset(self) -> None:
        """Drop all tables and all capture: the rig is as new, with the same `spec`."""
        ...


Opener = Callable[[pytest.FixtureRequest], AbstractContextManager[Rig]]
RIGS: list[Any] = []
"""`pytest.param(opener, id=…, marks=…)` for every adapter."""


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────

ARROW: dict[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "time": pa.string(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "bytes": pa.binary(),
    "uuid": pa.string(),
    "json": pa.string(),
}


def arrow_type(logical: str) -> pa.DataType:
    if match := re.fullmatch(r"decimal\((\d+),(\d+)\)", logical):
        return pa.decimal128(int(match[1]), int(match[2]))
    return ARROW[logical]


class MemoryRig:
    name = "memory"
    exact_transactions = True

    def __init__(self) -> None:
        self.spec = SourceSpec(SourceName("src"), f"memory://{uuid.uuid4().hex}")

    def source(self) -> Source:
        from headwater.sources.memory import MemorySource

        return MemorySource(self.spec)

    def _database(self) -> Any:
        from headwater.sources.memory import database

        return database(self.spec.url)

    def create(
        self,
        table: str,
        columns: Mapping[str, str],
        key: Sequence[str] = (),
        unique: Sequence[Sequence[str]] = (),
        indexes: Sequence[Sequence[str]] = (),
    ) -> TableName:
        self._database().create(table, {c: arrow_type(t) for c, t in columns.items()}, key, indexes)
        return TableName(self.spec.name, table)

    def transaction(self, *changes: Change, part_of: tuple[str, int] | None = None) -> None:
        signed: list[tuple[str, Row, int]] = []
        for change in changes:
            if isinstance(change, Insert):
                signed.append((change.table.table, change.row, 1))
            elif isinstance(change, Delete):
                signed.append((change.table.table, change.row, -1))
            else:
                signed += [(change.table.table, change.old, -1), (change.table.table, change.new, 1)]
        self._database().commit(signed, part_of)

    def age(self) -> None:
        pass

    def objects(self) -> set[str]:
        return set(self._database().objects())

    def reset(self) -> None:
        self._database().reset()


@contextmanager
def open_memory(request: pytest.FixtureRequest) -> Iterator[Rig]:
    yield MemoryRig()


# ── sqlite ───────────────────────────────────────────────────────────────────────────────────────────────────────

SQLITE: dict[str, str] = {
    "int": "INTEGER",
    "float": "REAL",
    "text": "TEXT",
    "bool": "BOOLEAN",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "bytes": "BLOB",
    "uuid": "UUID",
    "json": "JSON",
}


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def sqlite_value(value: Any) -> Any:
    """What an application would store: ISO text, 0/1, and decimals as text (SQLite keeps or converts them)."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dt.datetime):
        return value.isoformat(" ")
    if isinstance(value, dt.date):
        return value.isoformat()
    return value


Statement = tuple[str, Sequence[Any]]


def run_sqlite(path: str, statements: Sequence[Statement]) -> list[tuple[int, list[tuple[Any, ...]]]]:
    """Runs in the application's process: one connection, statement by statement; (rows changed, rows read) of each."""
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        return [((done := connection.execute(sql, values)).rowcount, done.fetchall()) for sql, values in statements]


@functools.cache
def application() -> ProcessPoolExecutor:
    """SQLite files are written by other processes, as in life. It is also a must: the adapter reads through ADBC's copy
    of the SQLite library, and two copies in one process lose each other's locks (headwater/sources/sqlite/files.py)."""
    return ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn"))


class SqliteRig:
    """`marked` rigs insert into `_headwater_transaction` first, once capture is there."""

    def __init__(self, path: Path, journal: str, marked: bool = True) -> None:
        self.name = f"sqlite-{journal}{'' if marked else '-unmarked'}"
        self.exact_transactions = marked
        self.path = path
        self.spec = SourceSpec(SourceName("src"), f"sqlite:///{path.absolute()}")
        self._mark = marked
        self.run(f"PRAGMA journal_mode = {journal}", "VACUUM")

    def run(self, *statements: str | Statement) -> list[list[tuple[Any, ...]]]:
        """Statements of one connection of the application; the rows each returned."""
        written = [(s, ()) if isinstance(s, str) else s for s in statements]
        return [rows for _, rows in application().submit(run_sqlite, str(self.path), written).result()]

    def source(self) -> Source:
        from headwater.sources.sqlite.adapter import SqliteSource

        return SqliteSource(self.spec)

    def create(
        self,
        table: str,
        columns: Mapping[str, str],
        key: Sequence[str] = (),
        unique: Sequence[Sequence[str]] = (),
        indexes: Sequence[Sequence[str]] = (),
    ) -> TableName:
        declared = {c: SQLITE.get(t, t.upper()) for c, t in columns.items()}
        lines = [f"{quote(c)} {t}{' NOT NULL' if c in key else ''}" for c, t in declared.items()]
        if key:
            lines.append(f"PRIMARY KEY ({', '.join(map(quote, key))})")
        lines += [f"UNIQUE ({', '.join(map(quote, columns))})" for columns in unique]
        self.run(
            f"CREATE TABLE {quote(table)} ({', '.join(lines)})",
            *(
                f"CREATE INDEX {quote(f'{table} index {n}')} ON {quote(table)} ({', '.join(map(quote, index))})"
                for n, index in enumerate(indexes)
            ),
        )
        return TableName(self.spec.name, table)

    def transaction(self, *changes: Change, part_of: tuple[str, int] | None = None) -> None:
        marked = self._mark and any(self.run("SELECT 1 FROM sqlite_master WHERE name = '_headwater_transaction'")[0])
        begin: list[Statement] = [("BEGIN IMMEDIATE", ())]
        if part_of is not None:
            begin.append(("INSERT INTO _headwater_transaction(tag, parts) VALUES (?, ?)", part_of))
        elif marked:
            begin.append(("INSERT INTO _headwater_transaction(tag) VALUES (NULL)", ()))
        written = [*map(self._statement, changes)]
        done = application().submit(run_sqlite, str(self.path), [*begin, *written, ("COMMIT", ())]).result()
        for change, (count, _) in zip(changes, done[len(begin) :], strict=False):
            assert count == 1, f"no row to change: {change}"

    def age(self) -> None:
        self.run(
            "DROP VIEW _headwater_transaction",
            "CREATE VIEW _headwater_transaction AS SELECT tx, NULL AS tag FROM _headwater_meta",
            "CREATE TRIGGER _headwater_mark INSTEAD OF INSERT ON _headwater_transaction BEGIN"
            " UPDATE _headwater_meta SET tx = tx + 1; END",
        )

    def _statement(self, change: Change) -> Statement:
        table = quote(change.table.table)
        if isinstance(change, Insert):
            marks = ", ".join("?" * len(change.row))
            return (
                f"INSERT INTO {table} ({', '.join(map(quote, change.row))}) VALUES ({marks})",
                [*map(sqlite_value, change.row.values())],
            )
        old = change.row if isinstance(change, Delete) else change.old
        where = " AND ".join(f"{quote(c)} IS ?" for c in old)
        values = [*map(sqlite_value, old.values())]
        one = f"rowid = (SELECT rowid FROM {table} WHERE {where} LIMIT 1)"
        if isinstance(change, Delete):
            return f"DELETE FROM {table} WHERE {one}", values
        sets = ", ".join(f"{quote(c)} = ?" for c in change.new)
        return f"UPDATE {table} SET {sets} WHERE {one}", [*map(sqlite_value, change.new.values()), *values]

    def objects(self) -> set[str]:
        return {repr(row) for row in self.run("SELECT type, name, tbl_name, sql FROM sqlite_master")[0]}

    def reset(self) -> None:
        found = self.run("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite%' AND type <> 'index'")[0]
        order = sorted(found, key=lambda one: ("trigger", "view", "table").index(one[0]))
        self.run(*(f"DROP {kind} IF EXISTS {quote(name)}" for kind, name in order))


_files = itertools.count()


def _sqlite(journal: str, marked: bool) -> Opener:
    @contextmanager
    def opener(request: pytest.FixtureRequest) -> Iterator[Rig]:
        folder: Path = request.getfixturevalue("tmp_path")
        yield SqliteRig(folder / f"rig {next(_files)}.db", journal, marked)

    return opener


RIGS += [
    pytest.param(open_memory, id="memory"),
    pytest.param(_sqlite("wal", True), id="sqlite-wal"),
    pytest.param(_sqlite("delete", marked=True), id="sqlite-rollback"),
    pytest.param(_sqlite("wal", marked=False), id="sqlite-unmarked"),
]
