"""The ViewUpdateTable (section 4.1): one row per source transaction, one column per view, one colour per entry.

Invariant: an entry is in the table exactly while its transaction concerns the view and is not applied. So a row leaves
when it is applied, a column holds only what waits, and everything else is black without being stored.

The table knows how to change, the painting algorithms know when. Rows are any integers; the integrator sends them
ascending, but a row may also come late, between others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headwater.merge.entries import Color, Entry, Row, VutColumn, number
from headwater.merge.transactions import ActionList, View, WarehouseTransaction

__all__ = ["ActionList", "Color", "Entry", "Row", "View", "ViewUpdateTable", "WarehouseTransaction"]

_BLACK = Entry(Color.BLACK)

Snapshot = list[tuple[int, dict[View, Entry], tuple[ActionList[Any], ...]]]


class ViewUpdateTable:
    """What waits, in both directions: rows by number, columns by view."""

    def __init__(self, views: Iterable[View] = ()) -> None:
        self.rows: dict[int, Row] = {}
        self._columns: dict[View, VutColumn] = {view: VutColumn() for view in views}
        # Action lists that are here before their REL_i: WT_i of rows (or entries) that do not exist yet.
        self._early: dict[int, list[ActionList[Any]]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def views(self) -> tuple[View, ...]:
        return tuple(self._columns)

    def entry(self, row: int, view: View) -> Entry:
        waiting = self.rows.get(row)
        return waiting.entries.get(view, _BLACK) if waiting else _BLACK

    def first_pending(self, view: View) -> int | None:
        """The oldest row of this view that is not applied."""
        top = self._columns[view].top
        return number(top) if top else None

    def pending(self, view: View) -> Sequence[int]:
        """All rows of this view that are not applied, oldest first."""
        return [number(entry) for entry in self._columns[view]]

    def snapshot(self) -> Snapshot:
        """Row by row: its number, a copy of its entries that are not black, its action lists."""
        return [
            (n, {v: Entry(e.color, e.state) for v, e in row.entries.items()}, tuple(row.actions))
            for n, row in sorted(self.rows.items())
        ]

    # Views come and go.

    def add_view(self, view: View) -> None:
        """A new column; transactions concern it from the next REL that names it."""
        if view in self._columns:
            raise ValueError(f"view {view!r} is in the table already")
        self._columns[view] = VutColumn()

    def drop_view(self, view: View) -> list[Row]:
        """The column goes, with its action lists. Returns the rows it was part of that still wait for something."""
        left = []
        for entry in self._columns.pop(view):
            row = entry.row
            assert row is not None
            del row.entries[view]
            row.white -= entry.color is Color.WHITE
            row.actions = [al for al in row.actions if al.view != view]
            if row.entries:
                left.append(row)
            else:
                self._purge(row)
        for n, lists in list(self._early.items()):
            self._keep_early(n, [al for al in lists if al.view != view])
        for row in self.rows.values():
            row.blocker = None  # it may have been reached through the column that is gone
        return left

    def absorb(self, other: ViewUpdateTable) -> None:
        """Take over the rows and columns of a table of other views (two groups became one); it is empty afterwards.

        Nothing becomes releasable: a row that stands in both tables now waits for both.
        """
        if common := self._columns.keys() & other._columns.keys():
            raise ValueError(f"both tables have the views {sorted(common)}")
        self._columns.update(other._columns)
        for n, theirs in other.rows.items():
            ours = self.rows.setdefault(n, theirs)
            if ours is not theirs:
                self._unite(ours, theirs)
        for n, lists in other._early.items():
            self._early.setdefault(n, []).extend(lists)
        other.rows, other._columns, other._early = {}, {}, {}

    def _unite(self, ours: Row, theirs: Row) -> None:
        for view, entry in theirs.entries.items():
            entry.row = ours
            if entry.color is Color.WHITE:
                whites = self._columns[view].whites
                whites[whites.index(theirs)] = ours
        ours.entries.update(theirs.entries)
        ours.actions += theirs.actions
        ours.white += theirs.white
        theirs.applied = True  # whoever remembers it as a blocker looks again

    # What the painting algorithms do.

    def allocate(self, row: int, views: Iterable[View]) -> list[ActionList[Any]]:
        """REL_i: the entries of these views become white. Returns the action lists that were waiting for that.

        A transaction that concerns no view gets no row. For a row that exists, views are added to it.
        """
        known = self.rows[row].entries if row in self.rows else {}
        new = [view for view in dict.fromkeys(views) if view not in known]
        if unknown := [v for v in new if v not in self._columns]:
            raise ValueError(f"REL of row {row} names {unknown}: not in the table, add_view() comes first")
        if not new:
            return []
        waiting = self.rows.setdefault(row, Row(row))
        for view in new:
            waiting.entries[view] = self._columns[view].add_white(waiting)
        waiting.white += len(new)
        if not (early := self._early.get(row)):
            return []
        self._keep_early(row, [al for al in early if al.view not in waiting.entries])
        return [al for al in early if al.view in waiting.entries]

    def save(self, al: ActionList[Any]) -> bool:
        """Keep an action list that came; True if its entry exists, so that it can be processed now.

        A list of a view that is not in the table is ignored: its manager had sent it before the view was withdrawn.
        """
        if (row := self.rows.get(al.row)) and (entry := row.entries.get(al.view)):
            if entry.color is not Color.WHITE:
                raise ValueError(f"a second action list of view {al.view!r} covers row {al.row}")
            return True
        if al.view in self._columns:
            self._early.setdefault(al.row, []).append(al)
        return False

    def paint(self, row: Row, view: View) -> None:
        """A white entry becomes red; it leads to its own row's state."""
        self._columns[view].remove_white(row)
        entry = row.entries[view]
        entry.color, entry.state = Color.RED, row.number
        row.white -= 1

    def paint_down_to(self, view: View, last: int) -> list[Row]:
        """All white entries of a view up to row `last` become red and lead to its state. Returns their rows."""
        whites = self._columns[view].whites
        painted = []
        while whites and whites[0].number <= last:
            row = whites.popleft()
            entry = row.entries[view]
            entry.color, entry.state = Color.RED, last
            row.white -= 1
            painted.append(row)
        return painted

    def apply(self, rows: Sequence[Row]) -> WarehouseTransaction:
        """Red becomes gray, and the action lists leave the table."""
        actions: list[ActionList[Any]] = []
        views: set[View] = set()
        for row in rows:
            for entry in row.entries.values():
                entry.color = Color.GRAY
            views.update(row.entries)
            actions += row.actions
            row.actions = []
        return WarehouseTransaction(tuple(row.number for row in rows), tuple(actions), frozenset(views))

    def purge(self, rows: Sequence[Row]) -> list[Row]:
        """Gray rows (ascending, on top of all their columns) leave. Returns the rows just below them: nextRed."""
        below: dict[Row, None] = {}
        for row in rows:
            for view, entry in row.entries.items():
                column = self._columns[view]
                assert column.top is entry, "what is applied is the top of each column"
                top = column.remove_top()
                if top is not None and top.row is not None:
                    below[top.row] = None
            self._purge(row)
        return [row for row in below if not row.applied]

    def _purge(self, row: Row) -> None:
        del self.rows[row.number]
        row.applied, row.entries, row.blocker = True, {}, None

    def _keep_early(self, row: int, lists: list[ActionList[Any]]) -> None:
        if lists:
            self._early[row] = lists
        else:
            self._early.pop(row, None)
