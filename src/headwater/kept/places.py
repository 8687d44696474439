"""The rows of some runs that hold the values at some places of their order (`ranked` of the contract).

A hash stands for its key, unless several keys of a run share it; then the rows of the key are picked out, and stand as
a range of their own behind the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headwater.kept.contract import KEY, Ints
from headwater.kept.engine import hashes, matched
from headwater.kept.ranks import Ranks, Searched, code_at, total
from headwater.kept.runs import Index, Indexed, Ranges, places_of
from headwater.model.changelog import COUNT

WHOLE = 256
"""A key with no more rows is read whole."""

_ASKED = "__asked"


def values_at(
    runs: Sequence[Indexed], index: Index, keys: pa.Table, places: tuple[Ints, Ints]
) -> tuple[list[pa.Table], Ints]:
    """Of each key the rows with values at the `places` from … to …, run by run: KEY, the value, COUNT. And how many
    values come before them."""
    if not runs:
        return [], np.zeros(keys.num_rows, np.int64)
    runs, searched = _searched(runs, index, keys)
    low, high = places
    there = total(searched, keys.num_rows)
    last = np.minimum(high, there - 1)
    rows = np.sum([run.high - run.low for run in searched], axis=0)
    whole, none = rows <= WHOLE, (there <= 0) | (low > last)
    begin, end = [run.low.copy() for run in searched], [run.high.copy() for run in searched]
    on = np.flatnonzero(~whole & ~none)
    if len(on):
        some = [run.of(on) for run in searched]
        first, final = code_at(some, np.maximum(low[on], 0)), code_at(some, last[on])
        for m, run in enumerate(some):
            begin[m][on] = run.ranks.first(run.low, run.high, first, beyond=False)
            end[m][on] = run.ranks.first(run.low, run.high, final, beyond=True)
    for m in range(len(runs)):
        end[m] = np.where(none & ~whole, begin[m], end[m])
    before = sum((run.count(b) for run, b in zip(searched, begin, strict=True)), np.zeros(keys.num_rows, np.int64))
    read = []
    for rows_of, b, e in zip(runs, begin, end, strict=True):
        found = rows_of.take(places_of(Ranges(b, e)), [index.order, COUNT])
        read.append(found.add_column(0, KEY, pa.array(np.repeat(np.arange(keys.num_rows), e - b))))
    return read, before


def _searched(runs: Sequence[Indexed], index: Index, keys: pa.Table) -> tuple[list[Indexed], list[Searched]]:
    """Where each key's values stand in each run."""
    numbers = hashes(keys)
    found, ranges = [], []
    for run in runs:
        alone, range_ = _own(run, index, keys, numbers)
        found.append(alone)
        ranges.append(range_)
    if index.by:
        ranges = _certain(found, index, keys, ranges)
    made = []
    for run, one in zip(found, ranges, strict=True):
        assert run.ranks is not None
        made.append(Searched(run.ranks, one.low, one.high))
    return found, made


def _own(run: Indexed, index: Index, keys: pa.Table, numbers: Ints) -> tuple[Indexed, Ranges]:
    """The run with a range for each key whose hash others share."""
    ranges = run.ranges(numbers)
    apart = np.flatnonzero(np.isin(numbers, np.array(sorted(run.shared), np.int64)))
    for key in apart:
        at = np.arange(ranges.low[key], ranges.high[key])
        same, _ = matched(run.take(at, index.by), keys.slice(key, 1))
        at, size = at[same.to_numpy()], len(run.places)
        assert run.ranks is not None
        counts = run.ranks.before(at + 1) - run.ranks.before(at)
        sums = run.ranks.sum[-1] + np.cumsum(counts)
        ranks = Ranks(np.append(run.ranks.code, run.ranks.code[at]), np.append(run.ranks.sum, sums))
        run = replace(run, places=np.append(run.places, run.places[at]), ranks=ranks)
        ranges.low[key], ranges.high[key] = size, size + len(at)
    return run, ranges


def _certain(runs: Sequence[Indexed], index: Index, keys: pa.Table, ranges: Sequence[Ranges]) -> list[Ranges]:
    """The ranges that are those of the keys themselves: one row of each says it."""
    parts, which = [], []
    for m, (run, range_) in enumerate(zip(runs, ranges, strict=True)):
        some = np.flatnonzero(range_.high > range_.low)
        parts.append(run.take(range_.low[some], index.by).append_column(_ASKED, pa.array(some)))
        which.append(np.stack([np.full(len(some), m), some]))
    rows, at = pa.concat_tables(parts), np.concatenate(which, axis=1)
    asked = keys.append_column(_ASKED, pa.array(np.arange(keys.num_rows)))
    same = np.zeros((len(runs), keys.num_rows), bool)
    equal = matched(rows, asked)[0].to_numpy()
    same[at[0, equal], at[1, equal]] = True
    return [Ranges(r.low, np.where(same[m], r.high, r.low)) for m, r in enumerate(ranges)]
