"""Section 4.3: a warehouse that commits what is submitted slowly and in any order still ends up right, and passes only
through real states; without sequencing it does not."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headwater.merge import (
    ActionList,
    Painting,
    Sequencing,
    SimplePainting,
    Submissions,
    ViewUpdateTable,
    WarehouseTransaction,
)

from .arrivals import Arrivals, Warehouse, arrivals
from .tables import VIEWS, al


def example_3() -> tuple[WarehouseTransaction, WarehouseTransaction, WarehouseTransaction]:
    """WT_2, WT_1 and WT_3 of Example 3, in the order of release; WT_3 depends on WT_1 through V2."""
    merge = SimplePainting(ViewUpdateTable(VIEWS))
    merge.relevance(1, ("V1", "V2"))
    merge.relevance(2, ("V3",))
    merge.relevance(3, ("V2",))
    released = [t for a in (al(1, 2), al(2, 3), al(3, 2), al(1, 1)) for t in merge.action_list(a)]
    two, one, three = released
    return two, one, three


def test_only_dependent_transactions_wait() -> None:
    two, one, three = example_3()
    submissions = Submissions(Sequencing.DEPENDENCY)
    submissions.add([two, one, three])
    assert submissions.ready() == [two, one]
    assert submissions.ready() == []
    submissions.committed(two)
    assert submissions.ready() == []
    submissions.committed(one)
    assert len(submissions) == 1
    assert submissions.ready() == [three]
    submissions.committed(three)
    assert len(submissions) == 0


def test_one_at_a_time() -> None:
    transactions = example_3()
    submissions = Submissions(Sequencing.SEQUENTIAL)
    submissions.add(transactions)
    for left, transaction in zip((3, 2, 1), transactions, strict=True):
        assert submissions.ready() == [transaction]
        assert submissions.ready() == []
        assert len(submissions) == left
        submissions.committed(transaction)
    assert submissions.ready() == []


def test_all_that_waits_as_one() -> None:
    two, one, three = example_3()
    submissions = Submissions(Sequencing.BATCHED)
    submissions.add([one])
    assert submissions.ready() == [one]
    submissions.add([two, three])
    assert submissions.ready() == []  # WT_3 depends on WT_1
    submissions.committed(one)
    [batch] = submissions.ready()
    assert batch.rows == (2, 3)
    assert batch.actions == two.actions + three.actions
    assert batch.views == {"V2", "V3"}
    submissions.committed(batch)
    assert submissions.ready() == []
    assert len(submissions) == 0


@pytest.mark.parametrize("sequencing", Sequencing)
def test_nothing_to_do_is_a_transaction_too(sequencing: Sequencing) -> None:
    submissions = Submissions(sequencing)
    submissions.add([WarehouseTransaction((1,), (), frozenset()), WarehouseTransaction((2,), (), frozenset({"V1"}))])
    seen = []
    while submissions:
        for transaction in submissions.ready():
            seen += transaction.rows
            submissions.committed(transaction)
    assert seen == [1, 2]


def test_what_was_not_submitted_cannot_commit() -> None:
    submissions = Submissions(Sequencing.SEQUENTIAL)
    two, one, _ = example_3()
    submissions.add([two, one])
    submissions.ready()
    with pytest.raises(ValueError, match="not in flight"):
        submissions.committed(one)


def committed(history: Arrivals, submissions: Submissions | None, data: st.DataObject) -> Warehouse:
    """Merge the history into a warehouse that commits any of what is in flight, at any time."""
    merge, warehouse = Painting(ViewUpdateTable(history.views)), Warehouse(history)
    flying: list[WarehouseTransaction] = []

    def commit_some(least: int) -> None:
        for _ in range(data.draw(st.integers(min(least, len(flying)), len(flying)))):
            transaction = flying.pop(data.draw(st.integers(0, len(flying) - 1)))
            warehouse.commit(transaction)
            if (wrong := warehouse.wrong()) is not None:
                raise AssertionError(wrong)
            if submissions is not None:
                submissions.committed(transaction)

    for event in history.events:
        released = merge.action_list(event) if isinstance(event, ActionList) else merge.relevance(*event)
        if submissions is None:
            flying += released
        else:
            submissions.add(released)
            flying += submissions.ready()
        commit_some(least=0)
    while flying or submissions:
        if submissions is not None:
            flying += submissions.ready()
        assert flying, "what waits can go when nothing is in flight"
        commit_some(least=1)
    return warehouse


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(Sequencing), arrivals(("complete", "strong")), st.data())
def test_the_warehouse_ends_up_right(sequencing: Sequencing, history: Arrivals, data: st.DataObject) -> None:
    submissions = Submissions(sequencing)
    warehouse = committed(history, submissions, data)
    assert warehouse.final()
    assert len(submissions) == 0


def test_without_sequencing_it_does_not() -> None:
    @settings(max_examples=500, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(arrivals(("complete",)), st.data())
    def unsequenced(history: Arrivals, data: st.DataObject) -> None:
        committed(history, None, data)

    with pytest.raises(AssertionError, match=r"but is concerned by|should show"):
        unsequenced()


def test_the_papers_own_counterexample() -> None:
    # "The warehouse DBMS will commit WT_3 before WT_1. If so, the state of view V2 will be invalid."
    history = Arrivals(VIEWS, {1: frozenset({"V1", "V2"}), 2: frozenset({"V3"}), 3: frozenset({"V2"})}, {}, ())
    warehouse = Warehouse(history)
    warehouse.commit(WarehouseTransaction((3,), (ActionList("V2", 3, (3,)),), frozenset({"V2"})))
    assert warehouse.wrong() == "V2 shows [3], but is concerned by [1, 3]"
