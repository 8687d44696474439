"""POSSE (O'Gorman, Agrawal, El Abbadi 1999; PVM, sections 1.1 and 8, figures 1 and 2).

SWEEP, one update at a time with local compensation, but the probing queries of one update may be under way at the same
time. A plan says which: branches run at the same time, the probes of a branch one after the other.

    SEQUENTIAL    one branch over all others                           SWEEP (figure 1)
    TWO_WAY       the left sweep and the right sweep
    FULL          one branch per other occurrence, all asked at once   figure 2

PVM describes POSSE in words. It may take another plan for each update; here one of these is taken for all.

A branch starts with ΔRi and grows as in SWEEP. With FULL, an occurrence that no equality ties to Ri is fetched whole:
this is what the concurrency costs, larger messages and more joins here.

Each branch carries the rows of ΔRi once, whatever their count, so that branches can be joined by them:

    ΔV = ΔRi ⋈ branch 1 ⋈ branch 2 ⋈ …          rows meet where they started from the same row of ΔRi

Invariant: as in SWEEP, an answer is compensated the moment it arrives, by the updates of its source in the queue. A
branch must not wait for another before that: meanwhile the queue grows by what its answer has not seen.
Complete: every update becomes one state, in the order of arrival.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Partial, Spj
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Answer,
    Commit,
    Database,
    Effect,
    Effects,
    Factory,
    Node,
    Strategy,
    StrategySetting,
    Update,
    Work,
)
from headwater.maintenance.strategies.sweep import changed, process_subquery
from headwater.maintenance.strategies.threads import ThreadQuery, Threads, ViewChange


class Concurrency(Enum):
    """How many probing queries of one update are under way at once."""

    SEQUENTIAL = "sequential"
    TWO_WAY = "two-way"
    FULL = "full"


Branch = tuple[int, ...]
"""Occurrences to probe, one after the other."""


def posse(concurrency: Concurrency = Concurrency.FULL) -> Factory:
    return lambda setting: Strategy({WAREHOUSE: Posse(setting, concurrency)})


def plan(concurrency: Concurrency, i: int, n: int) -> list[Branch]:
    """The branches for a change of occurrence i of n."""
    left, right = tuple(range(i - 1, -1, -1)), tuple(range(i + 1, n))
    if concurrency is Concurrency.SEQUENTIAL:
        branches = [left + right]
    elif concurrency is Concurrency.TWO_WAY:
        branches = [left, right]
    else:
        branches = [(j,) for j in left + right]
    return [branch for branch in branches if branch]


@dataclass(frozen=True, slots=True)
class Fetch:
    """All rows of occurrence j: what is asked when nothing is known that they must join with."""

    view: Spj
    j: int

    @property
    def weight(self) -> int:
        return 0

    def evaluate(self, database: Database) -> Partial:
        return self.view.origin(self.j, database.rows(self.view.tables[self.j]))


class Posse:
    """The warehouse."""

    def __init__(self, setting: StrategySetting, concurrency: Concurrency) -> None:
        self.setting = setting
        self.concurrency = concurrency
        self.umq: deque[Update] = deque()
        self._handled: Update | None = None
        self._branches: dict[int, dict[int, Partial | None]] = {}
        """By changed occurrence: what its branches have brought; None, while they are under way."""
        self._threads = Threads()

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if isinstance(body, Answer):
            return [*self._threads.answer(body), *self._proceed()]
        self.umq.append(body)
        return self._proceed()

    def _proceed(self) -> list[Effect]:
        """Commit what all branches have returned for; then the first of the queue."""
        effects: list[Effect] = []
        while not self._threads.running:
            if self._handled is not None:
                effects += self._finish(self._handled)
            if not self.umq:
                break
            self._handled = self.umq.popleft()
            effects += self._begin(self._handled)
        return effects

    def _begin(self, update: Update) -> list[Effect]:
        view, effects = self.setting.view, list[Effect]()
        self._branches = {}
        for i in changed(view, update):
            rows = view.reduced(i, update.changes[view.tables[i]])
            once = Partial((i,), Bag(dict.fromkeys(rows.counts, 1)))
            branches = plan(self.concurrency, i, view.n)
            self._branches[i] = dict.fromkeys(range(len(branches)))
            for number, branch in enumerate(branches):
                change = self._branch(update, once, branch)
                effects += self._threads.start(change, (update.label,), partial(self._returned, i, number))
        return effects

    def _returned(self, i: int, number: int, result: Partial) -> Effects:
        self._branches[i][number] = result
        return ()

    def _branch(self, update: Update, grown: Partial, branch: Branch) -> ViewChange:
        """A sweep over the branch; an occurrence alone that nothing ties to ΔRi is fetched instead."""
        view = self.setting.view
        if len(branch) == 1 and not view.join(grown.over, branch[0]).near:
            return (yield from self._fetch(update, branch[0]))
        for j in branch:
            grown = yield from process_subquery(self.setting, grown, j, update, self.concurrent)
        return grown

    def _fetch(self, update: Update, j: int) -> ViewChange:
        view, source = self.setting.view, self.setting.homes[j]
        fetched: Partial = yield ThreadQuery(source, Fetch(view, j))
        for other in self.concurrent(source, update):
            leaked = other.changes.get(view.tables[j])
            if leaked is not None:
                yield Work()
                fetched = Partial(fetched.over, fetched.bag - view.reduced(j, leaked))
        return fetched

    def concurrent(self, source: Node, update: Update) -> Iterable[Update]:
        return [u for u in self.umq if u.source == source]

    def _finish(self, update: Update) -> list[Effect]:
        view, total, joins = self.setting.view, Bag(), 0
        for i, branches in self._branches.items():
            returned = [result for result in branches.values() if result is not None]
            joins += max(len(returned) - 1, 0)
            for row, count in view.reduced(i, update.changes[view.tables[i]]):
                joined = Partial((i,), Bag({row: count}))
                for result in returned:
                    joined = view.merge(joined, without(view, result, i, row))
                total = total + view.finish(joined)
        self._handled = None
        commit = Commit(((view.name, total),), (update.label,))
        return [Work(joins), commit] if joins else [commit]


def without(view: Spj, partial: Partial, i: int, row: tuple[Any, ...]) -> Partial:
    """What a branch found for one row of occurrence i, without that row; a fetched occurrence is there for all."""
    if i not in partial.over:
        return partial
    at = view.span(partial.over, i)
    rest = {r[: at.start] + r[at.stop :]: count for r, count in partial.bag if r[at] == row}
    return Partial(tuple(j for j in partial.over if j != i), Bag(rest))
