"""PVM CC, complete consistency (Zhang, Ding, Rundensteiner 2003, section 4.2, figure 17).

PVM, but effects are committed in the order in which their updates were received. Each update gets its place in the
CommitQueue when it arrives; its effect is put there when it is known; whatever stands at the head and is known is
committed, one state each.

Invariant: the states of the view are those after each prefix of the updates received, in that order. Each effect is
what PVM computes: the one of its update after all earlier ones. Complete.

As figure 17 has it, an update leaves the PPU when it is dequeued, not when its effect is known. So a slow head keeps up
to p − 1 finished updates in the PPU behind it: no further one is started, though the sources may be idle. The paper
calls the wait minuscule; it is as long as the head takes. The RPU then stays empty, since nothing is committed while
an earlier one is being handled: it is the PPU that remembers.
"""

from __future__ import annotations

from collections import deque

from headwater.algebra.bag import Bag
from headwater.maintenance.strategies.contract import WAREHOUSE, Factory, Strategy
from headwater.maintenance.strategies.pvm import Pvm, Stamped


def pvm_cc(p: int = 4) -> Factory:
    """PVM CC with at most p updates at the same time."""
    return lambda setting: Strategy({WAREHOUSE: Pvm(setting, p, CommitQueue())})


class CommitQueue:
    """In the order of arrival. An effect that is not known yet is "empty" in the figure; an effect without rows is
    known."""

    def __init__(self) -> None:
        self._items: deque[Stamped] = deque()
        self._known: dict[int, Bag] = {}
        """By timestamp."""

    def received(self, stamped: Stamped) -> None:
        self._items.append(stamped)

    def handled(self, stamped: Stamped, change: Bag) -> list[tuple[Stamped, Bag]]:
        self._known[stamped.stamp] = change
        ready: list[tuple[Stamped, Bag]] = []
        while self._items and self._items[0].stamp in self._known:
            head = self._items.popleft()
            ready.append((head, self._known.pop(head.stamp)))
        return ready
