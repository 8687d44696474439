"""Nested SWEEP: strongly consistent on generated histories, cheaper than SWEEP under interference, endless without its
termination condition."""

from __future__ import annotations

import pytest

from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.simulation.network import Link, Network, constant
from headwater.lab.simulation.simulator import Capacity, Conditions, simulate
from headwater.lab.worlds.workload import Mix, chain, every, in_turn, updates
from headwater.lab.worlds.world import World, after
from headwater.maintenance.strategies.nested_sweep import nested_sweep
from headwater.maintenance.strategies.sweep import sweep
from headwater.model.errors import HeadwaterError
from lab.interference import generated, recomputed

SEEDS = range(600)


def test_strongly_consistent_and_never_a_wrong_state() -> None:
    """With and without the condition. What a commit says it covers is checked as well: the next updates of each
    source, and the view over exactly these, negative counts included."""
    several = deep = 0
    for seed in SEEDS:
        world, conditions = generated(seed)
        depth = (None, None, 0, 1, 2)[seed % 5]
        done = simulate(world, nested_sweep(depth), conditions, seed)
        several += any(len(state.covers) > 1 for state in done.states)
        deep += any(len({label.source for label in s.covers}) < len(s.covers) for s in done.states)
        updates_by_label = {update.label: update for update in done.transactions}
        tables, content = dict(world.initial), done.content["V"]
        position = dict.fromkeys(world.sources, 0)
        for state in done.states:
            for label in state.covers:
                position[label.source] += 1
                assert label.number == position[label.source], f"seed {seed}"
                tables = after(tables, [updates_by_label[label]])
            content = content + dict(state.changes)["V"]
            assert content == world.compiled[0].evaluate(tables), f"seed {seed}"
        assert sum(position.values()) == len(done.transactions), f"seed {seed}"
        verdict = check(done)
        assert Consistency.STRONG in verdict.holds, f"seed {seed}: {verdict}"
    assert several > 100, "the histories interfere"
    assert deep > 100, "several updates of a source are covered at once"


def test_not_complete() -> None:
    """States are skipped: strong, and no more."""
    levels = set()
    for seed in SEEDS[:60]:
        world, conditions = generated(seed)
        levels.add(check(simulate(world, nested_sweep(), conditions, seed)).level)
    assert levels == {Consistency.STRONG, Consistency.COMPLETE}


def test_one_sweep_for_several_updates_with_fewer_questions() -> None:
    world = chain(4, 20, 20, seed=2)
    world = updates(world, 40, in_turn(world.sources), every(0.0), 2, Mix(domain=20))
    nested, plain = (simulate(world, factory, Conditions()) for factory in (nested_sweep(), sweep))
    assert plain.questions == 3 * 40
    # 1 for IS2 and 1 nested one, 1 for IS3 and 2 nested ones, 1 for IS4 and 3 nested ones; the rest of IS1's are met
    assert nested.questions < 15
    assert len(nested.states) < len(plain.states) == 40
    assert nested.final()["V"] == plain.final()["V"] == recomputed(world, nested)


def test_depth_zero_is_sweep() -> None:
    for seed in SEEDS[:100]:
        world, conditions = generated(seed)
        zero, plain = (simulate(world, factory, conditions, seed) for factory in (nested_sweep(0), sweep))
        assert zero.states == plain.states, f"seed {seed}"
        assert zero.messages == plain.messages, f"seed {seed}"


def endless(n: int) -> tuple[World, Conditions]:
    """While a question is under way to one source, the other has another update: there is always one to meet."""
    world = chain(2, 20, 300, seed=3)
    world = updates(world, n, in_turn(world.sources), every(0.4), 3, Mix(deletes=0.0, domain=300))
    return world, Conditions(Network(Link(constant(0.25))), Capacity(1, constant(0.5)))


def test_endless_interference_and_the_termination_condition() -> None:
    """Nothing is committed while updates keep coming; a bound on the nesting lets the view follow."""
    world, conditions = endless(2000)
    last = world.transactions[-1].at
    without = simulate(world, nested_sweep(), conditions)
    assert without.states[0].at > last
    assert len(without.states) == 1, "a single commit after the last update, nested more than a thousand times"
    bounded = simulate(world, nested_sweep(depth=3), conditions)
    assert sum(state.at < last for state in bounded.states) > 100
    assert bounded.final() == without.final()


@pytest.mark.parametrize("until", [10.0, 100.0])
def test_no_commit_until_a_time(until: float) -> None:
    world, conditions = endless(300)
    stopped = Conditions(conditions.network, conditions.capacity, until=until)
    assert simulate(world, nested_sweep(), stopped).states == []
    assert simulate(world, nested_sweep(depth=2), stopped).states != []


def test_a_source_with_two_tables_is_refused() -> None:
    world = World.of({"S.R": ("A",), "S.T": ("A",)}, {"V": "SELECT R.A FROM S.R JOIN S.T ON R.A = T.A"}, {})
    with pytest.raises(HeadwaterError, match="one relation per source"):
        simulate(world, nested_sweep())
