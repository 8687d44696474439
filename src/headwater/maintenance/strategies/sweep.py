"""SWEEP (Agrawal, El Abbadi, Singh, Yurek 1997; restated by PVM, section 2, figures 13-14 without the parallelism).

One update at a time, in the order of arrival. ΔV starts as ΔRi, is joined with R(i−1) … R1 and then with R(i+1) … Rn,
one question each. A source answers with what it has when it gets to the question: updates of it that arrived after the
one being handled, but before the answer, have leaked into the answer and are taken out again here,

    ΔV = ΔV − ΔRj ⋈ TempView          local compensation: no further question

Invariant: when an answer from source j arrives, the updates of j in the queue are exactly those that its answer
contains and the state before the handled update does not. This needs channels that keep their order (assumption 1).
Complete: every update becomes one state, in the order of arrival.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Partial, Spj
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Answer,
    Commit,
    Effect,
    Effects,
    Node,
    Probe,
    Strategy,
    StrategySetting,
    Update,
    Work,
)
from headwater.maintenance.strategies.threads import ThreadQuery, Threads, ViewChange

Concurrent = Callable[[Node, Update], Iterable[Update]]
"""Of a source, while an update is being handled: the updates that are in the source's answers and must not be."""


def sweep(setting: StrategySetting) -> Strategy:
    return Strategy({WAREHOUSE: Sweep(setting)})


class Sweep:
    """The warehouse."""

    def __init__(self, setting: StrategySetting) -> None:
        self.setting = setting
        self.umq: deque[Update] = deque()
        """Updates that wait: the update message queue."""
        self._threads = Threads()

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if isinstance(body, Answer):
            return self._threads.answer(body)
        self.umq.append(body)
        return self._next()

    def _next(self) -> list[Effect]:
        """The first of the queue, if nothing is being handled."""
        if self._threads.running or not self.umq:
            return []
        update = self.umq.popleft()

        def done(change: Bag) -> Effects:
            commit = Commit(((self.setting.view.name, change),), (update.label,))
            return [commit, *self._next()]

        return self._threads.start(view_change(self.setting, update, self.concurrent), (update.label,), done)

    def concurrent(self, source: Node, update: Update) -> Iterable[Update]:
        """Whatever of this source waits, arrived after the update that is being handled."""
        return [u for u in self.umq if u.source == source]


def view_change(setting: StrategySetting, update: Update, concurrent: Concurrent) -> ViewChange:
    """ViewChange: the effect of one update, a sweep for each occurrence that it changes; returns rows of V."""
    view = setting.view
    total = Bag()
    for i in changed(view, update):
        partial = view.origin(i, update.changes[view.tables[i]])
        for j in view.order(i, range(view.n)):
            partial = yield from process_subquery(setting, partial, j, update, concurrent)
        total = total + view.finish(partial)
    return total


def process_subquery(
    setting: StrategySetting, temp_view: Partial, j: int, update: Update, concurrent: Concurrent
) -> ViewChange:
    """ProcessSubQuery: ask source j, then remove the error due to concurrent updates."""
    view, source = setting.view, setting.homes[j]
    partial: Partial = yield ThreadQuery(source, Probe(view, temp_view, j))
    for other in concurrent(source, update):
        leaked = other.changes.get(view.tables[j])
        if leaked is not None:
            yield Work()
            partial = Partial(partial.over, partial.bag - view.local(temp_view, j, leaked).bag)
    return partial


def changed(view: Spj, update: Update) -> list[int]:
    """The occurrences whose table the update changed. More than one is beyond SWEEP, which knows one relation per
    source that occurs once: the sweeps then see each other's changes as interference or not at all."""
    return [i for i, table in enumerate(view.tables) if update.changes.get(table)]
