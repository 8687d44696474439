"""Schemas, views and histories by the seed: what the oracles are fed with.

A *scenario* is plain data: tables at sources, one view as SQL, rows to begin with, and a history of transactions, each
at one source, of signed rows. The same seed always gives the same scenario, so a seed that failed is a fixture.

The values are few, so that joins meet; they hold what breaks joins: NULLs, numbers that the other side's type cannot
represent, duplicates, one hot key.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Kind:
    """A type of columns. Columns of one family can be joined; `literals` are its values in SQL."""

    type: pa.DataType
    family: str
    values: tuple[Any, ...]
    literals: tuple[str, ...] = ()


def _decimals(*texts: str) -> tuple[Decimal, ...]:
    return tuple(map(Decimal, texts))


SINGLE_TENTH = pa.scalar(0.1, pa.float32()).as_py()

KINDS = {
    "bigint": Kind(pa.int64(), "number", (1, 2, 3, 0, -1, 2**40), ("1", "2", "0")),
    "int": Kind(pa.int32(), "number", (1, 2, 3, 0, 7), ("1", "2", "0")),
    "smallint": Kind(pa.int16(), "number", (1, 2, 3, 0), ("1", "3")),
    "money": Kind(pa.decimal128(10, 2), "number", _decimals("1.00", "2.00", "1.50", "0.00", "-2.25"), ("1.5", "2")),
    "whole": Kind(pa.decimal128(12, 0), "number", _decimals("1", "2", "3", "0"), ("1", "2")),
    "wide": Kind(pa.decimal128(38, 18), "number", _decimals("1." + "0" * 18, "1.500000000000000001"), ("1",)),
    "text": Kind(pa.string(), "text", ("a", "b", "", "A", "é"), ("'a'", "'b'", "''")),
    "double": Kind(pa.float64(), "float", (1.0, 0.1, 0.5, 0.2, 1e300, -3.0)),
    "real": Kind(pa.float32(), "float", (1.0, SINGLE_TENTH, 0.5, -3.0)),
    "date": Kind(pa.date32(), "date", (dt.date(2024, 1, 1), dt.date(2024, 2, 29)), ("DATE '2024-01-01'",)),
    "boolean": Kind(pa.bool_(), "boolean", (True, False), ("TRUE",)),
    "timestamp": Kind(pa.timestamp("us"), "timestamp", (dt.datetime(2024, 1, 1, 12), dt.datetime(2024, 1, 1, 13))),
}
NUMBERS = tuple(k for k, kind in KINDS.items() if kind.family in ("number", "float"))
ORDERED = tuple(k for k in KINDS if k != "boolean")


@dataclass(frozen=True)
class Table:
    """`columns` are (name, kind). A keyed table has a first column `id`, a bigint without repetition."""

    source: str
    name: str
    columns: tuple[tuple[str, str], ...]
    keyed: bool = False

    @property
    def path(self) -> str:
        return f"{self.source}.{self.name}"


@dataclass(frozen=True)
class Transaction:
    """Signed rows of tables of one source; a row may stand several times."""

    source: str
    changes: tuple[tuple[str, Row, int], ...]


@dataclass(frozen=True)
class Scenario:
    tables: tuple[Table, ...]
    sql: str
    before: tuple[Transaction, ...]
    """What the sources hold when the view is loaded."""
    history: tuple[Transaction, ...]

    def __str__(self) -> str:
        used = [t for t in self.tables if f"{t.path} " in f"{self.sql} "]
        lines = [f"table {t.path} ({', '.join(' '.join(c) for c in t.columns)})" for t in used]
        lines += [f"before   {_said(t)}" for t in self.before]
        lines += [f"seq {n:4d} {_said(t)}" for n, t in enumerate(self.history, 1)]
        return "\n".join([self.sql, *lines])

    def possible(self) -> bool:
        """Whether every row that goes is there."""
        held: Counter[tuple[str, str, Row]] = Counter()
        for transaction in (*self.before, *self.history):
            for table, row, count in transaction.changes:
                held[transaction.source, table, row] += count
                if held[transaction.source, table, row] < 0:
                    return False
        return True


def _said(transaction: Transaction) -> str:
    changes = (f"{table} {'+' if count > 0 else ''}{count} {row}" for table, row, count in transaction.changes)
    return f"{transaction.source}: {'; '.join(changes)}"


def smallest(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """A scenario that still fails though (almost) whatever it could do without is gone: the latest goes first, since
    what follows often needs what came before."""
    for cut in (_halved, _without_a_transaction, _without_a_change, _without_a_transaction):
        for part in ("history", "before"):
            for at in reversed(range(len(cut(getattr(scenario, part))))):
                smaller = cut(getattr(scenario, part))
                candidate = replace(scenario, **{part: smaller[at]}) if at < len(smaller) else scenario
                if candidate != scenario and candidate.possible() and fails(candidate):
                    scenario = candidate
    return scenario


Transactions = tuple[Transaction, ...]


def _halved(transactions: Transactions) -> list[Transactions]:
    return [transactions[: len(transactions) >> n] for n in (1, 2, 3)]


def _without_a_transaction(transactions: Transactions) -> list[Transactions]:
    return [transactions[:n] + transactions[n + 1 :] for n in range(len(transactions))]


def _without_a_change(transactions: Transactions) -> list[Transactions]:
    return [
        (*transactions[:n], replace(t, changes=t.changes[:m] + t.changes[m + 1 :]), *transactions[n + 1 :])
        for n, t in enumerate(transactions)
        for m in range(len(t.changes))
    ]


SHAPES = ("chain", "star", "cycle", "tree", "cross", "single")
KIND_OF_VIEW = ("plain", "plain", "plain", "distinct", "grouped", "global")


@dataclass(frozen=True)
class Wanted:
    """What a scenario should be like; None leaves it to the seed."""

    shape: str | None = None
    kind: str | None = None
    transactions: int = 16
    hot: bool = False
    joined: bool = False
    """Several tables per source, and joins that sources can make."""


def scenario(seed: int, wanted: Wanted | None = None) -> Scenario:
    """The scenario of a seed."""
    random, wanted = Random(seed), wanted or Wanted()
    shape = wanted.shape or random.choice(SHAPES)
    tables = _few_sources(random) if wanted.joined else _tables(random)
    occurrences = 1 if shape == "single" else random.choice(_many(shape, wanted.joined))
    chosen = [random.choice(tables) for _ in range(occurrences)]
    sql = _View(random, chosen).sql(shape, wanted.kind or random.choice(KIND_OF_VIEW))
    size = {1: 10, 2: 8, 3: 5, 4: 4, 5: 3}[occurrences] if shape != "cross" else 4
    writer = _Writer(random, tables, wanted.hot or random.random() < 0.2, size)
    before = tuple(writer.load(table) for table in tables)
    history = tuple(writer.transaction() for _ in range(random.randint(1, wanted.transactions)))
    return Scenario(tables, sql, before, history)


def _tables(random: Random) -> tuple[Table, ...]:
    sources = ["shop", "crm", "stock"][: random.randint(1, 3)]
    tables = []
    for n in range(random.randint(2, 5)):
        keyed = random.random() < 0.4
        kinds = [random.choice(("bigint", "int", "bigint", "whole", "text", "money")) for _ in range(2)]
        kinds += random.choices(list(KINDS), k=random.randint(1, 3))
        columns = [("id", "bigint")] if keyed else []
        columns += [(f"c{i}", kind) for i, kind in enumerate(kinds)]
        tables.append(Table(random.choice(sources), f"t{n}", tuple(columns), keyed))
    return tuple(tables)


def _many(shape: str, joined: bool) -> tuple[int, ...]:
    if joined:
        return (3, 4, 4, 5, 5)
    return (2, 2, 3, 3, 4, 5) if shape != "cross" else (2, 2, 3)


def _few_sources(random: Random) -> tuple[Table, ...]:
    """Two sources of two or three tables, and mostly columns that a source can join."""
    tables = []
    for n in range(random.randint(4, 6)):
        kinds = [random.choice(("bigint", "int", "text", "bigint")) for _ in range(2)]
        kinds += random.choices(("bigint", "text", "date", "boolean", "money", "double"), k=random.randint(0, 2))
        columns = tuple((f"c{i}", kind) for i, kind in enumerate(kinds))
        tables.append(Table(("shop", "crm")[n % 2], f"t{n}", columns))
    return tuple(tables)


class _View:
    """Writes a view's SQL over occurrences of tables, called a, b, c, …"""

    def __init__(self, random: Random, tables: Sequence[Table]) -> None:
        self.random, self.tables = random, tables
        self.columns = [
            (f"{'abcde'[i]}.{name}", kind, i) for i, table in enumerate(tables) for name, kind in table.columns
        ]

    def sql(self, shape: str, kind: str) -> str:
        on: list[list[str]] = [[] for _ in self.tables]
        where: list[str] = []
        for i, j in self._edges(shape):
            for equality in self._equalities(i, j):
                (on[j] if self.random.random() < 0.7 else where).append(equality)
        where += self._conditions() + self._residual()
        said = [f"{self.tables[0].path} a"]
        for i, table in enumerate(self.tables[1:], 1):
            joined = f"JOIN {table.path} {'abcde'[i]} ON {' AND '.join(on[i])}" if on[i] else ""
            said.append(joined or f"CROSS JOIN {table.path} {'abcde'[i]}")
        filtered = f" WHERE {' AND '.join(where)}" if where else ""
        select, group = self._select(kind)
        return f"SELECT {select} FROM {' '.join(said)}{filtered}{group}"

    def _edges(self, shape: str) -> list[tuple[int, int]]:
        n = len(self.tables)
        if shape == "star":
            return [(0, i) for i in range(1, n)]
        if shape == "tree":
            return [(self.random.randrange(i), i) for i in range(1, n)]
        edges = [(i - 1, i) for i in range(1, n)]
        if shape == "cross" and edges:
            edges.remove(self.random.choice(edges))
        if shape == "cycle" and n > 2:
            edges.append((0, n - 1))
        return edges

    def _equalities(self, i: int, j: int) -> list[str]:
        """One or two equalities between two occurrences; two may share a side: a.x = b.y AND a.z = b.y."""
        pairs = [
            (left, right)
            for left, kind, at in self.columns
            for right, other, there in self.columns
            if (at, there) == (i, j) and KINDS[kind].family == KINDS[other].family
        ]
        if not pairs:
            return []
        wanted = 2 if self.random.random() < 0.3 else 1
        chosen = self.random.sample(pairs, min(wanted, len(pairs)))
        return [f"{a} = {b}" if self.random.random() < 0.5 else f"{b} = {a}" for a, b in chosen]

    def _conditions(self) -> list[str]:
        said = []
        for _ in range(self.random.choice((0, 0, 0, 1, 1, 2))):
            name, kind, _ = self.random.choice(self.columns)
            literals = KINDS[kind].literals
            operators = ("=", "<>") if kind in ("text", "boolean") else ("=", "<>", "<", "<=", ">", ">=")
            test = self.random.choice(("null", "literal", "literal", "in"))
            if test == "null" or not literals:
                said.append(f"{name} IS {self.random.choice(('', 'NOT '))}NULL")
            elif test == "in" and kind != "date":
                said.append(f"{name} IN ({', '.join(literals)})")
            else:
                said.append(f"{name} {self.random.choice(operators)} {self.random.choice(literals)}")
        return said

    def _residual(self) -> list[str]:
        numbers = [c for c in self.columns if KINDS[c[1]].family == "number"]
        if len(numbers) < 2 or self.random.random() > 0.2:
            return []
        (left, _, _), (right, _, _) = self.random.sample(numbers, 2)
        return [self.random.choice((f"{left} < {right}", f"{left} + 1 <> {right}", f"({left} = 1 OR {right} = 2)"))]

    def _select(self, kind: str) -> tuple[str, str]:
        few = self.random.sample(self.columns, min(len(self.columns), self.random.randint(1, 4)))
        if kind == "plain":
            return ", ".join(f"{name} AS o{i}" for i, (name, _, _) in enumerate(few)), ""
        if kind == "distinct":
            return "DISTINCT " + ", ".join(f"{name} AS o{i}" for i, (name, _, _) in enumerate(few)), ""
        keys = [name for name, _, _ in few[:2]] if kind == "grouped" else []
        said = [f"{name} AS k{i}" for i, name in enumerate(keys)] + self.calls()
        return ", ".join(said), f" GROUP BY {', '.join(keys)}" if keys else ""

    def calls(self) -> list[str]:
        said = ["COUNT(*) AS n"] if self.random.random() < 0.5 else []
        for i in range(self.random.randint(1, 4)):
            name, kind, _ = self.random.choice(self.columns)
            calls = ["COUNT({})", "COUNT(DISTINCT {})"]
            if kind in ORDERED:
                calls += ["MIN({})", "MAX({})"]
            if kind in NUMBERS and kind != "wide":
                calls += ["SUM({})", "AVG({})", "SUM(DISTINCT {})", "AVG(DISTINCT {})"]
            said.append(f"{self.random.choice(calls).format(name)} AS g{i}")
        return said


class _Writer:
    """Writes transactions that a database could have committed, and remembers what the tables hold."""

    def __init__(self, random: Random, tables: Sequence[Table], hot: bool, size: int) -> None:
        self.random, self.tables, self.hot, self.size = random, tables, hot, size
        self.held: dict[str, Counter[Row]] = {t.name: Counter() for t in tables}
        self.past: dict[str, list[Row]] = {t.name: [] for t in tables}
        self.ids = 0

    def load(self, table: Table) -> Transaction:
        changes: list[tuple[str, Row, int]] = []
        for _ in range(self.random.randint(0, self.size)):
            self._insert(table, changes)
        return Transaction(table.source, tuple(changes))

    def transaction(self) -> Transaction:
        source = self.random.choice(self.tables).source
        tables = [t for t in self.tables if t.source == source]
        changes: list[tuple[str, Row, int]] = []
        big = self.random.random() < 0.05
        for _ in range(self.size if big else self.random.choice((1, 1, 1, 2, 2, 3))):
            table = self.random.choice(tables)
            crowded = self.held[table.name].total() > self.size
            doing = self.random.choice(
                (self._insert, self._delete, self._update, self._again, self._delete if crowded else self._insert)
            )
            doing(table, changes)
        if not changes:
            self._insert(tables[0], changes)
        return Transaction(source, tuple(changes))

    def _insert(self, table: Table, changes: list[tuple[str, Row, int]]) -> None:
        known = list(self.held[table.name])
        if known and not table.keyed and self.random.random() < 0.3:  # a duplicate
            self._change(table, self.random.choice(known), self.random.choice((1, 1, 2)), changes)
        else:
            self._change(table, self._row(table), 1, changes)

    def _delete(self, table: Table, changes: list[tuple[str, Row, int]]) -> None:
        known = list(self.held[table.name])
        if known:
            row = self.random.choice(known)
            every = self.random.random() < 0.3
            self._change(table, row, -self.held[table.name][row] if every else -1, changes)

    def _update(self, table: Table, changes: list[tuple[str, Row, int]]) -> None:
        """Some columns of a row, join keys among them, get other values."""
        known = list(self.held[table.name])
        if not known:
            return
        old = self.random.choice(known)
        new = list(old)
        for at in self.random.sample(range(len(old)), self.random.randint(1, min(2, len(old)))):
            if not (table.keyed and at == 0):
                new[at] = self._value(table.columns[at][1])
        self._change(table, old, -1, changes)
        self._change(table, tuple(new), 1, changes)

    def _again(self, table: Table, changes: list[tuple[str, Row, int]]) -> None:
        """What was deleted once comes back, or goes and comes back at once."""
        gone = [row for row in self.past[table.name] if not self.held[table.name][row]]
        taken = {row[0] for row in self.held[table.name]} if table.keyed else set()
        gone = [row for row in gone if not (table.keyed and row[0] in taken)]
        if gone:
            self._change(table, self.random.choice(gone), 1, changes)
        elif self.held[table.name]:
            row = self.random.choice(list(self.held[table.name]))
            self._change(table, row, -1, changes)
            self._change(table, row, 1, changes)

    def _change(self, table: Table, row: Row, count: int, changes: list[tuple[str, Row, int]]) -> None:
        held = self.held[table.name]
        held[row] += count
        self.held[table.name] = +held
        if count < 0:
            self.past[table.name].append(row)
        changes.append((table.name, row, count))

    def _row(self, table: Table) -> Row:
        self.ids += 1
        first = (self.ids,) if table.keyed else ()
        return (*first, *(self._value(kind) for _, kind in table.columns[len(first) :]))

    def _value(self, kind: str) -> Any:
        if self.random.random() < 0.12:
            return None
        values = KINDS[kind].values
        return values[0] if self.hot and self.random.random() < 0.7 else self.random.choice(values)
