"""MVC in virtual time: with the merge process all views agree in every state, without it they do not."""

from __future__ import annotations

import pytest

from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check, check_each
from headwater.lab.experiment import Run
from headwater.lab.experiments import mvc_examples
from headwater.lab.settings.many_views import PAINTING, SIMPLE, ViewsPlan, busy_star, delays, many_views, torn
from headwater.lab.simulation.network import Link, Network, exponential, uniform
from headwater.lab.simulation.simulator import Conditions, Simulation


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("batch", [False, True])
def test_the_merge_makes_views_agree(seed: int, batch: bool) -> None:
    world = busy_star(3, 30, 2.0, seed, tables=2)
    names = [spj.name for spj in world.compiled]
    plan = ViewsPlan(exponential(1.0), batch, dict.fromkeys(names, "merge"), PAINTING if batch else SIMPLE)
    conditions = Conditions(Network(Link(uniform(0.0, 0.5))), local=0.01)
    history = Simulation(world, many_views(world, plan, seed), conditions, seed).run()
    verdict = check(history)
    promised = Consistency.STRONG if batch else Consistency.COMPLETE
    assert promised in verdict.holds, str(verdict)
    assert torn(history, world) == 0


def test_without_it_each_view_is_complete_and_all_together_are_not() -> None:
    world = busy_star(2, 30, 2.0, 1, tables=2)
    history = Simulation(world, many_views(world, ViewsPlan(exponential(1.0)), 1), Conditions(), 1).run()
    assert {v.level for v in check_each(history).values()} == {Consistency.COMPLETE}
    assert Consistency.WEAK not in check(history).holds
    assert torn(history, world) > 0.5
    assert len(delays(history, world)) == 60


def test_splitting_by_tables_keeps_agreement_within_a_table() -> None:
    world = busy_star(2, 30, 2.0, 2, tables=2)
    merges = {spj.name: f"merge{spj.name[1]}" for spj in world.compiled}
    history = Simulation(world, many_views(world, ViewsPlan(exponential(1.0), merges=merges), 2), Conditions(), 2).run()
    assert torn(history, world) == 0
    assert Consistency.STRONG in check(history).holds  # the tables are of different sources: their updates commute


def test_the_papers_examples_table_by_table() -> None:
    findings = mvc_examples.run(Run())
    slip = "Example 5: at t5 and t6 the entry of U2 and V3 is (r,0)."
    assert [c.said for c in findings.claims if not c.holds] == [slip]
    assert len(findings.claims) == 6
