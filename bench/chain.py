"""The chain data set: PVM section 7.1, as arrays.

Four relations R1..R4(a, b), `n` rows each, one relation per source, and the view of the paper's fig. 20:

    SELECT R1.a, R2.a, R3.a, R4.a  WHERE  R1.a = R2.b AND R2.a = R3.b AND R3.a = R4.b

*Fan-out about 1.* In the base load every `a` and every `b` is a permutation of 0..n-1, so each join finds exactly one
partner and the view has exactly `n` rows. Changed rows draw their values from the same domain, so that after the
changes a key has zero, one or a few partners, one on average.

*Effective changes.* `u` transactions of one row each: inserts, deletes and updates in equal parts, spread evenly over
the four relations (an update replaces `a` or `b`). Deletes and updates pick any row alive at that moment, so some of
them hit rows that earlier transactions wrote. Over the whole history no row value of a relation occurs twice: that
makes every transaction effective (PVM counts no other), and the end state a difference of sets.

Everything is a function of (n, u, seed).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chain_sql import K, P

RELATIONS = 4
INSERT, DELETE, UPDATE = 0, 1, 2
ABSENT = -1
"""Stands in `old_*` of an insert and in `new_*` of a delete; real values are never negative."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Relation:
    """The rows of one relation, as two columns."""

    a: Ints
    b: Ints

    def __len__(self) -> int:
        return len(self.a)


@dataclass(frozen=True)
class Transactions:
    """Single-row transactions in commit order: column k of every array is transaction k."""

    relation: Ints
    op: Ints
    old_a: Ints
    old_b: Ints
    new_a: Ints
    new_b: Ints

    def __len__(self) -> int:
        return len(self.relation)

    def __getitem__(self, part: slice | NDArray[np.bool_]) -> Transactions:
        """The transactions of a slice (a burst in pieces) or of a mask (one relation's share)."""
        return Transactions(*(column[part] for column in self._columns()))

    def to_arrow(self) -> pa.Table:
        """As a table with a `tx` number; absent old and new values are NULL."""

        def nullable(column: Ints) -> pa.Array:
            return pa.array(column, mask=column == ABSENT)

        values = {name: nullable(getattr(self, name)) for name in ("old_a", "old_b", "new_a", "new_b")}
        return pa.table({"tx": np.arange(len(self)), "relation": self.relation, "op": self.op, **values})

    def _columns(self) -> tuple[Ints, ...]:
        return (self.relation, self.op, self.old_a, self.old_b, self.new_a, self.new_b)


@dataclass(frozen=True)
class Answer:
    """What a view must contain: how many rows, and the sum of their hashes (`row_hash`)."""

    count: int
    checksum: int


@dataclass(frozen=True)
class Chain:
    """The data set of one parameter triple; its parts are computed when asked for."""

    n: int
    u: int
    seed: int = 7

    @cached_property
    def base(self) -> tuple[Relation, ...]:
        rng = np.random.default_rng(self.seed)
        return tuple(Relation(rng.permutation(self.n), rng.permutation(self.n)) for _ in range(RELATIONS))

    @cached_property
    def transactions(self) -> Transactions:
        return _draw_transactions(self)

    @cached_property
    def final(self) -> tuple[Relation, ...]:
        """The relations after all transactions: (base ∪ new) − old, exact because no row value occurs twice."""
        return tuple(self._final(index) for index in range(RELATIONS))

    def _final(self, index: int) -> Relation:
        mine = self.transactions[self.transactions.relation == index]
        born, gone = mine.new_a != ABSENT, mine.old_a != ABSENT
        a = np.concatenate([self.base[index].a, mine.new_a[born]])
        b = np.concatenate([self.base[index].b, mine.new_b[born]])
        alive = ~np.isin(a * self.n + b, mine.old_a[gone] * self.n + mine.old_b[gone])
        return Relation(a[alive], b[alive])

    def answer_before(self) -> Answer:
        return right_answer(self.base)

    def answer_after(self) -> Answer:
        return right_answer(self.final)


def view_rows(relations: Sequence[Relation]) -> list[Ints]:
    """The view recomputed with numpy: one array per output column, rows in no particular order."""
    partial = [relations[0].a]
    for relation in relations[1:]:
        order = np.argsort(relation.b, kind="stable")
        domain = 1 + max(relation.b.max(initial=0), partial[-1].max(initial=0))
        matches = np.bincount(relation.b, minlength=domain)
        first, partners = (np.cumsum(matches) - matches)[partial[-1]], matches[partial[-1]]
        # The matches of partial row r are order[first[r] : first[r] + partners[r]]; spell those ranges out in one go.
        source = np.repeat(np.arange(len(partners)), partners)
        offset = np.arange(len(source)) - np.repeat(np.cumsum(partners) - partners, partners)
        partial = [column[source] for column in partial]
        partial.append(relation.a[order[first[source] + offset]])
    return partial


def right_answer(relations: Sequence[Relation]) -> Answer:
    columns = view_rows(relations)
    return Answer(len(columns[0]), int(row_hash(*columns).sum()))


def row_hash(a1: Ints, a2: Ints, a3: Ints, a4: Ints) -> Ints:
    """A hash that any engine with 64-bit integers can compute (`chain_sql.hash_sql` is the same in SQL).

    The square matters: without it a sum over rows could not tell rows that swapped one of their columns.
    """
    x = (((a1 * K + a2) % P * K + a3) % P * K + a4) % P
    return x * x % P


def _draw_transactions(chain: Chain) -> Transactions:
    """Draw the history one transaction at a time: what may be deleted depends on all before it."""
    random = Random(chain.seed)
    relations = [_Living(relation, chain.n, random) for relation in chain.base]
    history = np.empty((chain.u, 6), dtype=np.int64)
    nothing = (ABSENT, ABSENT)
    for k in range(chain.u):
        index, op = random.randrange(RELATIONS), random.randrange(3)
        rows = relations[index]
        if not rows.alive:
            op = INSERT
        old = nothing if op == INSERT else rows.take()
        new = nothing if op == DELETE else rows.put(None if op == INSERT else old)
        history[k] = (index, op, *old, *new)
    return Transactions(*np.ascontiguousarray(history.T))


class _Living:
    """The rows of one relation that are alive, sampled without copying the base.

    A sparse Fisher-Yates shuffle: slot s holds base row s unless `moved` says otherwise, and a row taken out is
    replaced by the one in the last slot. So the cost follows the number of changes, not n.
    """

    def __init__(self, base: Relation, n: int, random: Random) -> None:
        self._base, self._n, self._random = base, n, random
        self._b_of_a = np.empty(n, dtype=np.int64)
        self._b_of_a[base.a] = base.b
        self._moved: dict[int, tuple[int, int]] = {}
        self._used: set[tuple[int, int]] = set()
        self.alive = n

    def take(self) -> tuple[int, int]:
        slot, self.alive = self._random.randrange(self.alive), self.alive - 1
        row, last = self._at(slot), self._at(self.alive)
        self._moved[slot] = last
        self._moved.pop(self.alive, None)
        return row

    def put(self, like: tuple[int, int] | None) -> tuple[int, int]:
        """Bring a row to life that never lived before; `like` an old row, it changes only one of its columns."""
        while True:
            row = self._fresh(like)
            if row not in self._used and self._b_of_a[row[0]] != row[1]:
                break
        self._used.add(row)
        self._moved[self.alive] = row
        self.alive += 1
        return row

    def _fresh(self, like: tuple[int, int] | None) -> tuple[int, int]:
        value = self._random.randrange(self._n)
        if like is None:
            return value, self._random.randrange(self._n)
        return (value, like[1]) if self._random.randrange(2) else (like[0], value)

    def _at(self, slot: int) -> tuple[int, int]:
        if slot in self._moved:
            return self._moved[slot]
        return int(self._base.a[slot]), int(self._base.b[slot])
