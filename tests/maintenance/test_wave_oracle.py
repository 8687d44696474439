"""The wave against recomputation: every state it makes is a state that was.

The seeds in the examples are scenarios that failed once; what they found stands beside them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.algebra import Bag, Relation, ViewDefinition
from headwater.integrator.journal import Journal
from headwater.integrator.numbering import number
from headwater.maintenance import wave as wave_module
from headwater.maintenance.graph import steps
from headwater.model.changelog import COUNT, SEQ, fold
from headwater.model.names import Seq, TableName
from headwater.runtime.compute.wave_work import WaveWork
from headwater.runtime.compute.waves import core_changes
from headwater.sources import memory
from headwater.storage import Storage

from .histories import SHAPES, Scenario, Table, Transaction, Wanted, scenario, smallest
from .oracle import Played, Run, bag_of, batches, difference, evaluated, maintain, output, played, witness

seeds = st.integers(0, 2**32 - 1)
ends = st.lists(st.integers(1, 40), max_size=6).map(tuple)
beyond = st.sampled_from([0, 0, 3])
runs = st.builds(Run, ends, parts=st.integers(1, 3), every=st.just(1), scan=st.booleans(), beyond=beyond)
strong_runs = st.builds(Run, ends, parts=st.integers(1, 3), every=st.just(0), scan=st.booleans(), beyond=beyond)
some_runs = st.builds(Run, ends, parts=st.integers(1, 3), every=st.integers(2, 5), scan=st.booleans(), beyond=beyond)


def agree(history: Scenario, run: Run) -> None:
    """Maintained and recomputed are the same; if not, fail with the smallest history that shows it."""
    if witness(history, run) is None:
        return
    small = smallest(history, lambda less: witness(less, run) is not None)
    pytest.fail(f"{witness(small, run)}\nmaintained in {run}", pytrace=False)


@contextmanager
def pairs(at_most: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wave_module, "PAIRS", at_most)
        yield


@example(seed=7, run=Run(()))  # a bigint of the target that the asking int cannot represent
@example(seed=8, run=Run(()))  # int = decimal(12, 0): the key was thought not to fit
@example(seed=28, run=Run(()))  # 1.50 of the target, asked for by integers
@given(seed=seeds, run=runs)
def test_complete_every_transaction_is_a_state(seed: int, run: Run) -> None:
    agree(scenario(seed), run)


@given(seed=seeds, run=strong_runs)
def test_strong_the_ends_of_batches_are_states(seed: int, run: Run) -> None:
    agree(scenario(seed), run)


@given(seed=seeds, run=some_runs)
def test_complete_n_every_nth_transaction_is_a_state(seed: int, run: Run) -> None:
    agree(scenario(seed), run)


@pytest.mark.parametrize("shape", SHAPES)
@given(seed=seeds, run=runs)
@settings(max_examples=max(10, settings.default.max_examples // 5))
def test_every_shape_of_join(shape: str, seed: int, run: Run) -> None:
    agree(scenario(seed, Wanted(shape=shape, kind="plain")), run)


@pytest.mark.parametrize("at_most", [1, 10])
@given(seed=seeds, run=st.one_of(runs, strong_runs))
@settings(max_examples=max(10, settings.default.max_examples // 4))
def test_hot_keys_are_joined_in_halves(at_most: int, seed: int, run: Run) -> None:
    with pairs(at_most):
        agree(scenario(seed, Wanted(kind="plain", transactions=40, hot=True)), run)


def test_one_key_in_a_long_batch_is_halved_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """The halving path is really taken, and does not change what comes out."""
    left, right = Table("s", "l", (("k", "int"), ("v", "bigint"))), Table("s", "r", (("k", "int"), ("w", "bigint")))
    history = tuple(
        Transaction("s", (("l", (1, n), 1), ("r", (1, n), 1)) if n % 3 else (("r", (1, n - 1), -1),))
        for n in range(1, 61)
    )
    sql = "SELECT a.v, b.w FROM s.l a JOIN s.r b ON a.k = b.k"
    long = Scenario((left, right), sql, (), history)
    halved: list[int] = []
    halves = wave_module._match_in_halves
    monkeypatch.setattr(wave_module, "PAIRS", 1)
    monkeypatch.setattr(wave_module, "_match_in_halves", lambda *a: halved.append(1) or halves(*a))
    agree(long, Run(()))
    assert halved, "the pairs did not exceed the limit"
    halved.clear()
    big = (Transaction("s", tuple(c for t in history if t.changes[0][2] > 0 for c in t.changes)),)
    agree(Scenario((left, right), sql, (), big), Run((), every=0))


# ------------------------------------------------------------------------------------------------ how much is asked


@given(seed=seeds, run=st.one_of(runs, strong_runs))
@settings(max_examples=max(10, settings.default.max_examples // 4))
def test_never_more_than_two_questions_per_edge(seed: int, run: Run) -> None:
    history = scenario(seed)
    with played(history) as world:
        view = world.view()
        asked = maintain(world, view, run).questions
        assert max(asked, default=0) <= 2 * (len(view.occurrences) - 1)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("transactions", [1, 7])
def test_a_chain_whose_tables_all_changed_asks_exactly_twice_per_edge(n: int, transactions: int) -> None:
    """2(n − 1) questions for the whole batch, however many transactions are in it."""
    tables = tuple(Table(f"s{i}", f"t{i}", (("x", "int"), ("y", "int"))) for i in range(n))
    before = tuple(Transaction(t.source, ((t.name, (1, 1), 1),)) for t in tables)
    history = before * transactions
    joins = " ".join(f"JOIN s{i}.t{i} ON t{i - 1}.y = t{i}.x" for i in range(1, n))
    chain = Scenario(tables, f"SELECT t0.x AS o0, t{n - 1}.y AS o1 FROM s0.t0 {joins}", before, history)
    asked: list[int] = []
    assert witness(chain, Run(()), asked) is None
    assert asked == [2 * (n - 1)]


def test_a_batch_that_touches_one_table_asks_once_per_edge() -> None:
    tables = tuple(Table("s", f"t{i}", (("x", "int"), ("y", "int"))) for i in range(4))
    before = tuple(Transaction("s", ((t.name, (1, 1), 1),)) for t in tables)
    sql = "SELECT t0.x FROM s.t0 JOIN s.t1 ON t0.y = t1.x JOIN s.t2 ON t1.y = t2.x JOIN s.t3 ON t2.y = t3.x"
    asked: list[int] = []
    assert witness(Scenario(tables, sql, before, before[1:2] * 3), Run(()), asked) is None
    assert asked == [3]


@given(seed=seeds)
@settings(max_examples=max(10, settings.default.max_examples // 4))
def test_the_walk_meets_every_occurrence_once_per_origin(seed: int) -> None:
    with played(scenario(seed)) as world:
        view = world.view()
    everyone = range(len(view.occurrences))
    met = {i: [i] for i in everyone}
    for step in steps(view):
        for origin in step.origins:
            assert step.start in met[origin]
            met[origin].append(step.target)
    assert all(sorted(met[i]) == list(everyone) for i in everyone)


# ------------------------------------------------------------------------------- what cannot be drawn from a few values


def small(sql: str, tables: tuple[Table, ...], before: list[Any], history: list[Any]) -> Scenario:
    return Scenario(
        tables,
        sql,
        tuple(Transaction("s", tuple(changes)) for changes in before),
        tuple(Transaction("s", tuple(changes)) for changes in history),
    )


def test_two_equalities_that_share_a_side() -> None:
    """a.x = b.z AND a.y = b.z: b is asked for one of them; the other must not be forgotten before it is compared."""
    tables = tuple(Table("s", t, (("x", "int"), ("y", "int"), ("z", "int"))) for t in "cab")
    scene = small(
        "SELECT c.x FROM s.c c JOIN s.a a ON c.z = a.z JOIN s.b b ON a.x = b.z AND a.y = b.z",
        tables,
        [[("a", (1, 2, 7), 1), ("a", (1, 1, 7), 1), ("b", (0, 0, 1), 1)]],
        [[("c", (5, 0, 7), 1)]],
    )
    agree(scene, Run(()))


def test_real_and_double_join_only_where_exactly_equal() -> None:
    """0.1 as a double is no single, and is not asked for as if it were the nearest one."""
    single = pa.scalar(0.1, pa.float32()).as_py()
    tables = (Table("s", "d", (("x", "double"),)), Table("s", "r", (("x", "real"),)))
    history = [[("d", (0.1,), 1)], [("d", (single,), 1)], [("d", (1e300,), 1)], [("r", (single,), 1)]]
    scene = small("SELECT a.x, b.x AS y FROM s.d a JOIN s.r b ON a.x = b.x", tables, [[("r", (single,), 1)]], history)
    agree(scene, Run(()))
    agree(scene, Run((), scan=True))


@pytest.mark.parametrize("scan", [False, True])
def test_minus_zero_equals_zero(scan: bool) -> None:
    tables = tuple(Table("s", t, (("id", "bigint"), ("x", "double"))) for t in "lr")
    history = [[("l", (1, -0.0), 1)], [("r", (2, 0.0), 1)], [("r", (3, -0.0), 1)], [("r", (2, 0.0), -1)]]
    scene = small("SELECT a.id, b.id AS other FROM s.l a JOIN s.r b ON a.x = b.x", tables, [], history)
    agree(scene, Run((), scan=scan))
    agree(scene, Run((1, 2, 3), scan=scan))


def test_nan_joins_nan_as_in_spark() -> None:
    """The memory source compares as Python does, so this one scans: the keys are then compared by us."""
    tables = tuple(Table("s", t, (("id", "bigint"), ("x", "double"))) for t in "lr")
    nan = float("nan")
    scene = small(
        "SELECT a.id, b.id AS other FROM s.l a JOIN s.r b ON a.x = b.x",
        tables,
        [[("l", (1, nan), 1)]],
        [[("r", (2, nan), 1)], [("l", (3, nan), 1)]],
    )
    with played(scene) as world:
        view = world.view()
        (log,) = maintain(world, view, Run((), scan=True)).batches
        assert bag_of(fold(output(view, log), 1)) == Bag({(1, 2): 1})
        assert bag_of(fold(output(view, log), 2)) == Bag({(1, 2): 1, (3, 2): 1})


def test_a_view_of_constants_counts_rows() -> None:
    """No column of the core is carried: only counts are."""
    tables = (Table("s", "t", (("x", "int"), ("y", "text"))),)
    scene = small("SELECT COUNT(*) AS n FROM s.t", tables, [], [[("t", (1, "a"), 2)], [("t", (1, "a"), -1)]])
    agree(scene, Run(()))


# ------------------------------------------------------------ through the integrator, the journal and tasks


def journalled(world: Played, view: ViewDefinition, journal: Journal, limits: list[int]) -> None:
    """Poll everything there is, a round at a time, and number it."""
    positions, lo, turn = dict(world.positions[0]), Seq(0), 0
    while True:
        limit = limits[turn % len(limits)]
        turn += 1
        polls = {}
        for n, (source, adapter) in enumerate(world.sources.items()):
            tables = {t: s.names for t, s in world.types.items() if t.source == source}
            if limit % 3 != 1 or n == turn % len(world.sources):  # some rounds hear from one source only
                polls[source] = adapter.poll(positions[source], tables, limit)
        numbered = number(lo, positions, polls)
        positions = dict(numbered.positions)
        if numbered.hi > lo:
            journal.append(numbered)
            lo = numbered.hi
        elif positions == {s: a.position() for s, a in world.sources.items()}:
            return


def states_of(world: Played, journal: Journal) -> list[dict[TableName, Relation]]:
    """The tables at every seq, from the sources' own logs: seq 0, 1, …"""
    at = {source: int(position) for source, position in world.positions[0].items()}
    states = [_state(world, at)]
    hi = journal.newest.hi if journal.newest else 0
    for part in journal.transactions(0, hi):
        for row in part.to_pylist():
            assert row[SEQ] == len(states)
            assert int(row["transaction"]) > at[row["source"]], "a source's own order is kept"
            at[row["source"]] = int(row["transaction"])
            states.append(_state(world, at))
    return states


def _state(world: Played, at: dict[Any, int]) -> dict[TableName, Relation]:
    return {
        name: Relation(
            tuple(schema.names),
            Bag(dict(memory.database(world.specs[name.source].url).state(name.table, at[name.source]))),
        )
        for name, schema in world.types.items()
    }


@given(
    seed=seeds,
    limits=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    grouping=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    parts=st.integers(1, 3),
    every=st.sampled_from([0, 1, 3]),
    scan=st.booleans(),
)
@settings(max_examples=max(10, settings.default.max_examples // 3))
def test_polls_numbers_journal_and_tasks_together(
    seed: int, limits: list[int], grouping: list[int], parts: int, every: int, scan: bool
) -> None:
    history = scenario(seed, Wanted(kind="plain"))
    with played(history) as world, tempfile.TemporaryDirectory() as folder:
        storage, view = Storage(folder), world.view()
        journalled(world, view, Journal(storage), limits)
        journal = Journal(storage)  # as after a restart
        states = states_of(world, journal)
        state, waiting, turn = evaluated(view, states[0]), list(journal.segments), 0
        while waiting:
            take = grouping[turn % len(grouping)]
            segments, waiting, turn = tuple(waiting[:take]), waiting[take:], turn + 1
            lo, hi = segments[0].lo, segments[-1].hi
            work = WaveWork(
                view=view,
                storage=storage,
                segments=segments,
                lo=lo,
                hi=hi,
                positions=segments[-1].positions,
                specs=world.specs,
                schemas=world.schemas(view),
                sizes=dict.fromkeys(view.tables, 0 if scan else 10**9),
                parts=parts,
                every=every,
            )
            rows, tally = core_changes(work)
            assert tally.questions <= 2 * (len(view.occurrences) - 1)
            log = output(view, rows)
            promised = Run((), every=every)
            for seq in (s for s in range(lo + 1, hi + 1) if promised.promises(s, {hi})):
                expected = evaluated(view, states[seq])
                missing, extra = difference(expected, state + bag_of(fold(log, seq)))
                assert (missing, extra) == (Bag(), Bag()), f"at {seq} of {history}: lacks {missing}, shows {extra}"
            state = state + bag_of(fold(log))


def test_batches_do_not_depend_on_each_other() -> None:
    """The batches of a history, computed in any order and at any time, fold to the same states (DESIGN: the wave)."""
    history = scenario(11, Wanted(shape="chain", kind="plain"))
    with played(history) as world:
        view, run = world.view(), Run((2, 4, 6))
        forward = maintain(world, view, run).batches
        for n, (lo, hi) in reversed(list(enumerate(batches(run, world.last)))):
            alone = maintain(world, view, Run(tuple(e for e in (lo, hi) if e))).batches
            assert bag_of(fold(alone[1 if lo else 0])) == bag_of(fold(forward[n]))
            assert set(alone[1 if lo else 0].column_names) >= {COUNT, SEQ}
