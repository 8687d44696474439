"""Pure-Push (Adly, Taha, Samaan, Nagi 2001, as section 3 of the Pull-Push paper describes it).

Each Update_Interval a source cuts a batch δR^i of its updates in ]t_k, t_k+1] and sends it along the chain. Source j
joins it with R^j(t_m), where t_m is j's own last cut before t_k+1; the last sends δV to the warehouse. There the
batches wait in Temp_View. Each Update_Window the view is brought up to the latest time for which the batches of all n
sources are there. n messages per batch, n² for one batch of each source.

Why the sum is exact: put all batches in one order, by t_k+1 and, where equal, by the source's place in the chain. Let
R^j be at j's last cut before a batch in that order. Then each batch moves one component of (R^1, …, R^n) and is joined
with the others where they are, so the first k batches sum up to the view over the cuts that they have reached,

    Σ δV = V(c_1, …, c_n) − V(c_1⁰, …, c_n⁰)

Read into the paper: it says "just before t_k+1" and leaves open what happens at equal times. Two sources that cut at
the same time would both miss the other's batch, or both see it. The order of the chain decides: R^j(t_k+1) for j < i,
the cut before for j > i, which is eq. (3) of Pull-Push. If all sources cut at the same times, every state is V(t) at
one of them; with intervals of their own it is V with each source at its last cut before t. Both are strong.

Every tuple of a δV carries cr_i and dr_i, the tags of the tuple of δR^i that it comes from, in messages and in
Temp_View; that Pull-Push's need not is one of its gains (section 4.1). How the warehouse uses them is in the 2001
paper, which we do not have. Here it applies whole batches, for which `Batches_List` is enough: that no tag is later
than the time which the view is brought to is then a consequence, and asserted.

Also read into it: a batch goes to its left neighbours first and then to the right ones, as in SWEEP, because the
description lets the source choose; an empty batch has nothing to be joined with and goes to the warehouse at once;
messages are acknowledged and sent again, and logs are emptied, as in Pull-Push.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, NamedTuple

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Partial
from headwater.maintenance.strategies.acknowledged import Post
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
    Process,
    Send,
    Strategy,
    StrategySetting,
    Update,
    Wake,
    Work,
)
from headwater.maintenance.strategies.tagged_source import Applied, Past, RestoredJoin, TaggedSource, chained
from headwater.maintenance.strategies.time_tags import ALWAYS, Tags

Interval = float | Mapping[Node, float]


def pure_push(update_interval: Interval, update_window: float, ack_after: float = 0.2) -> Factory:
    """`update_interval` is that of all sources, or of each."""

    def make(setting: StrategySetting) -> Strategy:
        chained(setting)
        processes: dict[Node, Process] = {WAREHOUSE: PushWarehouse(setting, update_window, Post(ack_after))}
        for i, source in enumerate(setting.homes):
            interval = update_interval[source] if isinstance(update_interval, Mapping) else update_interval
            processes[source] = PushSource(setting, i, interval, Post(ack_after))
        return Strategy(processes, notified=lambda source: (source,))

    return make


class Tagged(NamedTuple):
    """Tuples of δV that have the same cr_i and dr_i."""

    tags: Tags
    change: Partial

    @property
    def weight(self) -> int:
        """Each tuple travels with its two tags."""
        return self.change.weight + len(self.tags) * len(self.change.bag.counts)


class PushedBatch(NamedTuple):
    """(δV, t_k, t_k+1, i). `about` are the updates that it sums up."""

    tuples: tuple[Tagged, ...]
    t_k: float
    t_k1: float
    i: int
    about: tuple[Label, ...] = ()
    serial: int = 0

    @property
    def weight(self) -> int:
        return 3 + sum(tagged.weight for tagged in self.tuples)

    @property
    def kind(self) -> str:
        return "batch"


class PushedCut(NamedTuple):
    """The k-th cut of a source is due. `settled` once whatever else happens at this moment has happened."""

    k: int
    settled: bool = False


class UpdateView(NamedTuple):
    """Update_Window is over."""


class PushSource:
    """An agent beside source i."""

    def __init__(
        self, setting: StrategySetting, i: int, interval: float, post: Post, past: Past | None = None,
        begun: tuple[int, float] = (1, ALWAYS),
    ) -> None:  # fmt: skip
        self.setting = setting
        self.i = i
        self.interval = interval
        self.post = post
        self.tagged: Past = past or TaggedSource(setting, i)
        self.first, self.since = begun
        """Its first cut, and the time up to which everything has been applied: its cut before that."""
        self._tickets = count()
        self._joining: dict[int, PushedBatch] = {}

    def cut(self, k: int) -> float:
        """The time of the k-th cut."""
        return k * self.interval if k >= self.first else self.since

    def last_cut(self, t: float, including: bool = True) -> float:
        """The last cut before t, or at t. From the clock, not from what was sent: a batch of another source that was
        cut at the same time may be here before the own one."""
        if t == ALWAYS:
            return ALWAYS
        k = int(t / self.interval) + 1
        while self.cut(k) > t or (self.cut(k) == t and not including):
            k -= 1
        return self.cut(k)

    def start(self) -> Effects:
        return [Wake(self.interval, PushedCut(self.first))]

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        effects, new = self.post.take(sender, body)
        if not new:
            return effects
        if isinstance(body, Update):
            self.tagged.commit(body)
        elif isinstance(body, Applied):
            self.tagged.truncate(self.last_cut(body.t_v))
        elif isinstance(body, PushedCut):
            effects += self._cut(body, now)
        elif isinstance(body, Answer):
            batch = self._joining.pop(body.ticket)
            joined = zip(batch.tuples, body.value.terms, strict=True)
            tuples = tuple(Tagged(tagged.tags, change) for tagged, (_, change) in joined if change.bag)
            effects += [Work(), *self._pass_on(batch._replace(tuples=tuples))]
        else:
            effects += self._join(body)
        return effects

    def _cut(self, cut: PushedCut, now: float) -> list[Effect]:
        t_k, t_k1 = self.cut(cut.k - 1), self.cut(cut.k)
        if now < t_k1 or not cut.settled:
            # A commit at t_k+1 belongs to the batch, and may be told after this at the same moment.
            return [Wake(max(t_k1 - now, 0.0), PushedCut(cut.k, settled=now >= t_k1))]
        updates, labels = self.tagged.tagged_updates(t_k, t_k1)
        origin = self.setting.view.origin
        tuples = (Tagged(tags, origin(self.i, change)) for tags, change in updates.items())
        batch = PushedBatch(tuple(tagged for tagged in tuples if tagged.change.bag), t_k, t_k1, self.i, labels)
        return [Wake(self.cut(cut.k + 1) - now, PushedCut(cut.k + 1)), *self._pass_on(batch)]

    def _join(self, batch: PushedBatch) -> list[Effect]:
        """δV ⋈ R^j(t_m)."""
        if not batch.tuples:
            return self._pass_on(batch)
        ticket = next(self._tickets)
        self._joining[ticket] = batch
        t_m = self.last_cut(batch.t_k1, including=self.i < batch.i)
        terms = tuple((batch.i, tagged.change) for tagged in batch.tuples)
        question = RestoredJoin(self.setting.view, terms, self.i, self.tagged.relation, t_m)
        return [Ask(self.setting.homes[self.i], question, ticket, batch.about)]

    def _pass_on(self, batch: PushedBatch) -> list[Effect]:
        to = self._next(batch)
        return self.post.send(WAREHOUSE if to is None else self.setting.homes[to], batch)

    def _next(self, batch: PushedBatch) -> int | None:
        """The next source of the batch: i−1 … 1, then i+1 … n."""
        if not batch.about:
            return None
        if 0 < self.i <= batch.i:
            return self.i - 1
        right = max(batch.i, self.i) + 1
        return right if right < self.setting.view.n else None


class PushWarehouse:
    """Waits for the batches of all sources."""

    def __init__(self, setting: StrategySetting, update_window: float, post: Post, t_v: float = ALWAYS) -> None:
        self.setting = setting
        self.update_window = update_window
        self.post = post
        self.temp_view: list[PushedBatch] = []
        """δV's that are not applied yet."""
        self.batches_list: list[dict[float, float]] = [{} for _ in setting.homes]
        """For each source the intervals that are here: t_k+1 by t_k."""
        self.received = [t_v] * setting.view.n
        """For each source the time up to which no batch is missing."""
        self.t_v = t_v

    def start(self) -> Effects:
        return [Wake(self.update_window, UpdateView())]

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        effects, new = self.post.take(sender, body)
        if not new:
            return effects
        if isinstance(body, UpdateView):
            return [Wake(self.update_window, UpdateView()), *self._update()]
        self._store(body)
        return effects

    def _store(self, batch: PushedBatch) -> None:
        if batch.about:
            self.temp_view.append(batch)
        intervals = self.batches_list[batch.i]
        intervals[batch.t_k] = batch.t_k1
        while self.received[batch.i] in intervals:
            self.received[batch.i] = intervals.pop(self.received[batch.i])

    def _update(self) -> list[Effect]:
        up_to = min(self.received)
        if up_to <= self.t_v:
            return []
        self.t_v = up_to
        due = [batch for batch in self.temp_view if batch.t_k1 <= up_to]
        self.temp_view = [batch for batch in self.temp_view if batch.t_k1 > up_to]
        effects: list[Effect] = []
        if due:
            view = self.setting.view
            tuples = [tagged for batch in due for tagged in batch.tuples]
            assert all(tagged.tags.at <= up_to for tagged in tuples)
            rows = (pair for tagged in tuples for pair in view.finish(tagged.change))
            covers = tuple(label for batch in due for label in batch.about)
            effects.append(Commit(((view.name, Bag.summed(rows)),), covers))
        return [*effects, *(Send(source, Applied(up_to)) for source in self.setting.homes)]
