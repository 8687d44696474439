"""A round of the integrator, cut into rows of the view update table."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.integrator.relevance import Seqs, rows
from headwater.model.names import Seq


def seqs(*numbers: int) -> Seqs:
    return np.array(numbers, np.int64)


def cut(lo: int, hi: int, relevant: dict[str, Seqs], every: tuple[int, ...] = ()) -> list[tuple[int, int, str]]:
    return [(r.lo, r.hi, "".join(sorted(r.views))) for r in rows(Seq(lo), Seq(hi), relevant, every)]


def test_a_row_ends_where_the_set_of_views_changes() -> None:
    assert cut(0, 9, {"a": seqs(1, 4), "b": seqs(4, 5), "c": seqs(7)}) == [
        (0, 1, "a"), (3, 4, "ab"), (4, 5, "b"), (6, 7, "c"),
    ]  # fmt: skip


def test_a_run_with_one_set_is_one_row_whatever_lies_between() -> None:
    assert cut(0, 9, {"a": seqs(1, 3, 5), "b": seqs(2, 4)}) == [(1, 4, "b"), (0, 5, "a")]
    assert cut(0, 9, {"a": seqs(1, 2), "b": seqs(1, 2), "c": seqs(1, 2), "d": seqs(3)}) == [(0, 2, "abc"), (2, 3, "d")]


def test_the_last_of_a_thousand_holds_none_of_the_others() -> None:
    """MVC, section 4.4: 1 to 999 concern V1 only, 1000 concerns a slow V2 as well."""
    assert cut(0, 1000, {"a": np.arange(1, 1001), "b": seqs(1000)}) == [(0, 999, "a"), (999, 1000, "ab")]


def test_what_concerns_nobody_makes_no_row() -> None:
    assert cut(0, 9, {"a": seqs()}) == []
    assert cut(0, 9, {}) == []


def test_rows_end_at_the_last_multiple() -> None:
    views = {"a": seqs(11, 14, 17, 19)}
    assert cut(10, 20, views, (8,)) == [(10, 14, "a"), (16, 19, "a")]
    assert cut(10, 20, views, (20,)) == [(10, 19, "a")]
    assert cut(10, 20, views, (100,)) == [(10, 19, "a")]  # no multiple inside: nothing to cut


def test_rows_cross_no_multiple_of_what_a_batch_takes_at_most() -> None:
    found = rows(Seq(10), Seq(30), {"a": seqs(11, 14, 17, 19, 25), "b": seqs(12)}, most=8)
    assert [(r.lo, r.hi, *r.views) for r in found] == [(11, 12, "b"), (10, 14, "a"), (16, 19, "a"), (24, 25, "a")]


@given(
    relevant=st.dictionaries(st.sampled_from("abc"), st.sets(st.integers(1, 30), max_size=12)), most=st.integers(1, 9)
)
def test_no_row_crosses_a_multiple(relevant: dict[str, set[int]], most: int) -> None:
    known = {view: seqs(*sorted(found)) for view, found in relevant.items()}
    found = rows(Seq(0), Seq(30), known, most=most)
    assert all((r.lo) // most == (r.hi - 1) // most for r in found)
    for view, numbers in relevant.items():
        for seq in numbers:
            assert len([r for r in found if view in r.views and r.lo < seq <= r.hi]) == 1


relevance = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.sets(st.integers(1, 30), max_size=8).map(lambda found: seqs(*sorted(found))),
    max_size=8,
)


@given(relevant=relevance, every=st.lists(st.integers(2, 12), max_size=2))
def test_every_transaction_is_in_exactly_one_row_of_each_of_its_views(
    relevant: dict[str, Seqs], every: list[int]
) -> None:
    found = rows(Seq(0), Seq(30), relevant, every)
    for view, numbers in relevant.items():
        for seq in numbers.tolist():
            assert len([r for r in found if view in r.views and r.lo < seq <= r.hi]) == 1
    for row in found:
        for view in row.views:
            assert any(row.lo < seq <= row.hi for seq in relevant[view].tolist()), "nobody waits for nothing"
    for seq in range(1, 31):  # whole, and no more: the views of a transaction are those of its row
        views = {view for view, numbers in relevant.items() if seq in numbers}
        holding = [r for r in found if r.lo < seq <= r.hi and r.views & views]
        assert [r.views for r in holding] == ([views] if views else [])
    assert len({row.hi for row in found}) == len(found), "a row is known by its last transaction"


@given(relevant=relevance)
def test_rows_are_as_few_as_they_can_be(relevant: dict[str, Seqs]) -> None:
    """Two rows of the same views are apart only because one of them shares a transaction with others in between."""
    found = rows(Seq(0), Seq(30), relevant)
    for one, other in itertools.combinations(found, 2):
        if one.views == other.views:
            assert any(r.views & one.views and one.hi < r.hi < other.hi and r.views != one.views for r in found)
