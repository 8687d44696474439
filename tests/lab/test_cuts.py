"""Cuts as readers saw them: views may be at different numbers, but never disagree about a transaction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.algebra.bag import Bag
from headwater.lab.checker.cuts import check_cuts
from headwater.lab.checker.levels import Consistency
from headwater.lab.histories.history import CutShown, History
from headwater.lab.histories.recorded import read_history, write_history
from headwater.lab.worlds.world import defined, table_name
from headwater.maintenance.strategies.contract import Label, Update

A, B = table_name("s.a"), table_name("s.b")
COLUMNS = {A: ("k", "x"), B: ("k", "y")}
TYPES = {t: dict.fromkeys(columns, pa.int64()) for t, columns in COLUMNS.items()}
SQL = {
    "both": "SELECT a.k, a.x, b.y FROM s.a a JOIN s.b b ON a.k = b.k",
    "large": "SELECT k, x FROM s.a WHERE x >= 10",
    "ys": "SELECT k, y FROM s.b",
}

CHANGES = (
    {A: Bag({(1, 5): 1})},  # concerns both
    {B: Bag({(1, 7): 1})},  # both, ys
    {A: Bag({(2, 50): 1})},  # both, large
    {B: Bag({(9, 9): 1})},  # both, ys, though it changes nothing in both
)


def history(*shows: tuple[int, int, int]) -> History:
    """What the views show in each cut: `both`, `large`, `ys`."""
    views = defined(COLUMNS, SQL, TYPES)
    made = History(COLUMNS, views, {A: Bag(), B: Bag()}, {v: Bag() for v in SQL})
    made.transactions += [Update(Label("s", n), changes, float(n), "", "") for n, changes in enumerate(CHANGES, 1)]
    effects = {
        "both": (Bag(), Bag({(1, 5, 7): 1}), Bag(), Bag()),
        "large": (Bag(), Bag(), Bag({(2, 50): 1}), Bag()),
        "ys": (Bag(), Bag({(1, 7): 1}), Bag(), Bag({(9, 9): 1})),
    }
    before = dict.fromkeys(SQL, 0)
    for number, shown in enumerate(((0, 0, 0), *shows), 1):
        now = dict(zip(SQL, shown, strict=True))
        changes = tuple((v, sum(effects[v][before[v] : now[v]], Bag())) for v in SQL)
        made.cuts.append(CutShown(number, float(number), now, changes))
        before = now
    return made


def test_views_at_one_number_are_strong() -> None:
    assert Consistency.STRONG in check_cuts(history((2, 2, 2), (4, 4, 4))).holds


def test_a_view_may_be_ahead_by_what_does_not_concern_the_others() -> None:
    verdict = check_cuts(history((1, 0, 0), (2, 1, 2), (3, 4, 2), (4, 4, 4)))
    assert verdict.holds >= Consistency.COMPLETE.implies, str(verdict)


def test_a_transaction_withheld_from_one_of_its_views_is_found() -> None:
    verdict = check_cuts(history((2, 2, 1), (4, 4, 4)))
    assert verdict.holds == {Consistency.NONE, Consistency.CONVERGENCE}
    assert "in both, but not in ys" in str(verdict)


def test_it_concerns_a_view_that_it_does_not_change() -> None:
    """A row without a partner now may have one later: it must not be moved past what comes then."""
    assert "but not in both" in check_cuts(history((3, 3, 4), (4, 4, 4))).torn


def test_a_cut_that_goes_back_is_found() -> None:
    assert "shows less of" in check_cuts(history((2, 2, 2), (1, 1, 1), (4, 4, 4))).torn


def test_rows_that_are_not_those_of_the_number_are_found() -> None:
    made = history((2, 2, 2), (4, 4, 4))
    made.cuts[1] = made.cuts[1]._replace(changes=(("both", Bag({(1, 5, 8): 1})), ("ys", Bag({(1, 7): 1}))))
    verdict = check_cuts(made)
    assert Consistency.WEAK not in verdict.holds
    assert "both:" in str(verdict)


@pytest.mark.parametrize("first", [(1, 0, 1), (3, 3, 3), (2, 0, 2)])
def test_a_history_may_begin_anywhere(first: tuple[int, int, int]) -> None:
    made = history(first, (4, 4, 4))
    assert Consistency.STRONG in check_cuts(replace(made, cuts=made.cuts[1:])).holds


def test_cuts_are_written_and_read(tmp_path: Path) -> None:
    made = history((2, 1, 2), (4, 4, 4))
    write_history(made, tmp_path / "h.jsonl", TYPES)
    read = read_history(tmp_path / "h.jsonl")
    assert [(c.number, c.at, c.shows) for c in read.cuts] == [(c.number, c.at, c.shows) for c in made.cuts]
    assert Consistency.STRONG in check_cuts(read).holds
