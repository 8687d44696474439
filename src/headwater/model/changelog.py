"""The one data structure: rows `(columns…, count, seq)`.

`count` is a signed multiplicity (an update is −old +new), `seq` the number of the source transaction that caused it.
The state of anything at `s` is the fold:

    state(s) = group by columns, sum count where seq <= s, drop zeros

Counts may be negative in the middle of a log (PVM's negative counters, section 3.3.3); readers see positive folds.
Differential dataflow calls the same triple (data, time, diff).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.model.arrow import pc

COUNT = "__count"
"""Signed multiplicity of a row, int64."""
SEQ = "__seq"
"""The transaction a row belongs to, int64."""


UNFIT = "__unfit"
"""In a poll and in the journal only, and only where needed: null, or as JSON the values of a row that their column's
type cannot represent, `{"key": "id = 17", "values": {"born": "infinity"}}`; the columns it names are null in that row.
So one odd value concerns the views that use its column, and nobody else."""


def consolidate(rows: pa.Table) -> pa.Table:
    """Sum the counts of equal rows (equal in every other column, `seq` included if there) and drop zeros."""
    names = rows.column_names
    if rows.num_rows == 0:
        return rows
    others = [n for n in names if n != COUNT]
    if not others:
        total = pc.sum(rows.column(COUNT)).as_py() or 0
        return pa.table({COUNT: pa.array([total] if total else [], pa.int64())})
    grouped = rows.group_by(others, use_threads=False).aggregate([(COUNT, "sum")])
    grouped = grouped.rename_columns([COUNT if n == f"{COUNT}_sum" else n for n in grouped.column_names])
    return grouped.filter(pc.not_equal(grouped.column(COUNT), 0)).select(names)


def one_zero(rows: pa.Table) -> pa.Table:
    """−0.0 and 0.0 are one group and one value, as in Spark."""
    for at, field in enumerate(rows.schema):
        if pa.types.is_floating(field.type):
            rows = rows.set_column(at, field, pc.add(rows.column(at), pa.scalar(0.0, field.type)))
    return rows


def fold(rows: pa.Table, at: int | None = None) -> pa.Table:
    """The state at `at` (the newest one if None): columns and COUNT, without SEQ; negative counts stay."""
    if at is not None:
        rows = rows.filter(pc.less_equal(rows.column(SEQ), at))
    return consolidate(rows.drop_columns([SEQ]) if SEQ in rows.column_names else rows)


def visible(state: pa.Table) -> pa.Table:
    """What a reader sees of a folded state: each row as often as it counts, none that counts less than one."""
    counts = state.column(COUNT).to_numpy()
    return state.drop_columns([COUNT]).take(pa.array(np.repeat(np.arange(len(counts)), np.maximum(counts, 0))))
