"""How a PostgreSQL source is read: statements that look whether the table is still what they were made for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import psycopg
import pyarrow as pa
from psycopg import sql

from headwater.model.errors import HeadwaterError, ValueUnfit
from headwater.model.names import TableName
from headwater.model.source import UNFIT
from headwater.sources.postgres import life, log_limit
from headwater.sources.postgres.catalog import PgTable
from headwater.sources.postgres.connection import MOVED, Connection, ConnectionPool
from headwater.sources.postgres.copying import copied_out
from headwater.sources.postgres.csv import Misfit, misfit_advice, read_csv, read_csv_with_misfits, shortened
from headwater.sources.postgres.identity import KnownTables, may_have_moved
from headwater.sources.postgres.log import Log
from headwater.sources.postgres.snapshot import Snapshot
from headwater.sources.postgres.sql import AsOf, key_of

_TRIES, _PATIENCE = 4, 10.0
"""How often a table is read anew whose catalog may have changed while it was read; and for how many seconds one is that
was altered for certain. A TRUNCATE alters it, too: a job that empties and fills a table again and again must not look
like an outage."""

READ = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"
READ_ONE_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
PROBING = "; SET LOCAL enable_seqscan = off"

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """A statement, what its rows are, and which column of which table each of them is."""

    statement: sql.Composable | AsOf
    schema: pa.Schema
    of: Mapping[str, tuple[TableName, str]]


class ByLog(Exception):
    """The log tells changes of these tables, which one statement cannot wait for."""


class _Again:
    """Whether to read anew."""

    def __init__(self) -> None:
        self._tries, self._until = 0, time.monotonic() + _PATIENCE

    def helps(self, error: psycopg.Error) -> bool:
        self._tries += 1
        moved = error.sqlstate == MOVED and time.monotonic() < self._until
        return may_have_moved(error) and (moved or self._tries < _TRIES)


class Reader:
    def __init__(self, connections: ConnectionPool, known: KnownTables, log_limit: int | None = None) -> None:
        self._connections, self._log_limit = connections, log_limit
        self.known = known
        self.log = Log()

    def move(self, upto: str | None, idle: Connection | None = None) -> int | None:
        """Have the log told up to there (`log.py`), unless it has grown too long to be waited for (`log_limit.py`)."""
        if self.log.knows(upto):
            return None
        with contextlib.nullcontext(idle) if idle is not None else self._connections.borrow() as connection:
            held = log_limit.watch(connection, self._log_limit)
            return self.log.move(upto, connection, held.bytes if held is not None else 0)

    def anew(self, names: Sequence[TableName], work: Callable[[Connection], T]) -> T:
        """The work, done again if the tables turn out to be in another shape than they were taken for."""
        again = _Again()
        while True:
            with self._connections.borrow() as connection:
                try:
                    return work(connection)
                except psycopg.Error as error:
                    if not again.helps(error):
                        raise
                    self.known.forget(names)

    def answers(
        self,
        named: Mapping[TableName, Sequence[str]],
        settings: str,
        asked_of: Callable[[Mapping[TableName, PgTable]], Asked],
    ) -> Iterator[pa.RecordBatch]:
        """As `anew`, but given out as it comes: what tells that a table moved comes before its first row. `named` are
        the tables and the columns of each that are read. How a table is captured may change while a reader lives, so
        it is looked at with everything else that the statement is made for: with each attempt."""
        again = _Again()
        while True:
            given = False
            with self._connections.borrow() as connection:
                try:
                    tables = {name: self.known.captured(connection, name, columns) for name, columns in named.items()}
                    asked, by_log = asked_of(tables), any(table.logged for table in tables.values())
                    if by_log and not isinstance(asked.statement, AsOf):
                        raise ByLog
                    first = asked.statement
                    if isinstance(first, AsOf):
                        first = first.present() if by_log else first.at_once()
                    how = READ_ONE_SNAPSHOT if by_log else READ
                    self.begin(connection, how + settings, list(tables.values()))
                    shown, lsn = shown_now(connection) if by_log else (None, None)
                    for batch in self._told(connection, first, asked, tables):
                        yield batch
                        given = True
                    connection.execute("COMMIT")
                except psycopg.Error as error:
                    if given or not again.helps(error):
                        raise
                    self.known.forget(list(named))
                    continue
            if shown is not None and isinstance(asked.statement, AsOf):
                self.move(lsn)
                with self._connections.borrow() as connection:  # if it has moved now, whoever asks must ask again
                    self.begin(connection, READ + settings, list(tables.values()))
                    yield from self._told(connection, asked.statement.since(shown.text), asked, tables)
                    connection.execute("COMMIT")
            return

    def _told(
        self, connection: Connection, statement: sql.Composable, asked: Asked, tables: Mapping[TableName, PgTable]
    ) -> Iterator[pa.RecordBatch]:
        try:
            with copied_out(connection, _copy(statement)) as pieces:
                yield from read_csv(pieces, asked.schema)
        except Misfit as misfit:
            table, column = asked.of[misfit.column]
            raise self._unfit(tables[table], Misfit(column, misfit.value)) from None

    def begin(self, connection: Connection, how: str, tables: Sequence[PgTable]) -> None:
        """Begin, and lock before the first snapshot (see above)."""
        begin: sql.SQL | sql.Composed = sql.SQL(how)
        if tables:
            names = sql.SQL(", ").join(t.rows_of_its_own for t in tables)
            begin = sql.SQL("{}; LOCK TABLE {} IN ACCESS SHARE MODE").format(begin, names)
        connection.execute(begin)

    def copied(self, connection: Connection, statement: sql.Composable, schema: pa.Schema) -> pa.Table:
        """All rows. The copy is read to its end whatever is in it, so that the transaction can go on."""
        read = read_csv_with_misfits if UNFIT in schema.names else read_csv
        with copied_out(connection, _copy(statement)) as pieces:
            try:
                return pa.Table.from_batches(read(pieces, schema), schema)
            except Misfit:
                for _ in pieces:
                    pass
                raise

    def _unfit(self, table: PgTable, misfit: Misfit) -> ValueUnfit:
        kind = table.columns[misfit.column].type
        row = f" of the row with {key}" if (key := self._key(table, misfit)) else ""
        return ValueUnfit(
            f"{table.name}.{misfit.column}: the value {shortened(misfit.value)}{row} does not fit {kind} exactly",
            misfit_advice(kind),
        )

    def _key(self, table: PgTable, misfit: Misfit) -> str | None:
        """Which row has such a value now; None if none has any longer."""
        statement = sql.SQL("SELECT {} FROM {} AS b WHERE b.{}::text = {} LIMIT 1").format(
            key_of(table, lambda c: sql.SQL("b.{}::text").format(sql.Identifier(c)), sql.SQL("b.*::text")),
            table.rows_of_its_own,
            sql.Identifier(misfit.column),
            sql.Literal(misfit.value),
        )
        try:
            with self._connections.borrow() as connection:
                row = connection.execute(statement).fetchone()
        except HeadwaterError:
            return None
        return row[0] if row else None


def shown_now(connection: Connection) -> tuple[Snapshot, str | None]:
    """The snapshot that is read in, and where the log ended when it had been taken."""
    row = connection.execute(sql.SQL("SELECT {}").format(life.NOW)).fetchone()
    assert row is not None
    return Snapshot.parse(row[0]), row[2]


def _copy(statement: sql.Composable) -> sql.Composed:
    return sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(statement)
