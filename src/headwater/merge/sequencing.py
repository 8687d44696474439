"""In which order warehouse transactions are submitted (section 4.3).

WT_j depends on WT_i if it was released later and both touch a common view. Two that depend on each other must commit in
that order; the warehouse alone may not keep it. So the merge process holds back what must not overtake.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum

from headwater.merge.transactions import View, WarehouseTransaction


class Sequencing(Enum):
    """The paper's three ways to keep dependent transactions in order."""

    DEPENDENCY = "dependency"
    """A transaction waits only for those it depends on. Most is in flight at once; costs a queue per view, and a
    warehouse that can commit several at a time. Every state that was released is a state of the warehouse."""
    SEQUENTIAL = "sequential"
    """One at a time. Simplest, and good when transactions are small and cheap; costs all concurrency, and one commit's
    latency per transaction. Every state that was released is a state of the warehouse."""
    BATCHED = "batched"
    """All that waits is submitted as one (BWT). Good when a commit is dear; costs states: a batch may advance the
    warehouse by more than one, so it is strongly consistent, not complete, even if all managers are."""


class Submissions:
    """Released transactions on their way to the warehouse: they wait, are in flight, and are committed.

    A transaction is known by identity: give `committed` the very one that `ready` returned.
    """

    def __init__(self, sequencing: Sequencing) -> None:
        self.sequencing = sequencing
        self._waiting: deque[WarehouseTransaction] = deque()
        self._in_flight: dict[int, WarehouseTransaction] = {}
        # DEPENDENCY: for each view, the transactions that touch it and are not committed, oldest first. A transaction
        # may go when it is first everywhere; `_missing` counts where it is not.
        self._queues: dict[View, deque[WarehouseTransaction]] = {}
        self._missing: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._in_flight) + len(self._waiting) + len(self._missing)

    def absorb(self, other: Submissions) -> None:
        """Two groups became one: take over what the other one's views wait for; they have none in common."""
        self._waiting.extend(other._waiting)
        self._in_flight.update(other._in_flight)
        self._queues.update(other._queues)
        self._missing.update(other._missing)

    def add(self, transactions: Iterable[WarehouseTransaction]) -> None:
        """Transactions were released, in this order."""
        for transaction in transactions:
            if self.sequencing is Sequencing.DEPENDENCY:
                self._enqueue(transaction)
            else:
                self._waiting.append(transaction)

    def ready(self) -> list[WarehouseTransaction]:
        """What is to be submitted now. Each is returned once and counts as in flight until it is committed."""
        match self.sequencing:
            case Sequencing.DEPENDENCY:
                found = list(self._waiting)
                self._waiting.clear()
            case Sequencing.SEQUENTIAL:
                found = [self._waiting.popleft()] if self._waiting and not self._in_flight else []
            case Sequencing.BATCHED:
                found = self._batch()
        self._in_flight.update((id(transaction), transaction) for transaction in found)
        return found

    def committed(self, transaction: WarehouseTransaction) -> None:
        """The warehouse has committed it: what depends on it may go."""
        if self._in_flight.pop(id(transaction), None) is None:
            raise ValueError(f"the transaction of rows {transaction.rows} is not in flight")
        if self.sequencing is Sequencing.DEPENDENCY:
            self._dequeue(transaction)

    def _enqueue(self, transaction: WarehouseTransaction) -> None:
        missing = 0
        for view in transaction.views:
            queue = self._queues.setdefault(view, deque())
            missing += bool(queue)
            queue.append(transaction)
        if missing:
            self._missing[id(transaction)] = missing
        else:
            self._waiting.append(transaction)

    def _dequeue(self, transaction: WarehouseTransaction) -> None:
        for view in transaction.views:
            queue = self._queues[view]
            queue.popleft()
            if not queue:
                del self._queues[view]
                continue
            following = queue[0]
            self._missing[id(following)] -= 1
            if not self._missing[id(following)]:
                del self._missing[id(following)]
                self._waiting.append(following)

    def _batch(self) -> list[WarehouseTransaction]:
        views = frozenset[View]().union(*(transaction.views for transaction in self._waiting))
        if not self._waiting or any(views & transaction.views for transaction in self._in_flight.values()):
            return []
        waiting = list(self._waiting)
        self._waiting.clear()
        if len(waiting) == 1:
            return waiting
        # In the order of release, so that of two that depend on each other the earlier one's actions come first.
        rows = sorted(row for transaction in waiting for row in transaction.rows)
        actions = [al for transaction in waiting for al in transaction.actions]
        return [WarehouseTransaction(tuple(rows), tuple(actions), views)]
