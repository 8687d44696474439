"""The source states of a history and how one follows from another: PVM's state order diagram (section 4.1, fig. 15).

A source state is a vector: of each source, how many of its transactions are in. Source by source that is a chain, and
all of them together are a grid; a transaction over several sources leaves only those vectors that hold all of it or
nothing of it. Minimum and maximum of two legal vectors are legal, so it is a lattice, and from a legal vector each
larger one is reached by steps. A step is one transaction, of one source or over several.

Transactions that cannot change the views are left out from the start: they would only make the grid larger.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from math import prod

from headwater.maintenance.strategies.contract import Label, Node, Update

Vector = tuple[int, ...]


class Lattice:
    """The legal vectors over these transactions, which stand in the order of their commits."""

    def __init__(self, transactions: Iterable[Update]) -> None:
        self.by_source: dict[Node, list[Update]] = {}
        self._rank: dict[Label, int] = {}
        for rank, update in enumerate(transactions):
            self.by_source.setdefault(update.source, []).append(update)
            self._rank[update.label] = rank
        self.sources: tuple[Node, ...] = tuple(sorted(self.by_source))
        self.chains: tuple[list[Update], ...] = tuple(self.by_source[s] for s in self.sources)
        self._numbers = [[u.number for u in chain] for chain in self.chains]
        self.bottom: Vector = (0,) * len(self.sources)
        self.top: Vector = tuple(len(chain) for chain in self.chains)
        self.spans = _spans(self.chains)

    @property
    def size(self) -> int:
        """How many vectors there are, those included that hold a part of a transaction."""
        return prod(n + 1 for n in self.top)

    def legal(self, vector: Vector) -> bool:
        """Does it hold every transaction over several sources wholly or not at all?"""
        return all(
            all(vector[s] >= last for s, (_, last) in span.items())
            or all(vector[s] < first for s, (first, _) in span.items())
            for span in self.spans.values()
        )

    def closed(self, vector: Sequence[int], below: Vector) -> Vector:
        """The least legal vector from `vector` up; `below` is a legal one under it."""
        if not self.spans:
            return tuple(vector)
        reached, target = list(below), list(vector)
        while reached != target:
            for s, chain in enumerate(self.chains):
                for update in chain[reached[s] : target[s]]:
                    for other, (_, last) in self.spans.get(update.part_of, {}).items():
                        target[other] = max(target[other], last)
                    reached[s] += 1
        return tuple(target)

    def steps(self, vector: Vector) -> list[Vector]:
        """The vectors one step up, that of the earliest commit first."""
        ups: list[tuple[int, Vector]] = []
        for s, chain in enumerate(self.chains):
            if vector[s] < len(chain):
                raised = (*vector[:s], vector[s] + 1, *vector[s + 1 :])
                ups.append((self._rank[chain[vector[s]].label], self.closed(raised, vector)))
        if self.spans:  # closing may have brought in other transactions first, which are steps of their own
            ups = [(r, up) for r, up in ups if not any(o != up and below(o, up) for _, o in ups)]
        ups.sort()
        return list(dict.fromkeys(up for _, up in ups))

    def downs(self, vector: Vector) -> list[Vector]:
        """The vectors below that lack the last transaction of one source, and what cannot be without it."""
        found = []
        for s, n in enumerate(vector):
            if n:
                lowered = [*vector[:s], n - 1, *vector[s + 1 :]]
                while not self.legal(tuple(lowered)):
                    for span in self.spans.values():
                        if any(lowered[o] < last for o, (_, last) in span.items()):
                            for o, (first, _) in span.items():
                                lowered[o] = min(lowered[o], first - 1)
                found.append(tuple(lowered))
        return found

    def way(self, low: Vector, high: Vector) -> Iterator[Vector]:
        """Vectors step by step from `low` (not included) to `high`, in the order of the commits."""
        while low != high:
            low = next(up for up in self.steps(low) if below(up, high))
            yield low

    def all(self) -> Iterator[Vector]:
        """Every legal vector, each after one that it follows from."""
        found = {self.bottom: None}
        waiting = deque(found)
        while waiting:
            vector = waiting.popleft()
            yield vector
            for up in self.steps(vector):
                if up not in found:
                    found[up] = None
                    waiting.append(up)

    def position(self, label: Label) -> tuple[int, int] | None:
        """The source's place in vectors, and the least number there that holds this transaction and all before it."""
        if label.source not in self.by_source:
            return None
        s = self.sources.index(label.source)
        return s, bisect_right(self._numbers[s], label.number)

    def holding(self, vector: Vector, labels: Iterable[Label]) -> Vector:
        """The least legal vector from `vector` up that holds these transactions, and what came before them."""
        raised = list(vector)
        for label in labels:
            found = self.position(label)
            if found is not None:
                s, n = found
                raised[s] = max(raised[s], n)
        return self.closed(raised, vector)

    def between(self, low: Vector, high: Vector) -> list[Update]:
        """The transactions in `high` and not in `low`, in the order of their commits."""
        found = [u for s, chain in enumerate(self.chains) for u in chain[low[s] : high[s]]]
        return sorted(found, key=lambda u: self._rank[u.label])

    def last(self, vector: Vector) -> tuple[Label, ...]:
        """The last transaction of each source that the vector holds."""
        return tuple(chain[n - 1].label for chain, n in zip(self.chains, vector, strict=True) if n)

    def numbers(self, vector: Vector) -> Vector:
        """The vector in the sources' own numbers, transactions that were left out included."""
        return tuple(numbers[n - 1] if n else 0 for numbers, n in zip(self._numbers, vector, strict=True))


def below(low: Sequence[int], high: Sequence[int]) -> bool:
    """low ≤ high, everywhere."""
    return all(a <= b for a, b in zip(low, high, strict=True))


def _spans(chains: Sequence[list[Update]]) -> dict[str, dict[int, tuple[int, int]]]:
    """Of each transaction over several sources: where its first and last part are in each chain, from 1."""
    spans: dict[str, dict[int, tuple[int, int]]] = {}
    for s, chain in enumerate(chains):
        for n, update in enumerate(chain, 1):
            if update.part_of:
                first, _ = spans.setdefault(update.part_of, {}).get(s, (n, n))
                spans[update.part_of][s] = (first, n)
    return spans
