"""The oracle: a query over a world, maintained by its change program, and every state compared with recomputation.

    query ── tree ──┬─ optimized ── program ── batches of transactions ── Δ(s) for every s   ⎫
                    ├─ rendered as one query, as built and optimized                          ⎬ must be alike
    query as written, run by DuckDB over each state                                           ⎭

Expressions that are Spark's to evaluate are evaluated by DuckDB too, so what is compared here are the trees and the
change rules, not the functions of two engines. No JVM.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from random import Random

import duckdb
import pyarrow as pa
import sqlglot

from headwater.algebra.names import Names, Views
from headwater.algebra.relations import Relation, Window, walk
from headwater.algebra.render import rendered
from headwater.algebra.rules import optimized
from headwater.algebra.select.context import Context
from headwater.algebra.select.query import build_query
from headwater.algebra.statements import parse_views
from headwater.algebra.temporal import timed
from headwater.algebra.typing import types_of
from headwater.maintenance.operators.program import COUNT, NUMBER, SEQ, Asked, Changes, Program
from headwater.maintenance.operators.running import Wanted, driven, outcome, running
from headwater.maintenance.operators.writing import changes_of
from headwater.model.names import CLOCK, TableName
from headwater.model.schema import Column, TableSchema

from .worlds import Bag, Row, Schema, World, arrow, world_of

SOURCE = "s"
BATCHES = ((6,), (5,), (4, 2))
"""How many transactions each batch of a history has; the seed chooses."""


class Unanswerable(Exception):
    """DuckDB itself cannot say what the query is: nothing to compare with."""


@dataclass(frozen=True)
class Mismatch:
    """Where what is maintained (or rendered) departs from the query: `missing` rows it should have, `extra` it has."""

    query: str
    schema: Schema
    seed: int
    what: str
    at: int
    missing: Bag
    extra: Bag

    def __str__(self) -> str:
        tables = " ".join(map(str, self.schema))
        return (
            f"{self.what} at {self.at} (seed {self.seed}, {tables}):\n  {self.query}\n"
            f"  missing {dict(self.missing)}\n  extra   {dict(self.extra)}"
        )


@dataclass(frozen=True)
class Tree:
    """A query as it is built, and as the optimizer leaves it."""

    built: Relation
    optimized: Relation


def check(query: str, schema: Schema, seed: int) -> Mismatch | None:
    """The first state in which something is wrong. Raises Unanswerable if DuckDB refuses the query, and whatever
    building and maintaining it raises."""
    batches = BATCHES[seed % len(BATCHES)]
    world = world_of(schema, Random(seed), sum(batches))
    engine = Engine(world)
    wanted = engine.recomputed(query)
    found = _compared(query, schema, seed, engine, wanted)
    if found is None:
        return None
    with engine.without(DOUBTED):  # perhaps it is the reference that is wrong
        again = engine.recomputed(query)
        return found if again == wanted else _compared(query, schema, seed, engine, again)


def _compared(query: str, schema: Schema, seed: int, engine: Engine, wanted: list[Bag]) -> Mismatch | None:
    batches, world = BATCHES[seed % len(BATCHES)], engine.world
    tree = tree_of(query, schema)
    if numbered_twice(tree.built):
        wanted = engine.recomputed(_text(tree.built))
    # now and then what is maintained is the tree as it was built: rules meet operators in other places
    maintained = tree.built if seed % 5 == 4 else tree.optimized
    program = program_of(maintained, schema)
    played = Played(program, world, engine, crowded=seed % 4 == 3)
    states = played.states(maintained.columns, batches, wanted[0])
    for at, (have, want) in enumerate(zip(states, wanted, strict=True)):
        if have != want:
            return Mismatch(query, schema, seed, "maintained", at, want - have, _less(have, want))
    for what, relation in (("as built", tree.built), ("optimized", tree.optimized)):
        text = duck(_text(relation))
        for at in (0, len(wanted) - 1):
            try:
                have = engine.rows(text, at)
            except duckdb.InternalException as error:  # the reference fails of itself
                raise Unanswerable(str(error)) from error
            if have != wanted[at]:
                return Mismatch(query, schema, seed, what, at, wanted[at] - have, have - wanted[at])
    return None


def _text(relation: Relation) -> str:
    return rendered(relation, lambda name: f"{SOURCE}.{name.table}")


def numbered_twice(tree: Relation) -> bool:
    """Are rows numbered in two orders? Then the query leaves open which numbers go together in rows that are the same
    in every column, and the reference may take them either way; the tree as built says it."""
    numbered = [node for node in walk(tree) if isinstance(node, Window) and any(call.ties for call in node.calls)]
    return any(isinstance(node.child, Window) and node.child in numbered for node in numbered)


def tree_of(query: str, schema: Schema) -> Tree:
    parsed = parse_views(f"CREATE MATERIALIZED VIEW v AS {query}", "oracle.sql")[0]
    context = Context(Names(parsed, _Catalog(schema), Views()))
    built = build_query(context, parsed.select, None, {}, root=True)
    best = timed(optimized(built.relation, context.fresh), context.fresh, context.types)
    return Tree(timed(built.relation, context.fresh, context.types), best)


def program_of(tree: Relation, schema: Schema) -> Program:
    def analyze(sql: str, given: pa.Schema) -> pa.Schema:
        _connection().register("input_", given.empty_table())
        found = _connection().sql(duck(sql)).to_arrow_table().schema
        return pa.schema([pa.field(f.name, _as_in_spark(f.type)) for f in found])

    tables = {TableName(source, shape.name): shape.arrow for shape in schema for source in (SOURCE, CLOCK)}
    sizes = {name: 10 ** (9 - i) for i, name in enumerate(tables)}  # later tables look smaller, and are begun with
    return changes_of(tree, types_of(tree, tables, analyze), sizes)


def _as_in_spark(kind: pa.DataType) -> pa.DataType:
    """DuckDB sums into as many digits as there can be, and then has no room for a scale; Spark leaves room."""
    if pa.types.is_decimal(kind) and kind.precision == 38:
        return pa.decimal128(20, kind.scale) if kind.scale else pa.int64()
    return kind


@dataclass(frozen=True)
class _Catalog:
    schema: Schema

    def sources(self) -> list[str]:
        return [SOURCE]

    def tables(self, source: str) -> list[str]:
        return [shape.name for shape in self.schema]

    def resolve(self, source: str, schema: str | None, table: str) -> TableSchema:
        shape = next(shape for shape in self.schema if shape.name == table)
        return TableSchema(TableName(SOURCE, table), tuple(Column(f.name, f.type, str(f.type)) for f in shape.arrow))


DOUBTED = "projection_pullup"
"""A rewriting of DuckDB 2.0 that loses rows: `EXISTS (… LEFT JOIN <known to be empty> … GROUP BY …)` is never true."""


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """One for all: to connect takes longer than most queries."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE MACRO raise_error(message) AS error(message)")
    return connection


class Engine:
    """DuckDB with every state of a world in it: `s.table` is the table at what the variable `moment` says."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._connection = _connection()
        self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SOURCE}; SET VARIABLE moment = 0")
        for shape in world.schema:
            states = [state[shape.name] for state in world.states]
            rows = [(*row, at) for at, state in enumerate(states) for row in state.elements()]
            self._connection.register("rows_", arrow(shape, rows, ("at_",)))
            self._connection.execute(
                f"CREATE OR REPLACE TABLE h_{shape.name} AS SELECT * FROM rows_;"
                f"CREATE OR REPLACE VIEW {SOURCE}.{shape.name} AS SELECT {', '.join(shape.names)} FROM h_{shape.name}"
                " WHERE at_ = getvariable('moment')"
            )

    def recomputed(self, query: str) -> list[Bag]:
        """The query as it is written, at every moment."""
        try:
            text = duck(query)
            return [self.rows(text, at) for at in range(len(self.world.states))]
        except (duckdb.Error, sqlglot.errors.SqlglotError) as error:
            raise Unanswerable(str(error)) from error

    @contextmanager
    def without(self, rewriting: str) -> Iterator[None]:
        """Leave out something that DuckDB does to queries."""
        self._connection.execute(f"SET disabled_optimizers = '{rewriting}'")
        try:
            yield
        finally:
            self._connection.execute("SET disabled_optimizers = ''")

    def rows(self, sql: str, at: int) -> Bag:
        self._connection.execute(f"SET VARIABLE moment = {at}")
        return Counter(map(_plain, self._connection.execute(sql).fetchall()))

    def evaluated(self, sql: str, given: pa.Table) -> pa.Table:
        """What Spark evaluates in the real engine."""
        self._connection.register("input_", given)
        return self._connection.sql(duck(sql)).to_arrow_table()


@cache
def duck(sql: str) -> str:
    sql = re.sub(r"MAX RECURSION LEVEL \d+", "", sql)  # DuckDB knows no limit
    return sqlglot.transpile(sql, read="spark", write="duckdb")[0]


@dataclass(frozen=True)
class Played:
    """A program over the history of a world. A crowded answer holds rows that nobody asked for, which must do no
    harm."""

    program: Program
    world: World
    engine: Engine
    crowded: bool

    def states(self, columns: Sequence[str], batches: Sequence[int], first: Bag) -> list[Bag]:
        """The view after each transaction, beginning with what it was at first."""
        view, states, low = first.copy(), [first], 0
        for size in batches:
            delta = self._batch(low, low + size)
            changes = list(zip(*(delta.column(name).to_pylist() for name in (*columns, COUNT, SEQ)), strict=True))
            assert all(low < seq <= low + size for *_, seq in changes), "a change of no transaction of the batch"
            for at in range(low + 1, low + size + 1):
                for *row, count, seq in changes:
                    if seq == at:
                        view[_plain(tuple(row))] += count
                view = Counter({row: n for row, n in view.items() if n})
                states.append(view.copy())
            low += size
        return states

    def _batch(self, low: int, high: int) -> pa.Table:
        """The changelog over (low, high]."""
        return driven(
            running(self.program), lambda want: self._answer(want, low, high).cast(outcome(want, self.program))
        )

    def _heads(self, step: Asked, given: pa.Table, places: Sequence[int], value: int, high: int) -> pa.Table:
        """Of each key as few rows as may be: those that fewer than so many others come before."""
        assert step.first is not None
        shape, first = self.world.shape(step.table.table.table), step.first
        width = len(places)
        found = []
        for *key, most in zip(*(column.to_pylist() for column in given.columns), strict=True):
            state = self.world.states[high][shape.name]
            mine = {r: n for r, n in state.items() if tuple(r[i] for i in places) == tuple(key)[:width]}
            nulls = [r for r in mine if r[value] is None]
            there = sorted((r for r in mine if r[value] is not None), key=lambda r: r[value], reverse=first.descending)
            order = [*nulls, *there] if first.nulls_first else [*there, *nulls]
            for row in order:
                before = next(i for i, other in enumerate(order) if other[value] == row[value])
                if before < most:
                    found.append((*row, mine[row]))
        names = dict(zip(step.table.columns, step.table.names, strict=True))
        rows = arrow(shape, found, [COUNT]).select([*names.values(), COUNT])
        return rows.rename_columns([*names, COUNT])

    def _answer(self, want: Wanted, low: int, high: int) -> pa.Table:
        """A step that is the caller's."""
        step = want.step
        if not isinstance(step, Changes | Asked):
            assert want.given is not None
            return self.engine.evaluated(step.sql, want.given)
        shape = self.world.shape(step.table.table.table)
        names = dict(zip(step.table.columns, step.table.names, strict=True))
        rows: list[Row]
        if isinstance(step, Changes):
            moments = [(seq, self.world.changes[seq - 1][shape.name]) for seq in range(low + 1, high + 1)]
            rows = [(*row, n, seq) for seq, bag in moments for row, n in bag.items()]
            more = [COUNT, SEQ]
        else:
            assert want.given is not None
            places = [shape.names.index(names[column]) for column in step.columns]
            asked = [column for name, column in zip(want.given.column_names, want.given.columns, strict=True)
                     if name != NUMBER]  # fmt: skip
            keys = set(zip(*(column.to_pylist() for column in asked), strict=True))
            some = self.crowded or not places
            state = self.world.states[high][shape.name].items() if keys else ()
            if step.first is not None and not self.crowded:
                return self._heads(step, want.given, places, shape.names.index(names[step.first.column]), high)
            if step.between:
                ((low_key, high_key),) = keys or ((None, None),)
                known = [(row, n) for row, n in state if row[places[0]] is not None]
                rows = [(*row, n) for row, n in known if some or low_key <= row[places[0]] <= high_key]
            else:
                rows = [(*row, n) for row, n in state if some or tuple(row[i] for i in places) in keys]
            more = [COUNT]
        found = arrow(shape, rows, more).select([*names.values(), *more])
        return found.rename_columns([*names, *more])


def _plain(row: Row) -> Row:
    """A row whose values compare: the last digits of a float depend on the order of what was added up."""
    return tuple(
        round(value, 9) if isinstance(value, float) else tuple(value) if isinstance(value, list) else value
        for value in row
    )


def _less(have: Bag, want: Bag) -> Bag:
    """What is there too often or less than never; Counter subtraction would hide negative counts."""
    rest = have.copy()
    rest.subtract(want)
    return Counter({row: n for row, n in rest.items() if n > 0 or have[row] < 0})


__all__ = ["Engine", "Mismatch", "Played", "Tree", "Unanswerable", "check", "numbered_twice", "program_of", "tree_of"]
