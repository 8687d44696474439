"""The TID rules (Moro, Sartori: Incremental Maintenance of Multi-Source Views, sections 5.4-5.6).

No notifications and no compensation: the state that the view will show is fixed first, then asked about. Sources keep
what changed in delta tables, labelled with transaction identifiers (TIDs). A session has four steps:

1. ask every source which TIDs its delta tables have: TID(old)
2. evaluate ADD(Q) and DEL(Q), with all tables in state *old*
3. install both in one transaction of the warehouse
4. delete the tuples of TID(old) from the delta tables

*past* is what the view shows, *old* what it will show, *current* whatever the sources have come to meanwhile;

    R^p = (R^c − ΔR^c) ∪ ∇R^c                  (2)
    R^o = (R^p − ∇R^o) ∪ ΔR^o                  (1), so R^o from the table and its delta tables in one query: (3)

    ADD(E ⋈ F) = ADD(E) ⋈ ADD(F)  ∪  ADD(E) ⋈ (F^o − ADD(F))  ∪  (E^o − ADD(E)) ⋈ ADD(F)          (figure 2)
    DEL(E ⋈ F) = DEL(E) ⋈ DEL(F)  ∪  DEL(E) ⋈ (F^o − ADD(F))  ∪  (E^o − ADD(E)) ⋈ DEL(F)

F^o − ADD(F) is what stayed. The rules need ∇R ⊆ R^p and ΔR ⊆ R^o, as bags. A row that came and went in one session
breaks this, so the delta tables are netted first; the paper does not say it.

Invariant: every question of a session is answered in state old, whenever it is answered. Strong: a session is a state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Partial, Spj, weight
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
    Setting,
    Strategy,
    Wake,
)
from headwater.maintenance.strategies.threads import Query, Threads, ViewChange
from headwater.model.names import TableName


def tid_rules(session: float = 1.0) -> Factory:
    """A session every `session` units of time, or as soon as the last has ended if that is later (always, if 0)."""
    return lambda setting: Strategy({WAREHOUSE: TidRules(setting, session)}, notified=lambda source: ())


class States(NamedTuple):
    """A table in state past, and its delta tables from there to state old: ∇ and Δ, netted."""

    past: Bag
    deleted: Bag
    added: Bag

    @property
    def stayed(self) -> Bag:
        return self.past - self.deleted

    @property
    def old(self) -> Bag:
        """Equation 1."""
        return self.stayed + self.added

    @staticmethod
    def at(past: Bag, change: Bag) -> States:
        """`change` is the sum of what happened between past and old: netted, so that no row is in both deltas."""
        deleted = Bag({row: -count for row, count in change if count < 0})
        return States(past, deleted, Bag({row: count for row, count in change if count > 0}))


class Change(NamedTuple):
    """ADD and DEL of some occurrences."""

    add: Partial
    delete: Partial

    @property
    def weight(self) -> int:
        return weight(self.add.bag) + weight(self.delete.bag)

    def __bool__(self) -> bool:
        return bool(self.add.bag) or bool(self.delete.bag)


Tables = Mapping[TableName, States]


def add(view: Spj, over: Sequence[int], tables: Tables) -> Partial:
    """ADD(Q) of figure 2, where Q is the left-deep join of these occurrences."""
    *e, f = over
    add_f = view.origin(f, tables[view.tables[f]].added)
    if not e:
        return add_f
    add_e = add(view, e, tables)
    return _union(
        view.merge(add_e, add_f),
        view.merge(add_e, view.origin(f, tables[view.tables[f]].stayed)),
        view.merge(_stayed(view, e, tables), add_f),
    )


def delete(view: Spj, over: Sequence[int], tables: Tables) -> Partial:
    """DEL(Q) of figure 2."""
    *e, f = over
    delete_f = view.origin(f, tables[view.tables[f]].deleted)
    if not e:
        return delete_f
    delete_e = delete(view, e, tables)
    return _union(
        view.merge(delete_e, delete_f),
        view.merge(delete_e, view.origin(f, tables[view.tables[f]].stayed)),
        view.merge(_stayed(view, e, tables), delete_f),
    )


def _stayed(view: Spj, over: Sequence[int], tables: Tables) -> Partial:
    """E^o − ADD(E): the join of what stayed in each table."""
    return view.core(over, {view.tables[i]: tables[view.tables[i]].stayed for i in over})


def _union(first: Partial, *others: Partial) -> Partial:
    return Partial(first.over, sum((o.bag for o in others), first.bag))


# What sources are asked


class Found(NamedTuple):
    """The TIDs in the delta tables of a source, each with the transaction's number."""

    labels: Mapping[str, Label]

    @property
    def weight(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class DeltaTids:
    """Step 1: which committed transactions are in the delta tables?"""

    weight: int = 0

    def evaluate(self, database: Database) -> Found:
        return Found({tid: update.label for tid, update in database.delta().items()})


@dataclass(frozen=True, slots=True)
class Own:
    """Step 2: ADD and DEL of the relations `over`, which are all at this source."""

    view: Spj
    over: tuple[int, ...]
    old: frozenset[str]

    @property
    def weight(self) -> int:
        return len(self.old)

    def evaluate(self, database: Database) -> Change:
        tables = {self.view.tables[i]: states(database, self.view.tables[i], self.old) for i in self.over}
        return Change(add(self.view, self.over, tables), delete(self.view, self.over, tables))


@dataclass(frozen=True, slots=True)
class Join:
    """Step 2: ADD and DEL of other relations, joined with those of this source: as they were in state old (and past,
    for DEL), or with what stayed of them if they stand `before`, in the view, what the change is of."""

    view: Spj
    change: Change
    over: tuple[tuple[int, bool], ...]
    old: frozenset[str]

    @property
    def weight(self) -> int:
        return self.change.weight + len(self.old)

    def evaluate(self, database: Database) -> Change:
        added, deleted = self.change
        for j, before in self.over:
            table = states(database, self.view.tables[j], self.old)
            added = self.view.local(added, j, table.stayed if before else table.old)
            deleted = self.view.local(deleted, j, table.stayed if before else table.past)
        return Change(added, deleted)


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


def states(database: Database, table: TableName, old: frozenset[str]) -> States:
    """Equations 2 and 3: whatever is in the delta tables happened after past."""
    past, change = database.rows(table), Bag()
    for tid, update in database.delta().items():
        if table in update.changes:
            past = past - update.changes[table]
            if tid in old:
                change = change + update.changes[table]
    return States.at(past, change)


# The warehouse


@dataclass
class Session:
    """What the warehouse stores until the end of a session, to go on with if it fails: TID(old) by source, and
    whether the results have been installed, which is set in the same transaction."""

    old: Mapping[Node, frozenset[str]]
    labels: tuple[Label, ...]
    installed: bool = False


class _Due(NamedTuple):
    """It is time for a session."""


class TidRules:
    """The warehouse. `kept` is the session in which it failed, if it did."""

    def __init__(self, setting: Setting, period: float, kept: Session | None = None) -> None:
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
        found: list[Found] = yield [Query(source, DeltaTids()) for source in sources]
        old = {source: frozenset(f.labels) for source, f in zip(sources, found, strict=True) if f.labels}
        return Session(old, tuple(label for f in found for label in f.labels.values()))

    def _isolated(self, session: Session) -> Effects:
        if not session.old:
            return self._ended(None)
        self.kept = session
        return self._session()

    def _evaluate(self, session: Session) -> ViewChange:
        """Step 2: all terms at the same time, each of them from source to source."""
        view, old = self.setting.view, session.old
        under_way = [term for term in self._terms if term.source in old]
        changes: list[Change] = yield [Query(t.source, Own(view, t.over, old[t.source])) for t in under_way]
        left = [(t, 0, c) for t, c in zip(under_way, changes, strict=True) if c]
        total = Bag()
        while left:
            total = sum((_rows(view, c) for t, n, c in left if n == len(t.steps)), total)
            left = [(t, n, c) for t, n, c in left if n < len(t.steps)]
            steps = [(t.steps[n], c) for t, n, c in left]
            changes = yield [Query(s, Join(view, c, over, old.get(s, frozenset()))) for (s, over), c in steps]
            left = [(t, n + 1, c) for (t, n, _), c in zip(left, changes, strict=True) if c]
        return total

    def _install(self, change: Bag) -> Effects:
        """Step 3."""
        assert self.kept is not None
        self.kept.installed = True
        commit = Commit(((self.setting.view.name, change),), self.kept.labels)
        return [commit, *self._session()]

    def _delete(self, session: Session) -> ViewChange:
        """Step 4."""
        yield [Query(source, Forget(tids)) for source, tids in session.old.items()]

    def _ended(self, _: object) -> Effects:
        self.kept = None
        return self._session() if self._due or not self._period else []


def _rows(view: Spj, change: Change) -> Bag:
    """(… − ∇MV) ∪ ΔMV, as one signed change."""
    return view.finish(change.add) - view.finish(change.delete)


# Where the rules are evaluated


class Term(NamedTuple):
    """One term of the rules, unfolded: ADD and DEL of relations of one source, and with whom they are joined then."""

    source: Node
    over: tuple[int, ...]
    steps: tuple[tuple[Node, tuple[tuple[int, bool], ...]], ...]


def terms(setting: Setting) -> list[Term]:
    """Figure 2, unfolded for Q = B1 ⋈ … ⋈ Bb left-deep, where each B is relations of one source joined there:

    ADD(Q) = ∪k  (what stayed of B1 … B(k−1)) ⋈ ADD(Bk) ⋈ B(k+1)^o ⋈ … ⋈ Bb^o
    DEL(Q) = ∪k  (what stayed of B1 … B(k−1)) ⋈ DEL(Bk) ⋈ B(k+1)^p ⋈ … ⋈ Bb^p

    since ADD(F) ∪ (F^o − ADD(F)) = F^o. A term asks each source once (twice if its relations are joined only through
    those of another source).
    """
    near = _neighbours(setting.view)
    blocks: list[tuple[int, ...]] = []
    for i in range(setting.view.n):
        if not any(i in block for block in blocks):
            here = {j for j, home in enumerate(setting.homes) if home == setting.homes[i]}
            blocks.append(_reachable((i,), here, near))
    return [_term(setting, k, blocks, near) for k in range(len(blocks))]


def _term(setting: Setting, k: int, blocks: list[tuple[int, ...]], near: Mapping[int, set[int]]) -> Term:
    place = {i: b for b, block in enumerate(blocks) for i in block}
    joined, steps = blocks[k], []
    while len(joined) < setting.view.n:
        left = [i for b in [*range(k - 1, -1, -1), *range(k + 1, len(blocks))] for i in blocks[b] if i not in joined]
        first = next((i for i in left if near[i] & set(joined)), left[0])
        source = setting.homes[first]
        here = {i for i in left if setting.homes[i] == source}
        longer = _reachable((*joined, first), here, near)
        steps.append((source, tuple((i, place[i] < k) for i in longer[len(joined) :])))
        joined = longer
    return Term(setting.homes[blocks[k][0]], blocks[k], tuple(steps))


def _reachable(start: tuple[int, ...], among: set[int], near: Mapping[int, set[int]]) -> tuple[int, ...]:
    """`start`, then whatever of `among` is joined with it, in an order in which each is joined with one before it."""
    found = list(start)
    while True:
        more = next((i for i in sorted(among) if i not in found and near[i] & set(found)), None)
        if more is None:
            return tuple(found)
        found.append(more)


def _neighbours(view: Spj) -> dict[int, set[int]]:
    near: dict[int, set[int]] = {i: set() for i in range(view.n)}
    for equality in view.view.equalities:
        near[equality.left[0]].add(equality.right[0])
        near[equality.right[0]].add(equality.left[0])
    return near
