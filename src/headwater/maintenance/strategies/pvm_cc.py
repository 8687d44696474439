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

from headwater.algebra.bag import Bag
from headwater.maintenance.commit_queue import CommitQueue
from headwater.maintenance.strategies.contract import WAREHOUSE, Factory, Strategy
from headwater.maintenance.strategies.pvm import Pvm, Share, Stamped, everything
from headwater.model.names import Seq, ViewName


def pvm_cc(p: int = 4, share: Share = everything) -> Factory:
    """PVM CC with at most p updates at the same time."""
    return lambda setting: Strategy({WAREHOUSE: Pvm(setting, p, InOrder(), share)})


class InOrder:
    """In the order of arrival: the queue that the engine's batches stand in, with batches of one update. An effect that
    is not known yet is "empty" in the figure; an effect without rows is known."""

    _VIEW = ViewName("V")

    def __init__(self) -> None:
        self._queue: CommitQueue[Bag] = CommitQueue()
        self._waiting: dict[int, Stamped] = {}

    def received(self, stamped: Stamped) -> None:
        self._queue.start(Seq(stamped.stamp), [self._VIEW])
        self._waiting[stamped.stamp] = stamped

    def handled(self, stamped: Stamped, change: Bag) -> list[tuple[Stamped, Bag]]:
        self._queue.finish(Seq(stamped.stamp), self._VIEW, change)
        ready: list[tuple[Stamped, Bag]] = []
        while (released := self._queue.released()) is not None:
            stamp, effects = released
            ready.append((self._waiting.pop(stamp), effects[self._VIEW]))
        return ready

    def queued(self) -> list[tuple[Stamped, bool]]:
        known = zip(self._queue.batches, self._queue.finished, strict=True)
        return [(self._waiting[stamp], done) for stamp, done in known]
