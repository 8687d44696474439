"""What a kept relation answers, whoever keeps it.

    found   the rows that have some keys
    first   of each key, the first (or last) values of a column: MIN, MAX, top-N

Both speak of one state: the fold of the relation's changelog up to a transaction. The work follows what is asked for
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
