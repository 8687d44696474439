"""Random orders and window functions.

Rows that an order leaves together may come in any order in the reference, so what looks at single rows (ROW_NUMBER,
LAG, ROWS frames, LIMIT) is ordered by all columns there are; what takes peers as one (RANK, RANGE) by any.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from .expressions import Expressions, Place, Seen

_ROWS = (
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
)
_RANGES = (
    "",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
)
_OFFSETS = ("RANGE BETWEEN 1 PRECEDING AND CURRENT ROW", "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING")


def ordered(random: Random, columns: Sequence[str]) -> str:
    """ORDER BY these, each up or down."""
    items = [f"{c} {random.choice(('ASC', 'DESC'))} NULLS {random.choice(('FIRST', 'LAST'))}" for c in columns]
    return f"ORDER BY {', '.join(items)}"


def shuffled(random: Random, columns: Sequence[str]) -> list[str]:
    return random.sample(list(columns), len(columns))


def window(expressions: Expressions, place: Place) -> Seen:
    """A window function over the rows of the place."""
    random = expressions.random
    every = [c.sql for c in place.own]
    flat = Place(place.own, (), 0)
    some = random.sample(every, min(len(every), random.choice((0, 1, 1, 2))))
    by = f"PARTITION BY {', '.join(some)} " if some else ""
    total = ordered(random, shuffled(random, every))
    partial = ordered(random, random.sample(every, min(len(every), random.choice((1, 1, 2)))))
    kind = expressions.kind(flat)
    x = expressions.value(kind, flat, 1)
    roll = random.random()
    if roll < 0.15:
        return Seen(f"ROW_NUMBER() OVER ({by}{total})", "int")
    if roll < 0.35:
        return Seen(f"{random.choice(('RANK', 'DENSE_RANK'))}() OVER ({by}{partial})", "int")
    if roll < 0.5:
        word = random.choice(("LAG", "LEAD"))
        more = random.choice(("", ", 2", f", 1, {expressions.literal(kind)}"))
        return Seen(f"{word}({x}{more}) OVER ({by}{total})", kind)
    if roll < 0.58:
        word = random.choice(("FIRST_VALUE", "LAST_VALUE"))
        return Seen(f"{word}({x}) OVER ({by}{total} {random.choice(_ROWS[:3])})", kind)
    if roll < 0.62:
        return Seen(f"NTILE(2) OVER ({by}{total})", "int")
    call = expressions.aggregate(flat, random.choice(("int", "int", kind)))
    if "DISTINCT" in call.sql or "FILTER" in call.sql:  # Spark has no DISTINCT over a window
        call = Seen("COUNT(*)", "int")
    numbers = [c.sql for c in place.own if c.kind == "int"]
    if roll < 0.72:
        over = by.strip()
    elif roll < 0.84:
        over = f"{by}{total} {random.choice(_ROWS)}"
    elif roll < 0.94 or not numbers:
        over = f"{by}{partial} {random.choice(_RANGES)}".strip()
    else:
        over = f"{by}{ordered(random, [random.choice(numbers)])} {random.choice(_OFFSETS)}"
    return Seen(f"{call.sql} OVER ({over})", call.kind)
