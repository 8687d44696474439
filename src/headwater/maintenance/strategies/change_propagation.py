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

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from headwater.algebra.bag import Bag, Row
from headwater.algebra.spj import Find, Key, Partial, Spj, index, weight
from headwater.maintenance.strategies.contract import Database, Node, StrategySetting, Wanted
from headwater.model.names import TableName


class Isolated:
    """A table in state past, in state old, and what stayed in between: by key, so that a source looks up what is asked
    for and scans nothing. `added` and `deleted` are its delta tables from past to old, netted: no row is in both.

    `at` are positions of the table's columns; a key is looked up in the table and corrected by the delta tables.
    """

    def __init__(self, database: Database, table: TableName, old: frozenset[str]) -> None:
        """Whatever is in the delta tables happened after past; `old` says which of it up to old."""
        changes = {tid: u.changes[table] for tid, u in database.delta().items() if table in u.changes}
        self._database, self._table = database, table
        self._since = Bag.summed(pair for change in changes.values() for pair in change)
        self._change = Bag.summed(pair for tid, change in changes.items() if tid in old for pair in change)
        self.deleted = Bag({row: -count for row, count in self._change if count < 0})
        self.added = Bag({row: count for row, count in self._change if count > 0})

    def past(self, at: tuple[int, ...], wanted: Wanted | None = None) -> Find:
        """Equation 2."""
        return self._corrected(at, wanted, -self._since)

    def old(self, at: tuple[int, ...], wanted: Wanted | None = None) -> Find:
        """Equation 3."""
        return self._corrected(at, wanted, self._change - self._since)

    def stayed(self, at: tuple[int, ...], wanted: Wanted | None = None) -> Find:
        """R^o − ADD(R)."""
        return self._corrected(at, wanted, -self._since - self.deleted)

    def _corrected(self, at: tuple[int, ...], wanted: Wanted | None, by: Bag) -> Find:
        now = self._database.find(self._table, at, wanted)
        if not by:
            return now
        correction = index(by, at)
        return lambda key: Bag.summed([*now(key), *correction(key)])


class PropagatedChange(NamedTuple):
    """ADD and DEL of some occurrences."""

    add: Partial
    delete: Partial

    @property
    def weight(self) -> int:
        return weight(self.add.bag) + weight(self.delete.bag)

    def __bool__(self) -> bool:
        return bool(self.add.bag) or bool(self.delete.bag)


Tables = Mapping[TableName, Isolated]


def own_change(view: Spj, over: Sequence[int], tables: Tables) -> PropagatedChange:
    """ADD(Q) and DEL(Q) of figure 2, where Q is the left-deep join of these occurrences, all at one source; unfolded as
    `terms` does it for all sources, so that each part begins with a delta table."""
    near = _neighbours(view)
    parts = []
    for k in over:
        table = tables[view.tables[k]]
        part = PropagatedChange(view.origin(k, table.added), view.origin(k, table.deleted))
        for j in _reachable((k,), set(over), near)[1:]:
            part = joined(view, part, j, tables[view.tables[j]], over.index(j) < over.index(k))
        parts.append(part)
    return PropagatedChange(_union([p.add for p in parts]), _union([p.delete for p in parts]))


def joined(view: Spj, change: PropagatedChange, j: int, table: Isolated, before: bool) -> PropagatedChange:
    """ADD and DEL of other relations, joined with occurrence j: with what stayed of it if it stands `before`, in the
    view, what the change is of; else as it was in state old, and past for DEL."""
    added, deleted = (table.stayed, table.stayed) if before else (table.old, table.past)
    return PropagatedChange(_extended(view, change.add, j, added), _extended(view, change.delete, j, deleted))


def _extended(view: Spj, partial: Partial, j: int, state: Callable[[tuple[int, ...], Wanted], Find]) -> Partial:
    at = view.raw_positions(j, view.join(partial.over, j).far)
    found = state(at, lambda: view.keys(partial, j)) if partial.bag else _nothing
    return view.extend(partial, j, view.as_occurrence(j, found))


def _nothing(key: Key) -> Iterable[tuple[Row, int]]:
    return ()


def _union(parts: Sequence[Partial]) -> Partial:
    return Partial(parts[0].over, sum((p.bag for p in parts), Bag()))


# Where the rules are evaluated


class PropagationTerm(NamedTuple):
    """One term of the rules, unfolded: ADD and DEL of relations of one source, and with whom they are joined then."""

    source: Node
    over: tuple[int, ...]
    steps: tuple[tuple[Node, tuple[tuple[int, bool], ...]], ...]


def terms(setting: StrategySetting) -> list[PropagationTerm]:
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


def _term(
    setting: StrategySetting, k: int, blocks: list[tuple[int, ...]], near: Mapping[int, set[int]]
) -> PropagationTerm:
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
    return PropagationTerm(setting.homes[blocks[k][0]], blocks[k], tuple(steps))


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
