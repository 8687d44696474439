"""REL: which transactions of a round concern which view, told to the merge processes; and whether a batch can change a
view at all.

A transaction concerns a view if it changes a row of one of its tables that meets the view's own conditions on it, or if
it concerns a view that this one reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from headwater.integrator.journal import Segment, read_changes
from headwater.integrator.relevance import Seqs, relevant, rows, touching
from headwater.model.conditions import Condition
from headwater.model.names import FOREVER, Seq, TableName
from headwater.model.numbers import ascending
from headwater.runtime.scheduling.families import Batch
from headwater.runtime.scheduling.manager import ViewManager
from headwater.runtime.scheduling.managers import Managers
from headwater.runtime.scheduling.merging import Merging
from headwater.runtime.view import UPDATES
from headwater.storage import Storage

Changes = Mapping[TableName, pa.Table]

NONE: Seqs = np.empty(0, np.int64)


class Relevance:
    """`shown` says up to which transaction a view is shown: what lies before is no news to it."""

    def __init__(self, storage: Storage, managers: Managers, merging: Merging, shown: Callable[[str], Seq]) -> None:
        self._storage, self._managers, self._merging, self._shown = storage, managers, merging, shown
        self._own: dict[str, list[Seqs]] = {}
        """By views that are kept for others: the transactions that can change them, and are not shown yet."""
        self._since: dict[str, Seq] = {}
        """From where on those are all there are."""

    def replay(self, segment: Segment) -> None:
        """Tell the merge processes of a round that was journaled before this run."""
        tables = {t for view in self._merging.members for t in view.plan.view.base_tables}
        self.tell(segment, self._read((segment,), tables, segment.lo, segment.hi))

    def tell(self, segment: Segment, changes: Changes) -> None:
        """Tell the merge processes which transactions of a round are relevant to which view."""
        known: dict[tuple[TableName, tuple[Condition, ...]], Seqs] = {}
        found: dict[str, Seqs] = {}
        about: dict[str, list[str]] = {}
        members = {view.key: view for view in self._merging.members}
        for key, manager in self._managers.all.items():  # parents come before their children
            if key not in members:
                continue
            view = members[key].plan.view
            touched = [NONE, *(_touched(o.table, o.conditions, changes, known) for o in view.occurrences)]
            touched += [found[p.key] for p in manager.parents if p.key in found]
            found[key] = ascending(np.concatenate(touched))
            about[key] = [str(t) for t in view.base_tables if t in changes]
        self._note_own(segment.lo, found)
        self._tie_kept(found)
        concerned = {key: seqs[seqs > self._shown(key)] for key, seqs in found.items()}
        every = {self._managers.all[key].family.step for key in members if key in self._managers.all} - {1}
        most = UPDATES if any(view.by_updates for view in members.values()) else 0
        self._merging.relevance(rows(segment.lo, segment.hi, concerned, every, most), about)
        self._merging.reached(segment.hi)

    def _note_own(self, lo: Seq, found: Mapping[str, Seqs]) -> None:
        """What can change a kept view, before it is tied to more. Of one that was away for a round nothing is sure."""
        for key in [key for key in self._since if key not in found]:
            del self._since[key], self._own[key]
        for key, seqs in found.items():
            if self._managers.all[key].view.plan.view.kept_for:
                self._since.setdefault(key, lo)
                waiting = [one for one in self._own.get(key, ()) if one[-1] > self._shown(key)]
                self._own[key] = [*waiting, seqs] if len(seqs) else waiting

    def _tie_kept(self, found: dict[str, Seqs]) -> None:
        """What is kept for one view alone is concerned by whatever concerns that view: their transactions are then
        runs of one set, and one cut shows a whole batch, instead of one for every change from table to table."""
        readers: dict[str, list[str]] = {}
        for key, manager in self._managers.all.items():
            for parent in manager.parents:
                readers.setdefault(parent.key, []).append(key)
        for key, manager in reversed(list(self._managers.all.items())):  # children before their parents
            mine = readers.get(key, [])
            if manager.view.plan.view.kept_for and key in found and len(mine) == 1 and mine[0] in found:
                found[key] = found[mine[0]]

    def expects(self, manager: ViewManager, batch: Batch) -> bool:
        """Whether a batch can change the view."""
        view = manager.view
        if view.merged and not manager.catching_up:
            if batch.lo >= self._since.get(manager.key, FOREVER):
                return any(((seqs > batch.lo) & (seqs <= batch.hi)).any() for seqs in self._own[manager.key])
            return self._merging.expects(view, batch.lo, batch.hi)
        if manager.parents:
            return True
        changes = self._read(batch.segments, set(view.plan.view.tables), batch.lo, batch.hi)
        return bool(len(relevant(view.plan.view, changes)))

    def _read(
        self, segments: tuple[Segment, ...], tables: set[TableName], lo: Seq, hi: Seq
    ) -> dict[TableName, pa.Table]:
        found = {t: read_changes(self._storage, segments, t, lo, hi) for t in tables}
        return {t: rows for t, rows in found.items() if rows is not None}


def _touched(
    table: TableName,
    conditions: tuple[Condition, ...],
    changes: Changes,
    known: dict[tuple[TableName, tuple[Condition, ...]], Seqs],
) -> Seqs:
    """The transactions that change a row of the table which meets the conditions; many views ask the same."""
    if table not in changes:
        return np.empty(0, np.int64)
    if (table, conditions) not in known:
        known[table, conditions] = touching(changes[table], conditions)
    return known[table, conditions]
