"""C-Strobe, complete Strobe (Zhuge, Garcia-Molina, Wiener, PDIS 1996; PVM, section 8, which describes it in words).

Strobe, but one update after the other, each as its own state. A delete is key_delete(MV, U) and needs no question. An
insert Ui asks Qi = V⟨Ui⟩; its answer is of later states than Ui's, which the updates received meanwhile tell:

    a delete Up    may have taken rows away: the compensating query Q⟨Up⟩, with the deleted tuple in place of its
                   relation, brings them back; its own answer is compensated in the same way
    an insert Up   may have added rows: key_delete(Δ, Up), when all answers are there

Q⟨Up⟩ replaces one more relation, so this ends; but Q⟨Up⟩⟨Uq⟩ and Q⟨Uq⟩⟨Up⟩ are both asked. With one delete at each of
the n − 1 other sources there are (n − 1)!/(n − 1 − r)! queries with r of them replaced: factorial in n.

Of several changes of one key only the first counts, since it tells what was there at Ui: a delete, that this tuple was;
an insert, that none was. Taken literally, key_delete(Δ, Up) would go wrong when a deleted key comes back: it would take
out the rows of the old tuple as well.

Invariant: when no query is left, Δ is Ui ⋈ the other relations as they were after the updates before Ui, in the order
of arrival. This needs channels that keep their order. Complete; a transaction of several tuples, taken tuple by tuple,
is one state.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

from headwater.algebra.bag import Bag, Row
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
from headwater.maintenance.strategies.strobe import Keyed, Keys, StrobeChange
from headwater.maintenance.strategies.threads import ThreadQuery, Threads, ViewChange

Replaced = tuple[StrobeChange, ...]
"""The tuples that stand in place of their relations: Ui, then deleted ones."""


def c_strobe(keys: Keys) -> Factory:
    return lambda setting: Strategy({WAREHOUSE: CStrobe(setting, Keyed(setting.view, keys))})


class CStrobe:
    """The warehouse."""

    def __init__(self, setting: StrategySetting, keyed: Keyed) -> None:
        self.setting = setting
        self.keyed = keyed
        self.mv: set[Row] = set(setting.content().counts)
        self.queue: deque[tuple[Label, deque[StrobeChange]]] = deque()
        """What was received: transactions, each as its changes. The first is being handled."""
        self._handled: StrobeChange | None = None
        self._answer: set[Row] = set()
        """Δ of the insert that is being handled: rows of the join of all occurrences."""
        self._change = Bag()
        """What the transaction has changed so far."""
        self._threads = Threads()

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if isinstance(body, Answer):
            return [*self._threads.answer(body), *self._proceed()]
        assert isinstance(body, Update)
        self.queue.append((body.label, deque(self.keyed.changes(body))))
        return self._proceed()

    def _proceed(self) -> list[Effect]:
        """Update after update, until one waits for an answer."""
        effects: list[Effect] = []
        while self.queue and not self._threads.running:
            if self._handled is not None:
                self._finish(self._handled)
                continue
            label, changes = self.queue[0]
            if not changes:
                self.queue.popleft()
                effects.append(Commit(((self.setting.view.name, self._change),), (label,)))
                self._change = Bag()
                continue
            change = changes.popleft()
            if change.inserted:
                self._handled = change
                effects += self._ask((change,))
            else:
                left = self.keyed.key_delete(self.mv, [change])
                self._change = self._change - Bag.of(self.mv - left)
                self.mv = left
        return effects

    def _ask(self, replaced: Replaced) -> list[Effect]:
        about = (replaced[0].label,)
        return self._threads.start(source_evaluate(self.setting, replaced), about, partial(self._answered, replaced))

    def _answered(self, replaced: Replaced, answer: Partial) -> Effects:
        """Δ gets the answer, without duplicates; Q⟨Up⟩ for every delete Up received between Ui and the answer."""
        self._answer.update(answer.bag.counts)
        relations = {change.i for change in replaced}
        effects: list[Effect] = []
        for deleted in self._meanwhile().values():
            if not deleted.inserted and deleted.i not in relations:
                effects += self._ask((*replaced, deleted))
        return effects

    def _meanwhile(self) -> dict[tuple[int, Row], StrobeChange]:
        """What was received since the change being handled: the first change of each key, by relation and key."""
        first: dict[tuple[int, Row], StrobeChange] = {}
        for _, changes in self.queue:
            for change in changes:
                first.setdefault((change.i, change.key), change)
        return first

    def _finish(self, handled: StrobeChange) -> None:
        """key_delete(Δ, Up) for every insert Up received meanwhile; then Δ to MV."""
        view, keyed, meanwhile = self.setting.view, self.keyed, self._meanwhile()
        others = [j for j in range(view.n) if j != handled.i]
        spans = [view.span(range(view.n), j) for j in range(view.n)]

        def was_there(row: Row) -> bool:
            for j in others:
                first = meanwhile.get((j, keyed.in_core(j, row)))
                if first is not None and (first.inserted or row[spans[j]] not in first.origin(view).bag.counts):
                    return False
            return True

        core = Bag.of(row for row in self._answer if was_there(row))
        added = set(view.finish(Partial(tuple(range(view.n)), core)).counts)
        assert not added & self.mv, "an inserted tuple has a key of its own"
        self.mv |= added
        self._change = self._change + Bag.of(added)
        self._handled, self._answer = None, set()


def source_evaluate(setting: StrategySetting, replaced: Replaced) -> ViewChange:
    """The view with tuples in place of some relations; the others are asked, source by source. Returns the join of
    all occurrences."""
    view, i = setting.view, replaced[0].i
    tuples = {change.i: Bag({change.row: 1}) for change in replaced}
    joined = view.origin(i, tuples[i])
    for j in [*range(i - 1, -1, -1), *range(i + 1, view.n)]:
        if j in tuples:
            yield Work()
            joined = view.local(joined, j, tuples[j])
        else:
            joined = yield ThreadQuery(setting.homes[j], Probe(view, joined, j))
    return joined
