"""Which transactions a view must look at: never one too few."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.integrator.relevance import relevant
from maintenance.histories import Scenario, Table, Transaction, Wanted, scenario
from maintenance.oracle import evaluated, played


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_a_transaction_that_changes_the_view_is_relevant(seed: int) -> None:
    with played(scenario(seed, Wanted(kind="plain"))) as world:
        view = world.view()
        found = set(relevant(view, world.changes(view, 0, world.last)).tolist())
        states = [evaluated(view, state) for state in world.states()]
    changed = {seq for seq in range(1, len(states)) if states[seq] != states[seq - 1]}
    assert changed <= found


def test_conditions_of_the_view_decide() -> None:
    table = Table("s", "t", (("x", "int"), ("y", "text")))
    history = (
        Transaction("s", (("t", (1, "a"), 1),)),
        Transaction("s", (("t", (2, "a"), 1),)),
        Transaction("s", (("t", (None, "a"), 1),)),
        Transaction("s", (("t", (2, "a"), -1), ("t", (1, "b"), 1))),
    )
    with played(Scenario((table,), "SELECT t.y FROM s.t WHERE t.x = 1", (), history)) as world:
        view = world.view()
        assert relevant(view, world.changes(view, 0, 4)).tolist() == [1, 4]
        assert relevant(view, {}).tolist() == []
