"""MVC's figure 1 in virtual time: an integrator, a manager for each view, merge processes, one warehouse.

The views here read one table each, so that a manager computes its changes without asking; how long it takes is drawn
from a distribution. What is real is the order of things: managers work independently, their action lists reach the
merge process out of step, and each message takes the merge process a moment (the run's `local` time).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Spj, weight
from headwater.lab.histories.history import History, State
from headwater.lab.simulation.network import Delay
from headwater.lab.worlds.workload import every, in_turn, updates
from headwater.lab.worlds.world import World
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Commit,
    Effect,
    Effects,
    Label,
    Node,
    Send,
    Strategy,
    Update,
    Wake,
    Work,
)
from headwater.merge import ActionList, Painting, SimplePainting, ViewUpdateTable
from headwater.merge.kinds import MergeProcess
from headwater.model.names import TableName

Merging = Callable[[ViewUpdateTable], MergeProcess]
PAINTING: Merging = Painting
SIMPLE: Merging = SimplePainting


class Rel(NamedTuple):
    """REL_i: transaction i concerns these views."""

    row: int
    label: Label
    views: tuple[str, ...]

    @property
    def weight(self) -> int:
        return 1 + len(self.views)


class Computed(NamedTuple):
    """An action list on its way to the merge process."""

    view: str
    row: int
    change: Bag
    covers: tuple[Label, ...]

    @property
    def weight(self) -> int:
        return 1 + weight(self.change)


class _Ready(NamedTuple):
    """A manager has finished what it took."""

    view: str


@dataclass(frozen=True)
class ViewsPlan:
    """How the views are managed: `batch` managers take all that waits (strong), others one transaction at a time
    (complete). `merges` maps a view to the node of its merge process; empty: every manager commits for itself."""

    computing: Delay
    batch: bool = False
    merges: Mapping[str, Node] = field(default_factory=dict)
    merging: Merging = SIMPLE


def star(views_per_table: int, tables: int = 4) -> World:
    """`tables` sources with a table each, and so many views that copy each of them."""
    held = {f"S{t}.R{t}": ("A", "B") for t in range(1, tables + 1)}
    views = {
        f"V{t}x{v}": f"SELECT R{t}.A, R{t}.B FROM S{t}.R{t}"
        for t in range(1, tables + 1)
        for v in range(1, views_per_table + 1)
    }
    return World.of(held, views, {})


def busy_star(views_per_table: int, n: int, rate: float, seed: int, tables: int = 4) -> World:
    """The star with n transactions, so many per unit of time."""
    world = star(views_per_table, tables)
    return updates(world, n, in_turn(world.sources), every(1 / rate), seed)


def many_views(world: World, plan: ViewsPlan, seed: int) -> Strategy:
    """All of figure 1; the integrator and the managers are at one node, so between them nothing takes time."""
    nodes = sorted(set(plan.merges.values()))
    merges = {node: MergeNode([v for v, at in plan.merges.items() if at == node], plan.merging) for node in nodes}
    return Strategy({WAREHOUSE: PaperManagers(world.compiled, plan, Random(seed)), **merges})


class _Manager:
    """One view: what waits, and what is being computed."""

    __slots__ = ("taken", "view", "waiting")

    def __init__(self, view: Spj) -> None:
        self.view = view
        self.waiting: deque[tuple[int, Update]] = deque()
        self.taken: list[tuple[int, Update]] = []


class PaperManagers:
    """The integrator, which numbers by arrival, and the view managers."""

    def __init__(self, views: Sequence[Spj], plan: ViewsPlan, random: Random) -> None:
        self._plan = plan
        self._random = random
        self._managers = {v.name: _Manager(v) for v in views}
        self._relevant: dict[TableName, tuple[str, ...]] = {}
        for view in views:
            for table in view.tables:
                self._relevant[table] = (*self._relevant.get(table, ()), view.name)
        self._numbered = 0

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        return self._finished(body.view) if isinstance(body, _Ready) else self._integrate(body)

    def _integrate(self, update: Update) -> list[Effect]:
        self._numbered += 1
        views = tuple(v for table in update.changes for v in self._relevant.get(table, ()))
        effects: list[Effect] = []
        for node in dict.fromkeys(self._plan.merges[v] for v in views if v in self._plan.merges):
            concerned = tuple(v for v in views if self._plan.merges[v] == node)
            effects.append(Send(node, Rel(self._numbered, update.label, concerned)))
        for view in views:
            self._managers[view].waiting.append((self._numbered, update))
            effects += self._begin(self._managers[view])
        return effects

    def _begin(self, manager: _Manager) -> list[Effect]:
        if manager.taken or not manager.waiting:
            return []
        if self._plan.batch:
            manager.taken = list(manager.waiting)
            manager.waiting.clear()
        else:
            manager.taken = [manager.waiting.popleft()]
        return [Wake(self._plan.computing(self._random), _Ready(manager.view.name))]

    def _finished(self, name: str) -> list[Effect]:
        manager = self._managers[name]
        taken, manager.taken = manager.taken, []
        view = manager.view
        change = Bag.summed(
            pair for _, update in taken for pair in view.finish(view.origin(0, update.changes[view.tables[0]]))
        )
        covers = tuple(update.label for _, update in taken)
        node = self._plan.merges.get(name)
        if node is None:
            return [Commit(((name, change),), covers), *self._begin(manager)]
        return [Send(node, Computed(name, taken[-1][0], change, covers)), *self._begin(manager)]


class MergeNode:
    """A merge process: the painting algorithm of `headwater.merge`, which the engine runs too."""

    def __init__(self, views: Sequence[str], merging: Merging) -> None:
        self._merge = merging(ViewUpdateTable(tuple(views)))

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if isinstance(body, Rel):
            released = self._merge.relevance(body.row, body.views)
        else:
            released = self._merge.action_list(ActionList(body.view, body.row, body))
        effects: list[Effect] = [Work()]
        for transaction in released:
            lists: list[Computed] = [a.actions for a in transaction.actions]
            changes: dict[str, Bag] = {}
            for one in lists:
                changes[one.view] = changes.get(one.view, Bag()) + one.change
            covers = tuple(dict.fromkeys(label for one in lists for label in one.covers))
            effects.append(Commit(tuple(changes.items()), covers))
        return effects


def delays(history: History, world: World) -> list[float]:
    """For each view and each transaction that concerns it: how long after its commit the view showed it."""
    committed = {u.label: u.at for u in history.transactions}
    return [state.at - committed[label] for state, labels in _brought(history, world) for label in labels]


def torn(history: History, world: World) -> float:
    """The fraction of the warehouse's states in which some view has a transaction that another one lacks."""
    wanted = {
        u.label: sum(1 for spj in world.compiled if set(spj.tables) & set(u.changes)) for u in history.transactions
    }
    shown: dict[Label, int] = {}
    half: set[Label] = set()
    bad = 0
    for _, labels in _brought(history, world):
        for label in labels:
            shown[label] = shown.get(label, 0) + 1
            (half.discard if shown[label] == wanted[label] else half.add)(label)
        bad += bool(half)
    return bad / max(1, len(history.states))


def _brought(history: History, world: World) -> Iterator[tuple[State, list[Label]]]:
    """Each state, and the transactions that it brings in; one that concerns several of its views, once for each."""
    tables = {spj.name: set(spj.tables) for spj in world.compiled}
    changed = {u.label: set(u.changes) for u in history.transactions}
    for state in history.states:
        yield state, [label for view, _ in state.changes for label in state.covers if changed[label] & tables[view]]
