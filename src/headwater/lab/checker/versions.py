"""A table over time: one index for all of its versions, instead of an index for each.

Every row that ever was there is kept with its counts and from when on they were so; a lookup takes those of its moment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from headwater.algebra.bag import Bag, Row
from headwater.algebra.spj import Find, Key, key_of
from headwater.maintenance.strategies.contract import Update
from headwater.model.names import TableName

Counts = tuple[list[int], list[int]]
"""From which transaction on a row has which count."""


class Versions:
    """What a table holds after the first n transactions of its source, for every n."""

    def __init__(self, initial: Bag, chain: Sequence[Update], table: TableName) -> None:
        self.changes: list[tuple[int, Bag]] = [(0, initial)]
        self.changes += [(n, u.changes[table]) for n, u in enumerate(chain, 1) if u.changes.get(table)]
        self._indexes: dict[tuple[int, ...], dict[Key, dict[Row, Counts]]] = {}

    def find(self, positions: tuple[int, ...], n: int) -> Find:
        """Rows by the key at these positions, after n transactions."""
        index = self._index(positions)

        def find(key: Key) -> Iterable[tuple[Row, int]]:
            for row, (numbers, counts) in index.get(key, {}).items():
                at = bisect_right(numbers, n) - 1
                if at >= 0 and counts[at]:
                    yield row, counts[at]

        return find

    def rows(self, n: int) -> Bag:
        return Bag(dict(self.find((), n)(())))

    def change(self, low: int, high: int) -> Bag:
        """What the transactions after the first `low`, up to `high`, changed; from high to low, what it takes back."""
        if high < low:
            return -self.change(high, low)
        start = bisect_right(self.changes, low, key=lambda c: c[0])
        stop = bisect_right(self.changes, high, key=lambda c: c[0])
        if stop - start == 1:
            return self.changes[start][1]
        return Bag.summed(pair for _, bag in self.changes[start:stop] for pair in bag)

    def _index(self, positions: tuple[int, ...]) -> dict[Key, dict[Row, Counts]]:
        index = self._indexes.get(positions)
        if index is None:
            index = self._indexes[positions] = {}
            key_at = key_of(positions)
            for n, bag in self.changes:
                for row, count in bag.counts.items():
                    numbers, counts = index.setdefault(key_at(row), {}).setdefault(row, ([], []))
                    numbers.append(n)
                    counts.append(counts[-1] + count if counts else count)
        return index
