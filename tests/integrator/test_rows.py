"""A round of the integrator, cut into rows of the view update table."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.integrator.relevance import Row, Seqs, rows
from headwater.model.names import Seq


def seqs(*numbers: int) -> Seqs:
    return np.array(numbers, np.int64)


def cut(lo: int, hi: int, relevant: dict[str, Seqs], every: tuple[int, ...] = ()) -> list[tuple[int, int, str]]:
    return [(r.lo, r.hi, "".join(sorted(r.views))) for r in rows(Seq(lo), Seq(hi), relevant, every)]


def test_views_that_share_a_transaction_are_one_row() -> None:
    assert cut(0, 9, {"a": seqs(1, 4), "b": seqs(4, 5), "c": seqs(7)}) == [(0, 9, "ab"), (0, 9, "c")]


def test_views_tied_through_a_third_are_one_row() -> None:
    assert cut(0, 9, {"a": seqs(1), "b": seqs(2), "c": seqs(1, 2)}) == [(0, 9, "abc")]


def test_the_same_transactions_many_times() -> None:
    assert cut(0, 9, {"a": seqs(1, 2), "b": seqs(1, 2), "c": seqs(1, 2), "d": seqs(3)}) == [(0, 9, "abc"), (0, 9, "d")]


def test_what_concerns_nobody_makes_no_row() -> None:
    assert cut(0, 9, {"a": seqs()}) == []
    assert cut(0, 9, {}) == []


def test_rows_end_at_the_last_multiple() -> None:
    views = {"a": seqs(11, 14, 19), "b": seqs(19)}
    assert cut(10, 20, views, (8,)) == [(10, 16, "a"), (16, 20, "ab")]
    assert cut(10, 20, views, (5,)) == [(10, 20, "ab")]
    assert cut(10, 20, views, (100,)) == [(10, 20, "ab")]  # no multiple inside: nothing to cut


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
    for seq in range(1, 31):  # whole: all views of a transaction stand in one row
        views = {view for view, numbers in relevant.items() if seq in numbers}
        holding = [r for r in found if r.lo < seq <= r.hi and r.views & views]
        assert len(holding) == bool(views)
        assert all(views <= r.views for r in holding)


@given(relevant=relevance)
def test_rows_are_as_small_as_they_can_be(relevant: dict[str, Seqs]) -> None:
    def tied(row: Row) -> bool:
        """Whether the row's views hang together."""
        reached, left = {next(iter(row.views))}, list(row.views)
        for _ in left:
            reached |= {
                v for v in row.views for r in list(reached) if set(relevant[v].tolist()) & set(relevant[r].tolist())
            }
        return reached == set(row.views)

    assert all(tied(row) for row in rows(Seq(0), Seq(30), relevant))
