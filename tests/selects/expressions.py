"""Random expressions: values of a kind and conditions, over the columns that a place of a query can see.

What an engine may do as it likes is left out: division, casts between text and numbers, floats other than AVG (which
both compute from an exact sum).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from .worlds import KINDS

COMPARISONS = ("=", "=", "=", "<>", "<", "<=", ">", ">=", "<=>")
_PATTERNS = ("'x%'", "'%y'", "'_'", "'%'")
PLAIN = ("int", "int", "text", "date", "dec")


@dataclass(frozen=True)
class Seen:
    """A column under the name by which a place can call it. Kinds beside those of tables: bool and float."""

    sql: str
    kind: str


@dataclass(frozen=True)
class Place:
    """What an expression can see: the columns of its own FROM, and those of the queries around. `depth` is how many
    queries may stand in it, one inside the other."""

    own: tuple[Seen, ...]
    around: tuple[Seen, ...] = ()
    depth: int = 0

    def of(self, kind: str, columns: Sequence[Seen] | None = None) -> list[Seen]:
        return [c for c in (self.own if columns is None else columns) if c.kind == kind]


class Subqueries(Protocol):
    """What makes queries for expressions to hold."""

    def room(self) -> bool:
        """Whether there may be one more."""
        ...

    def rows(self, place: Place, kinds: Sequence[str]) -> str:
        """A query with these kinds of columns."""
        ...

    def single(self, place: Place, kind: str) -> str:
        """A query with one column and at most one row."""
        ...


@dataclass
class Expressions:
    random: Random
    queries: Subqueries

    def value(self, kind: str, place: Place, size: int = 2) -> str:
        """An expression of the kind."""
        if kind == "bool":
            return f"({self.condition(place, size)})"
        if kind == "float":
            floats = place.of("float")
            return self.random.choice(floats).sql if floats else "CAST(1 AS DOUBLE)"
        columns = place.of(kind)
        roll = self.random.random()
        if place.around and roll < 0.08:
            around = place.of(kind, place.around)
            if around:
                return self.random.choice(around).sql
        if size <= 0 or roll < 0.62:
            if columns and self.random.random() < 0.93:
                return self.random.choice(columns).sql
            return self.literal(kind)
        if roll < 0.72 and place.depth > 0 and self.queries.room():
            return f"({self.queries.single(place, kind)})"
        return self._made(kind, place, size - 1)

    def literal(self, kind: str) -> str:
        return self.random.choice(KINDS[kind].literals)

    def _made(self, kind: str, place: Place, size: int) -> str:
        one, other = self.value(kind, place, size), self.value(kind, place, size)
        forms = [
            f"COALESCE({one}, {other})",
            f"CASE WHEN {self.condition(place, size)} THEN {one} ELSE {other} END",
            f"CASE WHEN {self.condition(place, size)} THEN {one} END",
        ]
        if kind == "int":
            forms += [
                f"({one} + {other})",
                f"({one} - {other})",
                f"{one} * 2",
                f"LENGTH({self.value('text', place, 0)})",
            ]
        if kind == "text":
            forms += [f"UPPER({one})", f"({one} || {other})"]
        if kind == "dec":
            forms += [f"({one} + {other})", f"-{one}"]
        return self.random.choice(forms)

    def condition(self, place: Place, size: int = 2) -> str:
        roll = self.random.random()
        if size > 0 and roll < 0.25:
            one, other = self.condition(place, size - 1), self.condition(place, size - 1)
            return self.random.choice((f"{one} AND {other}", f"({one} OR {other})", f"NOT ({one})"))
        if place.depth > 0 and roll < 0.6 and self.queries.room():
            return self._queried(place)
        return self._simple(place, size)

    def _simple(self, place: Place, size: int) -> str:
        flags = place.of("bool")
        roll = self.random.random()
        if flags and roll < 0.15:
            flag = self.random.choice(flags).sql
            return self.random.choice((flag, f"NOT {flag}", f"{flag} IS NULL"))
        if roll < 0.04:
            return self.random.choice(("TRUE", "FALSE", "1 = 1", "1 < 0"))
        kind = self.kind(place)
        one = self.value(kind, place, size - 1)
        if roll < 0.14:
            return self.random.choice((f"{one} IS NULL", f"{one} IS NOT NULL"))
        if roll < 0.24:
            return f"{one} BETWEEN {self.value(kind, place, 0)} AND {self.value(kind, place, 0)}"
        if roll < 0.34:
            no = self.random.choice(("", "NOT "))
            return f"{one} {no}IN ({self.literal(kind)}, {self.literal(kind)})"
        if kind == "text" and roll < 0.6:
            return f"{one} LIKE {self.random.choice(_PATTERNS)}"
        operator = self.random.choice(COMPARISONS)
        if kind == "int" and roll < 0.42:
            return f"{one} {operator} {self.value('dec', place, 0)}"
        other = self.value(kind, place, size - 1)
        return f"{one} {operator} {self.literal(kind) if one == other else other}"

    def _queried(self, place: Place) -> str:
        """A condition with a query in it."""
        roll = self.random.random()
        if roll < 0.4:
            no = self.random.choice(("", "NOT "))
            return f"{no}EXISTS ({self.queries.rows(place, [self.kind(place)])})"
        kind = self.kind(place)
        one = self.value(kind, place, 0)
        if roll < 0.7:
            no = self.random.choice(("", "NOT "))
            return f"{one} {no}IN ({self.queries.rows(place, [kind])})"
        operator = self.random.choice(("=", "<>", "<", "<=", ">", ">="))
        if roll < 0.85:
            return f"{one} {operator} {self.random.choice(('ANY', 'ALL'))} ({self.queries.rows(place, [kind])})"
        return f"{one} {operator} ({self.queries.single(place, kind)})"

    def kind(self, place: Place) -> str:
        """A kind that the place has, mostly."""
        there = [c.kind for c in place.own if c.kind in KINDS]
        return self.random.choice(there) if there and self.random.random() < 0.95 else self.random.choice(PLAIN)

    def link(self, left: Sequence[Seen], right: Sequence[Seen], place: Place) -> str:
        """A condition between two sides."""
        pairs = [(a.sql, b.sql) for a in left for b in right if a.kind == b.kind and a.kind != "float"]
        roll = self.random.random()
        if not pairs or roll < 0.1:
            return self.condition(place, 1)
        one, other = self.random.choice(pairs)
        if roll < 0.7:
            found = f"{one} = {other}"
        elif roll < 0.9:
            found = f"{one} {self.random.choice(COMPARISONS)} {other}"
        else:
            ints = [(a.sql, b.sql) for a in left for b in right if a.kind == b.kind == "int"]
            one, other = self.random.choice(ints or pairs)
            found = f"{one} + 1 = {other}" if ints else f"({one} = {other} OR {one} IS NULL)"
        if self.random.random() < 0.3:
            found += f" AND {self.condition(place, 0)}"
        return found

    def aggregate(self, place: Place, kind: str | None = None) -> Seen:
        """A call of an aggregate, and the kind of its result. It speaks of columns of its own query only: one of
        columns of a query around belongs to that query in some engines, and Spark refuses a mixture."""
        flat = Place(place.own, (), place.depth if self.random.random() < 0.1 else 0)
        wanted = kind or self.random.choice(("int", "int", "text", "date", "dec", "bool", "float"))
        if wanted == "int":
            distinct = self.random.choice(("", "", "DISTINCT "))
            inside = self.value("int", flat, 1)
            any_kind = self.value(self.kind(flat), flat, 1)
            word = self.random.choice(("COUNT", "COUNT", "SUM", "SUM", "MIN", "MAX", "*"))
            text = {"*": "COUNT(*)", "COUNT": f"COUNT({distinct}{any_kind})", "SUM": f"SUM({distinct}{inside})"}.get(
                word, f"{word}({inside})"
            )
        elif wanted == "bool":
            text = f"{self.random.choice(('BOOL_AND', 'BOOL_OR'))}({self.condition(flat, 0)})"
        elif wanted == "float":
            text = f"AVG({self.value(self.random.choice(('int', 'dec')), flat, 0)})"
        else:
            word = self.random.choice(("MIN", "MAX", "SUM") if wanted == "dec" else ("MIN", "MAX"))
            text = f"{word}({self.value(wanted, flat, 1)})"
            if word == "SUM":  # the reference sums 1.5 into 38 digits, one behind the point, and then rounds 2.25
                text = f"SUM(CAST{text.removeprefix('SUM').removesuffix(')')} AS DECIMAL(12, 2)))"
        if self.random.random() < 0.15:
            text += f" FILTER (WHERE {self.condition(flat, 0)})"
        return Seen(text, wanted)
