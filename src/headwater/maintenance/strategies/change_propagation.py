"""Change propagation rules for a warehouse (Moro, Sartori: Incremental Maintenance of Multi-Source Views, section 5.4).

What is to be added to a view Q, and what to be deleted from it, when its tables go from state *past* to state *old*:

    ADD(E ⋈ F) = ADD(E) ⋈ ADD(F)  ∪  ADD(E) ⋈ (F^o − ADD(F))  ∪  (E^o − ADD(E)) ⋈ ADD(F)          (figure 2)
    DEL(E ⋈ F) = DEL(E) ⋈ DEL(F)  ∪  DEL(E) ⋈ (F^o − ADD(F))  ∪  (E^o − ADD(E)) ⋈ DEL(F)

F^o − ADD(F) is what stayed. Of a table R, ADD is ΔR and DEL is ∇R. A source has R in state *current*, and the delta
tables from past to current; so it has the other two states as well:

    R^p = (R^c − ΔR^c) ∪ ∇R^c                  (2)
    R^o = (R^p − ∇R^o) ∪ ΔR^o                  (1), so R^o from the table and its delta tables in one query: (3)

Invariant: Q^o = (Q^p − DEL(Q)) ∪ ADD(Q), as bags, if ∇R ⊆ R^p and ΔR ⊆ R^o. A row that came and went between the two
states breaks this, so the delta tables are netted first; the paper does not say it.

A join of more than two is taken as left-deep. The paper's example of three, ADD(E ⋈ F) ⋈ ADD(F ⋈ G), is not what
figure 2 gives: it is empty when only E has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Partial, Spj, weight
from headwater.maintenance.strategies.contract import Database, Node, Setting
from headwater.model.names import TableName


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


def states(database: Database, table: TableName, old: frozenset[str]) -> States:
    """Equations 2 and 3: whatever is in the delta tables happened after past."""
    past, change = database.rows(table), Bag()
    for tid, update in database.delta().items():
        if table in update.changes:
            past = past - update.changes[table]
            if tid in old:
                change = change + update.changes[table]
    return States.at(past, change)


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

    since ADD(F) ∪ (F^o − ADD(F)) = F^o and DEL(F) ∪ (F^o − ADD(F)) = F^p. A term asks each source once (twice if its
    relations are joined only through those of another source).
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
