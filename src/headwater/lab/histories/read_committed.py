"""A query under read committed: its answer holds some rows as they were earlier than the others (TID, figure 1).

The published algorithms take for granted that a source evaluates a question at one moment. Under this isolation level
it reads row by row, and transactions commit in between; what it reads is committed, but may never have been there all
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headwater.algebra.bag import Bag, Row
from headwater.algebra.spj import Find, Key, key_of
from headwater.maintenance.strategies.contract import Database, Update, Wanted
from headwater.model.names import TableName


class ReadCommitted:
    """A `Database` of which some rows have been `read` already, with the counts they had then. Questions about a
    position, the log and the delta tables see one state all the same."""

    def __init__(self, database: Database, read: Mapping[TableName, Mapping[Row, int]]) -> None:
        self._database = database
        self._read = read

    @property
    def position(self) -> int:
        return self._database.position

    def find(self, table: TableName, positions: tuple[int, ...], wanted: Wanted | None = None) -> Find:
        now, earlier, key_at = self._database.find(table, positions), self._read.get(table, {}), key_of(positions)
        if not earlier:
            return now

        def find(key: Key) -> Iterable[tuple[Row, int]]:
            rows = {row: count for row, count in now(key) if row not in earlier}
            rows.update((row, count) for row, count in earlier.items() if count and key_at(row) == key)
            return rows.items()

        return find

    def rows(self, table: TableName) -> Bag:
        return Bag(dict(self.find(table, ())(())))

    def as_of(self, table: TableName, positions: tuple[int, ...], position: int) -> Find:
        return self._database.as_of(table, positions, position)

    def log(self, after: int) -> Sequence[Update]:
        return self._database.log(after)

    def delta(self) -> Mapping[str, Update]:
        return self._database.delta()

    def forget(self, tids: Iterable[str]) -> None:
        self._database.forget(tids)
