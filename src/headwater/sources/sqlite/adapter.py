"""A SQLite file as a source: triggers write a log of changes, and every question is answered as of a position of it.

A position is the last change it contains (`life.py`). `R(p) = R(now) − changes after p`, both read in one read
transaction, so an answer is the table at `p` however much has happened since. That same read transaction is where
capture, life and columns are found to be what they were (`known.py`).

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

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.conditions import Condition
from headwater.model.errors import CaptureMissing, ConfigError, UnknownName
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Column, Identities, TableSchema
from headwater.model.source import ORDINAL, Capture, Chunk, CommitTimes, JoinQuestion, Poll, Question, SourceSpec
from headwater.sources.sqlite import asof, capture, chunks, layout, life
from headwater.sources.sqlite import log as change_log
from headwater.sources.sqlite.asof import Scan
from headwater.sources.sqlite.connection import Connection
from headwater.sources.sqlite.files import BUSY_SECONDS, SqliteFile, literal, quote
from headwater.sources.sqlite.foreign_keys import foreign_keys
from headwater.sources.sqlite.known import SETUP, Watch
from headwater.sources.sqlite.life import LifeMoment, Log
from headwater.sources.sqlite.owners import Owner, registered
from headwater.sources.sqlite.read import Table
from headwater.sources.sqlite.tables import LiveTable, live_tables
from headwater.sources.sqlite.types import codec

_LEAST_ROW = 8
"""Bytes a row takes at least: bounds what a largest rowid may claim."""
SHORT_ROWS = 5_000
SHORT_KEYS = 500
"""What is read in one go where readers keep writers waiting (no WAL): some milliseconds, then a longer pause."""


class SqliteSource:
    """`sqlite:////absolute/path.db`; option `busy_seconds`: how long to wait for a lock."""

    def __init__(self, spec: SourceSpec) -> None:
        path = spec.url.removeprefix("sqlite:///")
        if not path or path == spec.url:
            raise ConfigError(f"source {spec.name}: a SQLite url names a file", "write sqlite:///path/to/file.db")
        busy = float(dict(spec.options).get("busy_seconds", BUSY_SECONDS))
        self._name = spec.name
        self._file = SqliteFile(spec.name, path, busy)
        self._owner = Owner(spec.owner, spec.owner_label)
        self._watch = Watch(spec.name)

    @property
    def name(self) -> SourceName:
        return self._name

    # ── what is there ────────────────────────────────────────────────────────────────────────────────────────────

    def describe(self) -> Mapping[TableName, TableSchema]:
        with self._file.reading() as connection:
            live = live_tables(connection)
            refers = foreign_keys(connection, self.name, live)
            found = [
                replace(
                    _schema(TableName(self.name, name), table, _estimate(connection, table)),
                    foreign_keys=refers.get(name, ()),
                )
                for name, table in live.items()
            ]
        return {schema.name: schema for schema in found}

    def resolve(self, schema: str, table: str) -> TableName | None:
        if schema.lower() not in ("", "main"):
            return None
        with self._file.reading() as connection:
            known = live_tables(connection)
        near = [table] if table in known else [name for name in known if name.lower() == table.lower()]
        return TableName(self.name, near[0]) if near else None

    def advice(self, tables: Sequence[TableName]) -> list[str]:
        with self._file.reading() as connection:
            mode = connection.rows("PRAGMA journal_mode")[0][0]
        if mode == "wal":
            return []
        return [
            f"source {self.name} has journal mode {mode}: while Headwater reads, a writer cannot commit, and an"
            " application without a busy timeout gets 'database is locked'. PRAGMA journal_mode = WAL, run once on the"
            " file, lets both go on; or give the application's connections a busy timeout (PRAGMA busy_timeout = 5000)"
        ]

    # ── capture ──────────────────────────────────────────────────────────────────────────────────────────────────

    def capture(self) -> Capture | None:
        with self._file.reading() as connection:
            wrong = layout.what_is_wrong(connection)
            if wrong is None:
                return None
            if wrong:
                there = layout.tables_named(connection)
                return Capture("", frozenset(), {TableName(self.name, t): f"its capture {wrong}" for t in there})
            known, owners = self._watch.look(connection), registered(connection)
            generation = connection.rows("SELECT generation FROM _headwater_meta")[0][0]
        mine = owners[self._owner.id].tables if self._owner.id in owners else frozenset()
        broken = {TableName(self.name, t): known.broken[t] for t in mine if t in known.broken}
        whole = frozenset(TableName(self.name, t) for t in mine if t in known.captured and t not in known.broken)
        others = tuple(other.owner.shown for other in owners.values() if other.owner.id != self._owner.id)
        return Capture(generation, whole, broken, others)

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        with self._file.reading() as connection:
            lines = capture.plan(connection, [t.table for t in tables], self.name, self._owner)
        if lines:
            self._file.check_writable()
        return lines

    def install(self, tables: Sequence[TableName]) -> list[str]:
        with self._file.writing() as connection:
            return capture.install(connection, [t.table for t in tables], self.name, self._owner)

    def release(self, keep: Sequence[TableName]) -> list[str]:
        if not self._anything_ours():
            return []
        with self._file.writing() as connection:
            return capture.release(connection, [t.table for t in keep], self._owner)

    def remove(self) -> list[str]:
        if not self._anything_ours():
            return []
        with self._file.writing() as connection:
            return capture.remove(connection, self._owner)

    def trim(self, below: Position) -> int:
        return change_log.trim(self._file, self.name, self._owner, below)

    # ── what is relied on ────────────────────────────────────────────────────────────────────────────────────────

    def identities(self, tables: Mapping[TableName, Sequence[str]]) -> Mapping[TableName, Identities]:
        with self._file.reading() as connection:
            known = self._watch.look(connection)
            log = life.read_log(connection, self._owner.id)
            found = self._watch.tables(known, log, tables, compare=False)
        return {table.name: _identities(table, tables[table.name]) for table in found}

    def expect(self, tables: Mapping[TableName, Identities]) -> None:
        self._watch.expected = dict(tables)

    def check(self, at: Position, tables: Sequence[TableName]) -> None:
        with self._file.reading() as connection:
            moment, _, found = self._as_of(connection, at, dict.fromkeys(tables, ()))
            for table in found:
                table.check_since([c.name for c in table.captured.columns[:1]], moment.id)

    def commit_times(self, transactions: Sequence[str]) -> Sequence[CommitTimes | None]:
        """SQLite does not record when a transaction was committed. Nothing hangs on it: its one writer makes the order
        of the log the order of commits."""
        return [None] * len(transactions)

    # ── the three questions ──────────────────────────────────────────────────────────────────────────────────────

    def position(self) -> Position:
        with self._file.reading() as connection:
            self._watch.look(connection)
            log = life.read_log(connection, self._owner.id)
        return LifeMoment(log.last, log.generation, log.at_asked).position

    def waiting(self, after: Position) -> int:
        with self._file.reading() as connection:
            self._watch.look(connection)
            last = life.read_log(connection, self._owner.id).last
        return max(0, last - life.parse(after).id)

    def poll(self, after: Position, tables: Mapping[TableName, Sequence[str]], limit: int) -> Poll:
        with self._file.reading() as connection:
            moment, log, found = self._as_of(connection, after, tables)
            asked = [(table, tables[table.name]) for table in found]
            return change_log.poll(connection, asked, log, moment, limit)

    def ask(self, question: Question, at: Position) -> Iterator[pa.RecordBatch]:
        wanted = [*question.columns, *question.key, *(c.column for c in question.conditions)]

        def answer(connection: Connection, keys: pa.Table) -> Iterator[pa.RecordBatch]:
            moment, _, (table,) = self._as_of(connection, at, {question.table: wanted})
            return asof.answer(connection, table, replace(question, keys=keys), moment.id, self._file.reading)

        yield from self._answers(question.keys, answer)

    def ask_join(self, question: JoinQuestion, at: Position) -> Iterator[pa.RecordBatch]:
        wanted = question.named()

        def answer(connection: Connection, keys: pa.Table) -> Iterator[pa.RecordBatch]:
            moment, _, found = self._as_of(connection, at, wanted)
            for table in found:
                table.check_since(wanted[table.name], moment.id)
            tables, asked = {table.name: table for table in found}, replace(question, keys=keys)
            return asof.answer_join(connection, tables, asked, moment.id, self._file.reading)

        yield from self._answers(question.keys, answer)

    def _answers(
        self, keys: pa.Table, answer: Callable[[Connection, pa.Table], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """In one read transaction where that keeps nobody waiting, else in several, of few keys each."""
        with self._file.reading() as connection:
            if _streams(connection):
                yield from answer(connection, keys)
                return
        for begin in range(0, max(1, keys.num_rows), SHORT_KEYS):
            began = time.monotonic()
            with self._file.reading() as connection:
                batches = list(answer(connection, keys.slice(begin, SHORT_KEYS)))
            ended = time.monotonic()
            for batch in batches:
                place = batch.schema.get_field_index(ORDINAL)
                yield batch.set_column(place, ORDINAL, pc.add(batch.column(place), pa.scalar(begin, pa.int64())))
            if begin + SHORT_KEYS < keys.num_rows:
                _pause(began, ended)

    def chunks(self, table: TableName, target_rows: int) -> list[Chunk]:
        with self._file.reading() as connection:
            live = live_tables(connection)
            if table.table not in live:
                raise UnknownName("table", table.table, live, f"in source {self.name}")
            whole = chunks.whole(table, live[table.table], _estimate(connection, live[table.table]))
        return chunks.cut(self._file, whole, max(1, target_rows))

    def scan(
        self, chunk: Chunk, columns: Sequence[str], at: Position, conditions: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        wanted = [*columns, *chunk.bounds[:1], *(c.column for c in conditions)]

        def begin(connection: Connection, part: Chunk) -> tuple[Scan, Iterator[pa.RecordBatch]]:
            moment, _, (table,) = self._as_of(connection, at, {chunk.table: wanted})
            scan = Scan(table, part, columns, conditions)
            return scan, scan.read(connection, moment.id)

        with self._file.reading() as connection:
            if _streams(connection):
                scan, read = begin(connection, chunk)
                yield from scan.rows(read, self._file.reading)
                return
        rest: Chunk | None = chunk
        while rest is not None:
            began = time.monotonic()
            with self._file.reading() as connection:
                edge = chunks.next_edge(connection, rest, SHORT_ROWS)
                scan, read = begin(connection, chunks.up_to(rest, edge) if edge else rest)
                drained = list(read)
            ended = time.monotonic()
            yield from scan.rows(drained, self._file.reading)
            rest = chunks.beyond(rest, edge) if edge else None
            if rest is not None:
                _pause(began, ended)

    def close(self) -> None:
        self._file.close()

    # ── ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _as_of(
        self, connection: Connection, at: Position, tables: Mapping[TableName, Sequence[str]]
    ) -> tuple[LifeMoment, Log, list[Table]]:
        """Everything a read relies on, found to be so in its own read transaction."""
        try:
            known = self._watch.look(connection)
            log = life.read_log(connection, self._owner.id, life.parse(at).id)
            moment = life.held(log, at, f"source {self.name} ({self._file.path})")
            return moment, log, self._watch.tables(known, log, tables)
        except CaptureMissing:
            self._watch.forget()  # another file may be there, with the same schema version
            raise

    def _anything_ours(self) -> bool:
        with self._file.reading() as connection:
            return bool(layout.ours(connection))


def _pause(began: float, ended: float) -> None:
    """Writers have the file for three times as long as they were kept from it."""
    time.sleep(max(0.0, ended + 3 * (ended - began) - time.monotonic()))


def _streams(connection: Connection) -> bool:
    """Whether readers keep nobody waiting: then an answer may be read while it is handed out."""
    return bool(connection.rows("PRAGMA journal_mode")[0][0] == "wal")


def _identities(table: Table, columns: Sequence[str]) -> Identities:
    found = {column: table.captured.identity(column) for column in columns}
    for column, identity in found.items():
        if identity is None:
            raise CaptureMissing(f"{table.name}.{column} is not captured", SETUP)
    return {column: identity for column, identity in found.items() if identity is not None}


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
