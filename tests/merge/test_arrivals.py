"""Any arrival order, any mix of managers: the states of the warehouse are what section 2 promises, and promptly.

Ours is compared with the definitions, with brute force, and with the algorithms as the paper prints them.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.merge import (
    ActionList,
    Color,
    MergeProcess,
    Painting,
    SimplePainting,
    ViewUpdateTable,
    WarehouseTransaction,
    painting_for,
)

from . import reference
from .arrivals import Arrivals, Event, Warehouse, arrivals, needed, releasable

COMPLETE = ("complete",)
MIXED = ("complete", "strong", "blocks")
MANY = settings(max_examples=300, deadline=None)


def deliver(merge: Any, event: Event) -> Any:
    return merge.action_list(event) if isinstance(event, ActionList) else merge.relevance(*event)


def played(merge: MergeProcess, history: Arrivals) -> list[list[WarehouseTransaction]]:
    """Deliver everything; after each event, the state is consistent and nothing more could be released."""
    warehouse, steps = Warehouse(history), []
    for at, event in enumerate(history.events):
        steps.append(deliver(merge, event))
        for transaction in steps[-1]:
            for row in transaction.rows:  # not more in one than must be
                assert needed(history, row, warehouse.rows) == set(transaction.rows)
            warehouse.commit(transaction)
            assert warehouse.wrong() is None
            assert transaction.views == frozenset().union(*(history.relevant[i] for i in transaction.rows))
        assert releasable(history, history.events[: at + 1], warehouse.rows) == set()
    assert warehouse.final()
    assert len(merge.table) == 0
    assert all(merge.table.first_pending(view) is None for view in history.views)
    return steps


@MANY
@given(arrivals(COMPLETE))
def test_simple_painting_is_complete_and_prompt(history: Arrivals) -> None:
    steps = played(SimplePainting(ViewUpdateTable(history.views)), history)
    transactions = [t for step in steps for t in step]
    assert all(len(t.rows) == 1 for t in transactions)
    assert sorted(t.rows[0] for t in transactions) == [i for i, views in history.relevant.items() if views]


@MANY
@given(arrivals(MIXED))
def test_painting_is_strongly_consistent_and_prompt(history: Arrivals) -> None:
    played(Painting(ViewUpdateTable(history.views)), history)


@MANY
@given(arrivals(COMPLETE))
def test_painting_is_complete_when_all_managers_are(history: Arrivals) -> None:
    steps = played(Painting(ViewUpdateTable(history.views)), history)
    assert all(len(transaction.rows) == 1 for step in steps for transaction in step)


@MANY
@given(arrivals(("blocks",)))
def test_complete_n_managers_make_a_complete_n_warehouse(history: Arrivals) -> None:
    assert history.block is not None
    for step in played(Painting(ViewUpdateTable(history.views)), history):
        for transaction in step:
            # no transaction goes past the end of a block, so each block's end is a state
            assert len({i // history.block for i in transaction.rows}) == 1


@MANY
@given(arrivals(COMPLETE))
def test_simple_painting_does_what_algorithm_1_does(history: Arrivals) -> None:
    merge, paper = SimplePainting(ViewUpdateTable(history.views)), reference.SimplePainting(history.views)
    for event in history.events:
        ours = [(t.rows, t.actions) for t in deliver(merge, event)]
        assert sorted(ours, key=str) == sorted(deliver(paper, event), key=str)
        assert_same_table(merge.table, paper)


@MANY
@given(arrivals(MIXED))
def test_painting_does_what_algorithm_2_does(history: Arrivals) -> None:
    merge, paper = Painting(ViewUpdateTable(history.views)), reference.Painting(history.views)
    for event in history.events:
        ours, theirs = deliver(merge, event), deliver(paper, event)
        # The paper leaves the order of Line 9 open, and with it whether two sets of rows that became free at once are
        # one transaction or two. Ours never has more in one than the paper.
        assert {i for t in ours for i in t.rows} == {i for rows, _ in theirs for i in rows}
        assert all(any(set(t.rows) <= set(rows) for rows, _ in theirs) for t in ours)
        assert_same_table(merge.table, paper)


def assert_same_table(table: ViewUpdateTable, paper: reference.SimplePainting) -> None:
    assert [row for row, _, _ in table.snapshot()] == paper.rows
    for row in paper.rows:
        for view in table.views:
            assert table.entry(row, view).color.value == paper.color[row, view]
            if isinstance(paper, reference.Painting):
                assert table.entry(row, view).state == paper.state[row, view]
        assert table.rows[row].white == sum(paper.color[row, view] == "w" for view in table.views)
    for view in table.views:
        assert list(table.pending(view)) == [i for i in paper.rows if paper.color[i, view] in "wr"]
        assert table.first_pending(view) == next(iter(table.pending(view)), None)


def test_algorithm_2_by_the_letter_applies_too_much() -> None:
    # Row 3 needs row 2 (through V2, which has one list for both) and row 1 (through V1, which waits for V3). By the
    # letter, ProcessRow(3) calls ProcessRow(2), which finds 3 in ApplyRows, comes through Line 5 and applies both,
    # before anyone looks at row 1.
    relevant = {1: {"V1", "V3"}, 2: {"V2"}, 3: {"V1", "V2"}}
    lists = [ActionList("V1", 1, (1,)), ActionList("V1", 3, (3,)), ActionList("V2", 3, (2, 3))]
    released = {}
    for make in (reference.LiteralPainting, reference.Painting):
        merge = make(("V2", "V1", "V3"))
        for i, views in relevant.items():
            merge.relevance(i, views)
        released[make] = [rows for al in lists for rows, _ in merge.action_list(al)]
    assert released == {reference.LiteralPainting: [(2, 3)], reference.Painting: []}


def test_simple_painting_breaks_down_with_strong_managers() -> None:
    # Example 4 and why Painting exists: with U1's entry painted, Simple Painting lets row 1 go before U3's lists came.
    history = Arrivals(
        ("V1", "V2"),
        {1: frozenset({"V1", "V2"}), 3: frozenset({"V1", "V2"})},
        {},
        (),
    )
    merge, warehouse = SimplePainting(ViewUpdateTable(history.views)), Warehouse(history)
    for i, views in history.relevant.items():
        merge.relevance(i, views)
    merge.action_list(ActionList("V1", 1, (1, 3)))  # the list for both, under the number Simple Painting waits for
    for transaction in merge.action_list(ActionList("V2", 1, (1,))):
        warehouse.commit(transaction)
    assert warehouse.wrong() == "V2 shows [1], others show [1, 3], so it should show [1, 3]"


@MANY
@given(arrivals(COMPLETE), st.data())
def test_painting_goes_on_where_simple_painting_stopped(history: Arrivals, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(history.events)))
    table, warehouse = ViewUpdateTable(history.views), Warehouse(history)
    merge = painting_for(table, complete=True)
    for i, event in enumerate(history.events):
        if i == at:
            merge = painting_for(table, complete=False)
        for transaction in deliver(merge, event):
            warehouse.commit(transaction)
            assert warehouse.wrong() is None
        assert releasable(history, history.events[: i + 1], warehouse.rows) == set()
    assert warehouse.final()


@MANY
@given(st.sampled_from((COMPLETE, MIXED)).flatmap(lambda k: st.tuples(st.just(k), arrivals(k))), st.data())
def test_the_others_stay_right_when_a_view_is_withdrawn(
    given_history: tuple[tuple[str, ...], Arrivals], data: st.DataObject
) -> None:
    kinds, history = given_history
    gone = data.draw(st.sampled_from(history.views))
    at = data.draw(st.integers(0, len(history.events)))
    merge = painting_for(ViewUpdateTable(history.views), complete=kinds == COMPLETE)
    without = Arrivals(
        tuple(view for view in history.views if view != gone),
        {i: views - {gone} for i, views in history.relevant.items()},
        {view: lists for view, lists in history.lists.items() if view != gone},
        (),
    )
    warehouse = Warehouse(without)
    for i, event in enumerate((*history.events, None)):
        released = []
        if i == at:
            released += merge.withdraw(gone)
        if isinstance(event, ActionList):
            released += merge.action_list(event)  # also lists of the view that is gone: they were on their way
        elif event is not None:
            released += merge.relevance(event[0], event[1] - {gone} if i >= at else event[1])
        for transaction in released:
            warehouse.commit(transaction)
            assert i < at or gone not in transaction.views
            assert warehouse.wrong() is None or i < at
        if i >= at:
            assert warehouse.wrong() is None
            seen = [_without(e, gone) for e in history.events[: i + 1]]
            assert releasable(without, [e for e in seen if e], warehouse.rows) == set()
    assert warehouse.final()
    assert len(merge.table) == 0


def _without(event: Event, gone: str) -> Event | None:
    if isinstance(event, ActionList):
        return event if event.view != gone else None
    return event[0], event[1] - {gone}


@MANY
@given(arrivals(MIXED), st.data())
def test_two_tables_that_became_one(history: Arrivals, data: st.DataObject) -> None:
    # Two groups of views, each with a painting of its own, until a view joins that reads from both.
    apart = data.draw(st.sets(st.sampled_from(history.views)))
    at = data.draw(st.integers(0, len(history.events)))
    tables = [ViewUpdateTable(v for v in history.views if (v in apart) == side) for side in (False, True)]
    merges = [Painting(table) for table in tables]
    warehouse = Warehouse(history)
    for i, event in enumerate(history.events):
        if i == at:
            tables[0].absorb(tables[1])
            assert tables[1].views == ()
            assert len(tables[1]) == 0
        if isinstance(event, ActionList):
            released = merges[event.view in apart and i < at].action_list(event)
        elif i >= at:
            released = merges[0].relevance(*event)
        else:
            released = [t for m in merges for t in m.relevance(event[0], event[1].intersection(m.table.views))]
        for transaction in released:
            for al in transaction.actions:
                warehouse.contents[al.view] += al.actions
        if i >= at:
            rows = [view_rows for view in history.views for view_rows in tables[0].pending(view)]
            assert set(rows) == set(tables[0].rows)
    assert warehouse.final()
    assert len(tables[0]) == 0


@pytest.mark.parametrize("make", [SimplePainting, Painting])
def test_a_view_can_be_added_to_a_row_that_waits(make: type[SimplePainting] | type[Painting]) -> None:
    merge = make(ViewUpdateTable(("V1", "V2")))
    merge.relevance(1, ("V1",))
    merge.table.add_view("V3")
    assert merge.relevance(1, ("V1", "V3")) == []
    assert merge.action_list(ActionList("V1", 1, ())) == []
    [transaction] = merge.action_list(ActionList("V3", 1, ()))
    assert transaction.views == {"V1", "V3"}


@pytest.mark.parametrize("make", [SimplePainting, Painting])
def test_a_row_may_come_late_between_others(make: type[SimplePainting] | type[Painting]) -> None:
    merge = make(ViewUpdateTable(("V1", "V2")))
    merge.relevance(10, ("V1",))
    merge.relevance(30, ("V1", "V2"))
    merge.action_list(ActionList("V2", 30, ()))
    assert merge.action_list(ActionList("V1", 10, ()))[0].rows == (10,)
    merge.relevance(20, ("V1",))
    assert merge.table.pending("V1") == [20, 30]
    assert merge.table.first_pending("V1") == 20
    assert merge.action_list(ActionList("V1", 20, ()))[0].rows == (20,)
    merge.relevance(25, ("V1",))
    merge.relevance(5, ("V1",))
    assert merge.table.pending("V1") == [5, 25, 30]
    released = [t.rows for n in (5, 25, 30) for t in merge.action_list(ActionList("V1", n, ()))]
    assert released == [(5,), (25,), (30,)]


def test_a_late_row_holds_back_what_is_below_it() -> None:
    merge = SimplePainting(ViewUpdateTable(("V1", "V2")))
    merge.relevance(3, ("V1", "V2"))
    merge.action_list(ActionList("V1", 3, ()))
    merge.relevance(2, ("V1",))
    assert merge.action_list(ActionList("V2", 3, ())) == []
    assert [t.rows for t in merge.action_list(ActionList("V1", 2, ()))] == [(2,), (3,)]


def test_a_row_that_waits_for_a_row_that_waits_for_it() -> None:
    # Row 2 leads to row 4 in V1, and row 4 waited for row 2 while that was white: neither may hold back the other.
    merge = Painting(ViewUpdateTable(("V1", "V2", "V3")))
    merge.relevance(1, ("V2", "V3"))
    merge.relevance(2, ("V1", "V2"))
    merge.relevance(4, ("V1",))
    assert merge.action_list(ActionList("V1", 4, (2, 4))) == []
    assert merge.action_list(ActionList("V2", 1, (1,))) == []
    assert merge.action_list(ActionList("V2", 2, (2,))) == []
    assert [t.rows for t in merge.action_list(ActionList("V3", 1, (1,)))] == [(1,), (2, 4)]


def test_rows_that_became_free_at_once_are_not_joined() -> None:
    # When row 1 goes, row 4 is looked at first, because of V1. It needs 2 and 3, and 3 needs 2, but none needs row 4:
    # they are three transactions, not one.
    relevant = {1: "V1 V2 V6", 2: "V2 V3 V4", 3: "V4 V5", 4: "V1 V3 V5"}
    merge = Painting(ViewUpdateTable(f"V{x}" for x in range(1, 7)))
    for row, views in relevant.items():
        merge.relevance(row, views.split())
    for row, views in relevant.items():
        for view in views.replace("V6", "").split():
            assert merge.action_list(ActionList(view, row, ())) == []
    assert [t.rows for t in merge.action_list(ActionList("V6", 1, ()))] == [(1,), (2,), (3,), (4,)]


def test_a_withdrawn_view_is_no_reason_to_wait() -> None:
    # Row 2 waits for row 1 because of V1 only; row 1 goes on waiting for V2.
    merge = Painting(ViewUpdateTable(("V1", "V2", "V3")))
    merge.relevance(1, ("V1", "V2"))
    merge.relevance(2, ("V1", "V3"))
    for al in (ActionList("V1", 1, ()), ActionList("V1", 2, ()), ActionList("V3", 2, ())):
        assert merge.action_list(al) == []
    assert [(t.rows, t.views) for t in merge.withdraw("V1")] == [((2,), {"V3"})]
    assert merge.table.pending("V2") == [1]


def test_rows_that_were_united_let_others_go() -> None:
    # In its own table, row 2 waited for row 1, which is now a part of the other table's row 1.
    merge, other = Painting(ViewUpdateTable(("V1",))), Painting(ViewUpdateTable(("V2", "V3")))
    merge.relevance(1, ("V1",))
    other.relevance(1, ("V2", "V3"))
    other.relevance(2, ("V2",))
    for al in (ActionList("V2", 1, ()), ActionList("V2", 2, ())):
        assert other.action_list(al) == []
    merge.table.absorb(other.table)
    assert merge.action_list(ActionList("V3", 1, ())) == []
    assert [t.rows for t in merge.action_list(ActionList("V1", 1, ()))] == [(1,), (2,)]


@pytest.mark.parametrize("make", [SimplePainting, Painting])
def test_an_early_list_is_used_once(make: type[SimplePainting] | type[Painting]) -> None:
    merge = make(ViewUpdateTable(("V1", "V2", "V3")))
    early = ActionList("V1", 1, ()), ActionList("V3", 1, ())
    assert [merge.action_list(al) for al in early] == [[], []]
    assert merge.relevance(1, ("V1", "V2")) == []
    assert merge.relevance(1, ("V3",)) == []
    late = ActionList("V2", 1, ())
    [transaction] = merge.action_list(late)
    assert transaction.actions == (*early, late)
    assert merge.relevance(1, ("V1",)) == []  # the number again: a new row, with nothing left of the old one
    assert merge.table.entry(1, "V1").color is Color.WHITE


def test_what_is_said_of_mistakes() -> None:
    table = ViewUpdateTable(("V1", "V2"))
    merge = SimplePainting(table)
    with pytest.raises(ValueError, match="add_view"):
        merge.relevance(1, ("V9",))
    merge.relevance(1, ("V1", "V2"))
    merge.action_list(ActionList("V1", 1, ()))
    with pytest.raises(ValueError, match="second action list"):
        merge.action_list(ActionList("V1", 1, ()))
    with pytest.raises(ValueError, match="already"):
        table.add_view("V1")
    with pytest.raises(ValueError, match="both tables"):
        table.absorb(ViewUpdateTable(("V2",)))
    assert table.entry(1, "V1").color is Color.RED
    assert merge.relevance(2, ()) == []
    assert len(table) == 1


def test_long_columns_need_no_deep_stack() -> None:
    n = 20_000
    for make in (SimplePainting, Painting):
        merge = make(ViewUpdateTable(("V1", "V2")))
        for i in range(1, n + 1):
            merge.relevance(i, ("V1", "V2") if i == 1 else ("V1",))
            merge.action_list(ActionList("V1", i, ()))
        assert len(merge.action_list(ActionList("V2", 1, ()))) == n
    merge = Painting(ViewUpdateTable(("V1", "V2")))
    for i in range(1, n + 1):
        merge.relevance(i, ("V1", "V2"))
        merge.action_list(ActionList("V2", i, ()))
    [transaction] = merge.action_list(ActionList("V1", n, ()))
    assert len(transaction.rows) == n
