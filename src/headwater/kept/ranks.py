"""The value at a place of an order, over several runs: partial counts, and a search that reads a few rows of each.

An index that is ordered by a value has a `code` and a `sum` at every place (`runs`). `sum` is the count of all rows up
to a place, so what a range counts is the difference of two. `code` is a number that does not decrease where the value
grows; different values may share one.

Rows of a run may count less than nothing, what was there in another one; but all runs together have no value that
does. So with R(c), how many values of a key have a code up to c, summed over the runs:

    Invariant: R does not decrease, and the value at place r has the smallest code c with R(c) > r.

Each round takes a few codes of the run that is searched widest, looks up where all runs stand at them, and goes on
between two of them. Which rows stand there is read at the end; so the work follows the number of runs and the
logarithm of their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.kept.contract import Ints

PIVOTS = 15
"""Codes that are looked up in a round."""

_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def codes(values: pa.Array) -> Ints:
    """A number of each value, none of them NULL; it does not decrease where the value grows."""
    kind = values.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return np.asarray(values.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
    if pa.types.is_date32(kind):
        return np.asarray(values.cast(pa.int32()).to_numpy(), np.int64)
    if pa.types.is_timestamp(kind):
        return np.asarray(values.cast(pa.int64()).to_numpy(), np.int64)
    if pa.types.is_floating(kind):
        return _of_floats(np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False)))
    if pa.types.is_decimal128(kind):
        return _of_decimals(values)
    return np.zeros(len(values), np.int64)  # all alike: then all of a key is read


def _of_floats(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Ints:
    """As the bits of a double are ordered; NaN is the largest, −0.0 is 0.0."""
    bits = (values + 0.0).view(np.int64)
    ordered = np.where(bits < 0, bits ^ _HIGHEST, bits)
    return np.asarray(np.where(np.isnan(values), _HIGHEST, ordered), np.int64)


def _of_decimals(values: pa.Array) -> Ints:
    """The unscaled number, where it has room; else the double next to it, which keeps the order."""
    words = np.frombuffer(values.buffers()[1], np.int64)[2 * values.offset : 2 * (values.offset + len(values))]
    low, high = words[0::2], words[1::2]
    if values.type.precision <= 18:
        return low.copy()
    rest = np.where(np.abs(high) < 2**52, low.view(np.uint64).astype(np.float64), 0.0)
    return _of_floats(high.astype(np.float64) * 2.0**64 + rest)


@dataclass(frozen=True)
class Ranks:
    """Place by place of an index: the code of the value, and the count of all rows up to it."""

    code: Ints
    sum: Ints

    def before(self, at: Ints) -> Ints:
        """The count of everything before some places."""
        if not len(self.sum):
            return np.zeros(at.shape, np.int64)
        return np.asarray(np.where(at > 0, self.sum[np.maximum(at, 1) - 1], 0), np.int64)

    def first(self, low: Ints, high: Ints, wanted: Ints, beyond: bool) -> Ints:
        """In each range of places the first one whose code is not smaller than wanted, or (`beyond`) larger."""
        low, high, wanted = (np.array(part) for part in np.broadcast_arrays(low, high, wanted))
        while (searched := low < high).any():
            middle = (low + high) >> 1
            code = self.code[np.where(searched, middle, 0)]
            further = searched & (code <= wanted if beyond else code < wanted)
            low = np.where(further, middle + 1, low)
            high = np.where(searched & ~further, middle, high)
        return np.asarray(low, np.int64)


@dataclass(frozen=True)
class Searched:
    """A run, and of every key where its values stand in it."""

    ranks: Ranks
    low: Ints
    high: Ints

    def count(self, at: Ints) -> Ints:
        """Of every key, what its values before some places count. `at` has a row for every key."""
        low = self.low.reshape(-1, *(1 for _ in at.shape[1:]))
        return self.ranks.before(at) - self.ranks.before(low)

    def of(self, keys: Ints) -> Searched:
        return Searched(self.ranks, self.low[keys], self.high[keys])


def total(runs: Sequence[Searched], keys: int) -> Ints:
    """How many values every key has."""
    return sum((run.count(run.high) for run in runs), np.zeros(keys, np.int64))


def code_at(runs: Sequence[Searched], place: Ints) -> Ints:
    """The code of the value at a place of every key; every key has so many."""
    low, high = (np.stack([getattr(run, end) for run in runs]) for end in ("low", "high"))
    best = np.full(len(place), _HIGHEST)
    while (wide := (high - low).max(axis=0)).any():
        on, before = np.flatnonzero(wide), int((high - low).sum())
        pivots = _pivots(runs, low[:, on], high[:, on])
        right = [run.ranks.first(low[m, on][:, None], high[m, on][:, None], pivots, True) for m, run in enumerate(runs)]
        counts = sum(run.of(on).count(at) for run, at in zip(runs, right, strict=True))
        reached = counts > place[on][:, None]  # from some pivot on
        first = np.where(reached.any(axis=1), reached.argmax(axis=1), PIVOTS)
        some, row = first < PIVOTS, np.arange(len(on))
        code = pivots[row, np.minimum(first, PIVOTS - 1)]
        best[on] = np.where(some, code, best[on])
        for m, run in enumerate(runs):
            left = run.ranks.first(low[m, on], high[m, on], code, False)
            begin = right[m][row, np.maximum(first - 1, 0)]
            low[m, on] = np.where(first > 0, begin, low[m, on])
            high[m, on] = np.where(some, np.maximum(left, low[m, on]), high[m, on])
        assert int((high - low).sum()) < before, "codes in the order of an index do not decrease"
    return best


def _pivots(runs: Sequence[Searched], low: Ints, high: Ints) -> Ints:
    """Of every key, some codes of the run that is searched widest, ascending."""
    widest = (high - low).argmax(axis=0)
    row = np.arange(low.shape[1])
    begin, size = low[widest, row], (high - low)[widest, row]
    at = begin[:, None] + size[:, None] * np.arange(PIVOTS) // PIVOTS
    found = np.empty(at.shape, np.int64)
    for m in np.unique(widest):
        mine = widest == m
        found[mine] = runs[m].ranks.code[at[mine]]
    return found
