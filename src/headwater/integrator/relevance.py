"""Which transactions can touch a view (REL_i of multiple view consistency, section 3.2): those that change one of its
tables in a row that meets the view's own conditions on that table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
    """A row for the view update table: transactions of (lo, hi], each of which concerns all of these views and no
    other. The first is lo + 1, the last is hi."""

    lo: Seq
    hi: Seq
    views: frozenset[str]


def rows(lo: Seq, hi: Seq, relevant: Mapping[str, Seqs], every: Iterable[int] = ()) -> list[Row]:
    """Cut a round of the integrator into rows, by their last transactions.

    A row ends where the set of views changes that its transactions tie together, so that no view is held by a
    transaction that does not concern it. A run of transactions with one set is one row, whatever others of none of its
    views lie between them. Where a view shows every N transactions, rows end at the last multiple of N as well, or it
    could never be shown up to there.
    """
    within = {view: seqs[(seqs > lo) & (seqs <= hi)] for view, seqs in relevant.items()}
    within = {view: seqs for view, seqs in within.items() if len(seqs)}
    if not within:
        return []
    seqs = np.unique(np.concatenate(list(within.values())))
    sets = _sets(seqs, within)
    begins = np.zeros(len(seqs), bool)
    for own in within.values():
        places = np.searchsorted(seqs, own)
        begins[places[1:]] |= sets[places[1:]] != sets[places[:-1]]
        begins[places[0]] = True
    for n in every:
        after = np.searchsorted(seqs, hi // n * n, side="right")
        for own in within.values():  # whoever goes on after it begins a row there
            places = np.searchsorted(seqs, own)
            begins[places[places >= after][:1]] = True
    found = []
    for members in (np.flatnonzero(sets == kind) for kind in np.unique(sets)):
        views = frozenset(view for view, own in within.items() if _holds(own, seqs[members[0]]))
        for run in np.split(members, np.flatnonzero(begins[members])[1:]):
            found.append(Row(Seq(int(seqs[run[0]]) - 1), Seq(int(seqs[run[-1]])), views))
    return sorted(found, key=lambda row: row.hi)


def _sets(seqs: Seqs, within: Mapping[str, Seqs]) -> Seqs:
    """A number for the set of views that each transaction concerns: equal sets, equal numbers."""
    sets = np.zeros(len(seqs), np.int64)
    for own in within.values():
        member = np.zeros(len(seqs), np.int64)
        member[np.searchsorted(seqs, own)] = 1
        sets = np.unique(2 * sets + member, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return sets


def _holds(seqs: Seqs, seq: np.int64) -> bool:
    place = int(np.searchsorted(seqs, seq))
    return place < len(seqs) and bool(seqs[place] == seq)
