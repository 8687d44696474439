"""The aggregate functions, each one value: what a group keeps of its argument, how the result is made of that, and what
it is by definition.

    keeps       what must be known of a group to go on with it when rows come and go
    finish      the result, of what is held
    reference   the result, of the values themselves: what every other way to it must agree with

To accumulate is to add a row's count to what is held, to take back is to add its negative; so what is kept must be a
sum: of counts, of whole numbers (`maintenance/exact`), or of the values' own counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, Literal, Protocol

from headwater.algebra.bag import Bag

AggregateFunction = Literal["count", "sum", "avg", "min", "max", "percentile", "percentile_disc"]

Value = Any


class Keeps(Enum):
    """What a group keeps of an argument's values that are not NULL; each includes the ones before it."""

    COUNT = "how many there are"
    SUM = "their sum"
    VALUES = "each of them"
    ORDER = "each of them, and its place among the others"


@dataclass(frozen=True)
class Held:
    """An argument's values that are not NULL, in brief: at one moment, in one group, all of them or the distinct ones.
    `total` is a whole number, see `Summing`. What an aggregate does not keep is not there."""

    count: int
    total: int = 0
    smallest: Value = None
    largest: Value = None
    between: tuple[Value, Value] = (None, None)
    """The values at the two places that a percentile lies between."""


class Summing(Protocol):
    """How whole numbers stand for values of one type."""

    @property
    def shown(self) -> Callable[[int], object]: ...

    @property
    def mean(self) -> Callable[[int, int], object]: ...


@dataclass(frozen=True)
class Aggregate:
    """`reference` is given values that are not NULL, each in a row of one. Of nothing, COUNT is 0 and others NULL."""

    keeps: Keeps
    finish: Callable[[Held, Summing], Value]
    reference: Callable[[Bag], Value]


@dataclass(frozen=True)
class Quantile:
    """A place among ordered values: `at` is the part of them that lies before it. As Spark has it, to the last bit:
    PERCENTILE lies between two values, PERCENTILE_DISC is one of them."""

    at: float
    descending: bool = False
    discrete: bool = False

    def ranks(self, count: int) -> tuple[int, int]:
        """The places of the two values that it lies between, among so many (there are some) from the smallest on."""
        if self.discrete:
            first = second = max(1, math.ceil(count * self.at)) - 1
        else:
            position = (count - 1) * self.at
            first, second = math.floor(position), math.ceil(position)
        return (count - 1 - first, count - 1 - second) if self.descending else (first, second)

    def value(self, count: int, between: tuple[Value, Value]) -> float:
        """What it is, between these two values of so many."""
        first, second = (float(value) for value in between)
        if self.discrete or between[0] == between[1]:
            return first
        position = (count - 1) * self.at
        return (math.ceil(position) - position) * first + (position - math.floor(position)) * second


def percentile(quantile: Quantile) -> Aggregate:
    """PERCENTILE, PERCENTILE_CONT, MEDIAN and PERCENTILE_DISC are places."""

    def reference(values: Bag) -> Value:
        ordered = sorted(values, key=lambda one: (one[0][0] != one[0][0], one[0][0]))  # NaN is the largest
        spread = [row[0] for row, count in ordered for _ in range(count)]
        return quantile.value(len(spread), _at(spread, quantile)) if spread else None

    return Aggregate(
        Keeps.ORDER, lambda held, _: quantile.value(held.count, held.between) if held.count > 0 else None, reference
    )


def _at(spread: list[Value], quantile: Quantile) -> tuple[Value, Value]:
    first, second = quantile.ranks(len(spread))
    return spread[first], spread[second]


def _sum(values: Bag) -> Value:
    """Exact for integers and decimals, correctly rounded for floats."""
    if not any(isinstance(row[0], float) for row, _ in values):
        return sum(row[0] * count for row, count in values)
    if all(math.isfinite(row[0]) for row, _ in values):
        return float(sum((Fraction(row[0]) * count for row, count in values), Fraction(0)))
    return sum(row[0] * count for row, count in values)


def _average(values: Bag) -> Value:
    """A double; of decimals a decimal with four more digits, as in Spark."""
    total = _sum(values)
    if not isinstance(total, Decimal):
        return total / values.total()
    scale = max(-int(row[0].as_tuple().exponent) for row, _ in values if isinstance(row[0], Decimal))
    return (total / values.total()).quantize(Decimal(1).scaleb(-(scale + 4)), ROUND_HALF_UP)


AGGREGATES: Mapping[AggregateFunction, Aggregate] = {
    "count": Aggregate(Keeps.COUNT, lambda held, _: held.count, lambda values: values.total()),
    "sum": Aggregate(
        Keeps.SUM,
        lambda held, how: how.shown(held.total) if held.count > 0 else None,
        lambda values: _sum(values) if values else None,
    ),
    "avg": Aggregate(
        Keeps.SUM,
        lambda held, how: how.mean(held.total, held.count) if held.count > 0 else None,
        lambda values: _average(values) if values else None,
    ),
    "min": Aggregate(
        Keeps.VALUES, lambda held, _: held.smallest, lambda values: min((row[0] for row, _ in values), default=None)
    ),
    "max": Aggregate(
        Keeps.VALUES, lambda held, _: held.largest, lambda values: max((row[0] for row, _ in values), default=None)
    ),
}
