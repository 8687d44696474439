"""Which transactions can touch a view (REL_i of multiple view consistency, section 3.2): those that change one of its
tables in a row that meets the view's own conditions on that table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.algebra.view import ViewDefinition
from headwater.model.changelog import SEQ, UNFIT
from headwater.model.conditions import Condition, meets
from headwater.model.names import Seq, TableName

Seqs = np.ndarray[tuple[int], np.dtype[np.int64]]


def relevant(view: ViewDefinition, changes: Mapping[TableName, pa.Table]) -> Seqs:
    """The numbers of the transactions that are relevant to the view, ascending."""
    touched = [touching(changes[o.table], o.conditions) for o in view.occurrences if o.table in changes]
    return np.unique(np.concatenate(touched)) if touched else np.empty(0, np.int64)


def touching(changes: pa.Table, conditions: Sequence[Condition]) -> Seqs:
    """The transactions that change a row of a table which meets the conditions. A row with a value that could not be
    represented may meet any."""
    met = meets(changes, conditions).column(SEQ).to_numpy()
    if UNFIT in changes.column_names:
        met = np.concatenate([met, changes.filter(pc.is_valid(changes.column(UNFIT))).column(SEQ).to_numpy()])
    return np.unique(met)


@dataclass(frozen=True)
class Row:
    """A row for the view update table: the transactions of (lo, hi] that tie these views together."""

    lo: Seq
    hi: Seq
    views: frozenset[str]


def rows(lo: Seq, hi: Seq, relevant: Mapping[str, Seqs], every: Iterable[int] = ()) -> list[Row]:
    """Cut a round of the integrator into rows.

    Two views that some transaction of the round is relevant to must change together, so they stand in one row; views
    that no transaction connects, directly or through others, get rows of their own. Where a view shows every N
    transactions, rows end at the last multiple of N as well, or it could never be shown up to there.
    """
    ends = sorted({hi, *(Seq(hi // n * n) for n in every if hi // n * n > lo)})
    found = []
    for low, high in pairwise([lo, *ends]):
        within = {v: seqs[(seqs > low) & (seqs <= high)] for v, seqs in relevant.items()}
        found += [Row(low, high, tied) for tied in _tied({v: seqs for v, seqs in within.items() if len(seqs)})]
    return found


def _tied(relevant: Mapping[str, Seqs]) -> list[frozenset[str]]:
    """Views connected by transactions they share; the order of their first mention is kept."""
    views = list(relevant)
    alike: dict[bytes, int] = {}  # many views have the very same transactions
    first = [alike.setdefault(relevant[v].tobytes(), n) for n, v in enumerate(views)]
    distinct = sorted(set(first))
    seqs = np.concatenate([relevant[views[n]] for n in distinct]) if distinct else np.empty(0, np.int64)
    owner = np.repeat(distinct, [len(relevant[views[n]]) for n in distinct]) if distinct else np.empty(0, np.int64)
    order = np.argsort(seqs, kind="stable")
    seqs, owner = seqs[order], owner[order]
    shared = np.flatnonzero(seqs[1:] == seqs[:-1])
    root = list(range(len(views)))

    def find(n: int) -> int:
        while root[n] != n:
            root[n] = n = root[root[n]]
        return n

    for one, other in np.unique(np.column_stack([owner[shared], owner[shared + 1]]), axis=0).tolist():
        root[find(max(one, other))] = find(min(one, other))
    tied: dict[int, list[str]] = {}
    for n, view in enumerate(views):
        tied.setdefault(find(first[n]), []).append(view)
    return [frozenset(members) for members in tied.values()]
