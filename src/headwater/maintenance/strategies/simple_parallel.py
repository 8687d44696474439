"""The simple parallel algorithm (Liang, Yu: Parallel Maintenance on PC Clusters, section 3.1): K updates at a time.

The first K updates of UMQ(V) are given to the K PCs, one each. With δRi goes UMQ(V)i, all that stands behind it in the
queue, and whatever arrives while it is evaluated is sent after it. The PC runs SWEEP: it takes out of the answers what
UMQ(V)i says has leaked into them. The home of V merges the results in the order of UMQ(V), one state each.

Several views: an update gets a timestamp when it arrives and goes to the UMQ of every view that uses its source
(`stamped_queue`). Views change in the order of the timestamps and, for one update, in their topological order: a view
that reads others is evaluated after them, from their changes (`views_over_views`).

Invariant: when an answer reaches a PC, the updates of that source in its UMQ(V)i are exactly those that the answer
contains and the state before δRi does not. SWEEP gets this from channels that keep their order; here updates come
through the home of V, so answers must too (`relay`), or they overtake them. `Route.DIRECT` lets the PCs reach the
sources themselves, and is not complete.

Complete, all views together: every update becomes one state, in the order of arrival (lemma 1).

Where this departs from the paper:

- There the views of one update change one after the other, and the warehouse's state with each (section 2.2). Between
  them readers see a state that the sources never had: each view is complete, all together are not. That is
  `States.ONE_PER_VIEW`. Here they change as one state, `States.ONE_PER_UPDATE`, once the last of them is evaluated.
- There every view has a home, and nobody is said to keep the order among them. Here one PC is the home of all views and
  gives the timestamps. It answers questions about views that others read, as of the update that asks.
- There updates are given to PCs at random; here each goes to the first that evaluates none for that view.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from headwater.algebra.bag import Bag
from headwater.algebra.spj import weight
from headwater.maintenance.strategies.cluster_naive import pc
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Answer,
    Ask,
    Commit,
    Effect,
    Effects,
    Factory,
    Label,
    Node,
    Probe,
    Process,
    Send,
    Strategy,
    StrategySetting,
    Update,
    ViewsFactory,
    Work,
)
from headwater.maintenance.strategies.relay import Relay, Relayed, Replied
from headwater.maintenance.strategies.stamped_queue import Stamped, StampedQueue
from headwater.maintenance.strategies.sweep import view_change
from headwater.maintenance.strategies.threads import Threads
from headwater.maintenance.strategies.views_over_views import dependent_change


class Route(Enum):
    """How questions of the other PCs reach a source, and answers come back."""

    THROUGH_HOME = "through the home of V"
    DIRECT = "directly"


class States(Enum):
    """What of an update that concerns several views is one state of the warehouse."""

    ONE_PER_UPDATE = "all its views change together"
    ONE_PER_VIEW = "one view after the other, in topological order"


def simple_parallel(k: int, route: Route = Route.THROUGH_HOME) -> Factory:
    """K PCs, of which the first is the home of V."""
    return lambda setting: simple_parallel_views(k, route)([setting])


def simple_parallel_views(
    k: int, route: Route = Route.THROUGH_HOME, states: States = States.ONE_PER_UPDATE
) -> ViewsFactory:
    """The same for several views, which may read each other."""

    def factory(settings: Sequence[StrategySetting]) -> Strategy:
        others: dict[Node, Process] = {pc(i): Evaluators(settings, route) for i in range(1, k)}
        return Strategy({WAREHOUSE: Home(settings, k, Evaluators(settings, route), states), **others})

    return factory


# What the PCs tell each other


class Assigned(NamedTuple):
    """Evaluate this for a view; `behind` is UMQ(V)i so far."""

    view: str
    update: Update
    behind: tuple[Update, ...]

    @property
    def weight(self) -> int:
        return self.update.weight + sum(u.weight for u in self.behind)


class Forwarded(NamedTuple):
    """An update that has arrived in UMQ(V)."""

    view: str
    update: Update

    @property
    def weight(self) -> int:
        return self.update.weight


class Result(NamedTuple):
    """δV of an update."""

    view: str
    label: Label
    change: Bag

    @property
    def weight(self) -> int:
        return weight(self.change)


# The PCs


class Home:
    """The home of the views. It evaluates too, like any PC."""

    def __init__(self, settings: Sequence[StrategySetting], k: int, evaluators: Evaluators, states: States) -> None:
        self.queue = StampedQueue(settings)
        self._pcs = [pc(i) for i in range(k)]
        self._evaluators = evaluators
        self._states = states
        self._relay = Relay()

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if isinstance(body, Update):
            return self._arrived(body)
        if isinstance(body, Result):
            self.queue.of(body.label).views[body.view].change = body.change
            return [*self._merge(), *self._assign()]
        if isinstance(body, Relayed) and body.ask.source == WAREHOUSE:
            return self._consulted(sender, body.ask)
        if isinstance(body, Relayed):
            return [self._relay.ask(sender, body)]
        if isinstance(body, Answer) and self._evaluators.route is Route.THROUGH_HOME:
            return [self._relay.answer(body)]
        return self._evaluators.receive(sender, body, now)

    def _arrived(self, update: Update) -> list[Effect]:
        """To every UMQ(V), and to the PCs that evaluate what stands before it there."""
        stamped = self.queue.arrived(update)
        if stamped is None:
            return []
        forward: list[Effect] = [
            Send(evaluation.at, Forwarded(view, update))
            for view in stamped.views
            for evaluation in (s.views[view] for s in self.queue.umq(view))
            if evaluation.at and evaluation.change is None
        ]
        return [*forward, *self._assign()]

    def _assign(self) -> list[Effect]:
        """The first K of each UMQ(V) to the PCs, once the views that V reads are evaluated. A PC is free for each: at
        most K − 1 evaluate the others."""
        effects: list[Effect] = []
        for view in self.queue.views:
            umq = self.queue.umq(view)
            first = umq[: len(self._pcs)]
            for i, stamped in enumerate(first):
                evaluation = stamped.views[view]
                if evaluation.at is None and self.may_evaluate(view, stamped):
                    busy = {s.views[view].at for s in first if s.views[view].change is None}
                    evaluation.at = next(p for p in self._pcs if p not in busy)
                    update, behind = self.queue.with_parents(view, stamped), tuple(s.update for s in umq[i + 1 :])
                    effects.append(Send(evaluation.at, Assigned(view, update, behind)))
        return effects

    def may_evaluate(self, view: str, stamped: Stamped) -> bool:
        return self.queue.parents_known(view, stamped)

    def _consulted(self, sender: Node, ask: Ask) -> list[Effect]:
        """What a source is asked, about a view that is here: as of just before the update that asks."""
        (label,), probe = ask.about, ask.question
        assert isinstance(probe, Probe)
        rows = self.queue.content(probe.view.tables[probe.j].table, self.queue.of(label))
        found = probe.view.local(probe.partial, probe.j, rows)
        return [Work(), Send(sender, Replied(Answer(WAREHOUSE, ask.ticket, found, ask.about)))]

    def _merge(self) -> list[Effect]:
        """δV waits until its update has the least timestamp of all that some view does not show, and, of that update,
        the views before V have theirs."""
        effects: list[Effect] = []
        while (stamped := self.next_shown()) is not None:
            changes = stamped.due()
            together = self._states is States.ONE_PER_UPDATE
            shown = [tuple(changes)] if together else [(change,) for change in changes]
            effects += [Commit(state, (stamped.update.label,)) for state in shown]
            if not stamped.merged:
                break
            self.queue.remove(stamped)
        return effects

    def next_shown(self) -> Stamped | None:
        """Whose changes go into the views next: the least timestamp; if its views change together, once all are
        evaluated."""
        head = next(iter(self.queue.waiting), None)
        return head if head and (head.evaluated or self._states is States.ONE_PER_VIEW) else None


class Evaluators:
    """A PC: for each view, SWEEP for one update at a time."""

    def __init__(self, settings: Sequence[StrategySetting], route: Route) -> None:
        self.route = route
        self._by_view = {setting.view.name: Evaluator(setting) for setting in settings}
        self._threads = Threads()

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if isinstance(body, Assigned):
            return self._sent(self._by_view[body.view].begin(body, self._threads))
        if isinstance(body, Forwarded):
            self._by_view[body.view].behind.append(body.update)
            return []
        return self._sent(self._threads.answer(body.answer if isinstance(body, Replied) else body))

    def _sent(self, effects: Iterable[Effect]) -> list[Effect]:
        """Questions to sources as the route says; those about views to their home in any case."""
        home = self.route is Route.THROUGH_HOME
        return [
            Send(WAREHOUSE, Relayed(e)) if isinstance(e, Ask) and (home or e.source == WAREHOUSE) else e
            for e in effects
        ]


class Evaluator:
    """SWEEP for one view."""

    def __init__(self, setting: StrategySetting) -> None:
        self.setting = setting
        self.behind: list[Update] = []
        """UMQ(V)i without its head."""

    def begin(self, assigned: Assigned, threads: Threads) -> list[Effect]:
        self.behind = list(assigned.behind)
        update = assigned.update
        evaluate = dependent_change if self.setting.view.view.parents else view_change
        return threads.start(
            evaluate(self.setting, update, self._concurrent),
            (update.label,),
            lambda change: [Send(WAREHOUSE, Result(assigned.view, update.label, change))],
        )

    def _concurrent(self, source: Node, update: Update) -> Iterable[Update]:
        return [u for u in self.behind if u.source == source]
