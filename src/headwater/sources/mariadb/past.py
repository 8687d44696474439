"""The state of tables at a position: the tables now, less what the log tells since.

    R(P) = R(S) − changes in (P, S]          S is a snapshot that says where in the log it is
    R(P) = R(S) + changes in (S, P]          where the log is a moment ahead of what snapshots show

`START TRANSACTION WITH CONSISTENT SNAPSHOT` and `binlog_snapshot_position` are exact to the transaction. Each table
is touched once before the log is read to its end: from then on nobody alters it, and an alteration between snapshot
and touch is in what is read. Then all is read anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.conditions import Condition
from headwater.model.errors import CaptureMissing, PositionTrimmed, SchemaChanged, SourceUnavailable
from headwater.model.names import SourceName, TableName
from headwater.model.source import COUNT, Chunk, Question, SourceSpec
from headwater.sources.mariadb import books as bookkeeping
from headwater.sources.mariadb.answering import Answering
from headwater.sources.mariadb.books import Books
from headwater.sources.mariadb.catalog import MariaTable
from headwater.sources.mariadb.connection import Connection, ConnectionPool, another_life, quoted, rows
from headwater.sources.mariadb.images import Wanted
from headwater.sources.mariadb.known import KnownTables, old_enough
from headwater.sources.mariadb.places import LogPosition, Place, place_of
from headwater.sources.mariadb.transactions import Log
from headwater.sources.mariadb.types import MariaColumn
from headwater.sources.mariadb.window import PLACE, LogWindow, window_of

_TRIES = 5


@dataclass(frozen=True)
class Snapshot:
    """A transaction that reads, where in the log it is, and the tables as it sees them."""

    connection: Connection
    source: SourceName
    place: Place
    at: Place
    tables: Mapping[TableName, tuple[MariaTable, int]]
    window: LogWindow
    known: KnownTables

    def ask(self, question: Question) -> Iterator[pa.RecordBatch]:
        yield from self._answering.ask(question)

    def scan(self, chunk: Chunk, names: Sequence[str], conditions: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
        yield from self._answering.scan(chunk, names, conditions)

    @property
    def _answering(self) -> Answering:
        return Answering(self.connection, {name: table for name, (table, _) in self.tables.items()}, self._changed)

    def _changed(self, table: MariaTable, columns: Sequence[MariaColumn], where: Sequence[str]) -> Iterator[pa.Table]:
        """What lies between the position and the snapshot."""
        low, high = sorted((self.at, self.place))
        if low == high:
            return
        texts = self.known.texts(self.connection, table)
        read = Wanted(tuple(columns), texts)
        with self.window.lock:
            found = self.window.changes(table.name.table, read, self.tables[table.name][1], (low, high))
        if not found.num_rows:
            return
        if self.at < self.place:
            taken_back = pc.negate(found.column(COUNT))
            found = found.set_column(found.schema.get_field_index(COUNT), COUNT, taken_back)
        yield found.drop_columns([PLACE])


class Reader:
    def __init__(self, spec: SourceSpec, pool: ConnectionPool, known: KnownTables) -> None:
        self._spec, self._pool, self._known = spec, pool, known

    @contextlib.contextmanager
    def snapshot(self, at: LogPosition, tables: Mapping[TableName, Sequence[str]]) -> Iterator[Snapshot]:
        """Of now, for questions as of a position about these columns."""
        with self._pool.borrow() as connection:
            yield self._begun(connection, at, tables)

    def _begun(self, connection: Connection, at: LogPosition, tables: Mapping[TableName, Sequence[str]]) -> Snapshot:
        for _ in range(_TRIES):
            rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            said = dict(rows(connection, "SHOW STATUS LIKE 'binlog_snapshot_%%'"))
            log, place = place_of(said["Binlog_snapshot_file"], int(said["Binlog_snapshot_position"]))
            books = held(bookkeeping.read(connection, self._spec), self._spec, at)
            for table in tables:
                self._touch(connection, table)
            if log != at.head.log:
                raise another_life(self._spec.name, f"its log is called {log} now")
            window = window_of(self._pool, books, self._spec.owner)
            with window.lock:
                window.cover(Log(self._pool, self._spec.name, log), books, at)
                window.write(self._pool, books)
                found = {
                    name: self._known.judged(connection, name, columns, (books, window))
                    for name, columns in tables.items()
                }
            for name, (_, newest) in found.items():
                old_enough(books, name, at.place, newest)
            if all(newest <= int(place) for _, newest in found.values()):
                return Snapshot(connection, self._spec.name, place, at.place, found, window, self._known)
            rows(connection, "ROLLBACK")
        raise SourceUnavailable(f"source {self._spec.name}: tables are altered again and again", "try again")

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
