"""What a kept relation answers, whoever keeps it.

    found   the rows that have some keys
    first   of each key, the first (or last) values of a column: MIN, MAX, top-N
    ranked  of each key, the values at some places of their order: percentiles

All speak of one state: the fold of the relation's changelog up to a transaction. The work follows what is asked for
and found, not what is kept. NULL is a key like any other, NaN equals itself, −0.0 is 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

KEY = "__key"
"""In what `first` answers: the number of the key that a row belongs to."""

BELOW = "__below"
"""In what `ranked` answers: how often smaller values of the key are there, all together."""

Ints = npt.NDArray[np.int64]


class Kept(Protocol):
    def found(self, by: Sequence[str], keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        """The folded rows whose columns `by` are among the keys: these columns (all if None) and COUNT. Without
        columns in `by`, every row."""
        ...

    def first(self, by: Sequence[str], keys: pa.Table, value: str, number: Ints, last: bool = False) -> pa.Table:
        """Of each of the distinct keys at least the first `number` values there are that are not NULL and count more
        than nothing: KEY, the value, COUNT. More values do no harm, as long as none is left out in between. `last`:
        from the other end."""
        ...

    def ranked(self, by: Sequence[str], keys: pa.Table, value: str, low: Ints, high: Ints) -> pa.Table:
        """Of each key (one may be there several times) the values that are not NULL and have a place from `low` to
        `high` in ascending order, each as often as it counts, the smallest at 0: KEY, the value, COUNT, BELOW; by key,
        ascending. More values do no harm, as long as none is left out in between. No value counts less than nothing."""
        ...
