"""MIN, MAX and DISTINCT over a batch: what a group's set of values looks like after each transaction.

A deleted minimum brings back the next one, so the values themselves are kept. But within one batch only the values that
the batch *touches* can come or go; all others are stable, and of them one smallest, one largest and their number say
everything. So the work per batch is in the touched values, not in the size of the group.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.algebra.aggregates import Held
from headwater.maintenance.keys import Ints
from headwater.model.changelog import COUNT, consolidate

_RUN, _VALUE = "run", "value"


@dataclass(frozen=True)
class Values:
    """Values with counts; `of` says which group, or which run, each belongs to."""

    of: Ints
    value: pa.ChunkedArray
    count: Ints


@dataclass
class _Group:
    """One group during the batch: its stable values in brief, its touched values (by rank) with their counts."""

    counts: dict[int, int] = field(default_factory=dict)
    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    stable: list[int] = field(default_factory=list)
    alive: int = 0
    total: int = 0

    def begin(self, rank: int, count: int) -> None:
        """A touched value as it was before the batch."""
        self.counts[rank] = count
        if count > 0:
            heapq.heappush(self.low, rank)
            heapq.heappush(self.high, -rank)

    def change(self, rank: int, by: int, whole: int) -> None:
        before = self.counts.get(rank, 0)
        self.counts[rank] = after = before + by
        if before <= 0 < after:
            heapq.heappush(self.low, rank)
            heapq.heappush(self.high, -rank)
            self.alive += 1
            self.total += whole
        elif after <= 0 < before:
            self.alive -= 1
            self.total -= whole

    def seen(self, values: Sequence[Any]) -> Held:
        """Its distinct values at this moment."""
        while self.low and self.counts[self.low[0]] <= 0:
            heapq.heappop(self.low)
        while self.high and self.counts[-self.high[0]] <= 0:
            heapq.heappop(self.high)
        low = min(self.low[:1] + self.stable, default=None)
        high = max([-r for r in self.high[:1]] + self.stable, default=None)
        smallest, largest = (None if rank is None else values[rank] for rank in (low, high))
        return Held(self.alive, self.total, smallest, largest)


def extremes(
    state: tuple[Values, Values],
    held: Sequence[Held],
    events: Values,
    run_group: Ints,
    whole: Sequence[int] | None,
    universe: pa.Array,
) -> tuple[dict[int, Held], list[Held]]:
    """`state` says of the groups before the batch how often the touched values were there, and which are the smallest
    and the largest ones; `held` how many distinct ones each group had, and their sum. `events` are the changes, by run;
    run r belongs to group run_group[r]. `universe` is every value of these, ascending; `whole` their summable forms, if
    wanted. Returns each group's values before the batch, and after each run."""
    values = universe.to_pylist()
    groups = {int(g): _Group(alive=held[g].count, total=held[g].total) for g in np.unique(run_group)}
    weigh = whole if whole is not None else [0] * len(values)
    runs = ranked(events, universe)
    touched = {(int(run_group[r]), int(v)) for r, v in zip(runs[0], runs[1], strict=True)}
    counts, ends = state
    for g, rank, count in zip(*ranked(counts, universe), strict=True):
        groups[int(g)].begin(int(rank), int(count))
    for g, rank, _ in zip(*ranked(ends, universe), strict=True):
        if (int(g), int(rank)) not in touched:
            group = groups[int(g)]
            group.stable = [min([int(rank), *group.stable]), max([int(rank), *group.stable])]
    before = {g: group.seen(values) for g, group in groups.items()}
    after: list[Held] = []
    at = 0
    for run, g in enumerate(run_group):
        group = groups[int(g)]
        while at < len(runs[0]) and runs[0][at] == run:
            group.change(int(runs[1][at]), int(runs[2][at]), weigh[int(runs[1][at])])
            at += 1
        after.append(group.seen(values))
    return before, after


def loaded(values: Values, groups: int, whole: Sequence[int] | None, universe: pa.Array) -> list[Held]:
    """The values of groups of which nothing was there before, after the one transaction that made them."""
    group, rank, count = ranked(values, universe)
    group, rank = group[count > 0], rank[count > 0]
    if not len(group):
        return [Held(0)] * groups
    order = np.lexsort((rank, group))
    group, rank = group[order], rank[order]
    starts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    ends = np.append(starts[1:], len(group)) - 1
    counts = (ends - starts + 1).tolist()
    low, high = (universe.take(pa.array(rank[at])).to_pylist() for at in (starts, ends))
    sums = [0] * len(starts) if whole is None else np.add.reduceat(np.array(whole, object)[rank], starts).tolist()
    found = [Held(0)] * groups
    for g, *held in zip(group[starts].tolist(), counts, sums, low, high, strict=True):
        found[g] = Held(*held)
    return found


def ascending(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """The distinct non-NULL values of several columns of one type, ascending as Spark orders them (NaN last)."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    distinct = pc.unique(pa.chunked_array(chunks, columns[0].type)).drop_null()
    if pa.types.is_floating(distinct.type):
        return pa.array(sorted(distinct.to_pylist(), key=lambda v: (math.isnan(v), v)), distinct.type)
    return distinct.take(pc.sort_indices(distinct))


def ranked(rows: Values, universe: pa.Array) -> tuple[Ints, Ints, Ints]:
    """(of, rank of value, count) without NULL values, equal ones summed, in order of `of`."""
    rank = pc.index_in(rows.value, value_set=universe)
    table = pa.table({_RUN: rows.of, _VALUE: rank, COUNT: rows.count}).drop_null()
    table = consolidate(table).sort_by(_RUN)
    return table.column(_RUN).to_numpy(), table.column(_VALUE).to_numpy(), table.column(COUNT).to_numpy()
