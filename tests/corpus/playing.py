"""One view of a script: built, maintained over its history, and judged state by state.

    original ── in DuckDB's SQL ─────────────────────────── O(k) ⎫
        └────── in Spark SQL ──┬─ in DuckDB's SQL ───────── S(k) ⎬ compared after every transaction k
                               └─ tree ┬─ rendered ──────── R(k) ⎪
                                       └─ change program ── M(k) ⎭

M must be O. Where sqlglot's Spark SQL means something else than the original (S is not O), M must be S. Where the query
leaves open which rows come first and the tree decides it, M must be R. Both are counted apart; anything else is wrong.
DuckDB evaluates everything, so no functions of two engines are compared. No JVM.
"""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cache
from random import Random
from types import FrameType

import duckdb
import pyarrow as pa

from headwater.algebra.dialect import spark_sql
from headwater.algebra.names import Names, Views
from headwater.algebra.parse import define
from headwater.algebra.relations import Expression, Name, Relation
from headwater.algebra.render import rendered
from headwater.algebra.rules import optimized
from headwater.algebra.select.context import Context
from headwater.algebra.select.query import build_query
from headwater.algebra.stable import stable
from headwater.algebra.statements import parse_views
from headwater.algebra.typing import INPUT, types_of
from headwater.maintenance.operators.program import COUNT, NUMBER, SEQ, Asked, Changes, Program
from headwater.maintenance.operators.running import Wanted, driven, outcome, running
from headwater.maintenance.operators.writing import changes_of
from headwater.model.errors import HeadwaterError, UnknownName
from headwater.model.names import SourceName, TableName
from headwater.model.schema import Column, TableSchema

from .comparing import alike, difference, plain, settled
from .history import History, State, history_of
from .source import Bag, Defined, Row, Shape, Story, rows_of, table_of
from .translating import SOURCE, in_duckdb, in_spark, spark_in_duckdb

BATCHES = (4, 3)
"""How many transactions follow each other in one batch, over and over."""
SECONDS = 20
"""Of computing, for one view."""


_OURS = re.compile(r'without selection list|syntax error at or near ","|Referenced column "(c\d+|[ns]_)"')
"""SQL that lists nothing, or speaks of a column of a tree that is not there, whichever functions an engine has."""


class Verdict(Enum):
    MAINTAINED = "maintained"
    OPEN = "maintained, order open"
    """Equal to the tree at every state; the query leaves open which rows come first."""
    OTHERWISE = "maintained, said otherwise"
    """Equal to the query in Spark SQL at every state; what sqlglot made of it is not what was written."""
    REPEATED = "said before"
    """The same query over tables alike has been judged already, in this suite."""
    REFUSED = "refused"
    UNTRANSLATED = "not in Spark SQL"
    UNANSWERED = "no answer in DuckDB"
    UNPLAYED = "not evaluated in DuckDB"
    """DuckDB answers the query, but not the Spark SQL that the tree is made of, or not in time."""
    FAILED = "failed"
    """With an error that is no refusal: ours to look at, as is what is wrong."""
    WRONG = "wrong"


@dataclass(frozen=True)
class Outcome:
    verdict: Verdict
    reason: str = ""
    states: int = 0
    rows: int = 0
    """Different rows seen over all states; a view that never has any shows little."""
    spark: str = ""


class TooLong(Exception):
    pass


def judged(view: Defined, story: Story, seed: int = 0) -> Outcome:
    """What becomes of a view; raises nothing."""
    if view.query is None:
        kind = Verdict.UNANSWERED if view.why.startswith("reads") else Verdict.UNTRANSLATED
        return Outcome(kind, view.why)
    try:
        spark, original = in_spark(view.query), in_duckdb(view.query)
    except Exception as error:
        return Outcome(Verdict.UNTRANSLATED, f"sqlglot: {type(error).__name__}: {_said(error)}")
    try:
        tree = built(spark, [shape for shape, _ in view.tables.values()])
    except HeadwaterError as error:
        return Outcome(Verdict.REFUSED, _said(error), spark=spark)
    except Exception as error:
        return Outcome(Verdict.FAILED, f"building: {type(error).__name__}: {_said(error)}", spark=spark)
    try:
        with at_most(SECONDS):
            return _Trial(view, original, spark, tree).judged(story, Random(seed))
    except TooLong:
        return Outcome(Verdict.UNPLAYED, f"more than {SECONDS} s", spark=spark)
    except HeadwaterError as error:
        return Outcome(Verdict.REFUSED, f"when planned: {_said(error)}", spark=spark)
    except _Unanswered as error:
        return Outcome(Verdict.UNANSWERED, f"DuckDB: {error}", spark=spark)
    except duckdb.Error as error:
        verdict = Verdict.FAILED if _OURS.search(str(error)) else Verdict.UNPLAYED
        return Outcome(verdict, f"{type(error).__name__}: {_said(error)}", spark=spark)
    except Exception as error:
        return Outcome(Verdict.FAILED, f"playing: {type(error).__name__}: {_said(error)}", spark=spark)


@dataclass(frozen=True)
class Tree:
    """A view of ours. `exact` says whether the query leaves nothing open."""

    relation: Relation
    exact: bool


def built(spark: str, shapes: Sequence[Shape]) -> Tree:
    """The tree of a query, which all of Headwater's parser has accepted."""
    catalog = Catalog(tuple(shapes))
    parsed = parse_views(f"CREATE MATERIALIZED VIEW v AS {spark}", "corpus.sql")[0]
    define(parsed, catalog)
    context = Context(Names(parsed, catalog, Views()))
    found = build_query(context, parsed.select, None, {}, root=True)
    return Tree(optimized(found.relation, context.fresh), context.exact)


@dataclass(frozen=True)
class Catalog:
    """What names in a view are looked up in."""

    shapes: tuple[Shape, ...]

    def sources(self) -> list[str]:
        return [SOURCE]

    def tables(self, source: str) -> list[str]:
        return [shape.name for shape in self.shapes]

    def resolve(self, source: str, schema: str | None, table: str) -> TableSchema:
        shape = next((shape for shape in self.shapes if shape.name == table), None)
        if shape is None:
            raise UnknownName("table", table, self.tables(source))
        return TableSchema(_table(table), tuple(Column(*column) for column in shape.columns))


def _table(name: str) -> TableName:
    return TableName(SourceName(SOURCE), name)


class _Unanswered(Exception):
    """DuckDB cannot say what the query is: nothing to compare with."""


class _Trial:
    """One view over one history."""

    def __init__(self, view: Defined, original: str, spark: str, tree: Tree) -> None:
        self._view, self._original, self._spark, self._tree = view, original, spark, tree
        self._moments = Moments([shape for shape, _ in view.tables.values()])
        self._wanted: list[Bag] = []

    def judged(self, story: Story, random: Random) -> Outcome:
        history = history_of(self._view, story, random, self._answers)
        self._answers(history.states)
        wanted, moments = self._wanted, self._moments
        tree, program = planned(self._tree.relation, list(history.shapes.values()))
        text = rendered(tree, lambda name: f"{SOURCE}.`{name.table}`")
        shown = moments.over(spark_in_duckdb(text), len(wanted))
        have = Played(program, history, moments, random.random() < 0.3).states(tree.columns, shown[0])
        rows = len({row for bag in wanted for row in bag})

        def found(verdict: Verdict, reason: str = "") -> Outcome:
            return Outcome(verdict, reason, len(wanted), rows, self._spark)

        if all(map(alike, have, wanted)):
            return found(Verdict.MAINTAINED)
        if all(map(alike, have, self._said_in_spark(len(wanted)))):
            return found(Verdict.OTHERWISE)
        true = all(map(alike, have, shown))
        if true and not self._tree.exact:
            same = all(a.total() == b.total() for a, b in zip(have, wanted, strict=True))
            return found(Verdict.OPEN, "as many rows as the original" if same else "not as many rows as the original")
        other = shown if not true else wanted
        at = next(k for k, (a, b) in enumerate(zip(have, other, strict=True)) if not alike(a, b))
        more, less = difference(have[at], other[at])
        what = "the tree is not the query" if true else "the program is not the tree"
        return found(Verdict.WRONG, f"{what} at {at}: extra {dict(more)}, missing {dict(less)}; {history.changes[:at]}")

    def _answers(self, states: list[State]) -> bool:
        """Whether the original has an answer in the last of these states; remembers all answers."""
        for at in range(len(self._wanted), len(states)):
            self._moments.add(at, states[at])
            try:
                self._wanted.append(self._moments.rows(self._original, at))
            except (duckdb.Error, OverflowError) as error:  # Python has no years beyond 9999
                if at == 0:
                    raise _Unanswered(_said(error)) from error
                self._moments.forget(at)
                return False
        return True

    def _said_in_spark(self, states: int) -> list[Bag]:
        try:
            return self._moments.over(spark_in_duckdb(self._spark), states)
        except duckdb.Error:
            return [Counter({("no answer",): 1})] * states


def planned(tree: Relation, shapes: Sequence[Shape]) -> tuple[Relation, Program]:
    """The tree as it is run, and its program. Raises ViewSqlError, as planning does."""

    def analyze(sql: str, given: pa.Schema) -> pa.Schema:
        _connection().register(INPUT, given.empty_table())
        found = _connection().sql(spark_in_duckdb(sql)).to_arrow_table().schema
        return pa.schema([pa.field(f.name, _as_in_spark(f.type)) for f in found])

    types = types_of(tree, {_table(shape.name): shape.arrow for shape in shapes}, analyze)

    def type_of(expression: Expression, columns: tuple[Name, ...]) -> pa.DataType:
        given = pa.schema([pa.field(c, types[c]) for c in columns] or [pa.field("one_", pa.int32())])
        return analyze(f"SELECT {spark_sql(expression)} AS it FROM {INPUT}", given).field("it").type

    settled_tree = stable(tree, type_of)
    return settled_tree, changes_of(settled_tree, types)


def _as_in_spark(kind: pa.DataType) -> pa.DataType:
    """DuckDB sums into as many digits as there can be, and then has no room for a scale; Spark leaves room. A NULL
    of no type is an integer wherever DuckDB has to hold it, and Spark has no unsigned integers."""
    if pa.types.is_null(kind):
        return pa.int32()
    if pa.types.is_unsigned_integer(kind):
        return pa.int64()
    if pa.types.is_decimal(kind) and kind.precision == 38:
        return pa.decimal128(28, kind.scale) if kind.scale else pa.int64()
    return kind


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"CREATE SCHEMA {SOURCE}; SET TimeZone = 'UTC'; SET VARIABLE moment = 0")
    return connection


class Moments:
    """DuckDB with every state of some tables in it: `s.table` is the table at what the variable `moment` says."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self._shapes = {shape.name: shape for shape in shapes}
        for shape in shapes:
            _connection().register("rows_", _with_moment(shape.arrow, [], 0))
            chosen = ", ".join(f'"{field.name}"' for field in shape.arrow) or "1 AS one_"
            _connection().execute(
                f'CREATE OR REPLACE TABLE "h_{shape.name}" AS SELECT * FROM rows_;'
                f'CREATE OR REPLACE VIEW {SOURCE}."{shape.name}" AS SELECT {chosen} FROM "h_{shape.name}"'
                " WHERE at_ = getvariable('moment')"
            )

    def add(self, at: int, state: State) -> None:
        for name, bag in state.items():
            _connection().register("rows_", _with_moment(self._shapes[name].arrow, list(bag.elements()), at))
            _connection().execute(f'INSERT INTO "h_{name}" SELECT * FROM rows_')

    def forget(self, at: int) -> None:
        for name in self._shapes:
            _connection().execute(f'DELETE FROM "h_{name}" WHERE at_ = {at}')

    def rows(self, sql: str, at: int) -> Bag:
        _connection().execute(f"SET VARIABLE moment = {at}")
        return Counter(map(plain, rows_of(_connection().sql(sql).to_arrow_table())))

    def over(self, sql: str, states: int) -> list[Bag]:
        return [self.rows(sql, at) for at in range(states)]

    def evaluated(self, sql: str, given: pa.Table) -> pa.Table:
        """What Spark evaluates in the real engine."""
        _connection().register(INPUT, given)
        return _connection().sql(spark_in_duckdb(sql)).to_arrow_table()


def _with_moment(schema: pa.Schema, rows: list[Row], at: int) -> pa.Table:
    return table_of(schema.append(pa.field("at_", pa.int32())), [(*row, at) for row in rows])


@dataclass(frozen=True)
class Played:
    """A program over a history. A crowded answer holds rows that nobody asked for, which must do no harm."""

    program: Program
    history: History
    moments: Moments
    crowded: bool

    def states(self, columns: Sequence[str], first: Bag) -> list[Bag]:
        """The view after each transaction, beginning with what it was at first."""
        view, states, low = first.copy(), [first], 0
        for size in _sizes(len(self.history.changes)):
            delta = self._batch(low, low + size)
            changes = list(zip(rows_of(delta.select(list(columns))), *self._counts(delta), strict=True))
            for at in range(low + 1, low + size + 1):
                for row, count, seq in changes:
                    if seq == at:
                        view[plain(row)] += count
                view = settled(Counter({row: n for row, n in view.items() if n}))
                states.append(view.copy())
            low += size
        return states

    def _counts(self, delta: pa.Table) -> tuple[list[int], list[int]]:
        return delta.column(COUNT).to_pylist(), delta.column(SEQ).to_pylist()

    def _batch(self, low: int, high: int) -> pa.Table:
        return driven(
            running(self.program), lambda want: self._answer(want, low, high).cast(outcome(want, self.program))
        )

    def _answer(self, want: Wanted, low: int, high: int) -> pa.Table:
        step = want.step
        if not isinstance(step, Changes | Asked):
            assert want.given is not None
            return self.moments.evaluated(step.sql, want.given)
        shape = self.history.shapes[step.table.table.table]
        names = dict(zip(step.table.columns, step.table.names, strict=True))
        rows: list[Row]
        if isinstance(step, Changes):
            done = [(s, self.history.changes[s - 1].get(shape.name, Counter())) for s in range(low + 1, high + 1)]
            rows = [(*row, n, s) for s, bag in done for row, n in bag.items()]
            more = [COUNT, SEQ]
        else:
            assert want.given is not None
            places = [shape.arrow.get_field_index(names[column]) for column in step.columns]
            keys = set(rows_of(want.given.drop_columns([c for c in want.given.column_names if c == NUMBER])))
            some = self.crowded or not places
            state = self.history.states[high][shape.name].items() if keys else ()
            rows = [(*row, n) for row, n in state if some or tuple(row[i] for i in places) in keys]
            more = [COUNT]
        schema = pa.schema([*shape.arrow, *(pa.field(name, pa.int64()) for name in more)])
        return table_of(schema, rows).select([*names.values(), *more]).rename_columns([*names, *more])


def _sizes(transactions: int) -> Iterator[int]:
    done = 0
    while done < transactions:
        for size in BATCHES:
            if done < transactions:
                yield min(size, transactions - done)
                done += size


def _said(error: BaseException) -> str:
    if isinstance(error, HeadwaterError):
        return error.what.split("\n")[0].split(": view v: ")[-1]
    return str(error).strip().split("\n")[0]


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raises TooLong in whatever computes for longer; the time is the process's own, not the clock's."""

    stopped = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        raise TooLong

    before: Callable[[int, FrameType | None], object] | int | None = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    except Exception as error:  # an engine says in its own words that it was interrupted
        if stopped:
            raise TooLong from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


__all__ = ["Outcome", "Verdict", "judged"]
