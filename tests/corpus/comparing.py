"""When two bags of rows are alike: NaN is itself, and floating numbers may differ in what the order of adding up
decides."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal

from .source import NAN, Bag, Row


def plain(row: Row) -> Row:
    """A row that can be counted."""
    return tuple(_frozen(value) for value in row)


def _frozen(value: object) -> object:
    match value:
        case float():
            return NAN if math.isnan(value) else value
        case list() | tuple():
            return tuple(_frozen(v) for v in value)
        case dict():
            return tuple((k, _frozen(v)) for k, v in value.items())
        case _:
            return value


def alike(have: Bag, want: Bag) -> bool:
    if have == want:
        return True
    more, less = difference(have, want)
    if any(n < 0 for n in have.values()) or more.total() != less.total():
        return False
    left = list(less.elements())
    for row in more.elements():
        near = next((i for i, other in enumerate(left) if _near(row, other)), None)
        if near is None:
            return False
        left.pop(near)
    return True


def settled(bag: Bag) -> Bag:
    """Without rows that are there less than never and, but for the order of adding up, are there: in a window, DuckDB
    adds up floating numbers in an order of its own."""
    below = [row for row, n in bag.items() if n < 0]
    if not below:
        return bag
    kept = bag.copy()
    for row in below:
        for other in [one for one, n in kept.items() if n > 0 and _near(row, one)]:
            moved = min(-kept[row], kept[other])
            kept[row] += moved
            kept[other] -= moved
    return Counter({row: n for row, n in kept.items() if n})


def difference(have: Bag, want: Bag) -> tuple[Bag, Bag]:
    """What is too much, and what is missing."""
    rest = have.copy()
    rest.subtract(want)
    return (
        Counter({row: n for row, n in rest.items() if n > 0}),
        Counter({row: -n for row, n in rest.items() if n < 0}),
    )


def _near(a: object, b: object) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_near, a, b))
    numbers = (int, float, Decimal)
    if isinstance(a, numbers) and isinstance(b, numbers) and (isinstance(a, float) or isinstance(b, float)):
        return math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-9) or (a is NAN and b is NAN)
    return a is b or a == b
