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

AggregateFunction = Literal["count", "sum", "avg", "min", "max"]

Value = Any


class Keeps(Enum):
    """What a group keeps of an argument's values that are not NULL; each includes the ones before it."""

    COUNT = "how many there are"
    SUM = "their sum"
    VALUES = "each of them"


@dataclass(frozen=True)
class Held:
    """An argument's values that are not NULL, in brief: at one moment, in one group, all of them or the distinct ones.
    `total` is a whole number, see `Summing`. What an aggregate does not keep is not there."""

    count: int
    total: int = 0
    smallest: Value = None
    largest: Value = None


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
