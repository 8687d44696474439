"""From warehouse transactions to cut records: first every view's tables, then the one step that shows them.

Transactions that share no view are committed side by side; what depends on each other is kept in order by the merge
process's sequencing. Every committed transaction gets a cut of its own, so that each of its states can be seen; only a
backlog of many, all ready at once, is shown in one cut (its states stay readable where views are complete).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwater.merge import WarehouseTransaction
from headwater.model.names import Seq
from headwater.runtime.commit.views import Committed, ManagedView
from headwater.runtime.scheduling.managers import Finished
from headwater.runtime.scheduling.merging import Actions, Group
from headwater.runtime.steps import Step, reached
from headwater.runtime.threads import pool

if TYPE_CHECKING:
    from headwater.runtime.engine import Engine


@dataclass(frozen=True)
class _Part:
    """One view's part of a transaction under way."""

    view: ManagedView
    through: Seq
    commit: Future[Committed]


@dataclass(frozen=True, eq=False)
class _Commit:
    """A transaction under way."""

    group: Group
    transaction: WarehouseTransaction
    parts: Sequence[_Part]

    @property
    def done(self) -> bool:
        return all(part.commit.done() for part in self.parts)


BACKLOG = 16
"""So many cuts in one turn of the loop; what else is ready then is shown in one."""


class Committing:
    """Commits what the merge processes release."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.threads = pool("commit", 8)
        self._commits: list[_Commit] = []
        self._ahead: list[tuple[Finished, Future[Committed]]] = []

    @property
    def busy(self) -> bool:
        return bool(self._commits or self._ahead)

    def wait(self, seconds: float) -> None:
        """Until some commit is done."""
        commits = [p.commit for c in self._commits for p in c.parts] + [f for _, f in self._ahead]
        wait(commits, timeout=seconds, return_when=FIRST_COMPLETED)

    def step(self) -> None:
        """Start what may start, show what is done, as long as there is something that takes no time."""
        shown = 0
        while True:
            for group, transaction in self._engine.merging.ready():
                self._commits.append(self._start(group, transaction))
            done = [c for c in self._commits if c.done]
            for commit in done:
                self._commits.remove(commit)
                self._settle(commit)
                shown += 1
                if shown <= BACKLOG:
                    self._engine.show_cut()
            if not done:
                break
        if shown > BACKLOG:
            self._engine.show_cut()
        for finished, future in [a for a in self._ahead if a[1].done()]:
            self._ahead.remove((finished, future))
            batch, view = finished.batch, finished.manager.view
            view.settle_ahead(future.result(), batch.lo, batch.hi)
            reached(Step.COMMITTED)
            self._engine.show_cut()

    def directly(self, finished: Finished) -> None:
        """A view that catches up is seen by nobody yet: its tables take everything at once."""
        view, batch = finished.manager.view, finished.batch
        if finished.written is not None:
            view.settle(view.commit(finished.written), batch.hi)
        view.state = replace(view.state, seq=batch.hi, through=batch.hi)
        if batch.whole:
            view.skipped(batch.lo, batch.hi)

    def ahead(self, finished: Finished) -> None:
        """A convergent view waits for nobody."""
        view, batch = finished.manager.view, finished.batch
        if finished.written is None:
            view.settle_ahead(Committed(view.state.version, view.state.auxiliary), batch.lo, batch.hi)
        else:
            self._ahead.append((finished, self.threads.submit(view.commit, finished.written)))

    def _start(self, group: Group, transaction: WarehouseTransaction) -> _Commit:
        parts = []
        for actions in transaction.actions:
            view, payload = group.views.get(actions.view), actions.actions
            if view is not None and isinstance(payload, Actions):
                parts.append(_Part(view, payload.through, self.threads.submit(view.commit, payload.written)))
        return _Commit(group, transaction, parts)

    def _settle(self, commit: _Commit) -> None:
        for part in commit.parts:
            done = part.commit.result()
            if part.view.live:
                part.view.settle(done, part.through)
        reached(Step.COMMITTED)
        self._engine.merging.committed(commit.group, commit.transaction)
