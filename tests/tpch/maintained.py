"""One view of a benchmark: its tree, its program, and its rows after every transaction, against DuckDB's.

DuckDB stands in for Spark here: it evaluates what Spark would, translated by sqlglot. What it evaluates in one go from
the view as written is what the program must arrive at, transaction by transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from headwater.algebra.names import Names, Views
from headwater.algebra.relations import Relation
from headwater.algebra.render import rendered
from headwater.algebra.rules import optimized
from headwater.algebra.select.context import Built, Context
from headwater.algebra.select.query import build_query
from headwater.algebra.statements import ParsedView
from headwater.algebra.trees import tree_view
from headwater.algebra.typing import types_of
from headwater.maintenance.operators.program import COUNT, INPUT, SEQ, Asked, Changes, Program
from headwater.maintenance.operators.running import outcome, running
from headwater.maintenance.operators.writing import changes_of

from .standard import Schema, StandardCatalog, arrow_schema
from .world import Edit, Row, World

Rows = Counter[Row]


@dataclass(frozen=True)
class View:
    """A view as written, and what becomes of it."""

    parsed: ParsedView
    schema: Schema

    @cached_property
    def context(self) -> Context:
        return Context(Names(self.parsed, StandardCatalog(self.schema), Views()))

    @cached_property
    def built(self) -> Built:
        return build_query(self.context, self.parsed.select, None, {}, root=True)

    @cached_property
    def tree(self) -> Relation:
        return optimized(self.built.relation, self.context.fresh)

    @cached_property
    def program(self) -> Program:
        return self._program(self.tree)

    @cached_property
    def core(self) -> Program:
        """The program of what is below the grouping at the root, if its groups are continued."""
        return self._program(tree_view(self.parsed.select, self.context.names).core)

    def _program(self, tree: Relation) -> Program:
        tables = {name: arrow_schema(table) for name, table in self.schema.items()}
        return changes_of(tree, types_of(tree, tables, _analyzed))

    @cached_property
    def written(self) -> str:
        """The query as its author wrote it, for DuckDB; ties of a LIMIT are decided by all columns, and grouping sets
        of nothing are nothing, as in Spark."""
        query = sqlglot.parse_one(self.parsed.text, read="spark")
        for select in query.find_all(exp.Query):
            group = select.args.get("group")
            if group and (group.args.get("rollup") or group.find(exp.Rollup, exp.Cube, exp.GroupingSets)):
                select.having("COUNT(*) > 0", copy=False)
            if select.args.get("limit"):
                width = len(select.selects)
                order = select.args.get("order") or exp.Order(expressions=[])
                ties = [exp.Ordered(this=exp.Literal.number(i + 1), nulls_first=True) for i in range(width)]
                select.set("order", exp.Order(expressions=[*order.expressions, *ties]))
        return query.sql("duckdb")

    def rendered(self, tree: Relation) -> str:
        return translated(rendered(tree, str))


def evaluated(sql: str, world: World) -> Rows:
    return Counter(_plain(row) for row in world.connection.execute(sql).fetchall())


def maintained(view: View, world: World, log: list[tuple[int, Edit]]) -> list[tuple[int, Row, int]]:
    """The changes that the program finds for a batch, of which the world holds the end: transaction, row, count."""
    run = running(view.program)
    try:
        want = next(run)
        while True:
            step = want.step
            if isinstance(step, Changes):
                found = world.changes(step.table, log)
            elif isinstance(step, Asked):
                assert want.given is not None
                found = world.answer(step, want.given)
            else:
                world.connection.register(INPUT, want.given)
                found = world.connection.sql(translated(step.sql)).to_arrow_table()
            want = run.send(found.cast(outcome(want, view.program)))
    except StopIteration as stop:
        delta = stop.value
    columns = [delta.column(c).to_pylist() for c in (*view.tree.columns, COUNT, SEQ)]
    return [(seq, _plain(row), n) for *row, n, seq in zip(*columns, strict=True)]


def applied(state: Rows, changes: list[tuple[int, Row, int]], seq: int) -> Rows:
    """The state after a transaction, from the one before it."""
    new = Counter(state)
    for when, row, count in changes:
        if when == seq:
            new[row] += count
    return Counter({row: n for row, n in new.items() if n})


def check_states(
    view: View, world: World, next_transaction: Callable[[], list[Edit]], batches: Sequence[int]
) -> set[Row]:
    """Plays batches of so many transactions, and compares the view after each with what the query says; the rows that
    were seen."""
    state = evaluated(view.written, world)
    seen = set(state)
    for size in batches:
        wanted = []
        for _ in range(size):
            seq = world.commit(next_transaction())
            wanted.append((seq, evaluated(view.written, world)))
        changes = maintained(view, world, world.batch())
        for seq, rows in wanted:
            state = applied(state, changes, seq)
            assert not difference(state, rows), f"{view.parsed.name} after transaction {seq}"
            seen |= set(rows)
    return seen


def check_rendered(view: View, world: World) -> None:
    """The tree as built and as optimized, each as one query."""
    wanted = evaluated(view.written, world)
    for tree in (view.built.relation, view.tree):
        assert not difference(evaluated(view.rendered(tree), world), wanted), view.parsed.name


def difference(got: Rows, wanted: Rows) -> str:
    """What is too much and what is missing, for a person; empty if nothing is."""
    rows = sorted({*got, *wanted}, key=repr)
    return "\n".join(f"{got[r]} for {wanted[r]} times {r}" for r in rows if got[r] != wanted[r])


@cache
def translated(sql: str) -> str:
    tree = sqlglot.parse_one(sql, read="spark").transform(_for_duckdb)
    return tree.sql("duckdb").replace("RAISE_ERROR(", "ERROR(")


def _for_duckdb(node: exp.Expr) -> exp.Expr:
    """A deviation, which a tree folds in the order of the values, as DuckDB's own."""
    if not isinstance(node, exp.Reduce):
        return node
    assert "SQRT" in node.args["finish"].sql(), node.sql()
    collected = node.this.find(exp.Filter, exp.ArrayAgg)
    call = collected.this if isinstance(collected, exp.Filter) else collected
    deviation = exp.StddevSamp(this=call.this.copy())
    return exp.Filter(this=deviation, expression=collected.expression) if collected is not call else deviation


def _analyzed(sql: str, schema: pa.Schema) -> pa.Schema:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register(INPUT, schema.empty_table())
        return connection.sql(translated(sql)).to_arrow_table().schema


def _plain(row: Any) -> Row:
    """Floats to nine digits."""
    return tuple(float(f"{v:.9g}") if isinstance(v, float) else v for v in row)
