"""A program, run: the embedded engine does the Local steps, whoever runs it the others.

    run = running(program)           a generator: yields what it wants, is sent a table, returns the last step
    driven(run, supply)              the same to its end, with somebody who supplies what it wants

Steps that are read once are said where they are read, so that the embedded engine sees through them; the others are
tables.
A program may stop at an Evaluated step and go on in another process (`Workbench.kept`): the engine does that, because
what Spark evaluates flows out of one Python worker and into the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from headwater.kept.engine import connected
from headwater.maintenance.operators.program import (
    COUNT,
    SEQ,
    Asked,
    Changes,
    Evaluated,
    Local,
    Loop,
    Program,
    Step,
    listed,
    reads,
    total,
)
from headwater.model.errors import EndlessRecursion, NoRoom

T = TypeVar("T")


@dataclass(frozen=True)
class Wanted:
    """A step that the embedded engine cannot do; `given` are the keys that are asked for, or the rows to evaluate."""

    step: Changes | Asked | Evaluated
    given: pa.Table | None = None


class Workbench:
    """The steps done so far, in the embedded engine. One that is read once is only remembered, and said by whoever
    reads it: the engine sees through it, and is told once."""

    def __init__(self, program: Program) -> None:
        self._connection = connected()
        self._uses = Counter(name for step in _every(program.steps) for name in reads(step))
        self._said: dict[str, Local] = {}

    def put(self, name: str, rows: pa.Table) -> None:
        self._said.pop(name, None)
        self._connection.register(name, rows)

    def do(self, step: Local) -> None:
        if self._uses[step.name] == 1:
            self._said[step.name] = step
        else:
            text = self._with(step.reads) + step.sql
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {step.name} AS {text}")

    def rows(self, name: str) -> pa.Table:
        return _in_utc(self._selected(f"SELECT * FROM {name}", name).to_arrow_table())

    def summed(self, name: str, lo: int, hi: int) -> pa.Table:
        """The changes of a step in (lo, hi], rows that cancel each other left out."""
        columns = [c for c in self._selected(f"SELECT * FROM {name} LIMIT 0", name).columns if c not in (COUNT, SEQ)]
        by = listed(columns, [SEQ])
        changes = (
            f"SELECT {listed(columns, [f'{total()} AS {COUNT}', SEQ])} FROM {name}"
            f" WHERE {SEQ} > {lo} AND {SEQ} <= {hi} GROUP BY {by} HAVING SUM({COUNT}) <> 0"
        )
        return _in_utc(self._selected(changes, name).to_arrow_table())

    def _selected(self, text: str, *names: str) -> duckdb.DuckDBPyRelation:
        return self._connection.sql(self._with(names) + text)

    def _with(self, names: Iterable[str]) -> str:
        """Steps that were only remembered and are read now, those that they read themselves before them."""
        found: dict[str, str] = {}

        def say(name: str) -> None:
            step = self._said.get(name)
            if step is not None and name not in found:
                for other in step.reads:
                    say(other)
                found[name] = f"{name} AS ({step.sql})"

        for name in names:
            say(name)
        return f"WITH {', '.join(found.values())} " if found else ""

    def over(self, sql: str, *tables: pa.Table) -> pa.Table:
        """SQL over tables, of which it speaks as {0}, {1}, …"""
        names = [f"given{place}_" for place, _ in enumerate(tables)]
        for name, rows in zip(names, tables, strict=True):
            self._connection.register(name, rows)
        return _in_utc(self._connection.sql(sql.format(*names)).to_arrow_table())

    def close(self) -> None:
        self._connection.close()


def _in_utc(rows: pa.Table) -> pa.Table:
    """Instants are UTC, whatever the machine calls its zone."""
    utc = pa.timestamp("us", "UTC")
    fields = [f.with_type(utc) if pa.types.is_timestamp(f.type) and f.type.tz is not None else f for f in rows.schema]
    return rows.cast(pa.schema(fields))


def _every(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        if isinstance(step, Loop):
            yield from _every(step.steps)


def running(program: Program) -> Generator[Wanted, pa.Table, pa.Table]:
    bench = Workbench(program)
    try:
        yield from doing(program.steps, bench)
        return bench.rows(program.last)
    finally:
        bench.close()


def driven(run: Generator[Wanted, pa.Table, T], supply: Callable[[Wanted], pa.Table]) -> T:
    """A run to its end, with what it wants from `supply`; what it returns."""
    try:
        want = next(run)
        while True:
            want = run.send(supply(want))
    except StopIteration as stop:
        return cast(T, stop.value)


def doing(steps: Iterable[Step], bench: Workbench) -> Generator[Wanted, pa.Table, None]:
    """Steps, one after the other; what the embedded engine cannot do is wanted of the caller."""
    for step in steps:
        if isinstance(step, Local):
            bench.do(step)
        elif isinstance(step, Loop):
            yield from rounds(step, bench)
        else:
            bench.put(step.name, (yield wanted(step, bench)))


def rounds(loop: Loop, bench: Workbench) -> Generator[Wanted, pa.Table, None]:
    """All rounds of a loop: by levels, or until there is no new key."""
    first = bench.rows(loop.first)
    todo = _Levels(loop, first, bench) if loop.level else _NewKeys(first, bench)
    given = todo.given(first.slice(0, 0))
    while given is not None:
        bench.put(loop.hole, given)
        with _room():
            yield from doing(loop.steps, bench)
            made = bench.rows(loop.made)
        given = todo.given(made.select(first.column_names).cast(first.schema))
    bench.put(loop.name, todo.all)


@contextmanager
def _room() -> Iterator[None]:
    """Numbers that overflow in a round: what is computed elsewhere is Spark's to fail of."""
    try:
        yield
    except duckdb.OutOfRangeException as error:
        said = str(error).partition("\n")[0].removeprefix("Out of Range Error: ")
        raise NoRoom(f"WITH RECURSIVE comes to a number without room: {said}", "cast it to BIGINT or DECIMAL") from None


class _NewKeys:
    """Rounds over keys: each is given those that none was given before."""

    def __init__(self, first: pa.Table, bench: Workbench) -> None:
        self.all, self._first, self._bench = first.slice(0, 0), first, bench

    def given(self, made: pa.Table) -> pa.Table | None:
        rows, self._first = pa.concat_tables([self._first, made]), made.slice(0, 0)
        same = " AND ".join(f"a_.{c} IS NOT DISTINCT FROM b_.{c}" for c in rows.column_names)
        text = f"SELECT DISTINCT * FROM {{0}} AS a_ WHERE NOT EXISTS (SELECT 1 FROM {{1}} AS b_ WHERE {same})"
        new = self._bench.over(text, rows, self.all).cast(rows.schema)
        self.all = pa.concat_tables([self.all, new])
        return new if new.num_rows else None


class _Levels:
    """Rounds over levels: each is given all rows of the level before, without those that cancel each other."""

    def __init__(self, loop: Loop, first: pa.Table, bench: Workbench) -> None:
        self._loop, self._waiting, self._level, self._bench = loop, first, -1, bench
        self.all = first.slice(0, 0)

    def given(self, made: pa.Table) -> pa.Table | None:
        self._level += 1
        here = pc.equal(self._waiting.column(self._loop.level), self._level)
        rows = self._summed(pa.concat_tables([self._waiting.filter(here), made]))
        self._waiting = self._waiting.filter(pc.invert(here))
        if self._level >= self._loop.limit and rows.num_rows:
            if SEQ in rows.column_names:
                raise _endless(self._loop, rows)
            return None
        self.all = pa.concat_tables([self.all, rows])
        return rows if rows.num_rows or self._waiting.num_rows else None

    def _summed(self, rows: pa.Table) -> pa.Table:
        chosen = listed(f"{total()} AS {COUNT}" if c == COUNT else c for c in rows.column_names)
        by = listed(c for c in rows.column_names if c != COUNT)
        text = f"SELECT {chosen} FROM {{0}} GROUP BY {by} HAVING SUM({COUNT}) <> 0"
        return self._bench.over(text, rows).cast(rows.schema)


def _endless(loop: Loop, rows: pa.Table) -> EndlessRecursion:
    row = rows.sort_by(SEQ).slice(0, 1).to_pylist()[0]
    hidden = (loop.level, COUNT, SEQ)
    shown = ", ".join(repr(value) for name, value in row.items() if name not in hidden)
    return EndlessRecursion(
        f"WITH RECURSIVE goes deeper than {loop.limit} levels with transaction {row[SEQ]}: it comes to ({shown})",
        "correct a cycle in the data, stop at one in the query, or write MAX RECURSION LEVEL",
    )


def wanted(step: Changes | Asked | Evaluated, bench: Workbench) -> Wanted:
    match step:
        case Changes():
            return Wanted(step)
        case Asked():
            return Wanted(step, bench.rows(step.keys))
        case Evaluated():
            return Wanted(step, bench.rows(step.reads))


def shapes(program: Program) -> dict[str, pa.Schema]:
    """What flows into every Evaluated step: the program is run over no rows."""
    found: dict[str, pa.Schema] = {}

    def nothing(want: Wanted) -> pa.Table:
        if isinstance(want.step, Evaluated) and want.given is not None:
            found[want.step.name] = want.given.schema
        return outcome(want, program).empty_table()

    driven(running(program), nothing)
    return found


def outcome(want: Wanted, program: Program) -> pa.Schema:
    """The columns that a wanted step has."""
    step = want.step
    match step:
        case Changes():
            return _counted(step.table.columns, program, (COUNT, SEQ))
        case Asked():
            return _counted(step.table.columns, program, (COUNT,))
        case Evaluated():
            assert want.given is not None
            known = {f.name: f.type for f in want.given.schema}
            fields = [
                pa.field(c, program.types[c] if c in program.types else known.get(c, pa.int64())) for c in step.columns
            ]
            return pa.schema(fields)


def _counted(columns: Iterable[str], program: Program, more: Iterable[str]) -> pa.Schema:
    fields = [pa.field(c, program.types[c]) for c in columns]
    return pa.schema([*fields, *(pa.field(c, pa.int64()) for c in more)])


__all__ = ["Step", "Wanted", "Workbench", "doing", "driven", "outcome", "running", "shapes", "wanted"]
