"""A SQLite file as a source: triggers write a log of changes, and every question is answered as of a position of it.

A position is the id of the last change it contains. `R(p) = R(now) − changes after p`, both read in one read
transaction, so an answer is the table at `p` however much has happened since.

**Where a transaction ends** SQLite tells nobody, so what one poll saw is one transaction: a state that really existed,
but perhaps several commits further on. An application that wants each of its transactions seen marks them, by

    INSERT INTO _headwater_transaction(tag) VALUES (NULL)

as the first statement. Changes are labelled with the number of the last mark; in a poll, changes with one number are
one transaction. Where marked and unmarked writers mix, unmarked changes join the marked transaction before them:
coarser, still real, for a poll is a snapshot. Changes that join a transaction which an earlier poll has delivered
come as a transaction of their own: nothing delivered is ever altered.

A part of a global transaction is marked with its id and the number of parts, by

    INSERT INTO _headwater_transaction(tag, parts) VALUES ('transfer-17', 2)

as the first statement. Two marks in one transaction are two transactions, and two tags two parts: SQLite does not tell
the trigger that nothing was committed between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import pyarrow as pa

from headwater.model.conditions import Condition
from headwater.model.errors import CaptureMissing, ConfigError, UnknownName
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Column, Identities, Identity, TableSchema
from headwater.model.source import Capture, Chunk, CommitTimes, Poll, Question, SourceSpec
from headwater.sources import sqlite_asof, sqlite_capture, sqlite_log
from headwater.sources.sqlite_files import BUSY_SECONDS, Connection, SqliteFile, literal, quote
from headwater.sources.sqlite_read import Table
from headwater.sources.sqlite_tables import LiveTable, live_tables
from headwater.sources.sqlite_types import codec

_LEAST_ROW = 8
"""Bytes a row takes at least: bounds what a largest rowid may claim."""


class SqliteSource:
    """`sqlite:////absolute/path.db`; option `busy_seconds`: how long to wait for a lock."""

    def __init__(self, spec: SourceSpec) -> None:
        path = spec.url.removeprefix("sqlite:///")
        if not path or path == spec.url:
            raise ConfigError(f"source {spec.name}: a SQLite url names a file", "write sqlite:///path/to/file.db")
        busy = float(dict(spec.options).get("busy_seconds", BUSY_SECONDS))
        self._name = spec.name
        self._file = SqliteFile(spec.name, path, busy)

    @property
    def name(self) -> SourceName:
        return self._name

    def describe(self) -> Mapping[TableName, TableSchema]:
        with self._file.reading() as connection:
            return {
                TableName(self.name, name): _schema(TableName(self.name, name), table, _estimate(connection, table))
                for name, table in live_tables(connection).items()
            }

    def resolve(self, schema: str, table: str) -> TableName | None:
        if schema.lower() not in ("", "main"):
            return None
        with self._file.reading() as connection:
            known = live_tables(connection)
        near = [table] if table in known else [name for name in known if name.lower() == table.lower()]
        return TableName(self.name, near[0]) if near else None

    def capture(self) -> Capture | None:
        with self._file.reading() as connection:
            if not sqlite_capture.installed(connection):
                return None
            live = live_tables(connection)
            states = {
                TableName(self.name, name): sqlite_capture.what_broke(connection, table, live.get(name))
                for name, table in sqlite_capture.captured_tables(connection).items()
            }
            generation = connection.rows("SELECT generation FROM _headwater_meta")[0][0]
        whole = frozenset(table for table, reason in states.items() if reason is None)
        return Capture(generation, whole, {table: reason for table, reason in states.items() if reason})

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        with self._file.reading() as connection:
            lines = sqlite_capture.plan(connection, [t.table for t in tables], self.name)
        if lines:
            self._file.check_writable()
        return lines

    def install(self, tables: Sequence[TableName]) -> list[str]:
        with self._file.writing() as connection:
            return sqlite_capture.install(connection, [t.table for t in tables], self.name)

    def remove(self) -> list[str]:
        with self._file.reading() as connection:
            if not sqlite_capture.remains(connection):
                return []
        with self._file.writing() as connection:
            return sqlite_capture.remove(connection)

    def advice(self, tables: Sequence[TableName]) -> list[str]:
        return []

    def identities(self, tables: Mapping[TableName, Sequence[str]]) -> Mapping[TableName, Identities]:
        return {table: {c: Identity(f"{table}.{c}") for c in columns} for table, columns in tables.items()}

    def expect(self, tables: Mapping[TableName, Identities]) -> None:
        self._expected = dict(tables)

    def check(self, at: Position, tables: Sequence[TableName]) -> None:
        pass

    def commit_times(self, transactions: Sequence[str]) -> Sequence[CommitTimes | None]:
        return [None] * len(transactions)

    def release(self, keep: Sequence[TableName]) -> list[str]:
        return []

    def position(self) -> Position:
        with self._file.reading() as connection:
            return Position(str(sqlite_log.ends(connection)[1]))

    def waiting(self, after: Position) -> int:
        with self._file.reading() as connection:
            return max(0, sqlite_log.ends(connection)[1] - sqlite_log.number(after))

    def trim(self, below: Position) -> int:
        return sqlite_log.trim(self._file, below)

    def poll(self, after: Position, tables: Mapping[TableName, Sequence[str]], limit: int) -> Poll:
        with self._file.reading() as connection:
            captured = [(_captured(connection, table), columns) for table, columns in tables.items()]
            return sqlite_log.poll(connection, captured, after, limit)

    def ask(self, question: Question, at: Position) -> Iterator[pa.RecordBatch]:
        def answer(connection: Connection) -> Iterator[pa.RecordBatch]:
            position, _ = sqlite_log.held(connection, at)
            return sqlite_asof.answer(connection, _captured(connection, question.table), question, position)

        return self._handed_out(answer)

    def scan(
        self, chunk: Chunk, columns: Sequence[str], at: Position, conditions: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        def answer(connection: Connection) -> Iterator[pa.RecordBatch]:
            position, _ = sqlite_log.held(connection, at)
            return sqlite_asof.scan(
                connection, _captured(connection, chunk.table), chunk, columns, position, conditions
            )

        return self._handed_out(answer)

    def chunks(self, table: TableName, target_rows: int) -> list[Chunk]:
        """Ranges of the leading primary-key column if it is an integer; else the table is one chunk. The first and the
        last range are open, and NULL belongs to the first: whatever a row's key becomes, exactly one chunk has it."""
        with self._file.reading() as connection:
            live = live_tables(connection)
            if table.table not in live:
                raise UnknownName("table", table.table, live, f"in source {self.name}")
            found = live[table.table]
            estimate = _estimate(connection, found)
        leading = next((c for c in found.columns if c.key == 1), None)
        kind = codec(leading.declared) if leading else None
        if leading is None or kind is None or not pa.types.is_int64(kind.type):
            return [Chunk(table, 0, (), estimate)]
        bounds = self._bounds(table.table, leading.name, max(1, target_rows))
        edges = ["", *map(str, bounds), ""]
        rows = target_rows if bounds else estimate
        return [Chunk(table, n, (leading.name, low, high), rows) for n, (low, high) in enumerate(pairwise(edges))]

    def close(self) -> None:
        self._file.close()

    def _bounds(self, table: str, column: str, target_rows: int) -> list[int]:
        """Every target_rows-th key, each found by a short read along the key's own index."""
        name, bounds = quote(column), list[int]()
        while True:
            beyond = f"WHERE {name} >= {bounds[-1]}" if bounds else ""
            with self._file.reading() as connection:
                found = connection.rows(
                    f"SELECT {name} FROM (SELECT {name} FROM {quote(table)} {beyond} ORDER BY {name}"
                    f" LIMIT 1 OFFSET {target_rows}) WHERE typeof({name}) = 'integer'"
                )
                if found and bounds and found[0][0] == bounds[-1]:  # one key value fills more than a chunk
                    found = connection.rows(
                        f"SELECT {name} FROM (SELECT {name} FROM {quote(table)} WHERE {name} > {bounds[-1]}"
                        f" ORDER BY {name} LIMIT 1) WHERE typeof({name}) = 'integer'"
                    )
            if not found:
                return bounds
            bounds.append(found[0][0])

    def _handed_out(self, answer: Callable[[Connection], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Streamed where readers keep nobody waiting (WAL), drained first where they do."""
        with self._file.reading() as connection:
            if connection.rows("PRAGMA journal_mode")[0][0] == "wal":
                yield from answer(connection)
                return
            batches = list(answer(connection))
        yield from batches


def _captured(connection: Connection, table: TableName) -> Table:
    found = sqlite_capture.captured_tables(connection).get(table.table)
    if found is None:
        raise CaptureMissing(f"{table} is not captured", "run 'headwater setup'")
    return Table(table, found)


def _schema(name: TableName, table: LiveTable, rows: int | None) -> TableSchema:
    columns = tuple(
        Column(
            c.name,
            kind.type if (kind := codec(c.declared)) else None,
            c.declared,
            c.nullable and c.name != table.rowid and not (c.key and table.without_rowid),
        )
        for c in table.columns
    )
    indexes = [table.key] if table.key and table.rowid == table.key[0] else []
    for index in table.indexes:
        plain = [column for column, _ in index.columns]
        leading = plain[: plain.index(None)] if None in plain else plain
        if leading and not index.partial:
            indexes.append(tuple(column for column in leading if column is not None))
    return TableSchema(name, columns, table.key, tuple(dict.fromkeys(indexes)), rows)


def _estimate(connection: Connection, table: LiveTable) -> int | None:
    """What ANALYZE left, or the span of rowids: never a count over the table."""
    if connection.rows("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1'"):
        known = connection.rows(f"SELECT stat FROM sqlite_stat1 WHERE tbl = {literal(table.name)} AND stat IS NOT NULL")
        if known:
            return int(known[0][0].split()[0])
    if table.rowid is None:
        return None
    rowid, name = quote(table.rowid), quote(table.name)
    low, high, size = connection.rows(
        f"SELECT (SELECT min({name}.{rowid}) FROM {name}), (SELECT max({name}.{rowid}) FROM {name}),"
        " (SELECT page_count * page_size FROM pragma_page_count, pragma_page_size)"
    )[0]
    return 0 if high is None else int(min(high - low + 1, size // _LEAST_ROW))
