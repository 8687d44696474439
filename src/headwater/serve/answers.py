"""Answers: rows that are made as they are fetched.

What a query's columns are is known before it runs, so a client can ask for them; it runs when the first row is fetched,
and goes on from there: a large answer is never whole in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwater.serve import messages
from headwater.serve.batches import Batches
from headwater.serve.errors import Refused
from headwater.serve.messages import Column, format_of
from headwater.serve.stopping import Stopped
from headwater.serve.types import TEXT, Shown, shown, writer

BATCH = 1_000
MOST_COLUMNS = 1_600


@dataclass(frozen=True)
class Limits:
    """What one statement may take (no rows: any number), and how many clients there may be at once."""

    rows: int = 0
    seconds: float = 300.0
    connections: int = 100


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

    def close(self) -> None:
        """Nobody wants more of it."""

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
    """Rows of views and of what is computed from them."""

    def __init__(self, batches: Batches, formats: Sequence[int], limits: Limits, stopped: Stopped) -> None:
        self._batches, self._limits, self._stopped, self._seen = batches, limits, stopped, 0
        kinds = [shown(kind) for kind in batches.kinds]
        columns = [Column(n, k.oid, k.size, k.modifier) for n, k in zip(batches.names, kinds, strict=True)]
        super().__init__(columns, kinds, formats, "SELECT")

    def close(self) -> None:
        self._batches.close()

    def _more(self) -> list[bytes]:
        with self._stopped.watching(self._batches.interrupt, self._limits.seconds):
            batch = self._batches.more(BATCH)
        if batch is None:
            self._batches.close()
            return []
        self._seen += batch.num_rows
        if self._limits.rows and self._seen > self._limits.rows:
            said = f"the answer has more than {self._limits.rows:,} rows"
            raise Refused("54000", said, "ask for less, or raise [serve] rows")
        return self._written([column.to_pylist() for column in batch.columns])
