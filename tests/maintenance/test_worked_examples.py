"""The papers' own examples, with their own numbers.

Steps have names; an interleaving is a line of them, to be read beside the paper's figure.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from headwater.algebra import Bag
from headwater.model.changelog import COUNT, fold, visible
from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import Question, SourceSpec
from headwater.sources import memory
from headwater.sources.memory import MemorySource

from .histories import Scenario, Table, Transaction
from .oracle import Run, bag_of, evaluated, maintain, output, played

# ------------------------------------------------------ TID rules, section 4, figure 1: R(X) = {tx(1), ty(2)}

R = TableName(SourceName("si"), "r")


class Figure1:
    """One source. `DW sends Q` fixes the position that the warehouse asks about; the two updates are the figure's."""

    def __init__(self, url: str) -> None:
        spec = SourceSpec(SourceName("si"), url)
        self.database = memory.database(url)
        self.database.create("r", {"tuple": pa.string(), "x": pa.int64()})
        self.source = MemorySource(spec)
        self.source.install([R])
        self._commit(("tx", None, 1), ("ty", None, 2))
        self.asked_as_of = Position("")
        self.notified: list[str] = []
        self.answer = Bag()

    def play(self, steps: str) -> Figure1:
        doing = {
            "DW sends Q": self._send,
            "TR1 commits tx(10)": lambda: self._commit(("tx", 1, 10)),
            "TR3 commits ty(20)": lambda: self._commit(("ty", 2, 20)),
            "notice of tx(10)": lambda: self.notified.append("tx"),
            "notice of ty(20)": lambda: self.notified.append("ty"),
            "Q is answered": self._answer,
        }
        for step in steps.split(" | "):
            doing[step]()
        return self

    def as_of(self, position: Position) -> Bag:
        keys = pa.table({"tuple": pa.array(["tx", "ty"])})
        parts = list(self.source.ask(Question(R, ("tuple",), keys, ("tuple", "x")), position))
        return bag_of(pa.Table.from_batches(parts).select(["tuple", "x", COUNT]))

    def _send(self) -> None:
        self.asked_as_of = self.source.position()

    def _answer(self) -> None:
        self.answer = self.as_of(self.asked_as_of)

    def _commit(self, *updates: tuple[str, int | None, int]) -> None:
        changes = [("r", {"tuple": t, "x": old}, -1) for t, old, _ in updates if old is not None]
        self.database.commit([*changes, *(("r", {"tuple": t, "x": new}, 1) for t, _, new in updates)])


@pytest.fixture
def figure_1() -> Iterator[Figure1]:
    url = "memory://tid-rules-figure-1"
    yield Figure1(url)
    memory._databases.pop(url)


INTERLEAVINGS = [
    # the figure itself: the notice of ty comes before the answer, that of tx after it
    "DW sends Q | TR3 commits ty(20) | notice of ty(20) | TR1 commits tx(10) | Q is answered | notice of tx(10)",
    "DW sends Q | TR3 commits ty(20) | TR1 commits tx(10) | Q is answered | notice of ty(20) | notice of tx(10)",
    "DW sends Q | TR1 commits tx(10) | notice of tx(10) | TR3 commits ty(20) | notice of ty(20) | Q is answered",
    "DW sends Q | Q is answered | TR1 commits tx(10) | TR3 commits ty(20) | notice of ty(20) | notice of tx(10)",
]


@pytest.mark.parametrize("steps", INTERLEAVINGS)
def test_figure_1_an_answer_is_as_of_whatever_arrives_when(figure_1: Figure1, steps: str) -> None:
    assert figure_1.play(steps).answer == Bag.of([("tx", 1), ("ty", 2)])


def test_figure_1_arrival_order_would_have_guessed_wrong(figure_1: Figure1) -> None:
    """Read committed answers {tx(10), ty(2)}. By arrival the warehouse takes back ty, which the answer does not hold,
    and leaves tx, which it does: neither the state before nor the one after. As of a position there is no guessing."""
    figure_1.play(INTERLEAVINGS[0].partition(" | Q is answered")[0])
    read_committed = Bag.of([("tx", 10), ("ty", 2)])
    assert figure_1.notified == ["ty"], "all that the warehouse has heard of when the answer comes"
    compensated = read_committed - (Bag.of([("ty", 20)]) - Bag.of([("ty", 2)]))
    real = [figure_1.as_of(Position(p)) for p in ("1", "2", "3")]
    assert real == [Bag.of([("tx", x), ("ty", y)]) for x, y in ((1, 2), (1, 20), (10, 20))]
    assert compensated not in real
    assert read_committed not in real


def test_figure_1_in_a_view() -> None:
    """The update of another source that Q belongs to (δRn), joined with R at its own moment."""
    tables = (Table("sn", "rn", (("t", "text"),)), Table("si", "r", (("t", "text"), ("x", "bigint"))))
    before = (Transaction("si", (("r", ("a", 1), 1), ("r", ("b", 2), 1))),)
    history = (
        Transaction("sn", (("rn", ("a",), 1), ("rn", ("b",), 1))),
        Transaction("si", (("r", ("b", 2), -1), ("r", ("b", 20), 1))),  # TR3
        Transaction("si", (("r", ("a", 1), -1), ("r", ("a", 10), 1))),  # TR1
    )
    scene = Scenario(tables, "SELECT n.t, r.x FROM sn.rn n JOIN si.r r ON n.t = r.t", before, history)
    with played(scene) as world:
        view = world.view()
        for run in (Run(()), Run((1,)), Run((1, 2)), Run((2,))):
            log = pa.concat_tables([output(view, part) for part in maintain(world, view, run).batches])
            got = [bag_of(fold(log, s)) for s in (1, 2, 3)]
            assert got == [Bag.of([("a", x), ("b", y)]) for x, y in ((1, 2), (1, 20), (10, 20))]


# --------------------------------------------------------------------- PVM, section 3.3, figures 8 to 12: DW = A × B

A, B = Table("is1", "a", (("x", "bigint"),)), Table("is2", "b", (("y", "bigint"),))
FIGURE_8 = Scenario(
    (A, B),
    "SELECT a.x, b.y FROM is1.a CROSS JOIN is2.b",
    before=(Transaction("is1", (("a", (1,), 1),)), Transaction("is2", (("b", (2,), 1),))),
    history=(
        Transaction("is2", (("b", (3,), 1),)),  # DU1 adds ⟨3⟩ to B
        Transaction("is1", (("a", (1,), -1),)),  # DU2 deletes ⟨1⟩ from A
    ),
)


def figure_8() -> tuple[pa.Table, pa.Table, pa.Table]:
    """DW as loaded, ΔDW1, ΔDW2: two batches, each asked as of its own cut."""
    with played(FIGURE_8) as world:
        view = world.view()
        states = world.states()
        assert evaluated(view, states[0]) == Bag.of([(1, 2)])
        assert evaluated(view, states[2]) == Bag()
        first, second = (output(view, rows) for rows in maintain(world, view, Run((1,))).batches)
    loaded = pa.table({"x": [1], "y": [2], COUNT: [1], "__seq": [0]}).cast(first.schema)
    return loaded, first, second


def test_figure_8_the_two_effects() -> None:
    _, first, second = figure_8()
    assert bag_of(first) == Bag({(1, 3): 1})
    assert bag_of(second) == Bag({(1, 2): -1, (1, 3): -1})


def test_figure_9_the_correct_commit_order() -> None:
    dw, first, second = figure_8()
    assert bag_of(fold(pa.concat_tables([dw, first]))) == Bag.of([(1, 2), (1, 3)])
    assert bag_of(fold(pa.concat_tables([dw, first, second]))) == Bag()


def test_figure_9_without_negative_counters_the_wrong_order_leaves_a_faulty_tuple() -> None:
    dw, first, second = figure_8()
    state = bag_of(dw)
    for delta in (second, first):
        state = Bag({row: n for row, n in state + bag_of(delta) if n > 0})
    assert state == Bag({(1, 3): 1})


def test_figure_12_a_negative_counter_remembers_and_readers_never_see_it() -> None:
    dw, first, second = figure_8()
    early = fold(pa.concat_tables([dw, second]))
    assert bag_of(early) == Bag({(1, 3): -1})
    assert visible(early).num_rows == 0
    assert fold(pa.concat_tables([dw, second, first])).num_rows == 0
