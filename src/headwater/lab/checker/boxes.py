"""Source states with a given content, by branch and bound: for linear views, in lattices that are too large to visit.

A content is a sum of terms, each the join of what single transactions changed; a term counts from the least vector on
that holds those transactions (see `source_states`). In a box of vectors from `low` to `high`, the terms up to `low`
count everywhere, and those that are not up to `high` nowhere. What is in between can add at most all that is positive
and take away at most all that is negative, row by row. If what is wanted is not within these bounds, the box holds no
such source state; otherwise it is halved.

The lower half is looked at first. So of two source states one of which is below the other, the lower is found first,
and whatever is above one that was found need not be looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.algebra.bag import Row
from headwater.lab.checker.lattice import Vector, below
from headwater.lab.checker.source_states import Contents, SourceStates, Spent

Numbers = NDArray[np.int64]
Wanted = Numbers | None
"""A content, row by row; None if it has rows that never are there."""
OPEN = 5000
"""A box with so many more open terms counts as one more."""
EXACT = 1 << 50
"""Sums up to this are exact, also as floats, which numpy has them as on the way."""


class _Box(NamedTuple):
    """`open` are the terms that count somewhere in the box and not everywhere; `need` what they must add up to."""

    low: Vector
    high: Vector
    open: NDArray[np.intp]
    need: Numbers


class Boxes:
    """Finds source states of linear views. `budget` is how many boxes it may look at, until that is renewed; there may
    be ten times as many terms, otherwise this raises `Spent`."""

    def __init__(self, states: SourceStates, budget: int) -> None:
        self.lattice = states.lattice
        self.budget = budget
        self.visited = 0
        self._ids: dict[tuple[str, Row], int] = {}
        most = 0
        cells, rows, counts = [], [], []
        for view, cell, bag in states.terms(10 * budget):
            for row, count in bag.counts.items():
                cells.append(cell)
                rows.append(self._ids.setdefault((view, row), len(self._ids)))
                counts.append(count)
                most += abs(count)
        if most > EXACT:
            raise Spent
        self._cells = np.array(cells, dtype=np.int64).reshape(len(cells), len(self.lattice.top))
        self._rows = np.array(rows, dtype=np.intp)
        self._counts = np.array(counts, dtype=np.int64)

    def renew(self) -> int:
        """Begin to count anew; returns how many boxes were looked at."""
        before, self.visited = self.visited, 0
        return before

    def wanted(self, changes: Iterable[Contents]) -> Iterator[Wanted]:
        """The contents that these changes lead to, one after the other, from nothing."""
        want = np.zeros(len(self._ids), dtype=np.int64)
        never: dict[tuple[str, Row], int] = {}
        for change in changes:
            want = want.copy()
            for view, bag in change.items():
                for row, count in bag.counts.items():
                    place = self._ids.get((view, row))
                    total = never.pop((view, row), 0) + count
                    if place is not None:
                        total += int(want[place])
                        want[place] = total if abs(total) <= EXACT else 0
                    if total and (place is None or abs(total) > EXACT):
                        never[view, row] = total
            yield None if never else want

    def least(self, want: Wanted, low: Vector, most: int | None = None) -> list[Vector]:
        """The least source states from `low` up with this content; if `most` is given, no more than that."""
        found: list[Vector] = []
        if want is None:
            return found
        stack = [self._raised(_Box(low, self.lattice.top, np.arange(len(self._rows)), want), low)]
        while stack and (most is None or len(found) < most):
            box = stack.pop()
            if any(below(vector, box.low) for vector in found):
                continue
            if self.visited >= self.budget:
                raise Spent
            self.visited += 1 + len(box.open) // OPEN
            if not box.need.any() and self.lattice.legal(box.low):
                found.append(box.low)
            elif box.low != box.high and self._possible(box):
                stack += self._halves(box)
        return found

    def _possible(self, box: _Box) -> bool:
        rows, counts = self._rows[box.open], self._counts[box.open]
        size = len(box.need)
        most = np.bincount(rows, np.maximum(counts, 0), size)
        least = np.bincount(rows, np.minimum(counts, 0), size)
        if (box.need > most).any() or (box.need < least).any():
            return False
        return not any(
            any(box.low[s] >= first for s, (first, _) in span.items())
            and any(box.high[s] < last for s, (_, last) in span.items())
            for span in self.lattice.spans.values()
        )

    def _halves(self, box: _Box) -> Sequence[_Box]:
        """Upper and lower, cut across the longest side."""
        sides = [b - a for a, b in zip(box.low, box.high, strict=True)]
        s = sides.index(max(sides))
        middle = (box.low[s] + box.high[s]) // 2
        lower = box.open[self._cells[box.open, s] <= middle]
        low = (*box.low[:s], middle + 1, *box.low[s + 1 :])
        high = (*box.high[:s], middle, *box.high[s + 1 :])
        return self._raised(box, low), _Box(box.low, high, lower, box.need)

    def _raised(self, box: _Box, low: Vector) -> _Box:
        """The part of the box from `low` up."""
        counted = (self._cells[box.open] <= np.array(low, dtype=np.int64)).all(axis=1)
        now = box.open[counted]
        need = box.need.copy()
        np.subtract.at(need, self._rows[now], self._counts[now])
        return _Box(low, box.high, box.open[~counted], need)
