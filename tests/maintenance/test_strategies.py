"""The published algorithms on batches of the engine, against recomputation: each at the level that it promises.

The scenarios are those of the wave, with tables put at sources of their own where an algorithm wants that. The whole
history, and more that nobody has polled, has happened before the first question is answered; some batches ask as of a
later transaction than they end with.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra import Bag, ViewDefinition, define, parse_views
from headwater.algebra.methods import METHODS
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.histories.history import History, State
from headwater.lab.simulation.faults import no_compensation, no_retained_set
from headwater.maintenance.strategies import batch as batch_module
from headwater.maintenance.strategies import divided, loop
from headwater.maintenance.strategies import pvm as pvm_module
from headwater.maintenance.strategies import pvm_cc as pvm_cc_module
from headwater.maintenance.strategies.batch import core_by_strategy
from headwater.maintenance.strategies.contract import Factory, Label, Update
from headwater.maintenance.strategies.divided import (
    Completion,
    Effects,
    TaskShare,
    committed_together,
    effects_of_share,
)
from headwater.maintenance.strategies.loop import Returned
from headwater.maintenance.strategies.pvm import Pvm, Stamped
from headwater.maintenance.strategies.pvm_cc import InOrder
from headwater.maintenance.strategies.sweep import sweep
from headwater.maintenance.strategies.values import EXACT, Values
from headwater.maintenance.wave import Ask
from headwater.model.changelog import COUNT, SEQ, fold
from headwater.model.consistency import Level
from headwater.model.errors import ViewSqlError
from headwater.model.source import ORDINAL
from headwater.model.written import Tally
from headwater.runtime.compute import asking
from headwater.runtime.compute.wave_work import WaveWork
from headwater.storage import Storage

from .histories import Scenario, Table, Transaction, Wanted, scenario, smallest
from .oracle import Maintained, Memory, Played, Run, Witness, bag_of, batches, changelog, difference, evaluated, played

APART = tuple(name for name, method in METHODS.items() if method.apart and not method.chained)
ALL = (*APART, "tid")


class Drawn:
    """Lanes without threads: of the questions under way any may be answered next, drawn by a seed."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._under_way: list[Callable[[], Returned]] = []

    def __enter__(self) -> Drawn:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def begin(self, work: Callable[[], Returned]) -> None:
        self._under_way.append(work)

    def returned(self) -> Returned:
        return self._under_way.pop(self._random.randrange(len(self._under_way)))()


@pytest.fixture(autouse=True)
def in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers come in any order, and in the same one when it is played again."""
    random = Random(0)
    monkeypatch.setattr(loop, "Threaded", lambda lanes: Drawn(random))


seeds = st.integers(0, 2**32 - 1)
ends = st.lists(st.integers(1, 40), max_size=4).map(tuple)
runs = st.builds(Run, ends, scan=st.booleans(), beyond=st.sampled_from([0, 0, 3]))


@dataclass(frozen=True)
class By:
    """Who maintains, how many updates at a time, in how many tasks; `factory` takes the place of the strategy of that
    name."""

    maintenance: str
    parallel: int = 1
    factory: Factory | None = None
    tasks: int = 0
    """0: it is not divided."""

    @property
    def options(self) -> str:
        method = METHODS[self.maintenance]
        at_once = f", parallel = {self.parallel}" if method.parallel else ""
        return f"maintenance = '{self.maintenance}', consistency = '{method.level.value}'{at_once}"


_NAMED = re.compile(r"\b(\w+)\.(t\d) ([a-e])\b")


def apart(story: Scenario) -> Scenario:
    """The same view, each of its occurrences a table at a source of its own, and transactions of one table each."""
    known = {(t.source, t.name): t for t in story.tables}
    named = {alias: known[source, table] for source, table, alias in _NAMED.findall(story.sql)}
    sql = _NAMED.sub(r"s_\3.t_\3 \3", story.sql)
    tables = tuple(replace(table, source=f"s_{alias}", name=f"t_{alias}") for alias, table in named.items())

    def split(transactions: tuple[Transaction, ...]) -> tuple[Transaction, ...]:
        made = [
            (
                alias,
                tuple(
                    (f"t_{alias}", row, n) for name, row, n in t.changes if (t.source, name) == (was.source, was.name)
                ),
            )
            for t in transactions
            for alias, was in named.items()
        ]
        return tuple(Transaction(f"s_{alias}", changes) for alias, changes in made if changes)

    return Scenario(tables, sql, split(story.before), split(story.history))


def defined(world: Played, by: By) -> ViewDefinition:
    (parsed,) = parse_views(f"CREATE MATERIALIZED VIEW v WITH ({by.options}) AS {world.scenario.sql}", "v.sql")
    return define(parsed, Memory(world.sources))


def maintain(world: Played, view: ViewDefinition, run: Run, by: By) -> Maintained:
    done = Maintained(view)
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
        )
        tally = Tally()

        def ask(question: Any, lane: int, work: WaveWork = work, tally: Tally = tally) -> pa.Table:
            return asking.answer_question(work, Ask(question), tally, lane)

        journal = world.changes(view, lo, asked)
        if by.tasks:
            shares = [TaskShare(task, by.tasks, view.parallel) for task in range(by.tasks)]
            effects = [effects_of_share(view, journal, hi, ask, share) for share in shares]
            done.batches.append(committed_together(view, effects))
        else:
            done.batches.append(core_by_strategy(view, journal, hi, ask, by.factory))
        done.questions.append(tally.questions)
    return done


def witness(story: Scenario, run: Run, by: By, view: ViewDefinition | None = None) -> Witness | None:
    """The first state that is wrong of those that are promised: all of them, or the ends of batches."""
    if not story.history:
        return None
    with played(story) as world:
        try:
            view = view or defined(world, by)
        except ViewSqlError:
            return None  # refused: no equality joins it, or one of floating-point numbers
        states, load = world.states(), evaluated(view, world.states()[0])
        done = maintain(world, view, run, by)
        log = changelog(world, view, done, run)
        last = {hi for _, hi in batches(run, world.last)}
        for seq in range(1, world.last + 1) if view.level is Level.COMPLETE else sorted(last):
            actual = (load if view.aggregation is None else bag_of(log.slice(0, 0))) + bag_of(fold(log, seq))
            missing, extra = difference(evaluated(view, states[seq]), actual)
            if missing or extra:
                return Witness(story, seq, missing, extra)
        return None


def agree(story: Scenario, run: Run, by: By) -> None:
    if witness(story, run, by) is None:
        return
    small = smallest(story, lambda less: witness(less, run, by) is not None)
    pytest.fail(f"{witness(small, run, by)}\nmaintained by {by} in {run}", pytrace=False)


@pytest.mark.parametrize("maintenance", APART)
@given(seed=seeds, run=runs, parallel=st.sampled_from([1, 2, 5]))
def test_one_table_per_source(maintenance: str, seed: int, run: Run, parallel: int) -> None:
    agree(apart(scenario(seed, Wanted(transactions=12))), run, By(maintenance, parallel))


@pytest.mark.parametrize("maintenance", ["pvm", "pvm-cc"])
@given(seed=seeds, run=runs, spread=st.sampled_from([(1, 1), (2, 2), (5, 2), (4, 3), (3, 3)]))
def test_view_changes_divided_over_tasks(maintenance: str, seed: int, run: Run, spread: tuple[int, int]) -> None:
    parallel, tasks = spread
    agree(apart(scenario(seed, Wanted(transactions=12))), run, By(maintenance, parallel, tasks=tasks))


@pytest.mark.parametrize("maintenance", ["pvm", "pvm-cc"])
def test_divided_or_not_the_questions_and_the_sum_are_the_same(maintenance: str) -> None:
    with played(chain(4, 9)) as world:
        whole, parts = By(maintenance, 4), By(maintenance, 4, tasks=3)
        one, other = (maintain(world, defined(world, by), Run(()), by) for by in (whole, parts))
    assert bag_of(fold(one.batches[0])), "else nothing was at stake"
    assert bag_of(fold(one.batches[0])) == bag_of(fold(other.batches[0]))
    assert one.questions == other.questions


@given(st.integers(1, 64), st.integers(1, 8), st.integers(1, 300))
def test_a_share_of_each_update(parallel: int, tasks: int, updates: int) -> None:
    """Each is handled by one task, all ViewChanges have a place, and no task has much more than its part."""
    tasks = min(tasks, parallel)
    shares = [TaskShare(task, tasks, parallel) for task in range(tasks)]
    assert sum(share.lanes for share in shares) == parallel
    assert min(share.lanes for share in shares) >= 1
    handled = [[stamp for stamp in range(1, updates + 1) if share(stamp)] for share in shares]
    assert sorted(stamp for own in handled for stamp in own) == list(range(1, updates + 1))
    rounds = -(-updates // parallel)
    assert all(len(own) <= rounds * share.lanes for own, share in zip(handled, shares, strict=True))


def test_view_changes_of_one_task_wait_for_sources_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the first four questions of a task with four lanes is answered when all four have been asked."""
    monkeypatch.undo()  # real threads
    together, asked = threading.Barrier(4, timeout=60), itertools.count()
    with played(chain(4, 16)) as world:
        view = defined(world, By("pvm", 8))
        journal = world.changes(view, 0, world.last)
        schemas = world.schemas(view)

        def ask(question: Any, lane: int) -> pa.Table:
            if next(asked) < 4:
                together.wait()
            columns = [schemas[question.table].field(c) for c in question.columns]
            return pa.schema([(ORDINAL, pa.int64()), *columns, (COUNT, pa.int64())]).empty_table()

        effects = effects_of_share(view, journal, world.last, ask, TaskShare(1, 2, 8))
    assert [c.stamp % 2 for c in effects.completions] == [0] * 8, "the second task has every other update"


def test_commits_in_the_order_of_completion_or_of_arrival() -> None:
    """Updates of transactions 11, 12 and 14 are done in the order 2, 3, 1: PVM's second state is after the first that
    is done, PVM CC's are after each update in turn. A fourth has no effect, and is a state all the same."""
    schema = pa.schema([("x", pa.int64()), (COUNT, pa.int64()), (SEQ, pa.int64())])
    first = Effects((Completion(1, 11, 300),), pa.table([[10], [1], [1]], schema=schema))
    second = Effects(
        (Completion(2, 12, 100), Completion(4, 15, 150), Completion(3, 14, 200)),
        pa.table([[20, 30], [1, 1], [2, 3]], schema=schema),
    )
    with played(chain(2, 1)) as world:
        labels = {
            maintenance: dict(
                zip(*committed_together(view, [first, second]).select(["x", SEQ]).to_pydict().values(), strict=True)
            )
            for maintenance in ("pvm", "pvm-cc")
            for view in [defined(world, By(maintenance, 4))]
        }
        with pytest.raises(AssertionError, match="each update is handled"):
            committed_together(defined(world, By("pvm", 4)), [second])
    assert labels == {"pvm": {20: 11, 30: 14, 10: 15}, "pvm-cc": {10: 11, 20: 12, 30: 14}}


@given(seed=seeds, run=runs)
def test_the_tid_rules_know_several_tables_of_a_source_and_one_twice(seed: int, run: Run) -> None:
    agree(scenario(seed), run, By("tid"))


def test_most_scenarios_are_not_refused() -> None:
    """Else the tests above would test nothing."""
    taken = 0
    for seed in range(60):
        with played(apart(scenario(seed))) as world:
            try:
                taken += len(defined(world, By("sweep")).occurrences) > 1
            except ViewSqlError:
                continue
    assert taken > 20, taken


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────

ODD = {
    "double": pa.array([float("nan"), -0.0, 0.0, 5e-324, float("-inf"), None], pa.float64()),
    "real": pa.array([float("nan"), -0.0, 0.0, 1.5, None], pa.float32()),
    "date": pa.array([-719_529, 0, 2_932_897, None], pa.int32()).cast(pa.date32()),
    "timestamp": pa.array([-(2**62), 0, 2**62, None], pa.int64()).cast(pa.timestamp("us")),
    "moment": pa.array([-(2**62), 0, None], pa.int64()).cast(pa.timestamp("us", "UTC")),
    "decimal": pa.array([Decimal("1.50"), Decimal("-0.01"), Decimal("9" * 36 + ".99"), None], pa.decimal128(38, 2)),
    "bytes": pa.array([b"", b"\x00\xff", None], pa.binary()),
    "text": pa.array(["", "\x00", "é", None], pa.string()),
    "bool": pa.array([True, False, None], pa.bool_()),
    "bigint": pa.array([2**63 - 1, -(2**63), None], pa.int64()),
    "smallint": pa.array([2**15 - 1, None], pa.int16()),
}


@pytest.mark.parametrize("column", ODD.values(), ids=ODD)
def test_values_come_back_as_they_were(column: pa.Array) -> None:
    values = EXACT.encoded(pa.chunked_array([column.slice(0, 1), column.slice(1)]))
    again = EXACT.decoded(values, column.type)
    stored = EXACT._stored(column.type)
    assert again.type == column.type
    assert again.view(stored).to_pylist() == column.view(stored).to_pylist()
    bag = Bag.summed(((v,), 1) for v in values) - Bag.summed(
        ((v,), 1) for v in EXACT.encoded(pa.chunked_array([again]))
    )
    assert not bag, "each cancels itself, NaN too"
    assert len(set(values)) == len(values), "−0.0 is not 0.0"


@pytest.mark.parametrize(
    ("values", "kind", "fit"),
    [
        ([5, Decimal("5.50"), Decimal("6.00"), 2**63], pa.int64(), [0, 2]),
        ([5, Decimal("5.50"), 10**9], pa.decimal128(5, 1), [0, 1]),
        ([5, 2**15], pa.int16(), [0]),
        (["a", ""], pa.string(), [0, 1]),
        ([19_723], pa.date32(), [0]),
    ],
)
def test_keys_that_a_column_cannot_hold_are_not_asked_for(values: list[Any], kind: pa.DataType, fit: list[int]) -> None:
    array, places = EXACT.fitting(values, kind)
    assert places == fit
    assert EXACT.encoded(pa.chunked_array([array])) == [values[n] for n in fit]


# ── what they ask ────────────────────────────────────────────────────────────────────────────────────────────────

KINDLY = (("x", "bigint"), ("y", "bigint"))


def chain(n: int, updates: int) -> Scenario:
    """t_0 … t_(n−1), each at its own source, joined on y = x, all keys alike; updates go round the tables."""
    tables = tuple(Table(f"s{i}", f"t{i}", KINDLY) for i in range(n))
    joins = "".join(f" JOIN s{i}.t{i} {'abcde'[i]} ON {'abcde'[i - 1]}.y = {'abcde'[i]}.x" for i in range(1, n))
    sql = f"SELECT {', '.join(f'{c}.x AS {c}x' for c in 'abcde'[:n])} FROM s0.t0 a{joins}"
    before = tuple(Transaction(t.source, ((t.name, (1, 1), 1),)) for t in tables)
    history = tuple(Transaction(f"s{k % n}", ((f"t{k % n}", (1, 1), 1),)) for k in range(updates))
    return Scenario(tables, sql, before, history)


@pytest.mark.parametrize(
    ("by", "least", "most"),
    [
        (By("sweep"), 24, 24),  # n − 1 for each of 8 updates
        (By("pvm", 4), 24, 24),
        (By("pvm-cc", 4), 24, 24),
        (By("nested-sweep"), 3, 12),  # the first sweep meets all the others
        (By("tid"), 3, 12),  # a term per source that changed, whatever the number of updates
    ],
    ids=lambda by: getattr(by, "maintenance", ""),
)
def test_questions(by: By, least: int, most: int) -> None:
    with played(chain(4, 8)) as world:
        done = maintain(world, defined(world, by), Run(()), by)
    assert least <= done.questions[0] <= most, done.questions


def test_a_star_is_swept_along_its_joins() -> None:
    """SWEEP's order is a chain's. Where the next relation is not joined with what is there, it would read all of it."""
    tables = tuple(Table(f"s{i}", f"t{i}", KINDLY) for i in range(4))
    sql = "SELECT a.x AS o FROM s0.t0 a JOIN s1.t1 b ON b.x = a.x JOIN s2.t2 c ON c.x = a.y JOIN s3.t3 d ON d.x = a.x"
    rows = tuple(Transaction(t.source, ((t.name, (1, 1), 1),)) for t in tables)
    with played(Scenario(tables, sql, rows, rows)) as world:
        view = defined(world, By("sweep"))
        spj = batch_module._setting(view, [])
        assert [spj.view.order(i, range(4)) for i in range(4)] == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 2, 1]]
        assert spj.view.order(2, (1, 2, 3)) == [1, 3]
        maintain(world, view, Run(()), By("sweep"))


# ── proof that these tests bite ──────────────────────────────────────────────────────────────────────────────────


def caught(run: Run, by: By) -> Witness | None:
    for seed in range(80):
        found = witness(apart(scenario(seed, Wanted(kind="plain", transactions=12))), run, by)
        if found is not None:
            return found
    return None


@pytest.mark.parametrize(
    "by",
    [By("sweep", factory=no_compensation), By("pvm", 4, factory=no_retained_set(4))],
    ids=["no compensation", "no RPU"],
)
def test_a_strategy_with_something_left_out_is_caught(by: By) -> None:
    assert caught(Run(()), by) is not None


@pytest.mark.parametrize("maintenance", ["pvm", "pvm-cc"])
def test_a_task_that_does_not_know_of_the_others_updates_is_caught(
    maintenance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They leak into its answers like those that wait for itself."""

    class Alone(Pvm):
        def receive(self, sender: str, body: Any, now: float) -> Any:
            effects = super().receive(sender, body, now)
            self.umq = deque(stamped for stamped in self.umq if self._share(stamped.stamp))
            return effects

    for module in (pvm_module, pvm_cc_module):
        monkeypatch.setattr(module, "Pvm", Alone)
    assert caught(Run(()), By(maintenance, 2, tasks=2)) is not None


def test_pvm_cc_that_commits_as_it_gets_done_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def backwards(self: InOrder, stamped: Stamped, change: Bag) -> list[tuple[Stamped, Bag]]:
        self._waiting.pop(stamped.stamp)
        return [(stamped, change)]

    monkeypatch.setattr(InOrder, "handled", backwards)
    monkeypatch.setattr(divided, "labels_of", lambda view, covered: sorted(seq for (seq,) in covered))
    assert caught(Run(()), By("pvm-cc", 4, tasks=2)) is not None


@pytest.mark.parametrize("maintenance", APART)
def test_what_came_after_the_batch_must_be_taken_back(maintenance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(batch_module._Occurrence):
        def __getattribute__(self, name: str) -> Any:
            return Bag() if name == "beyond" else super().__getattribute__(name)

    monkeypatch.setattr(batch_module, "_Occurrence", Forgetful)
    assert caught(Run((3, 6, 9), beyond=3), By(maintenance, 2)) is not None


def test_values_compared_by_python_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """1.50 of a decimal, looked up among integers, is no 1."""

    def careless(self: Values, values: list[Any], kind: pa.DataType) -> tuple[pa.Array, list[int]]:
        return pa.array([int(v) for v in values], pa.int64()).cast(kind), list(range(len(values)))

    monkeypatch.setattr(Values, "fitting", careless)
    tables = (Table("s0", "t0", (("m", "money"),)), Table("s1", "t1", (("i", "bigint"),)))
    rows = (Transaction("s1", (("t1", (1,), 1),)),)
    story = Scenario(
        tables,
        "SELECT a.m AS o FROM s0.t0 a JOIN s1.t1 b ON a.m = b.i",
        rows,
        (Transaction("s0", (("t0", (Decimal("1.50"),), 1),)),),
    )
    assert witness(story, Run(()), By("sweep")) is not None
    monkeypatch.undo()
    assert witness(story, Run(()), By("sweep")) is None


def test_sweep_is_refused_two_tables_of_a_source_and_would_be_wrong() -> None:
    """SWEEP assumes one relation per source and transaction: a transaction over two is refused, and where the refusal
    is gone the states are wrong."""
    tables = (Table("s", "t0", KINDLY), Table("s", "t1", KINDLY))
    sql = "SELECT a.x AS o FROM s.t0 a JOIN s.t1 b ON a.y = b.x"
    both = (Transaction("s", (("t0", (1, 1), 1), ("t1", (1, 1), 1))),)
    story = Scenario(tables, sql, (), both)
    with played(story) as world:
        with pytest.raises(ViewSqlError, match="tables of one source, so one transaction can change both"):
            defined(world, By("sweep"))
        unchecked = replace(world.view(), maintenance="sweep")
        assert witness(story, Run(()), By("tid")) is None
        assert sweep is batch_module.strategy_of(unchecked)
    found = witness(story, Run(()), By("sweep"), unchecked)
    assert found is not None
    assert found.extra, "both sweeps see the other's change"
    assert judged(story, unchecked) is Consistency.NONE
    assert judged(story, replace(unchecked, maintenance="tid")) is Consistency.COMPLETE


def judged(story: Scenario, view: ViewDefinition) -> Consistency:
    """What the lab's checker says, which knows nothing of the algorithm: of plain columns, one transaction."""
    with played(story) as world:
        core = maintain(world, view, Run(()), By(view.maintenance)).batches[0]
        states = [{name: relation.bag for name, relation in state.items()} for state in world.states()]
        columns = {name: tuple(schema.names) for name, schema in world.types.items()}
        history = History(columns, (view,), states[0], {"v": evaluated(view, world.states()[0])})
        label = Label("s", 1)
        history.transactions.append(Update(label, {t: states[1][t] - states[0][t] for t in columns}, 1.0))
        history.states.append(State(1.0, (("v", bag_of(fold(core))),), (label,)))
        return check(history).level
