"""The cells of the ViewUpdateTable: entries, linked to rows across and to columns down.

A *column* holds the entries of one view that are not applied yet, oldest first, as a doubly linked list. Action lists
of one view are applied in order, so what is applied is always the top of a column: with the links, the entry above, the
entry below and the top are each one step away, however many rows wait.
"""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from headwater.merge.transactions import ActionList, View


class Color(Enum):
    """Section 4.1; the value is the paper's letter."""

    WHITE = "w"
    """Waiting for the action list."""
    RED = "r"
    """The action list is here and waits for others."""
    GRAY = "g"
    """Just applied."""
    BLACK = "b"
    """Need not be examined: the transaction does not concern the view."""


@dataclass(slots=True)
class Entry:
    """VUT[i, x]. `state` is the state the view goes to when this entry is applied: i, or a later row if one action list
    covers both; 0 while nothing has arrived. Two entries are equal if they look the same."""

    color: Color
    state: int = 0
    row: Row | None = field(default=None, repr=False, compare=False)
    above: Entry | None = field(default=None, repr=False, compare=False)
    below: Entry | None = field(default=None, repr=False, compare=False)


@dataclass(slots=True, eq=False)
class Row:
    """Transaction i: its entries (views that are not here are black), WT_i, and how many entries are white."""

    number: int
    entries: dict[View, Entry] = field(default_factory=dict)
    actions: list[ActionList[Any]] = field(default_factory=list)
    white: int = 0
    applied: bool = False
    blocker: Row | None = field(default=None, repr=False)
    """Painting's memory: a row that must be applied with or before this one and could not be when we last looked."""


class VutColumn:
    """The entries of one view that wait, oldest first; `whites` are the rows of those whose action list is missing."""

    __slots__ = ("bottom", "top", "whites")

    def __init__(self) -> None:
        self.top: Entry | None = None
        self.bottom: Entry | None = None
        self.whites: deque[Row] = deque()

    def __iter__(self) -> Iterator[Entry]:
        entry = self.top
        while entry is not None:
            yield entry
            entry = entry.below

    def add_white(self, row: Row) -> Entry:
        """A new white entry at its place: nearly always the bottom, further up for a row that comes late."""
        above, below = self.bottom, None
        while above is not None and number(above) > row.number:
            above, below = above.above, above
        entry = Entry(Color.WHITE, 0, row, above, below)
        if above is None:
            self.top = entry
        else:
            above.below = entry
        if below is None:
            self.bottom = entry
            self.whites.append(row)
        else:
            below.above = entry
            self.whites.insert(bisect(self.whites, row.number, key=lambda r: r.number), row)
        return entry

    def remove_white(self, row: Row) -> None:
        if self.whites[0] is row:
            self.whites.popleft()
        else:
            self.whites.remove(row)  # only after a row came late: managers send their lists in order

    def remove_top(self) -> Entry | None:
        """Take the top entry off; the new top, if there is one."""
        assert self.top is not None
        self.top = self.top.below
        if self.top is None:
            self.bottom = None
        else:
            self.top.above = None
        return self.top


def number(entry: Entry) -> int:
    """The row an entry of a column stands in."""
    assert entry.row is not None
    return entry.row.number
