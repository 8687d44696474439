"""Tables that only lose rows and whose key the view shows: every state is exact, and nobody is asked for their sake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from headwater.algebra import Bag
from headwater.algebra.view import Reliance, Relied, ViewDefinition
from headwater.integrator.journal import within
from headwater.kept.memory import MemoryKept
from headwater.maintenance import wave as the_wave
from headwater.maintenance.taking_out import Gone, taken_out
from headwater.maintenance.wave import wave
from headwater.model.changelog import COUNT, SEQ, consolidate, fold
from headwater.model.written import Tally
from headwater.runtime.compute.asking import answer
from headwater.runtime.compute.wave_work import WaveWork
from headwater.runtime.compute.waves import contraction
from headwater.storage import Storage

from .histories import Row, Scenario, Table, Transaction
from .oracle import Played, Run, batches, difference, evaluated, output, played

NAMES = "abc"


@dataclass(frozen=True)
class Shrinking:
    """A scenario, and the mentions in its view whose tables only lose rows in its history."""

    scenario: Scenario
    shown: dict[int, int]
    """Of each such mention, the view's column that is its key."""


def shrinking(seed: int) -> Shrinking:
    """Tables of (id, ref, v); mentions are joined by id or by ref, and some of them show their id."""
    random = Random(seed)
    columns = (("id", "bigint"), ("ref", "bigint"), ("v", "int"))
    tables = tuple(Table(random.choice(("shop", "crm")), f"t{n}", columns, True) for n in range(3))
    chosen = [random.choice(tables) for _ in range(random.choice((2, 2, 3, 3)))]
    going = {t.name for t in tables if random.random() < 0.6} or {chosen[0].name}
    on = [f"{NAMES[random.randrange(i)]}.{random.choice(('id', 'ref'))} = {NAMES[i]}.{random.choice(('id', 'ref'))}"
          for i in range(1, len(chosen))]  # fmt: skip
    select, shown = [], {}
    for i, table in enumerate(chosen):
        if random.random() < 0.8:
            if table.name in going:
                shown[i] = len(select)
            select.append(f"{NAMES[i]}.id AS k{i}")
        select += [f"{NAMES[i]}.v AS v{i}"] if random.random() < 0.5 else []
    where = f" WHERE a.v {random.choice(('<>', '>='))} 2" if random.random() < 0.4 else ""
    joined = "".join(f" JOIN {t.path} {NAMES[i]} ON {on[i - 1]}" for i, t in enumerate(chosen) if i)
    sql = f"SELECT {', '.join(select) or 'a.v AS v'} FROM {chosen[0].path} a{joined}{where}"
    held: dict[str, dict[int, Row]] = {t.name: {} for t in tables}

    def row(number: int) -> Row:
        return (number, random.choice((1, 2, 3, None)), random.choice((1, 2, 3, None)))

    def change(table: Table) -> Iterator[tuple[str, Row, int]]:
        rows, number = held[table.name], random.randint(1, 4)
        if number in rows:
            yield table.name, rows.pop(number), -1
            if table.name in going or random.random() < 0.5:
                return
        if table.name not in going:
            rows[number] = row(number)
            yield table.name, rows[number], 1

    before = []
    for table in tables:
        held[table.name] = {n: row(n) for n in range(1, 5) if random.random() < 0.8}
        before.append(Transaction(table.source, tuple((table.name, r, 1) for r in held[table.name].values())))
    history = []
    for _ in range(random.randint(2, 14)):
        source = random.choice(tables).source
        mine = [t for t in tables if t.source == source]
        made = tuple(c for _ in range(random.choice((1, 1, 2, 4))) for c in change(random.choice(mine)))
        history += [Transaction(source, made)] if made else []
    return Shrinking(Scenario(tables, sql, tuple(before), tuple(history)), shown)


def relying(view: ViewDefinition, shown: dict[int, int]) -> ViewDefinition:
    relies = (Relied(i, Reliance.DELETES, str(view.occurrences[i].table), (place,)) for i, place in shown.items())
    return replace(view, relies=tuple(relies))


def maintained(world: Played, view: ViewDefinition, run: Run, asked: set[str]) -> pa.Table:
    """The view's changelog from its load on, which is labelled 0."""
    load = evaluated(view, world.states()[0])
    log: pa.Table | None = None
    for lo, hi in batches(run, world.last):
        reach = min(hi + run.beyond, world.last)
        work = WaveWork(
            view=view, storage=Storage("/nowhere"), segments=(), lo=lo, hi=hi, positions=world.positions[reach],
            specs=world.specs, schemas=world.schemas(view), sizes=dict.fromkeys(view.tables, 10**9), every=run.every,
            join_at_sources=True,
        )  # fmt: skip
        assert not view.relies or contraction(work) is None, "blocks meet tables in the order of FROM"
        journal = world.changes(view, lo, reach)
        if run.every != 1:
            for table, rows in journal.items():
                seq = pa.array(work.labels(rows.column(SEQ).to_numpy()), pa.int64())
                journal[table] = consolidate(rows.set_column(rows.schema.get_field_index(SEQ), SEQ, seq))
        mine = {table: within(rows, lo, hi) for table, rows in journal.items()}
        rows = output(view, _played(work, wave(view, journal, mine), asked))
        if log is None:
            log = _loaded(load, rows.schema)
        gone = [Gone(k.shown, mine[k.table].select([*k.columns, SEQ]).rename_columns([*k.shown, SEQ]))
                for k in view.taken_out_by]  # fmt: skip
        log = pa.concat_tables([log, rows, taken_out(rows, MemoryKept(log, lo), gone)])
    assert log is not None
    return log


def _played(work: WaveWork, running: Any, asked: set[str]) -> pa.Table:
    try:
        ask = next(running)
        while True:
            asked.add(ask.question.table.table)
            ask = running.send(answer(work, ask, Tally()))
    except StopIteration as stop:
        return stop.value


def _loaded(load: Bag, schema: pa.Schema) -> pa.Table:
    rows = [(*row, count, 0) for row, count in load]
    return pa.table([pa.array([r[i] for r in rows], f.type) for i, f in enumerate(schema)], schema=schema)


def wrong(seed: int) -> str | None:
    made, random = shrinking(seed), Random(-seed)
    last = len(made.scenario.history)
    ends = tuple(random.randint(1, max(1, last)) for _ in range(random.randint(0, 4)))
    run = Run(ends, every=random.choice((1, 1, 0, 2)), beyond=random.choice((0, 0, 3)))
    if not last:
        return None
    with played(made.scenario) as world:
        view, asked = relying(world.view(), made.shown), set[str]()
        begin = [i for i in range(len(view.occurrences)) if i not in made.shown]
        log, states = maintained(world, view, run, asked), world.states()
        may = {o.table.table for j, o in enumerate(view.occurrences) if any(i != j for i in begin)}
        assert asked <= may, f"seed {seed} asked {asked - may}"
        for seq in range(1, last + 1):
            if run.promises(seq, {hi for _, hi in batches(run, last)}):
                off = difference(evaluated(view, states[seq]), _bag(fold(log, seq)))
                if any(map(bool, off)):
                    return f"seed {seed}, state {seq}: lacks {off[0]}, has too much {off[1]}\n{made.scenario}"
    return None


def _bag(state: pa.Table) -> Bag:
    names = [n for n in state.column_names if n != COUNT]
    rows = zip(*(state.column(n).to_pylist() for n in names), strict=True)
    return Bag.summed(zip(rows, state.column(COUNT).to_pylist(), strict=True))


@pytest.mark.parametrize("share", range(4))
def test_every_state_is_exact_without_asking_for_their_sake(share: int) -> None:
    for seed in range(share, 160, 4):
        assert (found := wrong(seed)) is None, found


def test_the_histories_hold_what_could_go_wrong() -> None:
    """Rows that go by one of two keys, rows that come and go in one batch, and none at all to ask."""
    kept = [shrinking(seed) for seed in range(400)]
    assert sum(len(one.shown) > 1 for one in kept) > 50
    assert sum(len(one.shown) == 1 for one in kept) > 50


@contextmanager
def met_before() -> Iterator[None]:
    """The tables are met as they are before a transaction, like any other that comes later in FROM."""
    right = the_wave._Step._matched
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(the_wave._Step, "_matched", lambda self, a, b, c, first: right(self, a, b, c, 0))
        yield


def test_the_histories_bite() -> None:
    with met_before():
        assert any(wrong(seed) for seed in range(60))
