"""From warehouse transactions to cut records: first every view's tables, then the one step that shows them.

Transactions that share no view are committed side by side; what depends on each other is kept in order by the merge
process's sequencing. Every committed transaction gets a cut of its own; where many are ready at once, their records are
written in one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from headwater.merge import WarehouseTransaction
from headwater.model.names import Seq
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.commit.events import CaughtUp, Committed, CommittedAhead, TableVersions
from headwater.runtime.commit.ledger import Ledger
from headwater.runtime.commit.tables import Tables
from headwater.runtime.scheduling.manager import Finished
from headwater.runtime.scheduling.merging import Actions, Group, Merging
from headwater.runtime.steps import Step, reached
from headwater.runtime.view import ManagedView

NOTHING = TableVersions(-1, -1)


@dataclass(frozen=True)
class _Part:
    """One view's part of a transaction under way."""

    view: ManagedView
    through: Seq
    commit: Future[TableVersions]


@dataclass(frozen=True, eq=False)
class _Commit:
    """A transaction under way."""

    group: Group
    transaction: WarehouseTransaction
    parts: Sequence[_Part]

    @property
    def done(self) -> bool:
        return all(part.commit.done() for part in self.parts)


class Committing:
    """Commits what the merge processes release."""

    def __init__(self, merging: Merging, tables: Tables, ledger: Ledger, pool: Executor, clock: Clock = SYSTEM) -> None:
        self._merging, self._tables, self._ledger, self._pool, self._clock = merging, tables, ledger, pool, clock
        self._commits: list[_Commit] = []
        self._ahead: list[tuple[Finished, Future[TableVersions]]] = []

    def step(self) -> None:
        """Start what may start, show what is done, as long as there is something that takes no time."""
        while True:
            for group, transaction in self._merging.ready():
                self._commits.append(self._start(group, transaction))
            done = [c for c in self._commits if c.done]
            for commit in done:
                self._commits.remove(commit)
                self._settle(commit)
                self._ledger.stage()
            if not done:
                break
        self._ledger.write()
        for finished, future in [a for a in self._ahead if a[1].done()]:
            self._ahead.remove((finished, future))
            batch = finished.batch
            versions = future.result()
            reached(Step.COMMITTED)
            self._ledger.show(CommittedAhead(finished.manager.key, versions, batch.lo, batch.hi))

    def directly(self, finished: Finished) -> None:
        """A view that catches up is seen by nobody yet: its tables take everything at once."""
        view, batch = finished.manager.view, finished.batch
        if not view.in_order:  # what comes before may still be on its way
            versions = NOTHING if finished.written is None else self._tables.commit(view, finished.written)
            self._ledger.record(CommittedAhead(view.key, versions, batch.lo, batch.hi))
            return
        if finished.written is not None:
            self._ledger.record(self._committed(view, self._tables.commit(view, finished.written), batch.hi))
        skipped = (batch.lo, batch.hi) if batch.whole and view.complete and batch.hi - batch.lo > 1 else None
        self._ledger.record(CaughtUp(view.key, batch.hi, skipped))

    def ahead(self, finished: Finished) -> None:
        """A convergent view waits for nobody."""
        view, batch = finished.manager.view, finished.batch
        if finished.written is None:
            self._ledger.record(CommittedAhead(view.key, NOTHING, batch.lo, batch.hi))
        else:
            self._ahead.append((finished, self._pool.submit(self._tables.commit, view, finished.written)))

    def _start(self, group: Group, transaction: WarehouseTransaction) -> _Commit:
        parts = []
        for actions in transaction.actions:
            view, payload = group.views.get(actions.view), actions.actions
            if view is not None and isinstance(payload, Actions):
                commit = self._pool.submit(self._tables.commit, view, payload.written)
                parts.append(_Part(view, payload.through, commit))
        return _Commit(group, transaction, parts)

    def _settle(self, commit: _Commit) -> None:
        for part in commit.parts:
            versions = part.commit.result()
            if self._merging.frontier(part.view.key) is not None:  # else it was halted meanwhile
                self._ledger.record(self._committed(part.view, versions, part.through))
        reached(Step.COMMITTED)
        self._merging.committed(commit.group, commit.transaction)

    def _committed(self, view: ManagedView, versions: TableVersions, through: Seq) -> Committed:
        return Committed(view.key, versions, through, self._clock.time() if view.periodic else 0.0)
