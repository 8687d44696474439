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

_GROUP, _RUN, _VALUE = "group", "run", "value"


@dataclass
class _Group:
    """One group during the batch: its stable values in brief, its touched values (by rank) with their counts."""

    counts: dict[int, int] = field(default_factory=dict)
    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    stable: list[int] = field(default_factory=list)
    alive: int = 0
    total: int = 0

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
    state: tuple[Ints, pa.ChunkedArray, Ints],
    events: tuple[Ints, pa.ChunkedArray, Ints],
    run_group: Ints,
    whole: Sequence[int] | None,
    universe: pa.Array,
) -> tuple[dict[int, Held], list[Held]]:
    """`state` holds (group, value, count) before the batch, `events` (run, value, count) in it; run r belongs to group
    run_group[r]. `universe` is every value of both, ascending; `whole` their summable forms, if wanted.
    Returns each group's values before the batch, and after each run."""
    values = universe.to_pylist()
    groups: dict[int, _Group] = {int(g): _Group() for g in np.unique(run_group)}
    weigh = whole if whole is not None else [0] * len(values)
    runs = _ranked(events, universe)
    touched = {(int(run_group[r]), int(v)) for r, v in zip(runs[0], runs[1], strict=True)}
    for g, rank, count in zip(*_ranked(state, universe), strict=True):
        if count <= 0:
            continue
        group = groups[int(g)]
        if (int(g), int(rank)) in touched:
            group.change(int(rank), int(count), weigh[rank])
        else:
            group.alive += 1
            group.total += weigh[rank]
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


def ascending(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """The distinct non-NULL values of several columns of one type, ascending as Spark orders them (NaN last)."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    distinct = pc.unique(pa.chunked_array(chunks, columns[0].type)).drop_null()
    if pa.types.is_floating(distinct.type):
        return pa.array(sorted(distinct.to_pylist(), key=lambda v: (math.isnan(v), v)), distinct.type)
    return distinct.take(pc.sort_indices(distinct))


def _ranked(rows: tuple[Ints, pa.ChunkedArray, Ints], universe: pa.Array) -> tuple[Ints, Ints, Ints]:
    """(first, rank of value, count) without NULL values, equal ones summed, in order of `first`."""
    first, column, count = rows
    rank = pc.index_in(column, value_set=universe)
    table = pa.table({_RUN: first, _VALUE: rank, COUNT: count}).drop_null()
    table = consolidate(table).sort_by(_RUN)
    return table.column(_RUN).to_numpy(), table.column(_VALUE).to_numpy(), table.column(COUNT).to_numpy()
