"""PVM, parallel view maintenance (Zhang, Ding, Rundensteiner 2003, sections 3.1-3.4, figures 13 and 14).

SWEEP, for up to p updates at the same time. Every message that comes in gets a timestamp of the warehouse, updates and
answers alike; an update goes through

    UMQ   update message queue             it waits
    PPU   parallel processing update set   it is being handled, at most p are
    RPU   related processed update set     it is committed, but an earlier one is still being handled

The answer of source n to a question about DUi may hold the updates of n up to the answer's timestamp; it should hold
those before DUi. So what is taken out again is whatever of n in UMQ ∪ PPU ∪ RPU has a timestamp between the two
(section 2.2, definition 1: "maintenance-concurrent"): not what came before DUi and is being handled still. Figure 14
asks only whether an update is in one of the three; the definition compares timestamps.

Invariant: an update stays in one of the three as long as an earlier one is in UMQ or PPU, so ΔVi is what it would be if
updates were handled one by one in the order of arrival. Sums do not mind the order, so the effects are committed as
they come. In between, a delete may come before its insert; signed counts remember it (the negative counter), and at
the end none is negative (lemma 7). Convergence: states in between need not be states of the sources.

This needs channels that keep their order (assumption 1), like SWEEP. With p = 1 it is SWEEP.

Several maintenance managers may divide the updates among them, each with its `Share`. All are told of all updates, in
the same order; what is another's stays in the UMQ, so that it is seen by its timestamp like any that waits. The
invariant holds for each of them, and what they commit are parts of one sum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from headwater.algebra.bag import Bag
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Answer,
    Commit,
    Effect,
    Effects,
    Factory,
    Node,
    Strategy,
    StrategySetting,
    Update,
)
from headwater.maintenance.strategies.sweep import view_change
from headwater.maintenance.strategies.threads import Threads

Share = Callable[[int], bool]
"""Whether a maintenance manager handles the update that was received with this timestamp."""


def everything(_: int) -> bool:
    """The share of the only one."""
    return True


def pvm(p: int = 4, share: Share = everything) -> Factory:
    """PVM with at most p updates at the same time."""
    return lambda setting: Strategy({WAREHOUSE: Pvm(setting, p, AtOnce(), share)})


class Stamped(NamedTuple):
    """An update and when it was received: the how-manieth message of the warehouse."""

    stamp: int
    update: Update


class CommitOrder(Protocol):
    """When the effects of updates are committed: what PVM and PVM CC differ in."""

    def received(self, stamped: Stamped) -> None:
        """An update was received."""
        ...

    def handled(self, stamped: Stamped, change: Bag) -> list[tuple[Stamped, Bag]]:
        """Its effect is known. Returns what is to be committed now, in this order."""
        ...

    def queued(self) -> list[tuple[Stamped, bool]]:
        """What waits for its turn to be committed, in that order, and whether its effect is known."""
        ...


@dataclass(frozen=True)
class AtOnce:
    """PVM's: each as soon as it is known."""

    def received(self, stamped: Stamped) -> None:
        return None

    def handled(self, stamped: Stamped, change: Bag) -> list[tuple[Stamped, Bag]]:
        return [(stamped, change)]

    def queued(self) -> list[tuple[Stamped, bool]]:
        return []


class Pvm:
    """The warehouse."""

    def __init__(self, setting: StrategySetting, p: int, order: CommitOrder, share: Share = everything) -> None:
        assert p >= 1, f"p = {p}: nothing would ever be handled"
        self.setting = setting
        self.p = p
        self.umq: deque[Stamped] = deque()
        self.ppu: dict[int, Stamped] = {}
        """By timestamp, like `rpu`."""
        self.rpu: dict[int, Stamped] = {}
        self._order, self._share = order, share
        self._clock = 0
        self._threads = Threads()

    @property
    def commit_queue(self) -> list[tuple[Stamped, bool]]:
        return self._order.queued()

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        """AssignTimeStamp: an update is given one and waits, an answer is given one and goes to its view change.

        A count instead of the time of day: two messages must not have the same.
        """
        self._clock += 1
        if isinstance(body, Answer):
            return [*self._threads.answer(body), *self._maintain()]
        stamped = Stamped(self._clock, body)
        self.umq.append(stamped)
        if self._share(stamped.stamp):
            self._order.received(stamped)
        return self._maintain()

    def _maintain(self) -> list[Effect]:
        """MaintenanceManager: while there is room in the PPU, start to handle the next update."""
        effects: list[Effect] = []
        while len(self.ppu) < self.p and (stamped := self._next()) is not None:
            self.umq.remove(stamped)
            self.ppu[stamped.stamp] = stamped
            effects.extend(self._view_change(stamped))
        return effects

    def _next(self) -> Stamped | None:
        return next((stamped for stamped in self.umq if self._share(stamped.stamp)), None)

    def _view_change(self, stamped: Stamped) -> list[Effect]:
        """ViewChange, figure 14; SWEEP's, but for what is concurrent."""

        def concurrent(source: Node, _: Update) -> list[Update]:
            return self.concurrent(source, stamped.stamp, self._clock)

        def done(change: Bag) -> Effects:
            return self._commit(stamped, change)

        change = view_change(self.setting, stamped.update, concurrent)
        return self._threads.start(change, (stamped.update.label,), done)

    def concurrent(self, source: Node, handled: int, answered: int) -> list[Update]:
        """isConcurrent: the updates of a source that were received after the handled one and before the answer."""
        return [
            update
            for known in (self.rpu.values(), self.ppu.values(), self.umq)
            for stamp, update in known
            if update.source == source and handled < stamp < answered
        ]

    def _commit(self, stamped: Stamped, change: Bag) -> list[Effect]:
        """CommitManager: commit, then move the update from the PPU to the RPU, or forget it."""
        effects: list[Effect] = []
        for (stamp, update), effect in self._order.handled(stamped, change):
            effects.append(Commit(((self.setting.view.name, effect),), (update.label,)))
            self.rpu[stamp] = self.ppu.pop(stamp)
            self._clean_up()
        return effects

    def _clean_up(self) -> None:
        """Forget what is unrelated (section 3.2.2, definition 2): no earlier update is being handled. The UMQ holds
        later ones only.

        Figure 14 cleans up before it moves the update, and so keeps some until the next commit.
        """
        earliest = min(self.ppu, default=self._clock + 1)
        for stamp in [s for s in self.rpu if s < earliest]:
            del self.rpu[stamp]
