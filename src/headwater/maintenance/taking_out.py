"""Rows that go from a view because rows went from a table whose key it shows: found by that key in the view itself.

    V = D ⋈ F,  rows only go from D:   V(s) − V(s−1) = ΔF(s) ⋈ D(s) − { v ∈ V(s−1) : the key of D in v is one of ΔD(s) }

So F is not asked, and need not be kept for D's sake. A key that has gone does not come back (what comes halts the view,
`runtime/compute/promises`), so of several tables like D the first whose row goes takes the row of the view with it.

Invariant: the wave's rows and these together are the change of the view, transaction by transaction. The wave meets D
as it is after each transaction, so it says nothing of a key from the one on with which it goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.kept.contract import Kept
from headwater.kept.engine import matched
from headwater.model.changelog import COUNT, SEQ, consolidate

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Gone:
    """Keys that go in a batch: the columns of the view that show them, and SEQ."""

    by: tuple[str, ...]
    keys: pa.Table

    def ends(self, rows: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """With which transaction the key in each row goes; _NEVER if it stays."""
        found = np.full(rows.num_rows, _NEVER)
        places, numbers = matched(rows.select(self.by), self.keys.select(self.by))
        np.minimum.at(found, places.to_numpy(), self.keys.column(SEQ).to_numpy()[numbers.to_numpy()])
        return found


def taken_out(change: pa.Table, before: Kept, gone: Sequence[Gone]) -> pa.Table:
    """The rows that a batch takes out of the view, beside what the wave says of it (`change`: the view's columns,
    COUNT, SEQ). `before` is the view as the batch finds it."""
    gone = [one for one in gone if one.keys.num_rows]
    columns = [name for name in change.column_names if name not in (COUNT, SEQ)]
    held = [before.found(one.by, one.keys.select(one.by), columns) for one in gone]
    if not held:
        return change.slice(0, 0)
    there = _once(pa.concat_tables(held))
    there = there.append_column(SEQ, pa.array(np.full(there.num_rows, -1)))
    rows = pa.concat_tables([there.select(change.column_names).cast(change.schema), change])
    ends = np.minimum.reduce([one.ends(rows) for one in gone])
    leaving = rows.column(SEQ).to_numpy() < np.where(ends == _NEVER, -1, ends)
    counts = -rows.column(COUNT).to_numpy()
    rows = rows.set_column(rows.schema.get_field_index(COUNT), COUNT, pa.array(counts))
    rows = rows.set_column(rows.schema.get_field_index(SEQ), SEQ, pa.array(ends))
    return consolidate(rows.filter(pa.array(leaving)))


def _once(rows: pa.Table) -> pa.Table:
    """Rows with their counts, each of which may have been found by several keys."""
    return rows.group_by(rows.column_names, use_threads=False).aggregate([])
