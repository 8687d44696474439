"""The two algorithms as the paper prints them, line by line, recursive and without care for speed.

They are what ours must agree with. Algorithm 2 has two readings: by the letter, an inner call of ProcessRow that comes
through Line 5 applies ApplyRows at once, although outer calls have not looked at all they need; `Painting` leaves Lines
6 to 10 to the outermost call, and `LiteralPainting` does not (test_arrivals shows what becomes of it).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from headwater.merge import ActionList

Released = list[tuple[tuple[int, ...], tuple[ActionList[Any], ...]]]


class SimplePainting:
    """Algorithm 1."""

    def __init__(self, views: Collection[str]) -> None:
        self.views = list(views)
        self.color: dict[tuple[int, str], str] = {}
        self.state: dict[tuple[int, str], int] = {}
        self.rows: list[int] = []
        self.wt: dict[int, list[ActionList[Any]]] = defaultdict(list)
        self.released: Released = []

    def relevance(self, i: int, rel: Collection[str]) -> Released:
        self.released = []
        self.rows = sorted([*self.rows, i])
        for x in self.views:
            self.color[i, x] = "w" if x in rel else "b"
            self.state[i, x] = 0
        for al in list(self.wt[i]):
            self.process_action(al)
        self.purge(i)  # a row that concerns nobody
        return self.released

    def action_list(self, al: ActionList[Any]) -> Released:
        self.released = []
        self.wt[al.row].append(al)
        if al.row in self.rows:
            self.process_action(al)
        return self.released

    def process_action(self, al: ActionList[Any]) -> None:
        self.color[al.row, al.view] = "r"
        self.process_row(al.row)

    def process_row(self, i: int) -> bool:
        # Line 1
        if any(self.color[i, x] == "w" for x in self.views):
            return False
        # Line 2
        for x in self.views:
            if self.color[i, x] == "r" and any(self.color[above, x] == "r" for above in self.rows if above < i):
                return False
        self.apply([i])  # Lines 3, 4
        self.next_rows([i])  # Line 5
        self.purge(i)  # Line 6
        return True

    def apply(self, rows: list[int]) -> None:
        for i in rows:
            for x in self.views:
                if self.color[i, x] == "r":
                    self.color[i, x] = "g"
        rows = sorted(rows)
        self.released.append((tuple(rows), tuple(al for i in rows for al in self.wt.pop(i, []))))

    def next_red(self, i: int, x: str) -> int | None:
        return next((below for below in self.rows if below > i and self.color[below, x] == "r"), None)

    def next_rows(self, rows: list[int]) -> None:
        for i in sorted(rows):
            for x in self.views:
                if (
                    self.color.get((i, x)) == "g"
                    and (below := self.next_red(i, x)) is not None
                    and self.color[below, x] == "r"
                ):
                    self.start(below)

    def start(self, i: int) -> None:
        self.process_row(i)

    def purge(self, i: int) -> None:
        if i in self.rows and all(self.color[i, x] in "bg" for x in self.views):
            self.rows.remove(i)
            for x in self.views:
                del self.color[i, x]


class Painting(SimplePainting):
    """Algorithm 2, Lines 6 to 10 in the outermost call."""

    def __init__(self, views: Collection[str]) -> None:
        super().__init__(views)
        self.apply_rows: list[int] = []

    def process_action(self, al: ActionList[Any]) -> None:
        for above in self.rows:
            if above <= al.row and self.color[above, al.view] == "w":
                self.color[above, al.view] = "r"
                self.state[above, al.view] = al.row
        self.start(al.row)

    def start(self, i: int) -> None:
        self.apply_rows = []
        if i in self.rows and self.process_row(i):
            self.lines_6_to_10()

    def process_row(self, i: int) -> bool:
        # Line 1
        if i in self.apply_rows:
            return True
        # Line 2
        if any(self.color[i, x] == "w" for x in self.views):
            return False
        # Line 3
        self.apply_rows.append(i)
        # Line 4
        for x in self.views:
            if self.color.get((i, x)) == "r":
                for above in list(self.rows):
                    if above < i and self.color.get((above, x)) == "r" and not self.process_row(above):
                        return False
        # Line 5
        return all(self.state[i, x] <= i or self.process_row(self.state[i, x]) for x in self.views)

    def lines_6_to_10(self) -> None:
        rows, self.apply_rows = self.apply_rows, []
        self.apply(rows)
        self.next_rows(rows)
        for i in rows:
            self.purge(i)


class LiteralPainting(Painting):
    """Algorithm 2 by the letter: every call that comes through Line 5 goes on with Line 6."""

    def start(self, i: int) -> None:
        self.apply_rows = []
        if i in self.rows:
            self.process_row(i)

    def process_row(self, i: int) -> bool:
        if i in self.apply_rows:
            return True
        if not super().process_row(i):
            return False
        if self.apply_rows:
            self.lines_6_to_10()
        return True
