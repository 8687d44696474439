"""What the merge process takes in and what it gives out (Zhuge, Wiener, Garcia-Molina: "Multiple View Consistency for
Data Warehousing", section 3.3 and 4.1).

An *action list* AL_i^x is what the manager of view x computed: it brings V_x to the state after transaction i. A
*warehouse transaction* is a set of action lists that must become visible together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

View = str
"""A column's key. Nothing here looks into it."""

Actions = TypeVar("Actions")


@dataclass(frozen=True)
class ActionList(Generic[Actions]):
    """AL_i^x: x is `view`, i is `row`, the last transaction it covers. `actions` is the caller's, and may be empty."""

    view: View
    row: int
    actions: Actions


@dataclass(frozen=True)
class WarehouseTransaction:
    """WT: all action lists of these rows, to be applied as one. `rows` ascend; `actions` go by row, then by arrival.

    `views` is VS(WT): every view that the rows touch, even where one action list stands for several rows. It decides
    which transactions depend on each other (section 4.3).
    """

    rows: tuple[int, ...]
    actions: tuple[ActionList[Any], ...]
    views: frozenset[View]
