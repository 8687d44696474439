"""What a view counts on, held against what its tables do (`maintenance/keeping/relying`).

A table that is said never to change, and one to which rows are said only to come, are watched like any other. The first
change that is something else halts the views that count on it, before anything of it is computed.
"""

from __future__ import annotations

import pyarrow as pa

from headwater.algebra.view import Reliance, Relied, ViewDefinition
from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import PromiseBroken
from headwater.model.names import TableName


def check_promises(view: ViewDefinition, table: TableName, changes: pa.Table) -> None:
    """PromiseBroken if a table changes in a way that the view counts on it not to."""
    relied = next((r for r in view.relies if view.occurrences[r.occurrence].table == table), None)
    if relied is None or not changes.num_rows:
        return
    counts, seqs = changes.column(COUNT).to_numpy(), changes.column(SEQ).to_numpy()
    broken = seqs if relied.on is Reliance.NEVER else seqs[counts < 0]
    if len(broken):
        raise _broken(view, relied, int(broken.min()))


def _broken(view: ViewDefinition, relied: Relied, seq: int) -> PromiseBroken:
    word = "never" if relied.on is Reliance.NEVER else "inserts"
    did = "changed" if relied.on is Reliance.NEVER else "had a row changed or deleted"
    return PromiseBroken(
        f'{relied.table} {did} in transaction {seq}, and headwater.toml says of it: changes = "{word}"; view'
        f" {view.name} counts on that",
        f"remove changes = \"{word}\" of {relied.table} from headwater.toml and run 'headwater apply': it loads the"
        " view with what it needs kept beside it",
    )
