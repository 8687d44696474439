"""The reference evaluator agrees with SQLite, for generated tables and generated views.

The very same text is the view's SELECT and SQLite's query: an attached database is called as the source is. What the
two dialects mean differently (`/` of integers, the case of LIKE) is left out or switched.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.algebra import Bag, Relation, evaluate, evaluate_all
from headwater.model.names import ViewName

from .shop import Known, table, view, views

COLUMNS = {"r": ("a", "b", "t"), "s": ("a", "c", "t")}
TABLES = {n: table("db", n, "", **{c: pa.string() if c == "t" else pa.int64() for c in COLUMNS[n]}) for n in COLUMNS}
CATALOG = Known(*TABLES.values())

PATTERNS = ("'a%'", "'_'")
numbers = st.one_of(st.none(), st.integers(-1, 2))
texts = st.sampled_from([None, "", "a", "A", "ab", "b%"])
rows = st.lists(st.tuples(numbers, numbers, texts), max_size=6)


class Words:
    """Draws expressions over the columns of the occurrences x0, x1, …."""

    def __init__(self, draw: st.DrawFn, tables: list[str]) -> None:
        self.draw, self.tables = draw, tables

    def one(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    def column(self, kind: str, upto: int | None = None) -> str:
        """A column of numbers ("n") or of text ("t"), of the first `upto` occurrences."""
        tables = self.tables[:upto]
        return self.one(*(f"x{i}.{c}" for i, n in enumerate(tables) for c in COLUMNS[n] if (c == "t") == (kind == "t")))

    def literal(self) -> str:
        return str(self.draw(st.integers(-1, 3)))

    def number(self, depth: int = 2) -> str:
        shape = self.one("column", "literal", "add", "mod", "coalesce", "abs", "case", "match") if depth else "column"
        if shape in ("column", "literal"):
            return self.column("n") if shape == "column" else self.literal()
        a, b = self.number(depth - 1), self.number(depth - 1)
        return {
            "add": f"({a} {self.one(*'+-*')} {b})",
            "mod": f"({a} % {self.one('2', '-3')})",
            "coalesce": f"COALESCE({a}, {b})",
            "abs": f"ABS({a})",
            "case": f"CASE WHEN {a} < {b} THEN {b} ELSE {a} END",
            "match": f"CASE {a} WHEN {b} THEN {self.literal()} END",
        }[shape]

    def text(self, depth: int = 2) -> str:
        shape = self.one("column", "literal", "concat", "case", "cast") if depth else "column"
        if shape in ("column", "literal"):
            return self.column("t") if shape == "column" else self.one("'a'", "''", "'A%'")
        if shape == "concat":
            return f"({self.text(depth - 1)} || {self.text(depth - 1)})"
        if shape == "case":
            return f"{self.one('UPPER', 'LOWER')}({self.text(depth - 1)})"
        return f"CAST({self.number(depth - 1)} AS TEXT)"

    def predicate(self, depth: int = 2) -> str:
        shape = self.one("plain", "plain", "plain", "and", "or", "not") if depth else "plain"
        if shape == "not":
            return f"(NOT ({self.predicate(depth - 1)}))"
        if shape in ("and", "or"):
            return f"(({self.predicate(depth - 1)}) {shape} ({self.predicate(depth - 1)}))"
        maybe_not, compare = self.one("", "NOT "), self.one("=", "<>", "<", "<=", ">", ">=")
        plain = self.one(
            "literal", "flipped", "numbers", "texts", "null", "in", "in null", "in text", "between", "like"
        )
        return {
            "literal": lambda: f"{self.column('n')} {compare} {self.literal()}",
            "flipped": lambda: f"{self.literal()} {compare} {self.column('n')}",
            "numbers": lambda: f"{self.number()} {compare} {self.number()}",
            "texts": lambda: f"{self.text()} {compare} {self.text()}",
            "null": lambda: f"{self.column(self.one('n', 't'))} IS {maybe_not}NULL",
            "in": lambda: f"{self.column('n')} {maybe_not}IN ({self.literal()}, {self.literal()})",
            "in null": lambda: f"{self.column('n')} {maybe_not}IN ({self.literal()}, NULL)",
            "in text": lambda: f"{self.column('t')} {maybe_not}IN ('a', 'b%')",
            "between": lambda: f"{self.column('n')} {maybe_not}BETWEEN {self.literal()} AND {self.literal()}",
            "like": lambda: f"{self.text()} {maybe_not}LIKE {self.one(*PATTERNS)}",
        }[plain]()

    def call(self) -> str:
        shape = self.one("rows", "number", "distinct", "text", "filter", "sum")
        return {
            "rows": lambda: "COUNT(*)",
            "number": lambda: f"{self.one('COUNT', 'SUM', 'AVG', 'MIN', 'MAX')}({self.number()})",
            "distinct": lambda: f"{self.one('COUNT', 'SUM', 'AVG', 'MAX')}(DISTINCT {self.column('n')})",
            "text": lambda: f"{self.one('COUNT', 'MIN', 'MAX')}({self.text()})",
            "filter": lambda: f"SUM({self.column('n')}) FILTER (WHERE {self.predicate()})",
            "sum": lambda: f"(SUM({self.column('n')}) * 2 + COUNT(*))",
        }[shape]()

    def key(self) -> str:
        return self.one(self.column("n"), self.column("t"), f"({self.column('n')} + 1)")

    def joined(self, i: int) -> str:
        """JOIN xi ON columns of it and of those before it, equal or not, or on nothing."""
        number, text = (f"x{i}.{c}" for c in (self.one(*COLUMNS[self.tables[i]][:2]), "t"))
        left, words = self.column("n", i), self.column("t", i)
        choices = (f"{left} = {number}", f"{text} = {words}", f"{number} <= {left}")
        on = self.draw(st.lists(st.sampled_from(choices), max_size=2))
        return f" JOIN db.{self.tables[i]} x{i} ON {' AND '.join(on or ['1 = 1'])}"


@st.composite
def selects(draw: st.DrawFn) -> str:
    """A SELECT: plain, DISTINCT, grouped or aggregated as a whole."""
    tables = draw(st.lists(st.sampled_from(["r", "s"]), min_size=1, max_size=3))
    words = Words(draw, tables)
    body = f" FROM db.{tables[0]} x0" + "".join(words.joined(i) for i in range(1, len(tables)))
    where = [words.predicate() for _ in range(draw(st.integers(0, 2)))]
    body += " WHERE " + " AND ".join(f"({p})" for p in where) if where else ""
    kind = words.one("plain", "distinct", "grouped", "whole")
    keys = list(dict.fromkeys(words.key() for _ in range(draw(st.integers(1, 2))))) if kind == "grouped" else []
    some = range(draw(st.integers(1, 3)))
    if kind in ("plain", "distinct"):
        outputs = [words.number() if words.one("n", "t") == "n" else words.text() for _ in some]
    else:
        outputs = keys + [words.call() for _ in some]
    body += f" GROUP BY {', '.join(keys)}" if keys else ""
    if keys and draw(st.booleans()):
        total = f"SUM({words.column('n')})"
        body += f" HAVING {words.one('COUNT(*)', total)} {words.one('<>', '>')} {words.literal()}"
    listed = ", ".join(f"{expression} AS o{i}" for i, expression in enumerate(outputs))
    return f"SELECT {'DISTINCT ' if kind == 'distinct' else ''}{listed}{body}"


def by_sqlite(select: str, tables: dict[str, list[tuple[Any, ...]]], **parents: str) -> Bag:
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript("PRAGMA case_sensitive_like = ON; ATTACH ':memory:' AS db")
        for name, columns in COLUMNS.items():
            typed = ", ".join(f"{c} {'TEXT' if c == 't' else 'INTEGER'}" for c in columns)
            connection.execute(f"CREATE TABLE db.{name} ({typed})")
            connection.executemany(f"INSERT INTO db.{name} VALUES (?, ?, ?)", tables[name])
        for name, parent in parents.items():
            connection.execute(f"CREATE TEMP VIEW {name} AS {parent}")
        return Bag.of(connection.execute(select).fetchall())
    finally:
        connection.close()


@settings(max_examples=600, deadline=None)
@given(selects(), rows, rows)
def test_evaluate_agrees_with_sqlite(select: str, r: list[tuple[Any, ...]], s: list[tuple[Any, ...]]) -> None:
    tables = {"r": r, "s": s}
    relations = {TABLES[name].name: Relation.of(COLUMNS[name], tables[name]) for name in tables}
    assert evaluate(view(select, CATALOG), relations) == by_sqlite(select, tables)


OVER = (
    "SELECT o0, COUNT(*) AS n FROM p GROUP BY o0",
    "SELECT COUNT(o0) AS n, COUNT(DISTINCT o0) AS d, MAX(o0) AS m FROM p",
    "SELECT DISTINCT o0 FROM p WHERE o0 IS NOT NULL",
    "SELECT COUNT(*) AS n FROM p WHERE o0 IS NULL OR o0 = o0",
    "SELECT x.o0, y.o0 AS other FROM p x JOIN p y ON x.o0 = y.o0",
    "SELECT x.o0, r.b, COUNT(*) AS n FROM p x JOIN db.r ON r.a IS NULL OR r.a > 0 GROUP BY x.o0, r.b",
    "SELECT x.o0, r.t FROM p AS x, db.r WHERE COALESCE(x.o0, x.o0) IN (x.o0) AND r.a = 1",
)


@settings(max_examples=300, deadline=None)
@given(selects(), st.sampled_from(OVER), rows, rows)
def test_views_over_views_agree_with_sqlite(
    parent: str, child: str, r: list[tuple[Any, ...]], s: list[tuple[Any, ...]]
) -> None:
    """SQLite reads the parent as a view of its own, so nothing of ours says what the parent's rows are."""
    tables = {"r": r, "s": s}
    relations = {TABLES[name].name: Relation.of(COLUMNS[name], tables[name]) for name in tables}
    text = f"CREATE MATERIALIZED VIEW v AS {child}; CREATE MATERIALIZED VIEW p AS {parent}"
    found = evaluate_all(views(text, CATALOG).values(), relations)
    assert found[ViewName("p")] == by_sqlite(parent, tables)
    assert found[ViewName("v")] == by_sqlite(child, tables, p=parent)
