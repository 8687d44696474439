"""The TID rules (Moro, Sartori: Incremental Maintenance of Multi-Source Views, sections 5.1 and 5.6).

No notifications and no compensation: the state that the view will show is fixed first, then asked about. Sources keep
what changed in delta tables, labelled with transaction identifiers (TIDs). A session has four steps:

1. ask every source which TIDs its delta tables have: TID(old)
2. evaluate ADD(Q) and DEL(Q), with all tables in state *old*
3. install both in one transaction of the warehouse
4. delete the tuples of TID(old) from the delta tables

*past* is what the view shows, *old* what it will show, *current* whatever the sources have come to meanwhile. A source
can compute the first two from the third and its delta tables, whenever it is asked. This, and ADD and DEL, are the
change propagation rules (`change_propagation`).

Invariant: every question of a session is answered in state old, whenever it is answered. Strong: a session is a state.

The paper keeps TID(old), ADD(Q) and DEL(Q) until a session ends, to go on with if it fails. Here TID(old) is kept, and
whether step 3 is done; step 2 is done again, with the same result. Step 3 installs one view here, all views there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Spj
from headwater.maintenance.strategies.change_propagation import Isolated, PropagatedChange, joined, own_change, terms
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Answer,
    Commit,
    Database,
    Effect,
    Effects,
    Factory,
    Label,
    Node,
    Strategy,
    StrategySetting,
    Wake,
)
from headwater.maintenance.strategies.threads import ThreadQuery, Threads, ViewChange


def tid_rules(session: float = 1.0) -> Factory:
    """A session every `session` units of time, or as soon as the last has ended if that is later (always, if 0)."""
    return lambda setting: Strategy({WAREHOUSE: TidRules(setting, session)}, notified=lambda source: ())


# What sources are asked


class FoundRows(NamedTuple):
    """The TIDs in the delta tables of a source, each with the transaction's number."""

    labels: Mapping[str, Label]

    @property
    def weight(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class DeltaTids:
    """Step 1: which committed transactions are in the delta tables?"""

    weight: int = 0

    def evaluate(self, database: Database) -> FoundRows:
        return FoundRows({tid: update.label for tid, update in database.delta().items()})


@dataclass(frozen=True, slots=True)
class Own:
    """Step 2: ADD and DEL of the relations `over`, which are all at this source."""

    view: Spj
    over: tuple[int, ...]
    old: frozenset[str]

    @property
    def weight(self) -> int:
        return len(self.old)

    def evaluate(self, database: Database) -> PropagatedChange:
        tables = {self.view.tables[i]: Isolated(database, self.view.tables[i], self.old) for i in self.over}
        return own_change(self.view, self.over, tables)


@dataclass(frozen=True, slots=True)
class Join:
    """Step 2: ADD and DEL of other relations, joined with those of this source: as they were in state old (and past,
    for DEL), or with what stayed of them if they stand `before`, in the view, what the change is of."""

    view: Spj
    change: PropagatedChange
    over: tuple[tuple[int, bool], ...]
    old: frozenset[str]

    @property
    def weight(self) -> int:
        return self.change.weight + len(self.old)

    def evaluate(self, database: Database) -> PropagatedChange:
        change = self.change
        for j, before in self.over:
            change = joined(self.view, change, j, Isolated(database, self.view.tables[j], self.old), before)
        return change


@dataclass(frozen=True, slots=True)
class Forget:
    """Step 4: these have been handled."""

    old: frozenset[str]

    @property
    def weight(self) -> int:
        return len(self.old)

    def evaluate(self, database: Database) -> Bag:
        database.forget(self.old)
        return Bag()


# The warehouse


@dataclass
class TidSession:
    """What the warehouse stores until the end of a session, to go on with if it fails: TID(old) by source, and
    whether the results have been installed, which is set in the same transaction."""

    old: Mapping[Node, frozenset[str]]
    labels: tuple[Label, ...]
    installed: bool = False


class _Due(NamedTuple):
    """It is time for a session."""


class TidRules:
    """The warehouse. `kept` is the session in which it failed, if it did."""

    def __init__(self, setting: StrategySetting, period: float, kept: TidSession | None = None) -> None:
        self.setting = setting
        self.kept = kept
        self._period = period
        self._due = False
        self._threads = Threads()
        self._terms = terms(setting)

    def start(self) -> Effects:
        later = [Wake(self._period, _Due())] if self._period else []
        return [*later, *(self._session() if self.kept or not self._period else [])]

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if isinstance(body, Answer):
            return self._threads.answer(body)
        self._due = True
        return [Wake(self._period, body), *self._session()]

    def _session(self) -> list[Effect]:
        """The next step of the session that was kept, or a new one."""
        if self._threads.running:
            return []
        self._due = False
        if self.kept is None:
            return self._threads.start(self._isolate(), (), self._isolated)
        if self.kept.installed:
            return self._threads.start(self._delete(self.kept), self.kept.labels, self._ended)
        return self._threads.start(self._evaluate(self.kept), self.kept.labels, self._install)

    def _isolate(self) -> ViewChange:
        """Step 1."""
        sources = self.setting.sources
        found: list[FoundRows] = yield [ThreadQuery(source, DeltaTids()) for source in sources]
        old = {source: frozenset(f.labels) for source, f in zip(sources, found, strict=True) if f.labels}
        return TidSession(old, tuple(label for f in found for label in f.labels.values()))

    def _isolated(self, session: TidSession) -> Effects:
        if not session.old:
            return self._ended(None)
        self.kept = session
        return self._session()

    def _evaluate(self, session: TidSession) -> ViewChange:
        """Step 2: all terms at the same time, each of them from source to source."""
        view, old = self.setting.view, session.old
        under_way = [term for term in self._terms if term.source in old]
        changes: list[PropagatedChange] = yield [
            ThreadQuery(t.source, Own(view, t.over, old[t.source])) for t in under_way
        ]
        left = [(t, 0, c) for t, c in zip(under_way, changes, strict=True) if c]
        total = Bag()
        while left:
            total = sum((_rows(view, c) for t, n, c in left if n == len(t.steps)), total)
            left = [(t, n, c) for t, n, c in left if n < len(t.steps)]
            steps = [(t.steps[n], c) for t, n, c in left]
            changes = yield [ThreadQuery(s, Join(view, c, over, old.get(s, frozenset()))) for (s, over), c in steps]
            left = [(t, n + 1, c) for (t, n, _), c in zip(left, changes, strict=True) if c]
        return total

    def _install(self, change: Bag) -> Effects:
        """Step 3."""
        assert self.kept is not None
        self.kept.installed = True
        commit = Commit(((self.setting.view.name, change),), self.kept.labels)
        return [commit, *self._session()]

    def _delete(self, session: TidSession) -> ViewChange:
        """Step 4."""
        yield [ThreadQuery(source, Forget(tids)) for source, tids in session.old.items()]

    def _ended(self, _: object) -> Effects:
        self.kept = None
        return self._session() if self._due or not self._period else []


def _rows(view: Spj, change: PropagatedChange) -> Bag:
    """(… − ∇MV) ∪ ΔMV, as one signed change."""
    return view.finish(change.add) - view.finish(change.delete)
