"""Rows worked on in slices, side by side.

A wave is linear in its partial rows: whatever splits them, the results of the slices added up are the result. So a
large batch asks each question once, sorts the versions of its answer once, and only matches row by row in slices.
Arrow and numpy leave Python's lock alone while they work, so threads do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.model.changelog import SEQ, consolidate

Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""As `map`: applies a function to every item, in this thread or in several, and gives the results in order."""


@dataclass(frozen=True)
class Slices:
    """At `most` so many, of at least so many `rows`; `each` goes through them."""

    most: int = 1
    rows: int = 20_000
    each: Each = map

    def cuts(self, rows: int) -> Sequence[slice]:
        """Where so many rows are cut; every row is in exactly one of the slices."""
        number = max(1, min(self.most, rows // self.rows))
        bounds = [rows * n // number for n in range(number + 1)]
        return [slice(low, high) for low, high in pairwise(bounds)]

    def consolidated(self, rows: pa.Table) -> pa.Table:
        """As `consolidate`: rows of different transactions are never equal, so each slice is some transactions."""
        cuts = self.cuts(rows.num_rows)
        if len(cuts) == 1:
            return consolidate(rows)
        seqs = rows.column(SEQ).to_numpy()
        bounds = [int(seqs.min()) - 1, *(int(np.quantile(seqs, n / len(cuts))) for n in range(1, len(cuts)))]
        ends = [*bounds[1:], int(seqs.max())]

        def one(within: tuple[int, int]) -> pa.Table:
            return consolidate(rows.filter(pa.array((seqs > within[0]) & (seqs <= within[1]))))

        return pa.concat_tables(self.each(one, zip(bounds, ends, strict=True)))


WHOLE = Slices()
"""All rows at once."""
