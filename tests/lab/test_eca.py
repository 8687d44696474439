"""ECA: strongly consistent for one source; the anomaly that it was made for; what it needs."""

from __future__ import annotations

from random import Random

import pytest

from headwater.algebra.bag import Bag
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.experiment import Run
from headwater.lab.experiments import eca_anomaly
from headwater.lab.experiments.eca_anomaly import R1, R2, SLOW, example2, example3, naive
from headwater.lab.simulation.simulator import simulate
from headwater.lab.worlds.workload import Mix, in_turn, poisson, updates
from headwater.lab.worlds.world import World
from headwater.maintenance.strategies.contract import Label, Update
from headwater.maintenance.strategies.eca import Term, compensated, eca
from headwater.maintenance.strategies.posse import posse
from headwater.model.errors import HeadwaterError
from lab.interference import disordered, recomputed
from lab.keyed_histories import endless, generated_keyed


@pytest.mark.parametrize("size", [1, 3])
def test_strongly_consistent_and_no_more(size: int) -> None:
    """Also where one transaction changes several relations."""
    levels = set()
    for seed in range(130):
        world, conditions = generated_keyed(seed, sources=1, size=size)
        history = simulate(world, eca, conditions, seed)
        verdict = check(history)
        assert Consistency.STRONG in verdict.holds, f"seed {seed}: {verdict}"
        assert history.final()["V"] == recomputed(world, history), f"seed {seed}"
        assert [label for state in history.states for label in state.covers] == [u.label for u in history.transactions]
        levels.add(verdict.level)
    assert levels == {Consistency.STRONG, Consistency.COMPLETE}, "some skip states"


def test_a_table_that_occurs_twice() -> None:
    """V⟨U⟩ then replaces each occurrence, and the second takes out what the first has seen."""
    select = "SELECT a.A AS X, b.B AS Y FROM S.R AS a JOIN S.R AS b ON a.B = b.A"
    world = World.of({"S.R": ("A", "B")}, {"V": select}, {"S.R": [(1, 2), (2, 2), (2, 3)]})
    for seed in range(60):
        _, conditions = generated_keyed(seed)
        busy = updates(world, 6, in_turn(["S"]), poisson(1.0, Random(seed)), seed, Mix(domain=3))
        verdict = check(simulate(busy, eca, conditions, seed))
        assert Consistency.STRONG in verdict.holds, f"seed {seed}: {verdict}"


def test_the_anomaly_of_two_inserts() -> None:
    """Example 2 of ECA's paper: ([1],[4],[4]) without compensation, ([1],[4]) with it."""
    assert simulate(example2(), naive, SLOW).final()["V"] == Bag({(1,): 1, (4,): 2})
    history = simulate(example2(), eca, SLOW)
    assert history.final()["V"] == Bag({(1,): 1, (4,): 1})
    assert len(history.states) == 1, "installed when both questions are answered"


def test_the_anomaly_of_two_deletes() -> None:
    """Example 3: ([1,3]) is never deleted without compensation."""
    assert simulate(example3(), naive, SLOW).final()["V"] == Bag({(1, 3): 1})
    assert simulate(example3(), eca, SLOW).final()["V"] == Bag()


def test_the_second_question_of_example_2() -> None:
    """Q2 = V⟨U2⟩ − Q1⟨U2⟩ = π_W([4,2] ⋈ R2) − π_W([4,2] ⋈ [2,3])."""
    view = example2().compiled[0]
    u1, u2 = Bag({(2, 3): 1}), Bag({(4, 2): 1})
    first = compensated(view, Update(Label("S", 1), {R2: u1}, 0.0), ())
    inserted = first[0].bound[0][1]  # of R2, the view needs X only
    assert first == (Term(1, ((1, inserted),)),)
    second = compensated(view, Update(Label("S", 2), {R1: u2}, 1.0), first)
    assert second == (Term(1, ((0, u2),)), Term(-1, ((1, inserted), (0, u2))))


def test_a_relation_is_replaced_once_only() -> None:
    """Q⟨U⟩ is empty where Q has U's relation replaced already: two updates of it do not join each other."""
    assert Term(1, ((0, Bag({(1, 2): 1})),)).minus(0, Bag({(3, 4): 1})) is None


def test_the_checker_catches_the_naive_strategy() -> None:
    caught = 0
    for seed in range(60):
        world, conditions = generated_keyed(seed, sources=1)
        verdict = check(simulate(world, naive, conditions, seed))
        caught += Consistency.STRONG not in verdict.holds
    assert caught > 20


def test_no_state_while_updates_do_not_pause() -> None:
    world, conditions = endless(sources=1)
    assert not simulate(world, eca, conditions).states
    assert simulate(world, posse(), conditions).states


def test_needs_channels_that_keep_their_order() -> None:
    """An answer that overtakes an update has seen it, and nobody takes it out."""
    refuted = 0
    for seed in range(60):
        world, conditions = generated_keyed(seed, sources=1)
        verdict = check(simulate(world, eca, disordered(conditions), seed))
        refuted += Consistency.CONVERGENCE not in verdict.holds
    assert refuted


def test_refuses_several_sources() -> None:
    world, _ = generated_keyed(0)
    with pytest.raises(HeadwaterError, match="ECA knows one source"):
        simulate(world, eca)


def test_the_experiment_agrees_with_the_paper() -> None:
    findings = eca_anomaly.EXPERIMENT.run(Run())
    assert all(claim.holds for claim in findings.claims), findings.claims
