"""How a PostgreSQL source is read: statements that look whether the table is still what they were made for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import psycopg
import pyarrow as pa
from psycopg import sql

from headwater.model.errors import HeadwaterError, ValueUnfit
from headwater.model.names import TableName
from headwater.model.source import UNFIT
from headwater.sources.postgres import life
from headwater.sources.postgres.catalog import PgTable
from headwater.sources.postgres.connection import Connection, ConnectionPool
from headwater.sources.postgres.csv import Misfit, misfit_advice, read_csv, read_csv_with_misfits, shortened
from headwater.sources.postgres.identity import KnownTables, may_have_moved
from headwater.sources.postgres.log import Log
from headwater.sources.postgres.snapshot import Snapshot
from headwater.sources.postgres.sql import key_of

_TRIES = 4
"""How often a table that is altered while it is read is read anew."""

READ = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"
READ_ONE_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """A statement, what its rows are, and which column of which table each of them is."""

    statement: sql.Composable
    schema: pa.Schema
    of: Mapping[str, tuple[TableName, str]]


class Reader:
    def __init__(self, connections: ConnectionPool, known: KnownTables) -> None:
        self._connections = connections
        self.known = known
        self.log = Log(connections)

    def anew(self, names: Sequence[TableName], work: Callable[[Connection], T]) -> T:
        """The work, done again if the tables turn out to be in another shape than they were taken for."""
        for attempt in range(_TRIES):
            with self._connections.borrow() as connection:
                try:
                    return work(connection)
                except psycopg.Error as error:
                    if attempt == _TRIES - 1 or not may_have_moved(error):
                        raise
                    self.known.forget(names)
        raise AssertionError("the last attempt raises")

    def answers(
        self,
        named: Mapping[TableName, Sequence[str]],
        begin: str,
        statement: Callable[[Mapping[TableName, PgTable]], Asked],
    ) -> Iterator[pa.RecordBatch]:
        """As `anew`, but given out as it comes: what tells that a table moved comes before its first row. `named` are
        the tables and the columns of each that are read."""
        for attempt in range(_TRIES):
            given = False
            with self._connections.borrow() as connection:
                try:
                    tables = {name: self.known.captured(connection, name, columns) for name, columns in named.items()}
                    asked = statement(tables)
                    self.begin(connection, begin, list(tables.values()))
                    with connection.cursor().copy(_copy(asked.statement)) as copy:
                        for batch in read_csv(copy, asked.schema):
                            yield batch
                            given = True
                    connection.execute("COMMIT")
                    return
                except Misfit as misfit:
                    table, column = asked.of[misfit.column]
                    raise self._unfit(tables[table], Misfit(column, misfit.value)) from None
                except psycopg.Error as error:
                    if given or attempt == _TRIES - 1 or not may_have_moved(error):
                        raise
                    self.known.forget(list(named))

    def answers_by_log(
        self,
        named: Mapping[TableName, Sequence[str]],
        begin: str,
        statements: Callable[[Mapping[TableName, PgTable]], tuple[Asked, Callable[[Snapshot], Asked]]],
    ) -> Iterator[pa.RecordBatch]:
        """As `answers`, of a table that is captured by the log: what it holds, in one snapshot, and then the changes
        that this snapshot shows, once they have been moved (`log.py`)."""
        for attempt in range(_TRIES):
            given = moved = False
            with self._connections.borrow() as connection:
                try:
                    tables = {name: self.known.captured(connection, name, columns) for name, columns in named.items()}
                    present, later = statements(tables)
                    self.begin(connection, f"{READ_ONE_SNAPSHOT}{begin}", list(tables.values()))
                    shown, lsn = shown_now(connection)
                    for batch in self._told(connection, present, tables):
                        yield batch
                        given = True
                    connection.execute("COMMIT")
                except psycopg.Error as error:
                    if given or attempt == _TRIES - 1 or not may_have_moved(error):
                        raise
                    moved = True
            if not moved:
                self.log.move(lsn)
                with self._connections.borrow() as connection:  # what tells that it moved is said to whoever asked
                    self.begin(connection, f"{READ}{begin}", list(tables.values()))
                    yield from self._told(connection, later(shown), tables)
                    connection.execute("COMMIT")
                return
            self.known.forget(list(named))

    def _told(
        self, connection: Connection, asked: Asked, tables: Mapping[TableName, PgTable]
    ) -> Iterator[pa.RecordBatch]:
        try:
            with connection.cursor().copy(_copy(asked.statement)) as copy:
                yield from read_csv(copy, asked.schema)
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
        with connection.cursor().copy(_copy(statement)) as copy:
            try:
                return pa.Table.from_batches(read(copy, schema), schema)
            except Misfit:
                for _ in copy:
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
