"""The simple parallel algorithm (Liang, Yu: Parallel Maintenance on PC Clusters, section 3.1): K updates at a time.

The first K updates of UMQ(V) are given to the K PCs, one each. With δRi goes UMQ(V)i, all that stands behind it in the
queue, and whatever arrives while it is evaluated is sent after it. The PC runs SWEEP: it takes out of the answers what
UMQ(V)i says has leaked into them. The home of V merges the results in the order of UMQ(V), one state each.

Invariant: when an answer reaches a PC, the updates of that source in its UMQ(V)i are exactly those that the answer
contains and the state before δRi does not. SWEEP gets this from channels that keep their order; here updates come
through the home of V, so answers must too, or they overtake them. The paper does not say how its PCs reach the sources.
`Route.DIRECT` lets them, and is not complete.

Complete: every update becomes one state, in the order of arrival (lemma 1).

Here for one view. The paper has several, which change in the order of the updates' timestamps and, for one update, in
the order of their dependencies. It gives updates to PCs at random; here each goes to the first that is free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from headwater.algebra.bag import Bag
from headwater.algebra.spj import weight
from headwater.maintenance.strategies.cluster_naive import pc
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Answer,
    Commit,
    Effect,
    Effects,
    Factory,
    Label,
    Node,
    Process,
    Send,
    Strategy,
    StrategySetting,
    Update,
)
from headwater.maintenance.strategies.relay import Relay, Relayed, Replied, relayed
from headwater.maintenance.strategies.sweep import view_change
from headwater.maintenance.strategies.threads import Threads


class Route(Enum):
    """How questions of the other PCs reach a source, and answers come back."""

    THROUGH_HOME = "through the home of V"
    DIRECT = "directly"


def simple_parallel(k: int, route: Route = Route.THROUGH_HOME) -> Factory:
    """K PCs, of which the first is the home of V."""

    def factory(setting: StrategySetting) -> Strategy:
        others: dict[Node, Process] = {pc(i): Evaluator(setting, route) for i in range(1, k)}
        return Strategy({WAREHOUSE: Home(setting, k, Evaluator(setting, route)), **others})

    return factory


# What the PCs tell each other


class Assigned(NamedTuple):
    """Evaluate this; `behind` is UMQ(V)i so far."""

    update: Update
    behind: tuple[Update, ...]

    @property
    def weight(self) -> int:
        return self.update.weight + sum(u.weight for u in self.behind)


class Forwarded(NamedTuple):
    """An update that has arrived."""

    update: Update

    @property
    def weight(self) -> int:
        return self.update.weight


class Result(NamedTuple):
    """δV of an update."""

    label: Label
    change: Bag

    @property
    def weight(self) -> int:
        return weight(self.change)


# The PCs


@dataclass
class _Waiting:
    """An update in UMQ(V): who evaluates it, and what came of it."""

    update: Update
    at: Node | None = None
    change: Bag | None = None


class Home:
    """The home of V. It evaluates too, like any PC."""

    def __init__(self, setting: StrategySetting, k: int, evaluator: Evaluator) -> None:
        self.setting = setting
        self.umq: deque[_Waiting] = deque()
        self._pcs = [pc(i) for i in range(k)]
        self._evaluator = evaluator
        self._relay = Relay()

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if isinstance(body, Update):
            forward = [Send(w.at, Forwarded(body)) for w in self.umq if w.at and w.change is None]
            self.umq.append(_Waiting(body))
            return [*forward, *self._assign()]
        if isinstance(body, Result):
            return self._merge(body)
        if isinstance(body, Relayed):
            return [self._relay.ask(sender, body)]
        if isinstance(body, Answer) and self._evaluator.route is Route.THROUGH_HOME:
            return [self._relay.answer(body)]
        return self._evaluator.receive(sender, body, now)

    def _assign(self) -> list[Effect]:
        """The first K of UMQ(V) to the PCs. One of them is free for each: at most K − 1 evaluate the others."""
        effects: list[Effect] = []
        queue = list(self.umq)
        first = queue[: len(self._pcs)]
        for i, waiting in enumerate(first):
            if waiting.at is None:
                busy = {w.at for w in first if w.change is None}
                waiting.at = next(p for p in self._pcs if p not in busy)
                effects.append(Send(waiting.at, Assigned(waiting.update, tuple(w.update for w in queue[i + 1 :]))))
        return effects

    def _merge(self, result: Result) -> list[Effect]:
        """δV waits until its update is the head of UMQ(V)."""
        next(w for w in self.umq if w.update.label == result.label).change = result.change
        effects: list[Effect] = []
        while self.umq and self.umq[0].change is not None:
            head = self.umq.popleft()
            assert head.change is not None
            effects.append(Commit(((self.setting.view.name, head.change),), (head.update.label,)))
        return [*effects, *self._assign()]


class Evaluator:
    """A PC: SWEEP for one update at a time."""

    def __init__(self, setting: StrategySetting, route: Route) -> None:
        self.setting = setting
        self.route = route
        self._behind: list[Update] = []
        """UMQ(V)i without its head."""
        self._threads = Threads()

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        effects: list[Effect] = []
        if isinstance(body, Assigned):
            self._behind = list(body.behind)
            label = body.update.label
            change = view_change(self.setting, body.update, self._concurrent)
            effects = self._threads.start(change, (label,), lambda dv: [Send(WAREHOUSE, Result(label, dv))])
        elif isinstance(body, Forwarded):
            self._behind.append(body.update)
        else:
            effects = self._threads.answer(body.answer if isinstance(body, Replied) else body)
        return relayed(effects) if self.route is Route.THROUGH_HOME else effects

    def _concurrent(self, source: Node, update: Update) -> Iterable[Update]:
        return [u for u in self._behind if u.source == source]
