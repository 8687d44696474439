"""A kept relation in memory: every row is looked at. What the others must agree with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headwater.kept.contract import BELOW, KEY, Ints
from headwater.kept.engine import matched, ordered
from headwater.model.arrow import pc
from headwater.model.changelog import COUNT, SEQ, consolidate, fold


class MemoryKept:
    """A changelog, as of a transaction (the newest one if None)."""

    def __init__(self, rows: pa.Table, at: int | None = None) -> None:
        self._state = fold(rows, at)

    def found(self, by: Sequence[str], keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        rows = self._state
        if by:
            rows = rows.take(pc.unique(matched(rows.select(by), keys)[0]))
        return rows if columns is None else consolidate(rows.select([*columns, COUNT]))

    def first(self, by: Sequence[str], keys: pa.Table, value: str, number: Ints, last: bool = False) -> pa.Table:
        """No more of them than wanted: who asks must not live on more."""
        places, numbers = matched(self._state.select(by), keys)
        rows = self._state.select([value, COUNT]).take(places).add_column(0, KEY, numbers)
        rows = consolidate(rows.filter(pc.is_valid(rows.column(value))))
        rows = rows.filter(pc.greater(rows.column(COUNT), 0))
        rows = rows.take(ordered(rows, [(KEY, False, False), (value, last, False)]))
        key = rows.column(KEY).to_numpy()
        place = np.arange(len(key)) - np.searchsorted(key, key)
        return rows.filter(pa.array(place < np.asarray(number)[key]))

    def ranked(self, by: Sequence[str], keys: pa.Table, value: str, low: Ints, high: Ints) -> pa.Table:
        """No more of them than wanted."""
        places, numbers = matched(self._state.select(by), keys)
        rows = self._state.select([value, COUNT]).take(places).add_column(0, KEY, numbers)
        rows = with_below(consolidate(rows.filter(pc.is_valid(rows.column(value)))), np.zeros(keys.num_rows, np.int64))
        key, below, count = (rows.column(name).to_numpy() for name in (KEY, BELOW, COUNT))
        return rows.filter(pa.array((below + count > low[key]) & (below <= high[key])))


def with_below(rows: pa.Table, before: Ints) -> pa.Table:
    """Values of keys with their counts, in order, each with what lies below it; `before` lies below the first."""
    value = next(name for name in rows.column_names if name not in (KEY, COUNT))
    rows = rows.take(ordered(rows, [(KEY, False, False), (value, False, False)]))
    key, count = rows.column(KEY).to_numpy(), rows.column(COUNT).to_numpy()
    ahead = np.cumsum(count) - count
    first = np.searchsorted(key, key) if len(key) else np.zeros(0, np.int64)
    below = before[key] + ahead - ahead[first]
    return rows.append_column(BELOW, pa.array(below, pa.int64()))


def nothing(schema: pa.Schema) -> MemoryKept:
    """A relation without rows."""
    return MemoryKept(pa.schema([f for f in schema if f.name != SEQ]).empty_table())
