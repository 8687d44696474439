"""Answers: rows that are made as they are fetched.

What a query's columns are is known before it runs, so a client can ask for them; it runs when the first row is fetched,
and goes on from there: a large answer is never whole in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from headwater.serve import messages
from headwater.serve.errors import Refused
from headwater.serve.messages import Column, format_of
from headwater.serve.types import TEXT, Shown, shown, writer

BATCH = 1_000
MOST_COLUMNS = 1_600


@dataclass(frozen=True)
class Limits:
    """What one statement may take; no rows: any number."""

    rows: int = 0
    seconds: float = 300.0


class Stopped:
    """Breaks off what runs: after so long, or because a client asks."""

    def __init__(self) -> None:
        self._lock, self._running, self._why = threading.Lock(), None, ""

    _running: duckdb.DuckDBPyConnection | None

    def cancel(self, why: str = "a client asked to stop this statement") -> None:
        with self._lock:
            if self._running is not None:
                self._why = why
                self._running.interrupt()

    def begin(self, connection: duckdb.DuckDBPyConnection, seconds: float) -> threading.Timer:
        with self._lock:
            self._running, self._why = connection, ""
        timer = threading.Timer(seconds, self.cancel, [f"the statement took longer than {seconds:g} s"])
        timer.daemon = True
        timer.start()
        return timer

    def end(self, timer: threading.Timer) -> str:
        """Why it was broken off, if it was."""
        timer.cancel()
        with self._lock:
            self._running = None
            return self._why


class Answer:
    """The rows of one query, or of a command that shows some. `tag` is what is said when all were fetched."""

    def __init__(self, columns: Sequence[Column], kinds: Sequence[Shown], formats: Sequence[int], tag: str) -> None:
        if len(columns) > MOST_COLUMNS:
            raise Refused("54011", f"an answer may have {MOST_COLUMNS:,} columns", "name those that you want")
        self.columns, self.formats, self.tag, self.done, self.sent = columns, tuple(formats), tag, False, 0
        self._writers = [writer(kind, format_of(formats, n)) for n, kind in enumerate(kinds)]
        self._waiting: list[bytes] = []

    def description(self) -> bytes:
        return messages.row_description(self.columns, self.formats)

    def fetch(self, most: int = 0) -> Iterator[bytes]:
        """The next rows as messages, at most so many; 0: all."""
        left = most or None
        while not self.done and (left is None or left > 0):
            if not self._waiting:
                self._waiting = self._more()
                self.done = not self._waiting
            some = self._waiting if left is None else self._waiting[:left]
            self._waiting = self._waiting[len(some) :]
            self.sent += len(some)
            left = None if left is None else left - len(some)
            if some:
                yield b"".join(some)

    def _more(self) -> list[bytes]:
        """The next rows as messages; none when there are no more."""
        return []

    def _written(self, columns: Sequence[Sequence[object]]) -> list[bytes]:
        written = [
            [None if value is None else write(value) for value in column]
            for write, column in zip(self._writers, columns, strict=True)
        ]
        return [messages.data_row(row) for row in zip(*written, strict=True)]


class Told(Answer):
    """Rows that are known: texts, in columns of these names."""

    def __init__(self, names: Sequence[str], rows: Sequence[Sequence[str]], tag: str, formats: Sequence[int]) -> None:
        kind = Shown(TEXT.oid, -1, -1, TEXT.text, TEXT.binary)
        super().__init__([Column(name, TEXT.oid) for name in names], [kind] * len(names), formats, tag)
        self._rows = list(rows)

    def _more(self) -> list[bytes]:
        rows, self._rows = self._rows, []
        return self._written(list(zip(*rows, strict=True))) if rows else []


class Asked(Answer):
    """Rows of the engine."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, sql: str, formats: Sequence[int], limits: Limits, stopped: Stopped
    ) -> None:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise Refused("25006", "only queries are answered here", "views change with their sources only")
        self._connection, self._limits, self._stopped = connection, limits, stopped
        self._relation = connection.sql(sql)
        if self._relation is None:
            raise Refused("42601", "this is no query", "ask a SELECT")
        kinds = [shown(kind) for kind in self._relation.types]
        names = self._relation.columns
        columns = [Column(n, k.oid, k.size, k.modifier) for n, k in zip(names, kinds, strict=True)]
        super().__init__(columns, kinds, formats, "SELECT")
        self._reader: pa.RecordBatchReader | None = None
        self._seen = 0

    def _more(self) -> list[bytes]:
        timer = self._stopped.begin(self._connection, self._limits.seconds)
        why = ""
        try:
            if self._reader is None:
                self._reader = self._relation.to_arrow_reader(BATCH)
            batch = self._reader.read_next_batch()
            while not batch.num_rows:
                batch = self._reader.read_next_batch()
        except StopIteration:
            return []
        except Exception:
            why = self._stopped.end(timer)
            if why:
                raise Refused("57014", f"canceling statement: {why}", "ask for less: a WHERE, fewer columns") from None
            raise
        finally:
            if not why:
                self._stopped.end(timer)
        self._seen += batch.num_rows
        if self._limits.rows and self._seen > self._limits.rows:
            said = f"the answer has more than {self._limits.rows:,} rows"
            raise Refused("54000", said, "ask for less, or raise [serve] rows")
        return self._written([column.to_pylist() for column in batch.columns])
