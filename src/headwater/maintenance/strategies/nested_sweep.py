"""Nested SWEEP (Agrawal, El Abbadi, Singh, Yurek 1997; PVM, section 8 and table 4, and Pull-Push, section 5.2, describe
it in words).

SWEEP, but an update that is met on the way is not only taken out of the answer: it is taken from the queue as well, and
its own effect on what has been swept so far is computed there and then, recursively, and added. The sweep goes on with
the sum, so the questions to the remaining sources serve all of these updates at once. One commit covers them all.

    ΔV over Rl … Rr, next is Rj                       j = l − 1 or r + 1
    ΔV = ΔV ⋈ Rj − ΔRj ⋈ ΔV                           what SWEEP does
    ΔV = ΔV + ViewChange(ΔRj, over Rl … Rr and Rj)    the nested sweep: sources l … r are asked for ΔRj

Invariant: let C be the updates covered when a (nested) sweep begins, its own not among them, and C' those covered now.
Its ΔV over Rl … Rr is the change of that part of the join from C to C':

    ΔV = (Rl ⋈ … ⋈ Rr)(C') − (Rl ⋈ … ⋈ Rr)(C)

An answer of source j, less what is in the queue of j, is Rj(C'), since all that arrived is either covered or in the
queue. No update of j is covered while j is outside of the sweep, so that is Rj(C), and ΔV ⋈ Rj(C) + (the nested sweep
from C' to C'') is again the change from C to C''. All updates of j in the queue are taken, so what is covered is a
prefix of each source's updates. Strongly consistent: each commit is a later state of the sources, some are skipped.

A nested sweep can meet further updates, and so on: while updates interfere without end, nothing is ever committed. With
a termination condition, here a bound `depth` on the nesting, updates that are met deeper are left in the queue, as by
SWEEP: at most about (m − 1)^(depth + 1) questions to a commit. `depth` 0 is SWEEP.

Each source has one relation in the view (SWEEP's assumption), and channels keep their order (PVM's assumption 1).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Partial
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Answer,
    Commit,
    Effect,
    Effects,
    Factory,
    Label,
    Node,
    Probe,
    Strategy,
    StrategySetting,
    Update,
    Work,
)
from headwater.maintenance.strategies.sweep import changed
from headwater.maintenance.strategies.threads import ThreadQuery, Threads, ViewChange
from headwater.model.errors import HeadwaterError


def nested_sweep(depth: int | None = None) -> Factory:
    """Nested SWEEP. `depth` is the termination condition, None is without."""
    return lambda setting: Strategy({WAREHOUSE: NestedSweep(setting, depth)})


@dataclass
class _Sweep:
    """One level of the recursion: what has been swept, and which occurrences are still to be asked."""

    partial: Partial
    todo: deque[int]


class NestedSweep:
    """The warehouse."""

    def __init__(self, setting: StrategySetting, depth: int | None = None) -> None:
        if len(setting.sources) < setting.view.n:
            raise HeadwaterError(
                f"{setting.view.name} reads several relations of one source, or one twice",
                "Nested SWEEP knows one relation per source; the TID rules know several",
            )
        self.setting = setting
        self.depth = depth
        self.umq: deque[Update] = deque()
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
        covers = [update.label]

        def done(change: Bag) -> Effects:
            return [Commit(((self.setting.view.name, change),), tuple(covers)), *self._next()]

        return self._threads.start(self._view_change(update, covers), (update.label,), done)

    def _view_change(self, update: Update, covers: list[Label]) -> ViewChange:
        """The effect of an update and of those met on the way, which are added to `covers`; rows of V.

        The recursion is a stack of our own, since interference without end would make it as deep as there are updates.
        """
        view, homes = self.setting.view, self.setting.homes
        first = next(iter(changed(view, update)), None)
        if first is None:
            return Bag()
        stack = [self._sweep(first, update.changes[view.tables[first]], range(view.n))]
        while True:
            sweep = stack[-1]
            if not sweep.todo:
                stack.pop()
                if not stack:
                    return view.finish(sweep.partial)
                stack[-1].partial = _sum(stack[-1].partial, sweep.partial)
                continue
            j = sweep.todo.popleft()
            temp_view = sweep.partial
            sweep.partial = yield ThreadQuery(homes[j], Probe(view, temp_view, j))
            met = [u for u in self.umq if u.source == homes[j]]
            changes = [u.changes[view.tables[j]] for u in met if view.tables[j] in u.changes]
            leaked = sum(changes, Bag())
            for _ in changes:
                yield Work()
            if leaked:
                wrong = view.local(temp_view, j, leaked)
                sweep.partial = Partial(sweep.partial.over, sweep.partial.bag - wrong.bag)
            if met and (self.depth is None or len(stack) <= self.depth):
                self.umq = deque(u for u in self.umq if u.source != homes[j])
                covers.extend(u.label for u in met)
                if leaked:
                    stack.append(self._sweep(j, leaked, sweep.partial.over))

    def _sweep(self, j: int, change: Bag, over: range | tuple[int, ...]) -> _Sweep:
        """To begin with: a change of occurrence j, to be joined with the others of `over`, left and then right."""
        view = self.setting.view
        return _Sweep(view.origin(j, change), deque(view.order(j, over)))


def _sum(one: Partial, other: Partial) -> Partial:
    assert one.over == other.over, f"{one.over} is not {other.over}"
    return Partial(one.over, one.bag + other.bag)
