"""The wave over blocks against recomputation: asked together or one by one, every state is a state that was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.maintenance.blocks import Block, Contracted, contracted
from headwater.model.names import SourceName, TableName
from headwater.runtime.compute import asking

from .histories import Scenario, Table, Transaction, Wanted, scenario, smallest
from .oracle import Played, Run, maintain, played, witness

seeds = st.integers(0, 2**32 - 1)
ends = st.lists(st.integers(1, 40), max_size=6).map(tuple)
runs = st.builds(
    Run,
    ends,
    parts=st.integers(1, 3),
    every=st.sampled_from([1, 1, 0, 3]),
    scan=st.booleans(),
    beyond=st.sampled_from([0, 0, 3]),
    joined=st.just(True),
)
shapes = st.sampled_from(["chain", "star", "cycle", "tree", "chain", "star"])


def agree(history: Scenario, run: Run) -> None:
    if witness(history, run) is None:
        return
    small = smallest(history, lambda less: witness(less, run) is not None)
    pytest.fail(f"{witness(small, run)}\nmaintained in {run}", pytrace=False)


def made_of(world: Played) -> Contracted | None:
    view = world.view()
    return contracted(view, world.schemas(view), {})


@contextmanager
def table_by_table() -> Iterator[None]:
    """No question is worth saving."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "QUESTION_COST", -(10**12))
        yield


@given(seed=seeds, shape=shapes, run=runs)
@settings(max_examples=max(10, 2 * settings.default.max_examples))
def test_every_state_is_one_that_was(seed: int, shape: str, run: Run) -> None:
    agree(scenario(seed, Wanted(shape=shape, kind="plain", joined=True)), run)


@given(seed=seeds, run=runs)
def test_of_any_view(seed: int, run: Run) -> None:
    agree(scenario(seed), run)


@given(seed=seeds, shape=shapes, run=runs)
@settings(max_examples=max(10, settings.default.max_examples // 4))
def test_table_by_table_too(seed: int, shape: str, run: Run) -> None:
    with table_by_table():
        agree(scenario(seed, Wanted(shape=shape, kind="plain", joined=True)), run)


def test_the_generated_views_have_blocks() -> None:
    """An oracle that is fed nothing to find finds nothing."""
    found = 0
    for seed in range(60):
        with played(scenario(seed, Wanted(shape="chain", kind="plain", joined=True))) as world:
            found += made_of(world) is not None
    assert found > 20


@given(seed=seeds, shape=shapes, run=runs)
@settings(max_examples=max(10, settings.default.max_examples // 2))
def test_never_more_questions_than_table_by_table(seed: int, shape: str, run: Run) -> None:
    with played(scenario(seed, Wanted(shape=shape, kind="plain", joined=True))) as world:
        view = world.view()
        asked = maintain(world, view, replace(run, scan=False)).questions
        assert max(asked, default=0) <= 2 * (len(view.occurrences) - 1)


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("transactions", [1, 7])
def test_without_changes_of_blocks_a_batch_asks_twice_per_edge_between_sources(n: int, transactions: int) -> None:
    """Sources s0 … of n tables each, in a row, and a table of its own at either end: only those change."""
    inner = [Table(f"s{i // n}", f"t{i}", (("x", "int"), ("y", "int"))) for i in range(2 * n)]
    first, last = Table("a", "first", (("x", "int"), ("y", "int"))), Table("z", "last", (("x", "int"), ("y", "int")))
    tables = (first, *inner, last)
    before = tuple(Transaction(t.source, ((t.name, (1, 1), 1),)) for t in tables)
    joins = " ".join(f"JOIN {t.path} ON {p.name}.y = {t.name}.x" for p, t in pairwise(tables))
    sql = f"SELECT first.x AS o0, last.y AS o1 FROM {first.path} {joins}"
    row = Scenario(tables, sql, before, (before[0], before[-1]) * transactions)
    one_by_one: list[int] = []
    together: list[int] = []
    assert witness(row, Run(()), one_by_one) is None
    assert witness(row, Run((), joined=True), together) is None
    m = 4
    assert together == [2 * (m - 1)]
    assert one_by_one == [2 * (len(tables) - 1)]


def test_a_block_that_changes_asks_for_itself_first() -> None:
    tables = (
        *(Table("s", f"t{i}", (("x", "int"), ("y", "int"))) for i in range(3)),
        Table("z", "last", (("x", "int"),)),
    )
    before = tuple(Transaction(t.source, ((t.name, (1,) * len(t.columns), 1),)) for t in tables)
    sql = "SELECT t0.x FROM s.t0 JOIN s.t1 ON t0.y = t1.x JOIN s.t2 ON t1.y = t2.x JOIN z.last ON t2.y = last.x"
    asked: list[int] = []
    assert witness(Scenario(tables, sql, before, (before[1], before[3])), Run((), joined=True), asked) is None
    assert asked == [2 + 2]  # t1 asks t0 and t2; then the block and last ask each other
    asked.clear()
    assert witness(Scenario(tables, sql, before, (before[1],)), Run((), joined=True), asked) is None
    assert asked == [2 + 1]


def test_transactions_beyond_the_batch_are_taken_back_from_blocks() -> None:
    """The questions are as of a later cut, at which the block has changed on both of its sides."""
    tables = (
        Table("s", "a", (("x", "int"), ("y", "int"))),
        Table("s", "b", (("x", "int"), ("y", "int"))),
        Table("z", "c", (("x", "int"),)),
    )
    sql = "SELECT a.x, b.y, c.x AS z FROM s.a JOIN s.b ON a.y = b.x JOIN z.c ON b.y = c.x"
    before = (Transaction("s", (("a", (1, 1), 1), ("b", (1, 1), 1))),)
    history = (
        Transaction("z", (("c", (1,), 1),)),
        Transaction("s", (("a", (1, 1), -1), ("b", (1, 1), -1), ("a", (2, 1), 1), ("b", (1, 2), 1))),
        Transaction("s", (("b", (1, 1), 2), ("a", (3, 1), 1))),
    )
    for every in (0, 1):
        agree(Scenario(tables, sql, before, history), Run((1, 2, 3), every=every, beyond=2, joined=True))


def test_duplicates_multiply() -> None:
    tables = (Table("s", "a", (("x", "int"),)), Table("s", "b", (("x", "int"),)), Table("z", "c", (("x", "int"),)))
    sql = "SELECT a.x FROM s.a JOIN s.b ON a.x = b.x JOIN z.c ON b.x = c.x"
    before = (Transaction("s", (("a", (1,), 3), ("b", (1,), 2))),)
    agree(Scenario(tables, sql, before, (Transaction("z", (("c", (1,), 2),)),)), Run((), joined=True))


# ------------------------------------------------------------------------------------------------- what is contracted


def view_of(sql: str, *tables: Table) -> tuple[Contracted | None, Played]:
    with played(Scenario(tables, sql, (), ())) as world:
        return made_of(world), world


def ints(source: str, name: str, *more: tuple[str, str]) -> Table:
    return Table(source, name, (("x", "int"), ("y", "int"), *more))


def blocks(made: Contracted | None) -> list[list[str]]:
    return [[o.alias for o in block.view.occurrences] for block in made.blocks.values()] if made else []


def test_only_what_is_joined_with_each_other_is_a_block() -> None:
    """a and c are of one source but meet only through another."""
    made, _ = view_of(
        "SELECT a.x FROM s.a JOIN z.b ON a.x = b.x JOIN s.c ON b.y = c.x",
        ints("s", "a"),
        ints("z", "b"),
        ints("s", "c"),
    )
    assert made is None


def test_a_view_of_one_source_saves_nothing() -> None:
    made, _ = view_of("SELECT a.x FROM s.a JOIN s.b ON a.x = b.x", ints("s", "a"), ints("s", "b"))
    assert made is None


def test_a_self_join_is_a_block() -> None:
    made, _ = view_of(
        "SELECT a.x FROM s.t a JOIN s.t b ON a.x = b.y JOIN z.c ON b.x = c.x", ints("s", "t"), ints("z", "c")
    )
    assert blocks(made) == [["a", "b"]]
    assert made is not None
    assert (made.questions, made.of_blocks) == (2, 2)


@pytest.mark.parametrize("kind", ["double", "timestamp", "money"])
def test_what_engines_compare_in_their_own_ways_is_not_asked_together(kind: str) -> None:
    a, b = ints("s", "a", ("v", kind)), ints("s", "b", ("v", kind))
    made, _ = view_of("SELECT a.x FROM s.a JOIN s.b ON a.v = b.v JOIN z.c ON b.x = c.x", a, b, ints("z", "c"))
    assert made is None


def test_an_equality_that_the_source_is_not_told_is_checked_on_its_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = ints("s", "a", ("v", "double")), ints("s", "b", ("v", "double")), ints("z", "c")
    sql = "SELECT a.x FROM s.a JOIN s.b ON a.x = b.x AND a.v = b.v JOIN z.c ON b.y = c.x"
    made, _ = view_of(sql, a, b, c)
    assert made is not None
    (block,) = made.blocks.values()
    assert (len(block.at_source), len(block.left_over)) == (1, 1)
    before = (Transaction("s", (("a", (1, 1, 0.5), 1), ("a", (1, 1, 1.0), 1), ("b", (1, 1, 0.5), 1))),)
    scene = Scenario((a, b, c), sql, before, (Transaction("z", (("c", (1, 1), 1),)),))
    agree(scene, Run((), joined=True))
    monkeypatch.setattr(Block, "meets", lambda self, answer: answer)
    assert witness(scene, Run((), joined=True)) is not None, "nobody noticed that it was forgotten"


def test_a_block_that_no_index_finds_is_left_as_its_tables() -> None:
    """c asks for b, whose rows find a by x; a change of d asks for a, which finds b by y."""
    tables = (ints("s", "a"), ints("s", "b"), ints("z", "c"))
    with played(Scenario(tables, "SELECT a.x FROM s.a JOIN s.b ON a.x = b.y JOIN z.c ON b.x = c.x", (), ())) as world:
        view = world.view()
        named = {t.table: t for t in view.tables}
        schemas = world.schemas(view)
        assert contracted(view, schemas, {named["a"]: frozenset("x"), named["b"]: frozenset("x")}) is not None
        assert contracted(view, schemas, {named["a"]: frozenset("y"), named["b"]: frozenset("x")}) is None
        assert contracted(view, schemas, {named["a"]: frozenset("x"), named["b"]: frozenset("y")}) is None


def test_a_block_has_a_name_that_no_table_has() -> None:
    made, world = view_of(
        "SELECT a.x FROM s.a JOIN s.b ON a.x = b.y JOIN z.c ON b.x = c.x",
        ints("s", "a"),
        ints("s", "b"),
        ints("z", "c"),
    )
    assert made is not None
    (name,) = made.blocks
    assert name.source == SourceName("s")
    assert "\0" in name.table
    assert TableName(SourceName("s"), "a") in world.types
