"""Strategies with a planted fault, to prove that the checker bites: each leaves out one thing that its paper says is
necessary.

    no compensation       SWEEP that leaves concurrent updates in the answers         PVM, section 2.2
    no retained set       PVM that forgets an update once it is committed             PVM, section 3.2.1, figure 6
    no negative counters  deletions of rows that are not there yet are dropped        PVM, section 3.3.3, figure 12
    out of order          some commits change places with the next one                PVM, section 4.2
    messages lost         SWEEP on channels that lose messages                        PVM, assumption 1
    no timestamps         several views: whichever update is evaluated first          Cluster, section 3.1
    no topological order  several views: none waits for those that it reads           Cluster, section 3.1
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.algebra.bag import Bag
from headwater.lab.checker.levels import Consistency
from headwater.lab.simulation.network import Link, Network, exponential
from headwater.lab.simulation.simulator import Capacity, Conditions
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Commit,
    Effect,
    Effects,
    Factory,
    Node,
    Process,
    Strategy,
    StrategySetting,
    Update,
    ViewsFactory,
    Wake,
)
from headwater.maintenance.strategies.pvm import AtOnce, Pvm, pvm
from headwater.maintenance.strategies.simple_parallel import Evaluators, Home, Route, States, simple_parallel_views
from headwater.maintenance.strategies.stamped_queue import Stamped
from headwater.maintenance.strategies.sweep import Sweep, sweep


def no_compensation(setting: StrategySetting) -> Strategy:
    """SWEEP, but concurrent updates stay in the answers."""
    return Strategy({WAREHOUSE: _Uncompensated(setting)})


class _Uncompensated(Sweep):
    def concurrent(self, source: Node, update: Update) -> Iterable[Update]:
        return ()


def no_retained_set(p: int = 4) -> Factory:
    """PVM, but its RPU is always empty."""
    return lambda setting: Strategy({WAREHOUSE: _Forgetful(Pvm(setting, p, AtOnce()))})


@dataclass
class _Forgetful:
    pvm: Pvm

    def start(self) -> Effects:
        return self.pvm.start()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        effects = self.pvm.receive(sender, body, now)
        self.pvm.rpu.clear()
        return effects


def no_negative_counters(factory: Factory) -> Factory:
    """The same strategy, on a warehouse that cannot delete what is not there and ignores it."""

    def made(setting: StrategySetting) -> Strategy:
        strategy = factory(setting)
        held = {setting.view.name: setting.content()}
        return replace(strategy, processes={n: _Unsigned(p, held) for n, p in strategy.processes.items()})

    return made


@dataclass
class _Unsigned:
    process: Process
    held: dict[str, Bag]

    def start(self) -> Effects:
        return [self._possible(e) for e in self.process.start()]

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        return [self._possible(e) for e in self.process.receive(sender, body, now)]

    def _possible(self, effect: Effect) -> Effect:
        if not isinstance(effect, Commit):
            return effect
        changes = []
        for view, change in effect.changes:
            held = self.held.get(view, Bag())
            left = Bag.summed((row, max(n, -held.count(row))) for row, n in change)
            self.held[view] = held + left
            changes.append((view, left))
        return effect._replace(changes=tuple(changes))


def out_of_order(factory: Factory, every: int = 4, patience: float = 1000.0) -> Factory:
    """The same strategy, but every so many commits one waits for the next, which comes before it; or, if there is none,
    for so much time."""

    def made(setting: StrategySetting) -> Strategy:
        strategy = factory(setting)
        swapped = {n: _Swapped(p, every, patience) for n, p in strategy.processes.items()}
        return replace(strategy, processes=swapped)

    return made


@dataclass(frozen=True)
class _Enough:
    """Time to commit what has waited."""

    commit: Commit


@dataclass
class _Swapped:
    process: Process
    every: int
    patience: float
    commits: int = 0
    waiting: list[Commit] = field(default_factory=list)

    def start(self) -> Effects:
        return self._swapped(self.process.start())

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if not isinstance(body, _Enough):
            return self._swapped(self.process.receive(sender, body, now))
        if not any(commit is body.commit for commit in self.waiting):
            return []
        self.waiting.remove(body.commit)
        return [body.commit]

    def _swapped(self, effects: Effects) -> list[Effect]:
        done: list[Effect] = []
        for effect in effects:
            if not isinstance(effect, Commit):
                done.append(effect)
                continue
            self.commits += 1
            if self.commits % self.every == 0:
                self.waiting.append(effect)
                done.append(Wake(self.patience, _Enough(effect)))
            else:
                done += [effect, *self.waiting]
                self.waiting.clear()
        return done


def no_timestamps(k: int) -> ViewsFactory:
    """The simple parallel algorithm for several views, but whatever is evaluated goes into its views at once."""
    return lambda settings: _with_home(_Unstamped, settings, k)


class _Unstamped(Home):
    def next_shown(self) -> Stamped | None:
        return next((stamped for stamped in self.queue.waiting if stamped.evaluated), None)


def no_topological_order(k: int) -> ViewsFactory:
    """The same, but a view does not wait for those that it reads, and is evaluated without their changes."""
    return lambda settings: _with_home(_Unordered, settings, k)


class _Unordered(Home):
    def may_evaluate(self, view: str, stamped: Stamped) -> bool:
        return True


def _with_home(home: type[Home], settings: Sequence[StrategySetting], k: int) -> Strategy:
    strategy = simple_parallel_views(k)(settings)
    wrong = home(settings, k, Evaluators(settings, Route.THROUGH_HOME), States.ONE_PER_UPDATE)
    return replace(strategy, processes={**strategy.processes, WAREHOUSE: wrong})


BUSY = Conditions(capacity=Capacity(q=4, service=exponential(1.0)))
"""Sources that answer at different speeds, and out of order."""
LOSSY = Conditions(network=Network(Link(loss=0.1)))


@dataclass(frozen=True)
class Fault:
    """`right` is the strategy without the fault, and `promises` its level; under `conditions` the fault shows."""

    name: str
    wrong: Factory
    right: Factory
    promises: Consistency
    conditions: Conditions = BUSY
    without: Conditions = BUSY
    """The conditions for the right one."""


FAULTS: tuple[Fault, ...] = (
    Fault("no compensation", no_compensation, sweep, Consistency.COMPLETE, Conditions(), Conditions()),
    Fault("no retained set", no_retained_set(4), pvm(4), Consistency.CONVERGENCE),
    Fault("no negative counters", no_negative_counters(pvm(4)), pvm(4), Consistency.CONVERGENCE),
    Fault("out of order", out_of_order(sweep), sweep, Consistency.COMPLETE, Conditions(), Conditions()),
    Fault("messages lost", sweep, sweep, Consistency.COMPLETE, LOSSY, Conditions()),
)
