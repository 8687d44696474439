"""The Painting Algorithm (section 5, Algorithm 2): for view managers that are *strongly consistent*, where one action
list may cover several transactions.

AL_i^x paints every white entry of column x down to row i red and notes in each that it leads to state i. So a row
*needs* other rows: the one above it in each of its columns, because lists of a view are applied in order, and the row
its entry's state names, because one action list cannot be applied by halves. A row can be applied when no row it needs,
directly or through others, has a white entry; rows that need each other are one warehouse transaction.

*Complete-N* managers (section 6.3), which process N transactions at a time, are a special case: their action list
covers the rows of a block, and Painting collects a block because its rows lead to the same state. If all managers have
the same N, no need crosses a block's end forward, and every N-th state is a state of the warehouse. If they differ or
are mixed with other kinds, the weakest promise holds, which is Painting's: real states, in order.

Two things differ from the letter of Algorithm 2. Its inner calls of ProcessRow would run Lines 6 to 10 while outer
calls have not checked all they need; they are meant for the outermost call. And Lines 1 to 5 search everything a row
needs, at every event; we find the groups of rows that need each other with Tarjan's algorithm, stop at the first white,
and remember it as `blocker` of all rows that lead there. A row is searched again only when its blocker is applied.

Invariant between events: no set of rows can be applied. What AL_i^x paints needs row i, so only row i is looked at; and
what needs a row that was applied, needs one of the rows just below it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from headwater.merge.entries import Row
from headwater.merge.simple_painting import Trace
from headwater.merge.transactions import ActionList, View, WarehouseTransaction
from headwater.merge.view_update_table import ViewUpdateTable


class Painting:
    """Algorithm 2 over a table. Each event returns the transactions it releases, in the order to submit them."""

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
        """ProcessAction: all white entries of the column down to row i become red, with state i."""
        last = self.table.rows[al.row]
        last.actions.append(al)
        last.blocker = None  # it is looked at next; and rows that wait for it must not be waited for by it
        for row in self.table.paint_down_to(al.view, al.row):
            if row is not last:
                row.blocker = last
        if self._trace:
            self._trace(f"row {al.row} and above red in {al.view}")
        return last

    def _process_rows(self, rows: Iterable[Row]) -> list[WarehouseTransaction]:
        """ProcessRow's outermost call, Lines 6 to 10, with a queue for Line 9."""
        released = []
        queue = deque(rows)
        while queue:
            row = queue.popleft()
            if row.applied or self._blocked(row):
                continue
            for group in self._ready(row):
                # Lines 6, 7: the rows become gray, all their actions are a single transaction.
                released.append(self.table.apply(group))
                if self._trace:
                    self._trace(f"rows {released[-1].rows} applied")
                # Lines 10, 9: purge them, then see what stood just below them.
                queue.extend(self.table.purge(group))
                if self._trace:
                    self._trace(f"rows {released[-1].rows} purged")
        return released

    def _ready(self, start: Row) -> list[list[Row]]:
        """Lines 1 to 5: what can be applied of everything `start` needs, in groups of rows that need each other, needed
        groups first. Tarjan's strongly connected components, without recursion, given up at the first white."""
        groups: list[list[Row]] = []
        order: dict[Row, int] = {}
        lowest: dict[Row, int] = {}  # the first row of `undecided` that this one is known to need
        undecided: list[Row] = []  # rows that need a row of the path; the path is a part of it
        path: list[tuple[Row, Iterator[Row]]] = []
        entering: Row | None = start
        while True:
            if entering is not None:
                needs = self._needs(entering)
                order[entering] = lowest[entering] = len(order)
                undecided.append(entering)
                if blocker := next((b for n in needs if n not in order and (b := self._blocked(n))), None):
                    for row in undecided:
                        row.blocker = blocker
                    return groups
                path.append((entering, iter(needs)))
            row, remaining = path[-1]
            entering = None
            for need in remaining:
                if need not in order:
                    entering = need
                    break
                lowest[row] = min(lowest[row], order[need])
            if entering is not None:
                continue
            path.pop()
            if lowest[row] == order[row]:
                group = [undecided.pop()]
                while group[-1] is not row:
                    group.append(undecided.pop())
                order.update(dict.fromkeys(group, len(self.table)))  # above any order: no way back through them
                groups.append(sorted(group, key=lambda r: r.number))
            if not path:
                return groups
            above = path[-1][0]
            lowest[above] = min(lowest[above], lowest[row])

    def _needs(self, row: Row) -> list[Row]:
        """The rows that must be applied before this one (Line 4) or together with it (Line 5)."""
        needs = []
        for entry in row.entries.values():
            if entry.above is not None and entry.above.row is not None:
                needs.append(entry.above.row)
            if entry.state > row.number:
                needs.append(self.table.rows[entry.state])
        return needs

    def _blocked(self, row: Row) -> Row | None:
        """A white row that this row is known to need (Line 2: perhaps itself), or None if nothing is known."""
        if row.white:
            return row
        passed = []
        while not row.white and row.blocker is not None and not row.blocker.applied:
            passed.append(row)
            row = row.blocker
        for other in passed:
            other.blocker = row  # the end of the way, known or not, so that nobody walks it twice
        return row if row.white else None
