"""The Simple Painting Algorithm (section 4, Algorithm 1): for view managers that are all *complete*, one action list
per transaction and view.

A row can be applied when nothing in it is white and it is on top of each of its columns. Then its action lists are one
warehouse transaction: every source transaction is a state of the warehouse (Theorem 4.1), and none waits longer than
consistency needs (promptness).

Invariant between events: no row of the table can be applied. An event can only enable the row it touches, and a row
that is applied can only enable the rows just below it, so nothing else is looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from headwater.merge.entries import Row
from headwater.merge.transactions import ActionList, View, WarehouseTransaction
from headwater.merge.view_update_table import ViewUpdateTable

Trace = Callable[[str], None]
"""Told in words what just changed in the table."""


class SimplePainting:
    """Algorithm 1 over a table. Each event returns the transactions it releases, in the order to submit them."""

    def __init__(self, table: ViewUpdateTable, trace: Trace | None = None) -> None:
        self.table, self._trace = table, trace

    def relevance(self, row: int, views: Iterable[View]) -> list[WarehouseTransaction]:
        """REL_i came: transaction `row` concerns these views. Called again for a row, it adds views to it."""
        early = self.table.allocate(row, views)
        if self._trace:
            self._trace(f"row {row} allocated")
        for al in early:
            self._process_action(al)
        return self._process_rows([self.table.rows[row]]) if early else []

    def action_list(self, al: ActionList[Any]) -> list[WarehouseTransaction]:
        """AL_i^x came, perhaps before REL_i."""
        if not self.table.save(al):
            return []
        return self._process_rows([self._process_action(al)])

    def withdraw(self, view: View) -> list[WarehouseTransaction]:
        """A view leaves. Its entries hold nothing back any more, so rows it was part of may go."""
        rows = self.table.drop_view(view)
        if self._trace:
            self._trace(f"view {view} withdrawn")
        return self._process_rows(rows)

    def _process_action(self, al: ActionList[Any]) -> Row:
        """ProcessAction: VUT[i, x].color = red."""
        row = self.table.rows[al.row]
        row.actions.append(al)
        self.table.paint(row, al.view)
        if self._trace:
            self._trace(f"row {al.row} red in {al.view}")
        return row

    def _process_rows(self, rows: Iterable[Row]) -> list[WarehouseTransaction]:
        """ProcessRow, with a queue for its recursion: a long column would exceed any stack."""
        released = []
        queue = deque(rows)
        while queue:
            row = queue.popleft()
            if row.applied:
                continue
            # Line 1: an action list is missing.
            if row.white:
                continue
            # Line 2: an earlier list of one of its views is not applied. (The paper looks for red above; a late row
            # may stand there white, and must be waited for as well.)
            if any(entry.above is not None for entry in row.entries.values()):
                continue
            # Lines 3, 4: red becomes gray, WT_i goes to the warehouse as one transaction.
            released.append(self.table.apply([row]))
            if self._trace:
                self._trace(f"row {row.number} applied")
            # Lines 6, 5: purge the row, then see what stood just below it (Example 3 does it in this order, too).
            queue.extend(self.table.purge([row]))
            if self._trace:
                self._trace(f"row {row.number} purged")
        return released
