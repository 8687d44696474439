"""What a view counts on, held against what its tables do (`maintenance/keeping/relying`).

A table that is said never to change, only to gain rows or only to lose them, is watched like any other. The first
change that is something else halts the views that count on it, before anything of it is computed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headwater.algebra.view import Reliance, Relied, ViewDefinition
from headwater.model.changelog import COUNT, SEQ, UNFIT
from headwater.model.errors import PromiseBroken
from headwater.model.names import TableName


def check_promises(view: ViewDefinition, table: TableName, changes: pa.Table) -> None:
    """PromiseBroken if a table changes in a way that the view counts on it not to."""
    relied = next((r for r in view.relies if view.occurrences[r.occurrence].table == table), None)
    if relied is None or not changes.num_rows:
        return
    counts, seqs = changes.column(COUNT).to_numpy(), changes.column(SEQ).to_numpy()
    broken = {
        Reliance.NEVER: seqs,
        Reliance.PARENT: seqs[counts < 0],
        Reliance.DELETES: seqs[counts > 0],
    }[relied.on]
    if len(broken):
        seq = int(broken.min())
        wrong = (counts > 0) if relied.on is Reliance.DELETES else (counts < 0)
        mine = np.flatnonzero((seqs == seq) & (wrong if relied.on is not Reliance.NEVER else True))
        raise _broken(view, relied, seq, changes.slice(int(mine[0]), 1).to_pylist()[0])


def _broken(view: ViewDefinition, relied: Relied, seq: int, row: Mapping[str, object]) -> PromiseBroken:
    values = ", ".join(f"{name} = {value!r}" for name, value in row.items() if name not in (COUNT, SEQ, UNFIT))
    word, did = {
        Reliance.NEVER: ("never", "changed"),
        Reliance.PARENT: ("inserts", "had a row changed or deleted"),
        Reliance.DELETES: ("deletes", "had a row changed or added"),
    }[relied.on]
    return PromiseBroken(
        f"{relied.table} {did} in transaction {seq} ({values}), and headwater.toml says of it: changes ="
        f' "{word}"; view {view.name} counts on that',
        f"remove changes = \"{word}\" of {relied.table} from headwater.toml and run 'headwater apply': it loads the"
        " view with what it needs kept beside it",
    )
