"""Random queries: every operator of SELECT above and below every other.

    grammar(seed) → (schema, query)

A query is grown from the outside in. It knows which columns it can see (`Place`), so what comes out is always well
formed; how much of it there is is bounded by a budget of tables.

What the reference decides otherwise than Spark is left out, and said where it is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

from .expressions import Expressions, Place, Seen
from .ranking import ordered, shuffled, window
from .worlds import KINDS, Schema, schema_of

_JOINS = ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
_SETS = ("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")


@dataclass(frozen=True)
class Query:
    """Its text, and its columns: (name, kind)."""

    sql: str
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class From:
    """What stands after FROM, and what it makes visible."""

    sql: str
    columns: tuple[Seen, ...]


def grammar(seed: int) -> tuple[Schema, str]:
    random = Random(f"grammar {seed}")
    schema = schema_of(random)
    return schema, Grammar(random, schema).view()


class Grammar:
    def __init__(self, random: Random, schema: Schema) -> None:
        self.random, self.schema = random, schema
        self.expressions = Expressions(random, self)
        self._numbers = count()
        self._budget = random.choice((2, 3, 3, 4, 4, 5, 6))
        self._ctes: list[Query] = []

    def view(self) -> str:
        named = []
        if self.random.random() < 0.15:
            inside = self.query((), 1)
            name = self._fresh("w")
            self._ctes = [Query(name, inside.columns)] * 2  # to be used twice
            named.append(f"{name} AS ({inside.sql})")
        query = self.query((), self.random.choice((1, 2, 2, 3)))
        return (f"WITH {', '.join(named)} " if named else "") + query.sql

    # what expressions ask for

    def room(self) -> bool:
        return self._budget > 0

    def rows(self, place: Place, kinds: Sequence[str]) -> str:
        return self.query((*place.own, *place.around), place.depth - 1, kinds).sql

    def single(self, place: Place, kind: str) -> str:
        """An aggregate, a value, or the first row."""
        around, depth = (*place.own, *place.around), place.depth - 1
        roll = self.random.random()
        if roll < 0.1:
            return f"SELECT {self.expressions.value(kind, Place((), around, 0), 1)} AS {self._fresh('o')}"
        if roll < 0.2:
            query = self._select(around, depth, [kind])
            return f"{query.sql} {ordered(self.random, [query.columns[0][0]])} LIMIT 1"
        found = self._tables(around, depth)
        place = Place(found.columns, around, depth)
        call = self.expressions.aggregate(place, kind).sql
        if kind == "int" and self.random.random() < 0.2:
            call = f"{call} + 1"
        having = f" HAVING {self.expressions.aggregate(place, 'int').sql} > 1" if self.random.random() < 0.15 else ""
        return f"SELECT {call} AS {self._fresh('o')} FROM {found.sql}{self._where(place)}{having}"

    # queries

    def query(self, around: tuple[Seen, ...], depth: int, kinds: Sequence[str] | None = None) -> Query:
        roll = self.random.random()
        if depth > 0 and self._budget > 1 and roll < 0.15:
            return self._set_operation(around, depth, kinds)
        if roll < 0.35:
            return self._grouped(around, depth, kinds)
        if roll < 0.47:
            return self._windowed(around, depth, kinds)
        query = self._select(around, depth, kinds)
        if roll < 0.57:
            return Query(query.sql.replace("SELECT ", "SELECT DISTINCT ", 1), query.columns)
        if roll < 0.65:
            return self._limited(query)
        if roll < 0.70:
            names = [name for name, _ in query.columns]
            text = query.sql.replace("SELECT ", f"SELECT DISTINCT ON ({names[0]}) ", 1)
            return Query(f"{text} {ordered(self.random, names)}", query.columns)
        return query

    def _limited(self, query: Query) -> Query:
        names = shuffled(self.random, [name for name, _ in query.columns])
        many = self.random.choice((f"LIMIT {self.random.choice((1, 2, 3))}", "LIMIT 2 OFFSET 1", "OFFSET 1"))
        return Query(f"{query.sql} {ordered(self.random, names)} {many}", query.columns)

    def _set_operation(self, around: tuple[Seen, ...], depth: int, kinds: Sequence[str] | None) -> Query:
        left = self.query(around, depth - 1, kinds)
        right = self.query(around, depth - 1, [kind for _, kind in left.columns])
        whole = Query(f"({left.sql}) {self.random.choice(_SETS)} ({right.sql})", left.columns)
        return self._limited(whole) if self.random.random() < 0.1 else whole

    def _select(self, around: tuple[Seen, ...], depth: int, kinds: Sequence[str] | None) -> Query:
        if self.random.random() < 0.04:
            place = Place((), around, 0)
            outputs, columns = self._outputs(place, kinds)
            where = (
                f" WHERE {self.expressions.condition(Place((), around, depth), 1)}"
                if self.random.random() < 0.3
                else ""
            )
            return Query(f"SELECT {outputs}{where}", columns)
        found = self._tables(around, depth)
        place = Place(found.columns, around, depth)
        outputs, columns = self._outputs(place, kinds)
        return Query(f"SELECT {outputs} FROM {found.sql}{self._where(place)}", columns)

    def _outputs(self, place: Place, kinds: Sequence[str] | None) -> tuple[str, tuple[tuple[str, str], ...]]:
        if kinds is None:
            kinds = [self.expressions.kind(place) for _ in range(self.random.choice((1, 2, 2, 3)))]
            if self.random.random() < 0.12:
                kinds = [*kinds, "bool"]
        return self._named([Seen(self.expressions.value(kind, place), kind) for kind in kinds])

    def _named(self, chosen: Sequence[Seen]) -> tuple[str, tuple[tuple[str, str], ...]]:
        columns = tuple((self._fresh("o"), one.kind) for one in chosen)
        return ", ".join(f"{one.sql} AS {name}" for one, (name, _) in zip(chosen, columns, strict=True)), columns

    def _grouped(self, around: tuple[Seen, ...], depth: int, kinds: Sequence[str] | None) -> Query:
        found = self._tables(around, depth)
        place = Place(found.columns, around, depth)
        keys = self._keys(place)
        wanted = kinds or [None] * self.random.choice((1, 1, 2, 3))  # type: ignore[list-item]
        chosen = [self._group_output(kind, keys, place) for kind in wanted]
        if kinds is None:
            chosen = [*keys, *chosen]
        outputs, columns = self._named(chosen)
        roll = self.random.random()
        group = f" GROUP BY {', '.join(key.sql for key in keys)}" if keys else ""
        having = self._having(keys, place)
        if keys and kinds is None and roll < 0.15:
            group = self.random.choice(
                (f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}", " GROUP BY ALL")
            )
        elif len(keys) > 1 and roll < 0.35:
            a, b = keys[0].sql, keys[1].sql
            sets = self.random.choice(
                (f"ROLLUP ({a}, {b})", f"CUBE ({a}, {b})", f"GROUPING SETS (({a}, {b}), ({a}), ())")
            )
            group = f" GROUP BY {sets}"
            if kinds is None:
                bits = self._fresh("o")
                outputs += f", {self.random.choice((f'GROUPING({a})', f'GROUPING({b})'))} AS {bits}"
                columns = (*columns, (bits, "int"))
            # over nothing Spark has no grand total where DuckDB has one
            having = f" HAVING COUNT(*) > 0{having.replace(' HAVING ', ' AND ')}"
        return Query(f"SELECT {outputs} FROM {found.sql}{self._where(place)}{group}{having}", columns)

    def _keys(self, place: Place) -> list[Seen]:
        """Columns, or expressions of them; never twice the same."""
        chosen: dict[str, Seen] = {}
        for column in self.random.sample(place.own, min(len(place.own), self.random.choice((0, 1, 1, 2, 2)))):
            text = column.sql
            if column.kind in KINDS and self.random.random() < 0.15:
                text = f"COALESCE({text}, {self.expressions.literal(column.kind)})"
            chosen[text] = Seen(text, column.kind)
        return list(chosen.values())

    def _group_output(self, kind: str | None, keys: Sequence[Seen], place: Place) -> Seen:
        if kind is None:
            roll = self.random.random()
            grouped = Place(tuple(keys), place.around, place.depth)
            if keys and roll < 0.1 and place.depth > 0 and self._budget > 0:
                wanted = self.expressions.kind(grouped)
                return Seen(f"({self.single(Place(_columns(keys), place.around, place.depth), wanted)})", wanted)
            if roll < 0.2:
                order = ", ".join(f"{key.sql} NULLS FIRST" for key in keys)
                more = f", {order}" if order else ""
                return Seen(f"RANK() OVER (ORDER BY COUNT(*) DESC NULLS LAST{more})", "int")
            return self.expressions.aggregate(place)
        mine = [key for key in keys if key.kind == kind]
        if mine and self.random.random() < 0.5:
            return self.random.choice(mine)
        return self.expressions.aggregate(place, kind)

    def _having(self, keys: Sequence[Seen], place: Place) -> str:
        if self.random.random() < 0.7:
            return ""
        call = self.expressions.aggregate(place, "int").sql
        operator = self.random.choice(("=", ">", "<=", "<>"))
        other = self.expressions.literal("int")
        if place.depth > 0 and self._budget > 0 and self.random.random() < 0.4:
            other = f"({self.single(Place(_columns(keys), place.around, place.depth), 'int')})"
        return f" HAVING {call} {operator} {other}"

    def _windowed(self, around: tuple[Seen, ...], depth: int, kinds: Sequence[str] | None) -> Query:
        found = self._tables(around, depth)
        place = Place(found.columns, around, depth)
        if not place.own:
            return self._select(around, depth, kinds)
        calls = [window(self.expressions, place) for _ in range(self.random.choice((1, 1, 2)))]
        if kinds is None:
            plain = self.random.sample(place.own, min(len(place.own), self.random.choice((1, 2, 3))))
            chosen = [*plain, *calls]
        else:
            fitting = {call.kind: call for call in calls}
            chosen = [fitting.get(kind) or Seen(self.expressions.value(kind, place), kind) for kind in kinds]
        outputs, columns = self._named(chosen)
        named = ""
        if kinds is None and self.random.random() < 0.1:
            name, by = self._fresh("w"), self.random.choice(place.own).sql
            outputs, columns = f"{outputs}, COUNT(*) OVER {name} AS {name}_", (*columns, (f"{name}_", "int"))
            named = f" WINDOW {name} AS (PARTITION BY {by})"
        qualify = ""
        numbers = [call for call in calls if call.kind == "int"]
        if numbers and self.random.random() < 0.35:
            qualify = f" QUALIFY {self.random.choice(numbers).sql} {self.random.choice(('=', '<=', '>'))} 1"
        return Query(f"SELECT {outputs} FROM {found.sql}{self._where(place)}{named}{qualify}", columns)

    def _where(self, place: Place) -> str:
        if self.random.random() < (0.25 if place.around else 0.5):
            return ""
        condition = self.expressions.condition(place, self.random.choice((0, 0, 1, 2)))
        if place.around and self.random.random() < 0.75:
            condition = f"{self.expressions.link(place.own, place.around, place)} AND {condition}"
            if self.random.random() < 0.6:
                condition = self.expressions.link(place.own, place.around, Place(place.own, place.around, 0))
        return f" WHERE {condition}"

    # FROM

    def _tables(self, around: tuple[Seen, ...], depth: int) -> From:
        found = self._item(around, depth)
        while self._budget > 0 and self.random.random() < 0.3:
            found = self._joined(found, around, depth)
        return found

    def _joined(self, left: From, around: tuple[Seen, ...], depth: int) -> From:
        roll = self.random.random()
        if depth > 0 and roll < 0.12:
            return self._lateral(left, around, depth)
        right = self._item(around, depth)
        both = (*left.columns, *right.columns)
        if roll < 0.22:
            word = self.random.choice((",", "CROSS JOIN"))
            return From(f"{left.sql}{'' if word == ',' else ' '}{word} {right.sql}", both)
        join = self.random.choice(_JOINS)
        on = self.expressions.link(left.columns, right.columns, Place(both, around, 0))
        if depth > 0 and self._budget > 0 and self.random.random() < 0.1:  # a subquery that speaks of one side
            side = self.random.choice((left.columns, right.columns))
            on += f" AND {self.expressions.condition(Place(side, (), 1), 1)}"
        if self.random.random() < 0.05:
            on = self.random.choice(("TRUE", "FALSE", "1 = 0"))
        kept = left.columns if "SEMI" in join or "ANTI" in join else both
        # a comma binds like JOIN in Spark and looser in DuckDB
        before = f"({left.sql})" if "," in left.sql and not left.sql.startswith("(") else left.sql
        return From(f"{before} {join} {right.sql} ON {on}", kept)

    def _lateral(self, left: From, around: tuple[Seen, ...], depth: int) -> From:
        inside = self.query((*left.columns, *around), depth - 1)
        alias = self._fresh("x")
        columns = tuple(Seen(f"{alias}.{name}", kind) for name, kind in inside.columns)
        if self.random.random() < 0.5:
            return From(f"{left.sql} CROSS JOIN LATERAL ({inside.sql}) AS {alias}", (*left.columns, *columns))
        return From(f"{left.sql} LEFT JOIN LATERAL ({inside.sql}) AS {alias} ON TRUE", (*left.columns, *columns))

    def _item(self, around: tuple[Seen, ...], depth: int) -> From:
        self._budget -= 1
        alias = self._fresh("x")
        roll = self.random.random()
        if self._ctes and roll < 0.5:
            cte = self._ctes.pop()
            return From(f"{cte.sql} AS {alias}", tuple(Seen(f"{alias}.{n}", k) for n, k in cte.columns))
        if depth > 0 and roll < 0.3:
            # inside a subquery, a derived table may speak of the queries around it
            inside = self.query(around if self.random.random() < 0.3 else (), depth - 1)
            return From(f"({inside.sql}) AS {alias}", tuple(Seen(f"{alias}.{n}", k) for n, k in inside.columns))
        if roll < 0.34:
            return self._values(alias)
        if roll < 0.40:
            return self._using(alias)
        if roll < 0.44:
            return self._starred(alias)
        if roll < 0.47:
            return self._exploded(alias)
        shape = self.random.choice(self.schema)
        return From(f"s.{shape.name} AS {alias}", tuple(Seen(f"{alias}.{n}", k) for n, k in shape.columns))

    def _values(self, alias: str) -> From:
        kinds = [self.random.choice(("int", "text", "dec")) for _ in range(self.random.choice((1, 2)))]
        rows = [
            ", ".join(self.expressions.literal(kind) for kind in kinds) for _ in range(self.random.choice((1, 2, 3)))
        ]
        names = [self._fresh("v") for _ in kinds]
        text = f"(VALUES {', '.join(f'({row})' for row in rows)}) AS {alias}({', '.join(names)})"
        return From(text, tuple(Seen(f"{alias}.{n}", k) for n, k in zip(names, kinds, strict=True)))

    def _starred(self, alias: str) -> From:
        shape, inner = self.random.choice(self.schema), self._fresh("x")
        star = self.random.choice(("*", f"{inner}.*"))
        text = f"(SELECT {star} FROM s.{shape.name} AS {inner}) AS {alias}"
        return From(text, tuple(Seen(f"{alias}.{n}", k) for n, k in shape.columns))

    def _exploded(self, alias: str) -> From:
        """LATERAL VIEW, in a query of its own. sqlglot drops OUTER on the way to DuckDB: not here."""
        shape, inner, made = self.random.choice(self.schema), self._fresh("x"), self._fresh("x")
        own = [Seen(f"{inner}.{n}", k) for n, k in shape.columns]
        numbers = [c.sql for c in own if c.kind == "int"]
        array = ", ".join(self.random.choice(numbers) for _ in range(self.random.choice((1, 2, 3))))
        outputs, columns = self._named([*own, Seen(f"{made}.y", "int")])
        text = f"SELECT {outputs} FROM s.{shape.name} AS {inner} LATERAL VIEW EXPLODE(ARRAY({array})) {made} AS y"
        return From(f"({text}) AS {alias}", tuple(Seen(f"{alias}.{n}", k) for n, k in columns))

    def _using(self, alias: str) -> From:
        """A join by USING in parentheses of its own, because its columns have no alias."""
        one, other = self.random.choice(self.schema), self.random.choice(self.schema)
        join = self.random.choice(_JOINS[:6])
        p, q = self._fresh("x"), self._fresh("x")
        shared = [pair for pair in one.columns if pair in other.columns]
        shared = shared[: self.random.choice((1, 2))]
        using = ", ".join(name for name, _ in shared)
        rest = [
            (alias, pair) for alias, shape in ((p, one), (q, other)) for pair in shape.columns if pair not in shared
        ]
        chosen = [Seen(name, kind) for name, kind in shared] + [Seen(f"{a}.{n}", kind) for a, (n, kind) in rest]
        outputs, columns = self._named(chosen)
        text = f"SELECT {outputs} FROM s.{one.name} AS {p} {join} s.{other.name} AS {q} USING ({using})"
        return From(f"({text}) AS {alias}", tuple(Seen(f"{alias}.{n}", k) for n, k in columns))

    def _fresh(self, letter: str) -> str:
        return f"{letter}{next(self._numbers)}"


def _columns(keys: Sequence[Seen]) -> tuple[Seen, ...]:
    """The keys that are plain columns: a subquery can speak of them."""
    return tuple(key for key in keys if "(" not in key.sql)
