"""A real source as strategies see it: the contract's `Database` over a `Source` adapter.

"Now" is where the last poll ended, so whatever is asked between two polls is asked of one moment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from headwater.algebra.bag import Bag, Row
from headwater.algebra.spj import Find, Key, index
from headwater.maintenance.strategies.asked import AskedTable
from headwater.maintenance.strategies.contract import Label, Update, Wanted
from headwater.maintenance.strategies.values import PYTHONS
from headwater.model.errors import UsageError
from headwater.model.names import Position, TableName
from headwater.model.source import ORDINAL, Question, Source

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
                own = PYTHONS.rows(rows, self._schemas[table].names)
                for pair, n in zip(own, rows.column(ORDINAL).to_pylist(), strict=True):
                    changes[n].setdefault(table, []).append(pair)
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

    def find(self, table: TableName, positions: tuple[int, ...], wanted: Wanted | None = None) -> Find:
        return self._find(table, positions, self._polled[-1][1], wanted)

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

    def _find(self, table: TableName, positions: tuple[int, ...], at: Position, wanted: Wanted | None = None) -> Find:
        if not positions:
            rows: list[Bag] = []

            def everything(key: Key) -> Bag:
                if not rows:
                    rows.append(self._scan(table, at))
                return rows[0]

            return everything

        def ask(question: Question) -> Iterator[pa.Table]:
            for batch in self._source.ask(question, at):
                self.rows_read += batch.num_rows
                yield pa.table(batch)

        return AskedTable(table, self._schemas[table], values=PYTHONS).find(ask, positions, wanted)

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
            pairs.extend(PYTHONS.rows(pa.table(batch), names))
        return Bag.summed(pairs)
