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
from headwater.model.numbers import ascending

Seqs = np.ndarray[tuple[int], np.dtype[np.int64]]


def relevant(view: ViewDefinition, changes: Mapping[TableName, pa.Table]) -> Seqs:
    """The numbers of the transactions that are relevant to the view, ascending."""
    touched = [touching(changes[o.table], o.conditions) for o in view.occurrences if o.table in changes]
    return ascending(np.concatenate(touched)) if touched else np.empty(0, np.int64)


def touching(changes: pa.Table, conditions: Sequence[Condition]) -> Seqs:
    """The transactions that change a row of a table which meets the conditions. A row with a value that could not be
    represented may meet any."""
    met = meets(changes, conditions).column(SEQ).to_numpy()
    if UNFIT in changes.column_names:
        met = np.concatenate([met, changes.filter(pc.is_valid(changes.column(UNFIT))).column(SEQ).to_numpy()])
    return ascending(met)


@dataclass(frozen=True)
class TiedRow:
    """A row for the view update table: transactions of (lo, hi], each of which concerns all of these views and no
    other. The first is lo + 1, the last is hi."""

    lo: Seq
    hi: Seq
    views: frozenset[str]


def rows(lo: Seq, hi: Seq, relevant: Mapping[str, Seqs], every: Iterable[int] = (), most: int = 0) -> list[TiedRow]:
    """Cut a round of the integrator into rows, by their last transactions.

    A row ends where the set of views changes that its transactions tie together, so that no view is held by a
    transaction that does not concern it. A run of transactions with one set is one row, whatever others of none of its
    views lie between them. Where a view shows every N transactions, rows end at the last multiple of N as well, or it
    could never be shown up to there. Where batches cross no multiple of `most`, rows do not either.
    """
    every = list(every)
    within = {view: seqs[(seqs > lo) & (seqs <= hi)] for view, seqs in relevant.items()}
    within = {view: seqs for view, seqs in within.items() if len(seqs)}
    if not within:
        return []
    alike: dict[bytes, list[str]] = {}  # many views have the very same transactions
    for view, own in within.items():
        alike.setdefault(own.tobytes(), []).append(view)
    seqs = ascending(np.concatenate([within[views[0]] for views in alike.values()]))
    concerns = np.zeros((len(alike), len(seqs)), bool)
    for place, views in enumerate(alike.values()):
        concerns[place, np.searchsorted(seqs, within[views[0]])] = True
    sets = _numbered(concerns)
    begins = np.zeros(len(seqs), bool)
    for own in concerns:
        places = np.flatnonzero(own)
        begins[places[1:]] |= sets[places[1:]] != sets[places[:-1]]
        begins[places[0]] = True
        if most:
            begins[places[1:]] |= (seqs[places[1:]] - 1) // most != (seqs[places[:-1]] - 1) // most
        for n in every:  # after the multiple a new row begins
            begins[places[seqs[places] > hi // n * n][:1]] = True
    order = np.argsort(sets, kind="stable")
    starts = np.flatnonzero(begins[order])  # every set's first transaction begins a row
    firsts, lasts = order[starts], order[np.append(starts[1:], len(order)) - 1]
    named, tied, found = list(alike.values()), dict[int, frozenset[str]](), []
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        kind = int(sets[first])
        if kind not in tied:
            tied[kind] = frozenset(view for place in np.flatnonzero(concerns[:, first]) for view in named[place])
        found.append(TiedRow(Seq(int(seqs[first]) - 1), Seq(int(seqs[last])), tied[kind]))
    return sorted(found, key=lambda row: row.hi)


def _numbered(concerns: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> Seqs:
    """A number for each column: equal columns, equal numbers."""
    packed = np.ascontiguousarray(np.packbits(concerns, axis=0).T)
    if packed.shape[1] == 1:
        few: Seqs = packed[:, 0].astype(np.int64)
        return few
    columns = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    return np.unique(columns, return_inverse=True)[1].reshape(-1).astype(np.int64)
