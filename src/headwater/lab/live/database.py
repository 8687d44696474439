"""A real source as strategies see it: the contract's `Database` over a `Source` adapter.

"Now" is where the last poll ended, so whatever is asked between two polls is asked of one moment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headwater.algebra.bag import Bag, Row
from headwater.algebra.spj import Find, Key, index
from headwater.maintenance.strategies.contract import Label, Update
from headwater.model.errors import UsageError
from headwater.model.names import Position, TableName
from headwater.model.source import COUNT, ORDINAL, Question, Source

LIMIT, CHUNK = 10_000, 100_000
"""Changes that one poll brings, and rows that one scan reads, at most."""
MOST = 200_000
"""Rows of a table, at most: this is for looking at an algorithm, not for copying a database."""


class LiveDatabase:
    """The contract's `Database` over an adapter: the source as of its last poll. "Now" is where that poll ended."""

    def __init__(self, source: Source, schemas: Mapping[TableName, pa.Schema]) -> None:
        self._source = source
        self._schemas = schemas
        self._log: list[Update] = []
        self._delta: dict[str, Update] = {}
        self.rows_read = 0
        """Rows that the source has answered with."""
        self._polled: list[tuple[int, Position]] = [(0, source.position())]
        """Where polls ended: how many transactions had been told, and the source's own word for it."""

    def poll(self) -> list[Update]:
        """All that has been committed since the last poll; "now" moves there."""
        told, more = len(self._log), True
        while more:
            poll = self._source.poll(self._polled[-1][1], {t: s.names for t, s in self._schemas.items()}, LIMIT)
            changes: list[dict[TableName, list[tuple[Row, int]]]] = [{} for _ in range(poll.transactions.num_rows)]
            for table, rows in poll.changes.items():
                counts, ordinals = rows.column(COUNT).to_pylist(), rows.column(ORDINAL).to_pylist()
                for row, times, n in zip(_rows(rows, self._schemas[table].names), counts, ordinals, strict=True):
                    changes[n].setdefault(table, []).append((row, times))
            for changed, said in zip(changes, poll.transactions.to_pylist(), strict=True):
                label = Label(str(self._source.name), len(self._log) + 1)
                bags = {t: bag for t, rows in changed.items() if (bag := Bag.summed(rows))}
                # a clock may go back, the order in which transactions are told does not
                at = max(said["committed_at"].timestamp(), self._log[-1].at if self._log else 0.0)
                update = Update(label, bags, at, said["transaction"], said["global_id"] or "")
                self._log.append(update)
                self._delta[update.tid] = update
            if self._polled[-1][0] == len(self._log):
                self._polled.pop()  # the same state, in newer words
            self._polled.append((len(self._log), poll.end))
            more = poll.more
        return self._log[told:]

    @property
    def position(self) -> int:
        return len(self._log)

    def rows(self, table: TableName) -> Bag:
        return self._scan(table, self._polled[-1][1])

    def find(self, table: TableName, positions: tuple[int, ...]) -> Find:
        return self._find(table, positions, self._polled[-1][1])

    def as_of(self, table: TableName, positions: tuple[int, ...], position: int) -> Find:
        """As of the first poll that ended there or later, less what it told beyond: R(p) = R(q) − changes in (p, q]."""
        told, at = self._polled[bisect_left(self._polled, position, key=lambda polled: polled[0])]
        there = self._find(table, positions, at)
        beyond = sum((u.changes.get(table, Bag()) for u in self._log[position:told]), Bag())
        if not beyond:
            return there
        less = index(-beyond, positions)
        return lambda key: Bag.summed([*there(key), *less(key)])

    def log(self, after: int) -> Sequence[Update]:
        return self._log[after:]

    def delta(self) -> Mapping[str, Update]:
        return self._delta

    def forget(self, tids: Iterable[str]) -> None:
        for tid in tids:
            self._delta.pop(tid, None)

    def _find(self, table: TableName, positions: tuple[int, ...], at: Position) -> Find:
        """One key at a time, as strategies look them up; each is asked for once in a question."""
        fields, names = [self._schemas[table].field(i) for i in positions], self._schemas[table].names
        found: dict[Key, Bag] = {}

        def find(key: Key) -> Bag:
            if key not in found:
                keys = _keys(fields, key if len(fields) > 1 else (key,)) if fields else None
                if keys is not None:
                    question = Question(table, tuple(keys.column_names), keys, tuple(names))
                    found[key] = self._bag(self._source.ask(question, at), names)
                else:
                    found[key] = Bag() if fields else self._scan(table, at)
            return found[key]

        return find

    def _scan(self, table: TableName, at: Position) -> Bag:
        names, chunks = self._schemas[table].names, self._source.chunks(table, CHUNK)
        batches = (batch for chunk in chunks for batch in self._source.scan(chunk, names, at))
        return self._bag(self._few(table, batches), names)

    def _few(self, table: TableName, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            if rows > MOST:
                raise UsageError(
                    f"{table} has more than {MOST:,} rows, and everything is kept in memory here",
                    "choose a view over smaller tables",
                )
            yield batch

    def _bag(self, batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> Bag:
        """The fold of an answer."""
        pairs: list[tuple[Row, int]] = []
        for batch in batches:
            self.rows_read += batch.num_rows
            pairs.extend(zip(_rows(batch, names), batch.column(COUNT).to_pylist(), strict=True))
        return Bag.summed(pairs)


def _rows(rows: pa.Table | pa.RecordBatch, names: Sequence[str]) -> Iterable[Row]:
    return zip(*(rows.column(name).to_pylist() for name in names), strict=True)


def _keys(fields: Sequence[pa.Field], key: Sequence[Any]) -> pa.Table | None:
    """A key in the types of its columns; None if no row can have it: two values for one column, or one that the column
    cannot hold."""
    arrays: dict[str, pa.Array] = {}
    for field, value in zip(fields, key, strict=True):
        try:
            array = arrays.setdefault(field.name, pa.array([value], field.type))
        except (pa.ArrowInvalid, OverflowError):
            return None
        if array[0].as_py() != value:  # Arrow makes 5.5 a 5
            return None
    return pa.table(arrays)
