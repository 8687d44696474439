"""Percentiles over a batch: which values stand at a place of a group's order after each transaction.

A group of n values has its percentile at places that n alone decides. During a batch of which i values come and d go,
the value at place r of any state stood at a place from r − i to r + d before the batch, or came with it. So of the
values before the batch those around the places are read, as many on each side as come or go (`ranked` of what is kept),
and the batch is played over them: the work follows the batch, not the size of the group.

Values below those that were read are only counted; none of them can be reached. Of those above only the changes are
known: but d of them go at most, and so many more were read, so that no place lies beyond what was read either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.algebra.aggregates import Held, Quantile
from headwater.maintenance.extremes import Values, ascending, ranked
from headwater.maintenance.keys import Ints

Around = Callable[[Ints, Ints], tuple[Values, Ints]]
"""Of every group the values before the batch at the places from … to …, and how many lie below each."""


@dataclass(frozen=True)
class Counts:
    """Run by run: its group, whether it is the group's first, and how many values the group has before and after it."""

    group: Ints
    first: npt.NDArray[np.bool_]
    before: Ints
    after: Ints


class _Order:
    """Counts by rank: a Fenwick tree. `rank_at` is the rank at a place; counts beyond it may be negative, as long as
    all up to any of those count more than the place."""

    def __init__(self, counts: Sequence[int], below: int) -> None:
        self._below, self._size = below, len(counts)
        self._top = 1 << (max(1, self._size).bit_length() - 1)
        self._tree = [0, *counts]
        for i in range(1, self._size + 1):
            parent = i + (i & -i)
            if parent <= self._size:
                self._tree[parent] += self._tree[i]

    def add(self, rank: int, count: int) -> None:
        i = rank + 1
        while i <= self._size:
            self._tree[i] += count
            i += i & -i

    def lower(self, count: int) -> None:
        """So many more lie below all ranks."""
        self._below += count

    def rank_at(self, place: int) -> int:
        rest, at, step = place - self._below, 0, self._top
        while step:
            if at + step <= self._size and self._tree[at + step] <= rest:
                at += step
                rest -= self._tree[at]
            step >>= 1
        return at


def places(quantile: Quantile, events: Values, counts: Counts, around: Around) -> tuple[dict[int, Held], list[Held]]:
    """What the quantile lies between in every group before the batch, and after each run; `events` are the changes, by
    run."""
    low, high = _reach(quantile, events, counts)
    known, below = around(low, high)
    universe = ascending([events.value, known.value])
    values = universe.to_pylist()
    rank = pc.index_in(known.value, value_set=universe).to_numpy()
    changes = _by_group(ranked(events, universe), counts.group)
    before: dict[int, Held] = {}
    after: list[Held] = []
    starts = np.flatnonzero(counts.first)
    for start, end in zip(starts, [*starts[1:], len(counts.group)], strict=True):
        group = int(counts.group[start])
        mine = slice(*np.searchsorted(known.of, [group, group + 1]))
        read = [part[mine].tolist() for part in (rank, known.count, below)]
        played = _Played(quantile, values, changes.get(group, []), _Around(*read))
        before[group] = played.seen(int(counts.before[start]))
        for run in range(start, end):
            played.through(run)
            after.append(played.seen(int(counts.after[run])))
    return before, after


@dataclass(frozen=True)
class _Around:
    """Of one group the values around the places before the batch, by rank: how often each is there, and how many lie
    below it."""

    rank: list[int]
    count: list[int]
    below: list[int]

    @property
    def lowest(self) -> int:
        """How many lie below all of these."""
        return self.below[0] if self.below else 0


class _Played:
    """One group during the batch: the values around the places, and those that come and go among them."""

    def __init__(
        self, quantile: Quantile, values: Sequence[Any], changes: Sequence[tuple[int, int, int]], there: _Around
    ) -> None:
        self._quantile, self._values, self._changes, self._at = quantile, values, changes, 0
        self._low = there.rank[0] if there.lowest else 0
        self._ranks = sorted({*there.rank, *(rank for _, rank, _ in changes if rank >= self._low)})
        self._number = {rank: i for i, rank in enumerate(self._ranks)}
        counts = dict(zip(there.rank, there.count, strict=True))
        self._order = _Order([counts.get(rank, 0) for rank in self._ranks], there.lowest)

    def through(self, run: int) -> None:
        """Up to the end of a run."""
        while self._at < len(self._changes) and self._changes[self._at][0] <= run:
            _, rank, count = self._changes[self._at]
            if rank < self._low:
                self._order.lower(count)
            else:
                self._order.add(self._number[rank], count)
            self._at += 1

    def seen(self, count: int) -> Held:
        if count <= 0:
            return Held(0)
        first, second = (self._values[self._ranks[self._order.rank_at(p)]] for p in self._quantile.ranks(count))
        return Held(count, between=(first, second))


def _reach(quantile: Quantile, events: Values, counts: Counts) -> tuple[Ints, Ints]:
    """Of every group, from which to which place of the order before the batch values must be known."""
    groups = int(counts.group.max()) + 1 if len(counts.group) else 0
    low, high = np.full(groups, np.iinfo(np.int64).max), np.full(groups, -1, np.int64)
    for group, count in _states(counts):
        if count > 0:
            ends = quantile.ranks(count)
            low[group], high[group] = min(low[group], *ends), max(high[group], *ends)
    valid = pc.is_valid(events.value).to_numpy()
    change = np.where(valid, events.count, 0)
    touched = counts.group[events.of]
    come, go = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    np.add.at(come, touched, np.maximum(change, 0))
    np.add.at(go, touched, np.maximum(-change, 0))
    return np.where(high < 0, 0, np.maximum(low - come, 0)), np.where(high < 0, -1, high + go)


def _states(counts: Counts) -> Iterator[tuple[int, int]]:
    """Every group with the number of its values, at every moment."""
    starts = np.flatnonzero(counts.first)
    yield from zip(counts.group[starts].tolist(), counts.before[starts].tolist(), strict=True)
    yield from zip(counts.group.tolist(), counts.after.tolist(), strict=True)


def _by_group(changes: tuple[Ints, Ints, Ints], run_group: Ints) -> dict[int, list[tuple[int, int, int]]]:
    """Changes (run, rank, count) of each group, in the order of runs."""
    found: dict[int, list[tuple[int, int, int]]] = {}
    for run, rank, count in zip(*(part.tolist() for part in changes), strict=True):
        found.setdefault(int(run_group[run]), []).append((run, rank, count))
    return found


def loaded_places(quantile: Quantile, values: Values, there: Ints, universe: pa.Array) -> list[Held]:
    """The same for groups of which nothing was there before, after the one transaction that made them; `there` is how
    many values each has."""
    group, rank, count = ranked(values, universe)
    order = np.lexsort((rank, group))
    rank, upto = rank[order], np.cumsum(count[order])
    begin = np.cumsum(there) - there
    some = np.flatnonzero(there > 0)
    ends = [quantile.ranks(int(n)) for n in there[some]]
    found = [Held(0)] * len(there)
    sides = []
    for side in (0, 1):
        places_ = begin[some] + np.array([end[side] for end in ends], np.int64)
        sides.append(universe.take(pa.array(rank[np.searchsorted(upto, places_, "right")])).to_pylist())
    for g, first, second in zip(some.tolist(), *sides, strict=True):
        found[g] = Held(int(there[g]), between=(first, second))
    return found
