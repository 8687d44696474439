"""The one data structure: folding a changelog is summing a bag."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.algebra import Bag
from headwater.model.changelog import COUNT, SEQ, consolidate, fold, visible

Change = tuple[Any, Any, int, int]
changes = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 2)),
        st.one_of(st.none(), st.sampled_from(["", "a"])),
        st.integers(-2, 2),
        st.integers(0, 4),
    ),
    max_size=20,
)


def log(rows: list[Change]) -> pa.Table:
    kinds = [("x", pa.int64()), ("y", pa.string()), (COUNT, pa.int64()), (SEQ, pa.int64())]
    return pa.table({name: pa.array([r[i] for r in rows], kind) for i, (name, kind) in enumerate(kinds)})


def bag(state: pa.Table) -> Bag:
    rows = zip(state.column("x").to_pylist(), state.column("y").to_pylist(), strict=True)
    return Bag.summed(zip(rows, state.column(COUNT).to_pylist(), strict=True))


def summed(rows: list[Change], at: int = 99) -> Bag:
    return Bag.summed(((x, y), n) for x, y, n, s in rows if s <= at)


@given(changes, st.integers(-1, 5))
@settings(max_examples=100)
def test_a_state_is_the_fold(rows: list[Change], at: int) -> None:
    state = fold(log(rows), at)
    assert state.column_names == ["x", "y", COUNT]
    assert bag(state) == summed(rows, at)
    assert 0 not in state.column(COUNT).to_pylist()
    assert state.num_rows == len(summed(rows, at).counts), "equal rows are one row"
    assert bag(fold(log(rows))) == summed(rows)


@given(changes)
@settings(max_examples=50)
def test_consolidation_keeps_every_state(rows: list[Change]) -> None:
    short = consolidate(log(rows))
    assert short.column_names == log(rows).column_names
    assert consolidate(short).num_rows == short.num_rows <= len(rows)
    assert all(bag(fold(short, at)) == summed(rows, at) for at in range(6))


@given(changes, changes)
@settings(max_examples=50)
def test_folding_is_linear(rows: list[Change], more: list[Change]) -> None:
    """Logs can be appended in any order, and folded in parts."""
    both = pa.concat_tables([log(more), log(rows)])
    assert bag(fold(both)) == bag(fold(log(rows))) + bag(fold(log(more)))


@given(changes)
@settings(max_examples=50)
def test_readers_see_each_row_as_often_as_it_counts_and_no_debts(rows: list[Change]) -> None:
    seen = visible(fold(log(rows)))
    assert seen.column_names == ["x", "y"]
    pairs = zip(seen.column("x").to_pylist(), seen.column("y").to_pylist(), strict=True)
    assert Bag.of(pairs) == Bag({row: n for row, n in summed(rows) if n > 0})


def test_without_columns_only_the_count_is_left() -> None:
    only = pa.table({COUNT: pa.array([2, -1], pa.int64()), SEQ: pa.array([1, 2], pa.int64())})
    assert fold(only, 1).to_pylist() == [{COUNT: 2}]
    assert fold(only).to_pylist() == [{COUNT: 1}]
    assert fold(only, 0).num_rows == 0
