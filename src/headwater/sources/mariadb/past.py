"""The state of tables at a position: the tables now, less what the log tells since.

    R(P) = R(S) − changes in (P, S]          S is a snapshot that says where in the log it is
    R(P) = R(S) + changes in (S, P]          where the log is a moment ahead of what snapshots show

Where S is in the log, and what is done where only its neighbourhood is known: `moments.py`. Each table is touched once
before the log is read to its end: from then on nobody alters it, and an alteration between snapshot and touch is in
what is read. Then all is read anew. What the log tells is taken while the window is held, before any row is read.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.conditions import Condition
from headwater.model.errors import CaptureMissing, PositionTrimmed, SchemaChanged, SourceUnavailable
from headwater.model.names import TableName
from headwater.model.source import COUNT, Chunk, Question, SourceSpec
from headwater.sources.mariadb import books as bookkeeping
from headwater.sources.mariadb import catalog
from headwater.sources.mariadb.answering import Answering
from headwater.sources.mariadb.books import Books
from headwater.sources.mariadb.catalog import MariaTable
from headwater.sources.mariadb.connection import Connection, ConnectionPool, another_life, quoted, rows
from headwater.sources.mariadb.images import Wanted
from headwater.sources.mariadb.known import KnownTables, old_enough
from headwater.sources.mariadb.moments import Doubts, Opened, open_snapshot, readable_key, still
from headwater.sources.mariadb.moments import doubts as decided
from headwater.sources.mariadb.places import LogPosition, Place
from headwater.sources.mariadb.transactions import Log
from headwater.sources.mariadb.types import MariaColumn
from headwater.sources.mariadb.window import PLACE, LogWindow, window_of

_TRIES = 9
_UNDISTURBED, _HELD_UP = 4, 5
"""From then on tables that need it are locked for a moment; and from then on so that writers wait behind the lock."""


@dataclass(frozen=True)
class Seen:
    """A table in a snapshot, as far as the log tells: what leads from the rows there to those at the position."""

    table: MariaTable
    changed: tuple[pa.Table, ...] = ()
    doubts: Doubts | None = None
    """None if no change of it is doubtful."""


@dataclass(frozen=True)
class Snapshot:
    """A transaction that reads, and the tables as it sees them."""

    connection: Connection
    tables: Mapping[TableName, Seen]

    def ask(self, question: Question) -> Iterator[pa.RecordBatch]:
        yield from self._answering.ask(question)

    def scan(self, chunk: Chunk, names: Sequence[str], conditions: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
        yield from self._answering.scan(chunk, names, conditions)

    @property
    def _answering(self) -> Answering:
        doubts = {name: seen.doubts for name, seen in self.tables.items() if seen.doubts is not None}
        return Answering(self.connection, {n: seen.table for n, seen in self.tables.items()}, self._changed, doubts)

    def _changed(self, table: MariaTable, columns: Sequence[MariaColumn], where: Sequence[str]) -> Iterator[pa.Table]:
        """What lies between the position and the snapshot."""
        yield from self.tables[table.name].changed


@dataclass(frozen=True)
class _Told:
    """The log around a snapshot, which holds all up to `low`, nothing beyond `high`, and perhaps what is between."""

    window: LogWindow
    at: Place
    low: Place
    high: Place


class Reader:
    def __init__(self, spec: SourceSpec, pool: ConnectionPool, known: KnownTables) -> None:
        self._spec, self._pool, self._known = spec, pool, known

    @contextlib.contextmanager
    def snapshot(self, at: LogPosition, tables: Mapping[TableName, Sequence[str]]) -> Iterator[Snapshot]:
        """Of now, for questions as of a position about these columns."""
        with self._pool.borrow() as connection:
            yield self._begun(connection, at, tables)

    def _begun(self, connection: Connection, at: LogPosition, tables: Mapping[TableName, Sequence[str]]) -> Snapshot:
        doubtful: frozenset[TableName] = frozenset()
        for n in range(_TRIES):
            quiet = doubtful if n >= _UNDISTURBED else frozenset[TableName]()
            with still(self._pool, quiet, "READ" if n < _HELD_UP else "WRITE") as locking:
                opened = open_snapshot(connection, locking)
            found = self._tried(connection, (opened, quiet), at, tables)
            if isinstance(found, Snapshot):
                return found
            rows(connection, "ROLLBACK")
            doubtful |= found
            time.sleep(0.001 * 2**n)
        source = self._spec.name
        if doubtful:
            raise SourceUnavailable(
                f"{', '.join(map(str, sorted(doubtful)))} has no primary key and is written without a pause, so nobody"
                " can say which state a snapshot of it shows",
                "it is tried again; give the table a primary key, or"
                f" GRANT LOCK TABLES ON {quoted(self._pool.database)}.* TO {self._pool.user}",
            )
        raise SourceUnavailable(f"source {source}: tables are altered again and again", "try again")

    def _tried(
        self,
        connection: Connection,
        moment: tuple[Opened, frozenset[TableName]],
        at: LogPosition,
        tables: Mapping[TableName, Sequence[str]],
    ) -> Snapshot | frozenset[TableName]:
        """What was opened, as a snapshot that knows its place; or, if it can be used for nothing, the tables whose
        doubtful changes cannot be decided. Some tables may have been locked when it was opened."""
        opened, quiet = moment
        books = held(bookkeeping.read(connection, self._spec), self._spec, at)
        for table in tables:
            self._touch(connection, table)
        if opened.log and opened.log != at.head.log:
            raise another_life(self._spec.name, f"its log is called {opened.log} now")
        window = window_of(self._pool, books, self._spec.owner)
        with window.lock:
            high = window.cover(Log(self._pool, self._spec.name, at.head.log), books, at, opened.place or opened.sure)
            low = opened.place or window.settled(opened.executed)
            window.write(self._pool, books)
            found = {
                name: self._known.judged(connection, name, columns, (books, window)) for name, columns in tables.items()
            }
            for name, (_, newest) in found.items():
                old_enough(books, name, at.place, newest)
            if low is None or any(newest > int(low) for _, newest in found.values()):
                return frozenset()
            told = _Told(window, at.place, low, low if opened.place is not None else high)
            seen, doubtful = {}, set()
            for name, known in found.items():
                exact = opened.sure if name in quiet else None
                around = replace(told, low=exact, high=exact) if exact is not None else told
                one = self._seen(connection, known, tables[name], around)
                if one is None:
                    doubtful.add(name)
                else:
                    seen[name] = one
        return frozenset(doubtful) if doubtful else Snapshot(connection, seen)

    def _seen(
        self, connection: Connection, found: tuple[MariaTable, int], columns: Sequence[str], told: _Told
    ) -> Seen | None:
        """What the log tells of a table; None if what it showed cannot be decided."""
        table, newest = found
        texts = self._known.texts(connection, table)

        def changes(names: Sequence[str], first: Place, last: Place) -> pa.Table:
            read = Wanted(tuple(table.columns[c] for c in names), texts)
            return told.window.changes(table.name.table, read, newest, (first, last))

        changed, doubts = [], None
        if told.window.touches(table.name.table, told.low, told.high):
            key = catalog.primary_key(connection, table.name)
            if key != table.key:
                self._known.forget()
                return None
            if not readable_key(table) or told.window.alters(told.low, told.high):
                return None
            doubts = decided(key, changes(key, told.low, told.high))
            if doubts is None:
                return None
            changed.append(doubts.images(changes(columns, told.low, told.high)))
        between = changes(columns, *sorted((told.at, told.low)))
        if told.at < told.low:
            sign = pc.negate(between.column(COUNT))
            between = between.set_column(between.schema.get_field_index(COUNT), COUNT, sign)
        changed.append(between)
        return Seen(table, tuple(one.drop_columns([PLACE]) for one in changed if one.num_rows), doubts)

    def _touch(self, connection: Connection, table: TableName) -> None:
        try:
            rows(connection, f"SELECT 1 FROM {quoted(table.table)} LIMIT 0")
        except Exception as error:
            if getattr(error, "args", (0,))[0] == 1146:
                raise SchemaChanged(f"{table} does not exist", "create it again, or change the views") from None
            raise


def held(books: Books | None, spec: SourceSpec, at: LogPosition) -> Books:
    """The books, if they are those of a position that can be asked about."""
    if books is None or books.floor is None:
        raise CaptureMissing(f"capture is not installed at source {spec.name}", "run 'headwater setup'")
    if at.generation != books.life:
        raise another_life(spec.name, "capture was installed anew")
    if at.place < books.floor.place:
        raise PositionTrimmed(
            f"source {spec.name} keeps nothing before {books.floor.text()}", "ask as of a newer position"
        )
    return books
