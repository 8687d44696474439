"""Tables and what happens to them, made from a seed: a world.

A world is a schema, the rows it begins with, and transactions that change several rows of several tables at once.
Values are few, so that keys meet, rows repeat and NULLs turn up everywhere; tables may be empty.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random

import pyarrow as pa

Row = tuple[object, ...]
Bag = Counter[Row]


@dataclass(frozen=True)
class Kind:
    """A type of column: what its tables hold, and how SQL writes its values."""

    arrow: pa.DataType
    values: tuple[object, ...]
    literals: tuple[str, ...]


KINDS = {
    "int": Kind(pa.int64(), (1, 2, 3, None), ("0", "1", "2", "3")),
    "text": Kind(pa.string(), ("x", "y", "xy", None), ("'x'", "'y'", "''")),
    "date": Kind(
        pa.date32(),
        (dt.date(2024, 1, 1), dt.date(2024, 2, 29), None),
        ("DATE '2024-01-01'", "DATE '2024-02-29'"),
    ),
    "dec": Kind(pa.decimal128(6, 2), (Decimal("1.00"), Decimal("1.50"), Decimal("-2.25"), None), ("1.00", "1.5", "2")),
}


@dataclass(frozen=True)
class Shape:
    """A table: its name and its columns, each with its kind."""

    name: str
    columns: tuple[tuple[str, str], ...]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema([(name, KINDS[kind].arrow) for name, kind in self.columns])

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name} {kind}' for name, kind in self.columns)})"


Schema = tuple[Shape, ...]

_POOL = (("b", "int"), ("c", "int"), ("e", "text"), ("f", "date"), ("g", "dec"))


def schema_of(random: Random) -> Schema:
    """Three or four tables. All have `a`; a name has the same kind wherever it stands."""
    shapes = []
    for i in range(random.choice((3, 3, 4))):
        more = random.sample(_POOL, random.choice((1, 2, 2, 3)))
        shapes.append(Shape(f"t{i}", (("a", "int"), *sorted(more))))
    return tuple(shapes)


def schema_from(text: str) -> Schema:
    """What `Shape.__str__` wrote: r(a int, b text) s(…)."""
    shapes = []
    for name, columns in re.findall(r"(\w+)\(([^)]*)\)", text):
        pairs = [column.split() for column in columns.split(",")]
        shapes.append(Shape(name, tuple((column, kind) for column, kind in pairs)))
    return tuple(shapes)


@dataclass(frozen=True)
class World:
    """`changes[s − 1]` is what transaction s does; `states[s]` are the tables after it, `states[0]` before all."""

    schema: Schema
    states: list[dict[str, Bag]] = field(default_factory=list)
    changes: list[dict[str, Bag]] = field(default_factory=list)

    def shape(self, table: str) -> Shape:
        return next(shape for shape in self.schema if shape.name == table)


def world_of(schema: Schema, random: Random, transactions: int) -> World:
    world = World(schema)
    world.states.append({s.name: _bag(s, random, random.choice((0, 3, 5, 7))) for s in schema})
    for _ in range(transactions):
        state = {name: bag.copy() for name, bag in world.states[-1].items()}
        change: dict[str, Bag] = {shape.name: Counter() for shape in schema}
        for _ in range(random.choice((1, 1, 2, 3, 4))):
            _statement(schema, state, change, random)
        world.states.append(state)
        world.changes.append(change)
    return world


def _statement(schema: Schema, state: dict[str, Bag], change: dict[str, Bag], random: Random) -> None:
    """An INSERT, a DELETE or an UPDATE of one row; now and then a whole table is emptied."""
    shape = random.choice(schema)
    there = sorted((row for row, n in state[shape.name].items() if n), key=repr)
    gone: list[Row] = []
    if there and random.random() < 0.03:
        gone = list(state[shape.name].elements())
    elif there and random.random() < 0.5:
        gone = [random.choice(there)]
    come = [_row(shape, random)] if not gone or random.random() < 0.5 else []
    for rows, sign in ((gone, -1), (come, 1)):
        for row in rows:
            for bag in (state[shape.name], change[shape.name]):
                bag[row] += sign
                if not bag[row]:
                    del bag[row]


def _bag(shape: Shape, random: Random, n: int) -> Bag:
    return Counter(_row(shape, random) for _ in range(n))


def _row(shape: Shape, random: Random) -> Row:
    return tuple(random.choice(KINDS[kind].values) for _, kind in shape.columns)


def arrow(shape: Shape, rows: Sequence[Row], more: Sequence[str] = ()) -> pa.Table:
    """Rows of a table, each followed by whole numbers that are called `more`."""
    width = len(shape.columns)
    fields = [*shape.arrow, *(pa.field(name, pa.int64()) for name in more)]
    columns = [pa.array([row[i] for row in rows], f.type) for i, f in enumerate(fields)]
    assert len(fields) == width + len(more)
    return pa.table(columns, schema=pa.schema(fields))
