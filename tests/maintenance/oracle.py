"""The oracle: a scenario is played at memory sources, the view is maintained, and every state it shows is compared with
the view recomputed from the tables at that very state.

The whole history (and a little more, which nobody has polled) has happened at the sources before the first wave asks
anything: every answer must be as of its batch's cut.
"""

from __future__ import annotations

import decimal
import importlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa

from headwater.algebra import Bag, Relation, ViewDefinition, define, evaluate, parse_views
from headwater.algebra import expressions as interpreter
from headwater.integrator.journal import within
from headwater.kept.memory import MemoryKept
from headwater.maintenance.aggregate import GroupedDelta, aggregate
from headwater.maintenance.block_wave import contracted_wave
from headwater.maintenance.groups import auxiliary_schema
from headwater.maintenance.slices import Slices
from headwater.maintenance.wave import core_schema, wave
from headwater.model.changelog import COUNT, SEQ, consolidate, fold
from headwater.model.errors import UnknownName
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import TableSchema
from headwater.model.source import SourceSpec
from headwater.model.written import Tally
from headwater.runtime.compute import connections, waves
from headwater.runtime.compute.asking import answer
from headwater.runtime.compute.wave_work import WaveWork
from headwater.sources import memory
from headwater.sources.memory import MemorySource
from headwater.storage import Storage

from .histories import KINDS, Scenario

State = Mapping[TableName, Relation]
_numbers = itertools.count()


@lru_cache(maxsize=4096)
def _compiled(text: str, columns: tuple[str, ...]) -> interpreter.Evaluator:
    return _original(text, columns)


_original = interpreter.compiled


@contextmanager
def remembered_expressions(patch: Any) -> Iterator[None]:
    """Parsing is most of the time of a recomputation: parse every expression once."""
    reference = importlib.import_module("headwater.algebra.evaluate")  # its package calls a function so
    patch.setattr(reference, "compiled", lambda text, columns: _compiled(text, tuple(columns)))
    yield


class Memory:
    """A catalog over memory sources."""

    def __init__(self, sources: Mapping[SourceName, MemorySource]) -> None:
        self._sources = sources

    def sources(self) -> Sequence[str]:
        return list(self._sources)

    def tables(self, source: str) -> Sequence[str]:
        return [name.table for name in self._sources[SourceName(source)].describe()]

    def resolve(self, source: str, schema: str, table: str) -> TableSchema:
        name = self._sources[SourceName(source)].resolve(schema, table)
        if name is None:
            raise UnknownName("table", table, self.tables(source))
        return self._sources[SourceName(source)].describe()[name]


@dataclass
class Played:
    """A scenario that has happened. Transaction n of the history has seq n; `positions[n]` is the cut there."""

    scenario: Scenario
    specs: dict[SourceName, SourceSpec]
    sources: dict[SourceName, MemorySource]
    positions: list[dict[SourceName, Position]]
    types: dict[TableName, pa.Schema]

    @property
    def last(self) -> int:
        return len(self.scenario.history)

    def view(self, sql: str | None = None) -> ViewDefinition:
        (parsed,) = parse_views(f"CREATE MATERIALIZED VIEW v AS {sql or self.scenario.sql}", "v.sql")
        return define(parsed, Memory(self.sources))

    def states(self) -> list[State]:
        """The tables at seq 0, 1, …"""
        held: dict[TableName, dict[Any, int]] = {name: {} for name in self.types}
        states = []
        history = [(None, t) for t in self.scenario.before] + list(enumerate(self.scenario.history, 1))
        for seq, transaction in history:
            if seq == 1:
                states.append(self._relations(held))
            for table, row, count in transaction.changes:
                bag = held[TableName(SourceName(transaction.source), table)]
                bag[row] = bag.get(row, 0) + count
            if seq is not None:
                states.append(self._relations(held))
        return states or [self._relations(held)]

    def _relations(self, held: Mapping[TableName, Mapping[Any, int]]) -> State:
        return {
            name: Relation(tuple(self.types[name].names), Bag({r: n for r, n in bag.items() if n}))
            for name, bag in held.items()
        }

    def schemas(self, view: ViewDefinition) -> dict[TableName, pa.Schema]:
        """The columns that the view needs of its tables, as runtime.plans works them out."""
        used = {t: {c for o in view.occurrences if o.table == t for c in o.columns} for t in view.tables}
        return {t: pa.schema([f for f in self.types[t] if f.name in used[t]]) for t in view.tables}

    def changes(self, view: ViewDefinition, lo: int, hi: int) -> dict[TableName, pa.Table]:
        """The batch's journal, made without the integrator."""
        journal = {}
        for table, schema in self.schemas(view).items():
            rows = [
                (dict(zip(self.types[table].names, row, strict=True)), count, seq)
                for seq, transaction in enumerate(self.scenario.history[lo:hi], lo + 1)
                for name, row, count in transaction.changes
                if (transaction.source, name) == (table.source, table.table)
            ]
            columns = {f.name: pa.array([row[f.name] for row, _, _ in rows], f.type) for f in schema}
            columns[COUNT] = pa.array([count for _, count, _ in rows], pa.int64())
            columns[SEQ] = pa.array([seq for _, _, seq in rows], pa.int64())
            journal[table] = pa.table(columns)
        return journal


@contextmanager
def played(scenario: Scenario) -> Iterator[Played]:
    """The scenario at fresh memory sources."""
    number = next(_numbers)
    specs = {
        SourceName(s): SourceSpec(SourceName(s), f"memory://{number}-{s}")
        for s in sorted({t.source for t in scenario.tables})
    }
    databases = {s: memory.database(spec.url) for s, spec in specs.items()}
    types = {}
    for table in scenario.tables:
        name = TableName(SourceName(table.source), table.name)
        types[name] = pa.schema([(column, KINDS[kind].type) for column, kind in table.columns])
        databases[name.source].create(table.name, dict(zip(types[name].names, types[name].types, strict=True)))
    sources = {s: MemorySource(spec) for s, spec in specs.items()}

    def commit(source: str, changes: Sequence[tuple[str, Any, int]]) -> None:
        database = databases[SourceName(source)]
        named = [(t, dict(zip(database.tables[t].columns, row, strict=True)), n) for t, row, n in changes]
        database.commit(named)

    for transaction in scenario.before:
        commit(transaction.source, transaction.changes)
    for source, adapter in sources.items():
        adapter.install([t for t in types if t.source == source])
    positions = [{s: a.position() for s, a in sources.items()}]
    for transaction in scenario.history:
        commit(transaction.source, transaction.changes)
        positions.append({s: a.position() for s, a in sources.items()})
    for table in scenario.tables:  # later, unseen: everything goes
        database = databases[SourceName(table.source)]
        commit(table.source, [(table.name, row, -count) for row, count in database.now[table.name].items() if count])
    try:
        yield Played(scenario, specs, sources, positions, types)
    finally:
        for spec in specs.values():
            memory._databases.pop(spec.url, None)
            for key in [key for key in connections._connected if key[0] == spec]:
                connections._connected.pop(key).close()


@dataclass(frozen=True)
class Run:
    """How the history is maintained. `ends` are the last transactions of the batches, in order; every so many
    transactions are a state (0: a batch is one); questions are asked as of `beyond` transactions after a batch."""

    ends: tuple[int, ...]
    parts: int = 1
    every: int = 1
    scan: bool = False
    beyond: int = 0
    joined: bool = False
    """Whether tables of one source are asked together."""

    def promises(self, seq: int, ends: set[int]) -> bool:
        return seq in ends or (self.every > 0 and seq % self.every == 0)


@dataclass
class Maintained:
    """The core's changelog, batch after batch, and what the batches cost."""

    view: ViewDefinition
    batches: list[pa.Table] = field(default_factory=list)
    questions: list[int] = field(default_factory=list)


def batches(run: Run, last: int) -> list[tuple[int, int]]:
    ends = sorted({min(max(1, e), last) for e in run.ends} | {last}) if last else []
    return list(zip([0, *ends], ends, strict=False))


def maintain(world: Played, view: ViewDefinition, run: Run) -> Maintained:
    """Run the waves, their rows matched in `run.parts` slices."""
    done = Maintained(view)
    schema = core_schema(view, world.schemas(view))
    for lo, hi in batches(run, world.last):
        asked = min(hi + run.beyond, world.last)
        work = WaveWork(
            view=view,
            storage=Storage("/nowhere"),
            segments=(),
            lo=lo,
            hi=hi,
            positions=world.positions[asked],
            specs=world.specs,
            schemas=world.schemas(view),
            sizes=dict.fromkeys(view.tables, 0 if run.scan else 10**9),
            parts=run.parts,
            every=run.every,
            join_at_sources=run.joined,
        )
        made = waves.contraction(work)
        journal = world.changes(view, lo, asked)
        if run.every != 1:
            for table, rows in journal.items():
                seq = pa.array(work.labels(rows.column(SEQ).to_numpy()), pa.int64())
                journal[table] = consolidate(rows.set_column(rows.schema.get_field_index(SEQ), SEQ, seq))
        mine, slices = {table: within(rows, lo, hi) for table, rows in journal.items()}, Slices(run.parts, rows=1)
        running = wave(view, journal, mine, slices)
        if made is not None:
            running = contracted_wave(made, journal, partial(within, lo=lo, hi=hi), slices)
        result, questions = driven(work, running)
        assert result.schema.equals(schema), (result.schema, schema)
        done.questions.append(questions)
        done.batches.append(result)
    return done


def driven(work: WaveWork, running: Any) -> tuple[pa.Table, int]:
    tally = Tally()
    try:
        ask = next(running)
        while True:
            ask = running.send(answer(work, ask, tally))
    except StopIteration as stop:
        return stop.value, tally.questions


# ------------------------------------------------------------------------------------- from the core to the view


def output(view: ViewDefinition, core: pa.Table) -> pa.Table:
    """σ and π over the core's changelog, with the reference interpreter: the part that Spark does."""
    names = [n for n in core.column_names if n not in (COUNT, SEQ)]
    wanted = (*view.aggregation.keys, *view.aggregation.arguments) if view.aggregation else view.outputs
    kept, made = [], []
    with decimal.localcontext(prec=76):
        holds = [_compiled(text, tuple(names)) for text in view.residual]
        functions = [_compiled(o.expression, tuple(names)) for o in wanted]
        rows = list(zip(*(core.column(n).to_pylist() for n in names), strict=True)) if names else [()] * core.num_rows
        for n, row in enumerate(rows):
            if all(test(row) is True for test in holds):
                kept.append(n)
                made.append(tuple(f(row) for f in functions))
    marks = core.select([COUNT, SEQ]).take(pa.array(kept, pa.int64()))
    types = [core.schema.field(o.expression.strip("`")).type for o in wanted]
    columns = {o.name: pa.array([row[i] for row in made], types[i]) for i, o in enumerate(wanted)}
    return pa.table({**columns, COUNT: marks.column(COUNT), SEQ: marks.column(SEQ)})


def spark_types(view: ViewDefinition, core: pa.Schema) -> dict[str, pa.DataType]:
    """The types that Spark gives to the keys, arguments and calls of an aggregation over plain columns."""
    assert view.aggregation is not None
    types = {
        o.name: core.field(o.expression.strip("`")).type for o in (*view.aggregation.keys, *view.aggregation.arguments)
    }
    for call in view.aggregation.calls:
        types[call.name] = _result_type(call.function, types[call.argument] if call.argument else pa.int64())
    return types


def _result_type(function: str, argument: pa.DataType) -> pa.DataType:
    if function == "count":
        return pa.int64()
    if function in ("min", "max"):
        return argument
    if function.startswith("percentile"):
        return pa.float64()
    if pa.types.is_decimal(argument):
        more = (10, 0) if function == "sum" else (4, 4)
        return pa.decimal128(min(38, argument.precision + more[0]), min(38, argument.scale + more[1]))
    return pa.int64() if function == "sum" and pa.types.is_integer(argument) else pa.float64()


class Aggregated:
    """Batches through `aggregate`, with the auxiliary view kept in memory."""

    def __init__(self, view: ViewDefinition, types: Mapping[str, pa.DataType]) -> None:
        assert view.aggregation is not None
        self.aggregation, self.types = view.aggregation, types
        self.auxiliary = auxiliary_schema(self.aggregation, types).empty_table()
        names = [o.name for o in (*self.aggregation.keys, *self.aggregation.arguments)]
        fields = [pa.field(n, types[n]) for n in names] + [pa.field(n, pa.int64()) for n in (COUNT, SEQ)]
        self.schema = pa.schema(fields)

    def batch(self, delta: pa.Table, hi: int, first: bool = False) -> pa.Table:
        delta = consolidate(delta.select(self.schema.names).cast(self.schema))
        kept = MemoryKept(self.auxiliary)
        rows, auxiliary = aggregate(self.aggregation, self.types, GroupedDelta(delta, kept, hi, first))
        self.auxiliary = pa.concat_tables([self.auxiliary, auxiliary])
        return rows


def shown(view: ViewDefinition, grouped: pa.Table) -> pa.Table:
    """HAVING and the output expressions over groups."""
    assert view.aggregation is not None
    names = tuple(n for n in grouped.column_names if n not in (COUNT, SEQ))
    types = {quoted: grouped.schema.field(quoted.strip("`")).type for quoted in (f"`{n}`" for n in names)}
    rows = list(zip(*(grouped.column(n).to_pylist() for n in names), strict=True))
    holds = _compiled(view.aggregation.having, names) if view.aggregation.having else lambda row: True
    kept = [n for n, row in enumerate(rows) if holds(row) is True]
    columns = {}
    for o in view.aggregation.outputs:
        function = _compiled(o.expression, names)
        columns[o.name] = pa.array([function(rows[n]) for n in kept], types.get(o.expression))
    marks = grouped.select([COUNT, SEQ]).take(pa.array(kept, pa.int64()))
    return pa.table({**columns, COUNT: marks.column(COUNT), SEQ: marks.column(SEQ)})


# --------------------------------------------------------------------------------------------------- comparison


@dataclass(frozen=True)
class Witness:
    """A state that the view shows and that never was."""

    scenario: Scenario
    seq: int
    missing: Bag
    extra: Bag

    def __str__(self) -> str:
        lines = [f"\nat seq {self.seq} the view", f"    {self.scenario.sql}"]
        lines += [f"    lacks {count} × {row}" for row, count in self.missing]
        lines += [f"    shows {count} × {row} too much" for row, count in self.extra]
        return "\n".join([*lines, "after", str(self.scenario)])


def bag_of(state: pa.Table) -> Bag:
    """A folded state; its negative counts stay."""
    names = [n for n in state.column_names if n not in (COUNT, SEQ)]
    columns = [state.column(n).to_pylist() for n in names]
    rows = zip(*columns, strict=True) if columns else ((),) * state.num_rows
    return Bag.summed(zip(map(_canonical, rows), state.column(COUNT).to_pylist(), strict=True))


def _canonical(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """NaN is a value like any other, and the mean of doubles may be rounded once or twice."""
    return tuple(_value(v) for v in row)


def _value(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return "NaN"
    return float(f"{value:.14g}")


def difference(expected: Bag, actual: Bag) -> tuple[Bag, Bag]:
    """(missing, extra)"""
    off = expected - actual
    return off.select(lambda row: off.count(row) > 0), (-off).select(lambda row: off.count(row) < 0)


def witness(scenario: Scenario, run: Run, questions: list[int] | None = None) -> Witness | None:
    """The first state that is wrong, of those that the run's level promises; None if all are right."""
    if not scenario.history:
        return None
    with played(scenario) as world:
        view = world.view()
        states = world.states()
        load = evaluated(view, states[0])
        done = maintain(world, view, run)
        if questions is not None:
            questions.extend(done.questions)
        log = changelog(world, view, done, run)
        ends = {hi for _, hi in batches(run, world.last)}
        for seq in range(1, world.last + 1):
            if not run.promises(seq, ends):
                continue
            expected = evaluated(view, states[seq])
            actual = load + bag_of(fold(log, seq)) if view.aggregation is None else bag_of(fold(log, seq))
            missing, extra = difference(expected, actual)
            if missing or extra:
                return Witness(scenario, seq, missing, extra)
        return None


def evaluated(view: ViewDefinition, state: State) -> Bag:
    return Bag.summed((_canonical(row), count) for row, count in evaluate(view, state))


def changelog(world: Played, view: ViewDefinition, done: Maintained, run: Run) -> pa.Table:
    """The view's changelog. That of an aggregation begins with its load, labelled 0."""
    if view.aggregation is None:
        return pa.concat_tables([output(view, core) for core in done.batches])
    core = loaded_core(world, view)
    grouped = Aggregated(view, spark_types(view, core.schema))
    parts = [grouped.batch(output(view, core), 0, first=True)]
    for (_, hi), rows in zip(batches(run, world.last), done.batches, strict=True):
        parts.append(grouped.batch(output(view, rows), hi))
    return shown(view, pa.concat_tables(parts))


def loaded_core(world: Played, view: ViewDefinition) -> pa.Table:
    """The core at the load, labelled 0: the naive join."""
    from headwater.algebra.evaluate import _core

    columns, bag = _core(view, world.states()[0])
    schema = core_schema(view, world.schemas(view))
    rows = list(bag)
    made = {
        f.name: pa.array([row[columns.index(f.name)] for row, _ in rows], f.type)
        for f in schema
        if f.name not in (COUNT, SEQ)
    }
    counts = pa.array([count for _, count in rows], pa.int64())
    return consolidate(pa.table({**made, COUNT: counts, SEQ: pa.array([0] * len(rows), pa.int64())}))
