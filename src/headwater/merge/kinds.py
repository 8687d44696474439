"""Which painting a group of view managers needs (section 6.3): the one for its weakest member."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from headwater.merge.painting import Painting
from headwater.merge.simple_painting import SimplePainting, Trace
from headwater.merge.transactions import ActionList, View, WarehouseTransaction
from headwater.merge.view_update_table import ViewUpdateTable


class MergeProcess(Protocol):
    """What both algorithms are to their caller: events in, warehouse transactions out."""

    table: ViewUpdateTable

    def relevance(self, row: int, views: Iterable[View]) -> list[WarehouseTransaction]: ...

    def action_list(self, al: ActionList[Any]) -> list[WarehouseTransaction]: ...

    def withdraw(self, view: View) -> list[WarehouseTransaction]: ...


def painting_for(table: ViewUpdateTable, complete: bool, trace: Trace | None = None) -> MergeProcess:
    """Simple Painting if all managers are complete, else Painting. A table that Simple Painting worked on can go on
    under Painting, when a manager that is not complete joins; never the other way while rows wait."""
    return SimplePainting(table, trace) if complete else Painting(table, trace)
