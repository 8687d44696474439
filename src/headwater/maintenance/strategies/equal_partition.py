"""The equal partition-based algorithm (Liang, Yu: Parallel Maintenance on PC Clusters, section 4).

V is the join of K auxiliary views, each of ⌈n/K⌉ relations and each at a PC of its own. For an update δRi of group j:

1. the PC of AVj asks the other sources of its group only, with SWEEP: δAVj
2. δAVj goes round the ring of PCs and is joined with the auxiliary view of each: back where it started, it is δV (5)
3. the home of V merges δV, in the order of UMQ(V), and only then has AVj take in δAVj

The paper follows one update, the head of UMQ(V). Here the PCs do step 1 for updates of different groups at the same
time, each in the order of its UMQ(AVj), and step 2 waits where it must.

Invariant (lemma 2): δAVj meets every other AVi with exactly the updates before it in UMQ(V). It carries how many of
each group those are, and waits at a PC until that many have been merged. More cannot have been: what stands behind it
in UMQ(V) is merged after it. As in `simple_parallel`, sources are reached through the home of V.

Complete. One relation per source, which occurs once in V. The ring knows no join conditions: δAVj may meet an AVi that
no clause joins it with, and is a product for a while.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Partial
from headwater.maintenance.strategies.auxiliary import equal_groups, materialized, sweep_order
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
    Work,
)
from headwater.maintenance.strategies.relay import Relay, Relayed, Replied, relayed
from headwater.maintenance.strategies.simple_parallel import Result
from headwater.maintenance.strategies.sweep import process_subquery
from headwater.maintenance.strategies.threads import Threads, ViewChange
from headwater.maintenance.strategies.tree_partition import Groups
from headwater.model.errors import HeadwaterError


def equal_partition(k: int, r: int = 0) -> Factory:
    """K PCs, of which the first is the home of V; AVi is at PC (i + r) mod K, r random in the paper."""
    return lambda setting: partitioned(setting, equal_groups(setting.view.n, k), r)


def partitioned(setting: StrategySetting, groups: Groups, r: int = 0) -> Strategy:
    """The algorithm, with these groups."""
    if len(setting.sources) < setting.view.n:
        raise HeadwaterError(
            f"{setting.view.name} reads several relations of one source, or one twice",
            "the partition-based algorithms need a source of its own for each relation of the view",
        )
    k = len(groups)
    group_of = {setting.homes[i]: g for g, group in enumerate(groups) for i in group}
    pcs = [pc((g + r) % k) for g in range(k)]
    holders = {pcs[g]: Holder(setting, groups[g], _Place(g, pcs[g], pc((g + r + 1) % k))) for g in range(k)}
    home = Home(setting, group_of, pcs, holders[WAREHOUSE])
    others: dict[Node, Process] = {node: holder for node, holder in holders.items() if node != WAREHOUSE}
    return Strategy({WAREHOUSE: home, **others})


class _Place(NamedTuple):
    """Where an auxiliary view is: its number, its PC, and the next PC of the ring."""

    group: int
    node: Node
    following: Node


# What the PCs tell each other


class NumberedDelta(NamedTuple):
    """An update for UMQ(AVj); `before` counts the updates of each group that stand before it in UMQ(V)."""

    update: Update
    before: tuple[int, ...]

    @property
    def weight(self) -> int:
        return self.update.weight + len(self.before)

    @property
    def kind(self) -> str:
        return "numbered"


class Token(NamedTuple):
    """δAVj on its way round the ring, from `origin` back to it."""

    label: Label
    origin: Node
    before: tuple[int, ...]
    partial: Partial

    @property
    def weight(self) -> int:
        return self.partial.weight + len(self.before)


class PartitionMerge(NamedTuple):
    """δV of this update is in V: let AVj take in δAVj."""

    label: Label
    weight: int = 1

    @property
    def kind(self) -> str:
        return "merge"


# The PCs


class Home:
    """The home of V, which may hold an auxiliary view too."""

    def __init__(self, setting: StrategySetting, group_of: dict[Node, int], pcs: list[Node], holder: Holder) -> None:
        self.setting = setting
        self.umq: deque[Update] = deque()
        self._group_of = group_of
        self._pcs = pcs
        self._holder = holder
        self._counts = [0] * len(pcs)
        self._results: dict[Label, Bag] = {}
        self._relay = Relay()

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if isinstance(body, Update):
            return self._arrived(body)
        if isinstance(body, Result):
            return self._merge(body)
        if isinstance(body, Relayed):
            return [self._relay.ask(sender, body)]
        if isinstance(body, Answer):
            return [self._relay.answer(body)]
        return self._holder.receive(sender, body, now)

    def _arrived(self, update: Update) -> Effects:
        group = self._group_of.get(update.source)
        if group is None:
            return []  # of no relation of V
        self.umq.append(update)
        numbered = NumberedDelta(update, tuple(self._counts))
        self._counts[group] += 1
        return [Send(self._pcs[group], numbered)]

    def _merge(self, result: Result) -> list[Effect]:
        self._results[result.label] = result.change
        effects: list[Effect] = []
        while self.umq and self.umq[0].label in self._results:
            head = self.umq.popleft()
            change = self._results.pop(head.label)
            effects.append(Commit(((self.setting.view.name, change),), (head.label,)))
            effects.append(Send(self._pcs[self._group_of[head.source]], PartitionMerge(head.label)))
        return effects


class Holder:
    """The PC of an auxiliary view."""

    def __init__(self, setting: StrategySetting, group: tuple[int, ...], place: _Place) -> None:
        self.setting = setting
        self.group = group
        self.av = materialized(setting, group)
        self.umq: deque[NumberedDelta] = deque()
        """UMQ(AVj), without the update that is being evaluated."""
        self._place = place
        self._merged = 0
        self._changes: dict[Label, Partial] = {}
        """δAVj that V does not show yet."""
        self._tokens: list[Token] = []
        """Those that wait for AVj to come as far as they are."""
        self._threads = Threads()

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if isinstance(body, NumberedDelta):
            self.umq.append(body)
            return relayed(self._next())
        if isinstance(body, Token):
            return self._passing(body)
        if isinstance(body, PartitionMerge):
            self.av = Partial(self.av.over, self.av.bag + self._changes.pop(body.label).bag)
            self._merged += 1
            waiting, self._tokens = self._tokens, []
            return [effect for token in waiting for effect in self._passing(token)]
        assert isinstance(body, Replied)
        return relayed(self._threads.answer(body.answer))

    def _next(self) -> list[Effect]:
        """Step 1, for the first of UMQ(AVj)."""
        if self._threads.running or not self.umq:
            return []
        update, before = self.umq.popleft()

        def done(change: Partial) -> Effects:
            self._changes[update.label] = change
            token = Token(update.label, self._place.node, before, change)
            return [Send(self._place.following, token), *self._next()]

        return self._threads.start(self._view_change(update), (update.label,), done)

    def _view_change(self, update: Update) -> ViewChange:
        """δAVj: a sweep over the sources of the group."""
        view = self.setting.view
        i = self.setting.homes.index(update.source)
        partial = view.origin(i, update.changes.get(view.tables[i], Bag()))
        for j in sweep_order(view, self.group, i)[1:]:
            partial = yield from process_subquery(self.setting, partial, j, update, self._concurrent)
        return partial

    def _concurrent(self, source: Node, update: Update) -> Iterable[Update]:
        return [n.update for n in self.umq if n.update.source == source]

    def _passing(self, token: Token) -> list[Effect]:
        """Step 2: join and hand on, or back home."""
        if token.origin == self._place.node:
            return [
                Send(WAREHOUSE, Result(self.setting.view.name, token.label, self.setting.view.finish(token.partial)))
            ]
        if token.before[self._place.group] > self._merged:
            self._tokens.append(token)
            return []
        assert token.before[self._place.group] == self._merged, f"{token.label} meets an auxiliary view of its future"
        joined = self.setting.view.merge(token.partial, self.av)
        return [Work(), Send(self._place.following, token._replace(partial=joined))]
