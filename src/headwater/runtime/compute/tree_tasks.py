"""A tree's program inside one Spark task: Python workers in a row, with Spark's own evaluation between them.

    range(1) → steps → [Evaluated] → steps → [Evaluated] → … → rows of the core

The steps between two evaluations are a *phase*: a Python worker that asks the sources and matches, counts and
subtracts in an embedded engine. What a phase sends on is what Spark shall evaluate; what later phases need besides lies
in files of a folder that the phases of a task share. All of it is one partition and one job, however many operators
there are.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.algebra.relations import Table
from headwater.kept.heads import Ordered, heads
from headwater.maintenance.operators.program import COUNT as N
from headwater.maintenance.operators.program import NUMBER, Asked, Changes, Evaluated, Program, Step, reads
from headwater.maintenance.operators.program import SEQ as S
from headwater.maintenance.operators.running import Wanted, Workbench, doing, driven, outcome
from headwater.maintenance.wave import Ask
from headwater.model.changelog import COUNT, SEQ, consolidate
from headwater.model.conditions import Condition, meets
from headwater.model.source import ORDINAL, Question
from headwater.model.written import Tally
from headwater.runtime.compute.asking import Batches, answer_question, parent, reads_all
from headwater.runtime.compute.batch_changes import batch_changes
from headwater.runtime.compute.failures import carries_errors
from headwater.runtime.compute.membership import key_table, membership
from headwater.runtime.compute.wave_work import WaveWork
from headwater.runtime.compute.waves import read_ahead

_DIGITS = Context(prec=80)
CHUNK = 65536
LANES = 2
MANY_KEYS = 10_000
"""From here on a question is asked in so many lanes."""


@dataclass(frozen=True)
class Phase:
    """Steps that run in one Python worker. `entering` was evaluated before them, `leaving` is evaluated after them;
    `needed` are steps of earlier phases that they read, `kept` are their own that later phases read."""

    steps: tuple[Step, ...]
    entering: Evaluated | None
    leaving: Evaluated | None
    needed: tuple[str, ...]
    kept: tuple[str, ...]


def phases(program: Program) -> list[Phase]:
    """The program, cut at its Evaluated steps."""
    groups: list[tuple[list[Step], Evaluated | None]] = [([], None)]
    for step in program.steps:
        if isinstance(step, Evaluated):
            groups[-1] = (groups[-1][0], step)
            groups.append(([], None))
        else:
            groups[-1][0].append(step)
    made = [{s.name for s in steps} for steps, _ in groups]
    for i, (_, leaving) in enumerate(groups[:-1]):
        assert leaving is not None
        made[i + 1].add(leaving.name)
    read = []
    for i, (steps, leaving) in enumerate(groups):
        mine = {name for step in steps for name in reads(step)}
        mine |= {leaving.reads} if leaving is not None else {program.last}
        read.append(mine - made[i])
    result = []
    for i, (steps, leaving) in enumerate(groups):
        later = set().union(*read[i + 1 :]) if i + 1 < len(groups) else set()
        entering = groups[i - 1][1] if i else None
        result.append(Phase(tuple(steps), entering, leaving, tuple(sorted(read[i])), tuple(sorted(made[i] & later))))
    return result


@dataclass(frozen=True)
class TreeWork:
    """One batch of one view that is a tree. `folder` is where its phases leave what later ones need."""

    wave: WaveWork
    program: Program
    folder: str
    add: Callable[[dict[str, Any]], None]
    read: dict[object, pa.Table] = field(default_factory=dict)
    """Whole tables that a phase has read."""


def phase_rows(work: TreeWork, phase: Phase, given: Iterator[pa.RecordBatch]) -> pa.Table:
    """Run one phase: what Spark shall evaluate next, or the core's changes."""
    bench, tally, started = Workbench(work.program), Tally(), time.perf_counter()
    folder, work = Path(work.folder), replace(work, wave=read_ahead(work.wave))
    try:
        batches = list(given)
        if phase.entering is not None:
            rows = pa.Table.from_batches(batches) if batches else None
            bench.put(phase.entering.name, _evaluated(rows, phase.entering, work, folder))
        for name in phase.needed:
            bench.put(name, _load(folder / name))
        driven(doing(phase.steps, bench), lambda want: supplied(work, want, tally))
        folder.mkdir(parents=True, exist_ok=True)
        for name in phase.kept:
            _save(folder / name, bench.rows(name))
        if phase.leaving is not None:
            result = bench.rows(phase.leaving.reads)
            shape = outcome(Wanted(phase.leaving, result), work.program)
            _save(folder / f"{phase.leaving.name}.shape", shape.empty_table())
        else:
            rows = bench.summed(work.program.last, work.wave.lo, work.wave.hi)
            result = rows.rename_columns([{N: COUNT, S: SEQ}.get(name, name) for name in rows.column_names])
            shutil.rmtree(folder, ignore_errors=True)
        return result
    finally:
        bench.close()
        tally.seconds = time.perf_counter() - started
        work.add(asdict(tally))


def _evaluated(rows: pa.Table | None, step: Evaluated, work: TreeWork, folder: Path) -> pa.Table:
    schema = _load(folder / f"{step.name}.shape").schema
    return schema.empty_table() if rows is None else rows.select(schema.names).cast(schema)


def supplied(work: TreeWork, want: Wanted, tally: Tally) -> pa.Table:
    step = want.step
    assert not isinstance(step, Evaluated)
    schema = outcome(want, work.program)
    if isinstance(step, Changes):
        rows = meets(batch_changes(work.wave, step.table.table), step.table.conditions)
        tally.changes += rows.num_rows
        return rows.select([*step.table.names, COUNT, SEQ]).rename_columns(schema.names).cast(schema)
    assert want.given is not None
    rows = _asked(work, step, want.given, tally)
    return rows.select([*step.table.names, COUNT]).rename_columns(schema.names).cast(schema)


def _asked(work: TreeWork, step: Asked, keys: pa.Table, tally: Tally) -> pa.Table:
    """The table's rows that have these keys. NULLs among the keys equal NULLs here, which no source is asked for."""
    table = step.table
    named = dict(zip(table.columns, table.names, strict=True))
    columns = tuple(named[c] for c in step.columns)
    fields = [work.wave.schemas[table.table].field(n) for n in table.names]
    if keys.num_rows == 0:
        return pa.schema([*fields, pa.field(COUNT, pa.int64())]).empty_table()
    if NUMBER in keys.column_names:
        heads = _heads(work, step, columns, keys)
        if heads is not None:
            tally.saved += 1
            tally.keys += keys.num_rows
            tally.answers += heads.num_rows
            return heads
        keys = keys.drop_columns([NUMBER])
    if not columns:
        return _everything(work, table, tally)
    if step.between:
        within = _within(columns[0], keys, work.wave.schemas[table.table].field(columns[0]).type)
        if within is None:
            return _everything(work, table, tally)
        question = Question(table.table, (), pa.table({}), table.names, (*table.conditions, *within))
        return _folded(answer_question(work.wave, Ask(question), tally))
    keys = keys.rename_columns(list(columns))
    null = np.zeros(keys.num_rows, bool)
    for name in columns:
        null |= pc.is_null(keys.column(name)).to_numpy()
    if null.any():
        return membership(_everything(work, table, tally), columns, keys)
    wanted_keys = key_table(keys, columns, [work.wave.schemas[table.table].field(n).type for n in columns])
    if wanted_keys.num_rows == 0:
        return pa.schema([*fields, pa.field(COUNT, pa.int64())]).empty_table()
    question = Question(table.table, columns, wanted_keys, table.names, table.conditions)
    return _folded(_side_by_side(work.wave, question, tally))


def _within(column: str, bounds: pa.Table, kind: pa.DataType) -> tuple[Condition, Condition] | None:
    """That a column lies between two bounds, brought to its type: a little more does no harm. None where its type has
    no room for them, or where the engines do not agree on an order."""
    low, high = (bounds.column(k)[0].as_py() for k in ("k0", "k1"))
    if pa.types.is_decimal(kind) or pa.types.is_integer(kind):
        step = Decimal(1).scaleb(-kind.scale if pa.types.is_decimal(kind) else 0)
        low = Decimal(low).quantize(step, ROUND_FLOOR, _DIGITS)
        high = Decimal(high).quantize(step, ROUND_CEILING, _DIGITS)
        if pa.types.is_integer(kind):
            low, high = int(low), int(high)
    elif not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return None
    try:
        pa.array([low, high], kind)
    except (pa.ArrowInvalid, OverflowError):
        return None
    return Condition(column, ">=", low), Condition(column, "<=", high)


def _heads(work: TreeWork, step: Asked, columns: tuple[str, ...], keys: pa.Table) -> pa.Table | None:
    """The first rows of each key, of a view that keeps them in order; None of any other table."""
    table, first = step.table, step.first
    if first is None or not table.table.is_view or table.conditions:
        return None
    named = dict(zip(table.columns, table.names, strict=True))
    wanted = keys.select([f"k{i}" for i in range(len(columns))]).rename_columns(list(columns))
    order = Ordered(named[first.column], first.descending, first.nulls_first)
    return heads(parent(work.wave, table.table), wanted, keys.column(NUMBER).to_numpy(), order, table.names)


def _side_by_side(work: WaveWork, question: Question, tally: Tally) -> pa.Table:
    """A question about many keys, asked in parts at the same time: each is exact as of the batch's positions, so
    together they are. A tree has one task, and would otherwise wait for one connection."""
    rows = question.keys.num_rows
    if rows < MANY_KEYS or question.table.is_view or reads_all(work, question):
        return answer_question(work, Ask(question), tally)
    started, size = time.perf_counter(), -(-rows // LANES)
    parts = [replace(question, keys=question.keys.slice(size * lane, size)) for lane in range(LANES)]
    tallies = [Tally() for _ in parts]
    with ThreadPoolExecutor(LANES) as threads:
        answers = list(threads.map(lambda n: answer_question(work, Ask(parts[n]), tallies[n], n), range(LANES)))
    tally.questions += 1
    tally.keys += rows
    tally.answers += sum(part.answers for part in tallies)
    tally.bytes += sum(part.bytes for part in tallies)
    tally.seconds_asking += time.perf_counter() - started
    return pa.concat_tables(answers)


def _folded(answer: pa.Table) -> pa.Table:
    """Only the fold of an answer is promised: a source that has moved on answers with what is there now and takes back
    what came since. EXISTS, DISTINCT and MIN must not see rows that were taken back."""
    rows = answer.drop_columns([ORDINAL])
    return consolidate(rows) if rows.num_rows and pc.min(rows.column(COUNT)).as_py() < 0 else rows


def _everything(work: TreeWork, table: Table, tally: Tally) -> pa.Table:
    """All rows of a table; within a phase they are read once, however many mentions of it need them."""
    key = (table.table, table.names, table.conditions)
    if key not in work.read:
        question = Question(table.table, (), pa.table({}), table.names, table.conditions)
        work.read[key] = _folded(answer_question(work.wave, Ask(question), tally))
    return work.read[key]


def phase_task(work: TreeWork, phase: Phase, shape: pa.Schema) -> Callable[[Batches], Batches]:
    """For mapInArrow: what leaves the phase has this shape."""

    @carries_errors
    def run(batches: Batches) -> Batches:
        rows = phase_rows(work, phase, batches)
        yield from rows.select(shape.names).cast(shape).to_batches(max_chunksize=CHUNK)

    return run


def _save(path: Path, rows: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)


def _load(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


Shapes = Mapping[str, pa.Schema]
