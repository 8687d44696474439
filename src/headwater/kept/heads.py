"""The first rows of each key in an order, from what is kept: top-N without looking at the rest.

Values first (`first` of the contract), then the rows that have them; so rows that the last of these values is shared
by are all there. A row may be left out if so many rows as are wanted come before it, by the column of the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.kept.contract import KEY, Ints, Kept


@dataclass(frozen=True)
class Ordered:
    column: str
    descending: bool
    nulls_first: bool


def heads(kept: Kept, keys: pa.Table, number: Ints, order: Ordered, columns: Sequence[str]) -> pa.Table:
    """Of each of the distinct keys (a row without columns stands for everything) the first `number` rows, and perhaps
    more: these columns and COUNT."""
    by = keys.column_names
    values = kept.first(by, keys, order.column, number, order.descending)
    places = values.column(KEY).to_numpy()
    few = np.bincount(places, minlength=keys.num_rows) < number
    with_nulls = np.arange(keys.num_rows) if order.nulls_first else np.flatnonzero(few)
    found = values.column(order.column)
    asked = pa.chunked_array([*found.chunks, pa.nulls(len(with_nulls), found.type)], found.type)
    rows = pa.array(np.concatenate([places, with_nulls]))
    wanted = pa.table([*(keys.column(name).take(rows) for name in by), asked], names=[*by, order.column])
    return kept.found([*by, order.column], wanted, columns)
