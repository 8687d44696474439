"""A program, run: the embedded engine does the Local steps, whoever runs it the others.

    run = running(program)           a generator: yields what it wants, is sent a table, returns the last step

Steps that are read once are views of the embedded engine, so that it sees through them; the others are tables.
A program may stop at an Evaluated step and go on in another process (`Workbench.kept`): the engine does that, because
what Spark evaluates flows out of one Python worker and into the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from headwater.maintenance.operators.program import (
    COUNT,
    SEQ,
    Asked,
    Changes,
    Evaluated,
    Local,
    Program,
    Step,
    listed,
    reads,
    total,
)

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    "memory_limit": "2GB",
    "preserve_insertion_order": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


@dataclass(frozen=True)
class Wanted:
    """A step that the embedded engine cannot do; `given` are the keys that are asked for, or the rows to evaluate."""

    step: Changes | Asked | Evaluated
    given: pa.Table | None = None


class Workbench:
    """The steps done so far, in an embedded engine of its own."""

    def __init__(self, program: Program) -> None:
        self._connection = duckdb.connect(":memory:", config=_SETTINGS)
        self._uses = Counter(name for step in program.steps for name in reads(step))
        self._program = program

    def put(self, name: str, rows: pa.Table) -> None:
        self._connection.register(name, rows)

    def do(self, step: Local) -> None:
        kind = "VIEW" if self._uses[step.name] == 1 else "TABLE"
        self._connection.execute(f"CREATE TEMP {kind} {step.name} AS {step.sql}")

    def rows(self, name: str) -> pa.Table:
        return _in_utc(self._connection.sql(f"SELECT * FROM {name}").to_arrow_table())

    def summed(self, name: str, lo: int, hi: int) -> pa.Table:
        """The changes of a step in (lo, hi], rows that cancel each other left out."""
        columns = [c for c in self._connection.sql(f"SELECT * FROM {name} LIMIT 0").columns if c not in (COUNT, SEQ)]
        by = listed(columns, [SEQ])
        changes = self._connection.sql(
            f"SELECT {listed(columns, [f'{total()} AS {COUNT}', SEQ])} FROM {name}"
            f" WHERE {SEQ} > {lo} AND {SEQ} <= {hi} GROUP BY {by} HAVING SUM({COUNT}) <> 0"
        )
        return _in_utc(changes.to_arrow_table())

    def close(self) -> None:
        self._connection.close()


def _in_utc(rows: pa.Table) -> pa.Table:
    """Instants are UTC, whatever the machine calls its zone."""
    utc = pa.timestamp("us", "UTC")
    fields = [f.with_type(utc) if pa.types.is_timestamp(f.type) and f.type.tz is not None else f for f in rows.schema]
    return rows.cast(pa.schema(fields))


def running(program: Program) -> Generator[Wanted, pa.Table, pa.Table]:
    bench = Workbench(program)
    try:
        for step in program.steps:
            if isinstance(step, Local):
                bench.do(step)
            else:
                bench.put(step.name, (yield wanted(step, bench)))
        return bench.rows(program.last)
    finally:
        bench.close()


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
    run = running(program)
    try:
        want = next(run)
        while True:
            if isinstance(want.step, Evaluated) and want.given is not None:
                found[want.step.name] = want.given.schema
            want = run.send(outcome(want, program).empty_table())
    except StopIteration:
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


__all__ = ["Step", "Wanted", "Workbench", "outcome", "running", "shapes", "wanted"]
