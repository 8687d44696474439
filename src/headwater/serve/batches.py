"""The rows of an answer, batch by batch, whoever makes them.

What the columns are is known before the first row, so a client can ask for them; rows are made when they are wanted, so
that a large answer is never whole in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import duckdb
import pyarrow as pa

from headwater.serve.errors import Refused
from headwater.serve.stopping import Interrupted

Kind = duckdb.sqltypes.DuckDBPyType


class Batches(Protocol):
    """`kinds` are the engine's types of the columns."""

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def kinds(self) -> Sequence[Kind]: ...

    def schema(self) -> pa.Schema:
        """As Arrow has it. Asked before the first rows are wanted."""
        ...

    def more(self, most: int) -> pa.RecordBatch | None:
        """The next rows, about so many; None: there are no more."""
        ...

    def interrupt(self) -> None:
        """From another thread: breaks off what `more` does."""
        ...

    def close(self) -> None:
        """What it took is free again."""
        ...


class Computed:
    """By the engine. `done` gives its connection back, and is called when nothing went wrong."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, sql: str, done: Callable[[], None]) -> None:
        self._connection, self._done = connection, done
        self._reader: pa.RecordBatchReader | None = None
        self._ended = self._closed = False
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise Refused("25006", "only queries are answered here", "views change with their sources only")
        self._relation: duckdb.DuckDBPyRelation | None = connection.sql(sql)
        if self._relation is None:
            raise Refused("42601", "this is no query", "ask a SELECT")
        self.names: Sequence[str] = self._relation.columns
        self.kinds: Sequence[Kind] = self._relation.types

    def schema(self) -> pa.Schema:
        assert self._relation is not None
        return self._relation.limit(0).to_arrow_table().schema

    def more(self, most: int) -> pa.RecordBatch | None:
        reader = self._opened(most)
        for batch in reader:
            if batch.num_rows:
                return batch
        self._ended = True
        return None

    def interrupt(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        """One that ran and did not end is not used again: the engine may still be at it."""
        if not self._closed and (self._ended or self._reader is None):
            self._closed, self._reader, self._relation = True, None, None
            self._done()

    def _opened(self, most: int) -> pa.RecordBatchReader:
        if self._reader is None:
            assert self._relation is not None
            self._reader = self._relation.to_arrow_reader(most)
        return self._reader


class Found:
    """By reading the view itself. Columns are (in the view, in the answer, the engine's type) each."""

    def __init__(
        self,
        columns: Sequence[tuple[str, str, Kind]],
        view: pa.Schema,
        rows: Iterator[pa.RecordBatch],
        limit: int | None,
    ) -> None:
        self._columns, self._view, self._rows, self._left = columns, view, rows, limit
        self.names: Sequence[str] = [said for _, said, _ in columns]
        self.kinds: Sequence[Kind] = [kind for _, _, kind in columns]
        self._waiting: pa.RecordBatch | None = None
        self._interrupted = False

    def schema(self) -> pa.Schema:
        return pa.schema([self._view.field(column).with_name(said) for column, said, _ in self._columns])

    def more(self, most: int) -> pa.RecordBatch | None:
        if self._interrupted:
            raise Interrupted
        batch = self._waiting
        while batch is None or not batch.num_rows:
            batch = next(self._rows, None)
            if batch is None:
                return None
        if self._left == 0:
            return None
        most = most if self._left is None else min(most, self._left)
        some = batch.slice(0, most)
        self._waiting = batch.slice(most) if batch.num_rows > most else None
        self._left = None if self._left is None else self._left - some.num_rows
        return pa.RecordBatch.from_arrays([some.column(name) for name, _, _ in self._columns], schema=self.schema())

    def interrupt(self) -> None:
        self._interrupted = True

    def close(self) -> None:
        self._rows = iter(())
