"""Bags with counts: the algebra that everything else here is an efficient form of.

A bag is a function from rows to integers that is zero almost everywhere. Bags form an abelian group, so a *change* is
a bag like any other, and `new = old + change`:

    (A + B)(r) = A(r) + B(r)              (−A)(r) = −A(r)              σ_p(A)(r) = A(r) if p(r), else 0
    π_f(A)(r)  = Σ A(q) over f(q) = r     (A ⋈ B)(r, q) = A(r) · B(q) if r and q agree on the keys

σ, π and ⋈ are linear in each operand; that is all that incremental maintenance rests on:
`(A + ΔA) ⋈ B = A ⋈ B + ΔA ⋈ B`. Grouping and DISTINCT are not linear, and are defined for bags without negative
counts only. NULL is None; it equals nothing in a join, and itself in a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Bag:
    """Rows with their counts. No row has count zero, so equal bags are equal values."""

    counts: Mapping[Row, int] = field(default_factory=dict)

    @staticmethod
    def of(rows: Iterable[Row]) -> Bag:
        """Each row as often as it comes."""
        return Bag.summed((tuple(row), 1) for row in rows)

    @staticmethod
    def summed(pairs: Iterable[tuple[Row, int]]) -> Bag:
        """The sum of rows with counts: the fold of a changelog."""
        counts: dict[Row, int] = {}
        for row, count in pairs:
            counts[row] = counts.get(row, 0) + count
        return Bag({row: count for row, count in counts.items() if count})

    def __iter__(self) -> Iterator[tuple[Row, int]]:
        return iter(self.counts.items())

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __hash__(self) -> int:
        return hash(frozenset(self.counts.items()))

    def count(self, row: Row) -> int:
        return self.counts.get(row, 0)

    def total(self) -> int:
        return sum(self.counts.values())

    def __add__(self, other: Bag) -> Bag:
        return Bag.summed([*self, *other])

    def __neg__(self) -> Bag:
        return Bag({row: -count for row, count in self})

    def __sub__(self, other: Bag) -> Bag:
        return self + -other

    def select(self, holds: Callable[[Row], bool]) -> Bag:
        return Bag({row: count for row, count in self if holds(row)})

    def project(self, function: Callable[[Row], Row]) -> Bag:
        return Bag.summed((function(row), count) for row, count in self)

    def join(self, other: Bag, left: Sequence[int], right: Sequence[int]) -> Bag:
        """Rows of both side by side where positions `left` here equal positions `right` there; without positions,
        the product."""
        index: dict[Row, list[tuple[Row, int]]] = {}
        for row, count in other:
            index.setdefault(tuple(row[i] for i in right), []).append((row, count))
        pairs: list[tuple[Row, int]] = []
        for row, count in self:
            key = tuple(row[i] for i in left)
            if None not in key:
                pairs.extend((row + match, count * times) for match, times in index.get(key, ()))
        return Bag.summed(pairs)

    def group(self, key: Callable[[Row], Row]) -> dict[Row, Bag]:
        """The parts of the bag whose rows have the same key."""
        groups: dict[Row, dict[Row, int]] = {}
        for row, count in self.without_negatives():
            groups.setdefault(key(row), {})[row] = count
        return {k: Bag(counts) for k, counts in groups.items()}

    def distinct(self) -> Bag:
        return Bag(dict.fromkeys(self.without_negatives().counts, 1))

    def without_negatives(self) -> Bag:
        """Itself; raises if some count is negative, where what follows would have no meaning."""
        for row, count in self:
            if count < 0:
                raise ValueError(f"{row} has count {count}: groups are defined for counts above zero only")
        return self

    def rows(self) -> list[Row]:
        """Every row as often as it counts, for bags without negative counts."""
        return [row for row, count in self.without_negatives() for _ in range(count)]


@dataclass(frozen=True)
class Relation:
    """A bag whose rows have named columns."""

    columns: tuple[str, ...]
    bag: Bag

    @staticmethod
    def of(columns: Sequence[str], rows: Iterable[Row]) -> Relation:
        return Relation(tuple(columns), Bag.of(rows))

    def positions(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.columns.index(name) for name in names)

    def over(self, names: Sequence[str]) -> Bag:
        """π onto these columns, in this order."""
        positions = self.positions(names)
        return self.bag.project(lambda row: tuple(row[i] for i in positions))
