"""Strobe and C-Strobe: strongly and completely consistent on generated histories, if the view has keys, channels keep
their order and, for Strobe, updates pause."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from headwater.algebra.bag import Bag
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import Verdict, check
from headwater.lab.experiment import Run
from headwater.lab.experiments import c_strobe_messages
from headwater.lab.experiments.c_strobe_messages import worst
from headwater.lab.settings.table4 import DISTANT, interfering
from headwater.lab.simulation.network import Link, Network, constant
from headwater.lab.simulation.simulator import Capacity, Conditions, simulate
from headwater.lab.worlds.keyed import keys_of
from headwater.lab.worlds.workload import Mix, chain, in_turn, poisson, updates
from headwater.lab.worlds.world import PlannedUpdate, World, table_name
from headwater.maintenance.strategies.c_strobe import c_strobe
from headwater.maintenance.strategies.contract import Factory
from headwater.maintenance.strategies.strobe import Keys, strobe
from headwater.maintenance.strategies.sweep import sweep
from headwater.model.errors import HeadwaterError
from lab.interference import disordered, recomputed
from lab.keyed_histories import endless, generated_keyed

Make = Callable[[Keys], Factory]
BOTH = pytest.mark.parametrize("make", [strobe, c_strobe])


def test_strobe_is_strongly_consistent_and_no_more() -> None:
    levels = set()
    for seed in range(250):
        world, conditions = generated_keyed(seed)
        history = simulate(world, strobe(keys_of(world)), conditions, seed)
        verdict = check(history)
        assert Consistency.STRONG in verdict.holds, f"seed {seed}: {verdict}"
        assert history.final()["V"] == recomputed(world, history), f"seed {seed}"
        levels.add(verdict.level)
    assert levels == {Consistency.STRONG, Consistency.COMPLETE}, "some skip states"


def test_c_strobe_is_complete() -> None:
    compensated = 0
    for seed in range(400):
        world, conditions = generated_keyed(seed)
        history = simulate(world, c_strobe(keys_of(world)), conditions, seed)
        verdict = check(history)
        assert verdict.level is Consistency.COMPLETE, f"seed {seed}: {verdict}"
        assert history.final()["V"] == recomputed(world, history), f"seed {seed}"
        assert len(history.states) == len(history.transactions), f"seed {seed}"
        inserts = sum(1 for u in history.transactions for bag in u.changes.values() for _, n in bag if n > 0)
        compensated += history.questions > inserts * (world.compiled[0].n - 1)
    assert compensated > 50, "deletes interfere"


@BOTH
def test_transactions_of_several_changes_at_sources_of_several_relations(make: Make) -> None:
    """One state for a transaction: what C-Strobe computes change by change is not shown in between."""
    level = Consistency.STRONG if make is strobe else Consistency.COMPLETE
    for seed in range(80):
        world, conditions = generated_keyed(seed, sources=2, size=3)
        verdict = check(simulate(world, make(keys_of(world)), conditions, seed))
        assert level in verdict.holds, f"seed {seed}: {verdict}"


FAR = Conditions(Network(Link(constant(1.0))), Capacity(4, constant(0.25)))
R1, R2 = table_name("A.R1"), table_name("B.R2")
INSERT = PlannedUpdate(0.0, "A", {R1: Bag({(1, 1): 1})})
"""Its question is at B after 2 s, answered at 2.25 s and back at 3.25 s; then it goes to C, and is back at 5.5 s."""


def three_sources(*planned: PlannedUpdate) -> World:
    """R1(K, X) is empty, R2 has key 7, R3 has key 3. All join by X, and the view shows the keys."""
    select = "SELECT R1.K AS K1, R2.K AS K2, R3.K AS K3 FROM A.R1 JOIN B.R2 ON R1.X = R2.X JOIN C.R3 ON R2.X = R3.X"
    tables = dict.fromkeys(("A.R1", "B.R2", "C.R3"), ("K", "X"))
    return World.of(tables, {"V": select}, {"B.R2": [(7, 1)], "C.R3": [(3, 1)]}).having([INSERT, *planned])


def at_b(at: float, row: tuple[int, int], count: int) -> PlannedUpdate:
    return PlannedUpdate(at, "B", {R2: Bag({row: count})})


def states(world: World, make: Make) -> list[Bag]:
    return [content["V"] for content in simulate(world, make(keys_of(world)), FAR).contents()]


def test_strobe_takes_a_pending_delete_out_of_the_answer() -> None:
    """Key 7 is in B's answer and deleted then, while C is asked: key_delete(A, U2) when that is back."""
    assert states(three_sources(at_b(2.5, (7, 1), -1)), strobe) == [Bag(), Bag()], "one state, which covers both"


def test_strobe_suppresses_duplicates() -> None:
    """Each of two inserts finds the other: (1, 8, 3) comes twice."""
    assert states(three_sources(at_b(1.9, (8, 1), 1)), strobe) == [Bag(), Bag({(1, 7, 3): 1, (1, 8, 3): 1})]


@pytest.mark.parametrize("at", [1.9, 2.5])
def test_c_strobe_asks_for_what_a_delete_took_away(at: float) -> None:
    """Deleted before B's answer or after it: the compensating query replaces R2 by the deleted tuple and asks C. In the
    second case it brings what is known already."""
    world = three_sources(at_b(at, (7, 1), -1))
    assert states(world, c_strobe) == [Bag(), Bag({(1, 7, 3): 1}), Bag()]
    assert simulate(world, c_strobe(keys_of(world)), FAR).questions == 2 + 1


def test_c_strobe_takes_out_what_an_insert_added() -> None:
    both = Bag({(1, 7, 3): 1, (1, 8, 3): 1})
    assert states(three_sources(at_b(1.9, (8, 1), 1)), c_strobe) == [Bag(), Bag({(1, 7, 3): 1}), both]


def test_c_strobe_when_a_key_comes_back() -> None:
    """key_delete(Δ, U3) as it stands would take (1, 7, 3) out of the first state, where the old tuple was."""
    row = Bag({(1, 7, 3): 1})
    assert states(three_sources(at_b(1.8, (7, 1), -1), at_b(1.9, (7, 1), 1)), c_strobe) == [Bag(), row, Bag(), row]


def test_without_a_pause_strobe_has_no_state() -> None:
    world, conditions = endless()
    assert not simulate(world, strobe(keys_of(world)), conditions).states
    for keeps_committing in (c_strobe(keys_of(world)), sweep):
        assert len(simulate(world, keeps_committing, conditions).states) > 10


@BOTH
def test_refuses_a_view_without_keys(make: Make) -> None:
    world = chain(3, 4, 2)
    with pytest.raises(HeadwaterError, match=r"does not show the key of IS1\.R1: B"):
        make(dict.fromkeys(world.columns, ("A", "B")))(world.setting())
    with pytest.raises(HeadwaterError, match="none given"):
        make({})(world.setting())


@BOTH
def test_refuses_a_table_that_occurs_twice(make: Make) -> None:
    select = "SELECT a.K AS K1, b.K AS K2 FROM S.R AS a JOIN S.R AS b ON a.X = b.X"
    world = World.of({"S.R": ("K", "X")}, {"V": select}, {})
    with pytest.raises(HeadwaterError, match="twice"):
        make(keys_of(world))(world.setting())


def refuted(verdicts: list[Verdict], level: Consistency) -> int:
    return sum(level not in verdict.holds for verdict in verdicts)


def test_needs_keys_that_are_unique() -> None:
    """Told that A is the key, which several rows share, Strobe takes them for duplicates."""
    verdicts = []
    for seed in range(40):
        world = chain(2, 4, 3, seed)
        world = updates(world, 6, in_turn(world.sources), poisson(1.0, Random(seed)), seed, Mix(domain=3))
        verdicts.append(check(simulate(world, strobe(dict.fromkeys(world.columns, ("A",))), FAR, seed)))
    assert refuted(verdicts, Consistency.CONVERGENCE) > 10


@BOTH
def test_needs_channels_that_keep_their_order(make: Make) -> None:
    verdicts = []
    for seed in range(60):
        world, conditions = generated_keyed(seed)
        try:
            verdicts.append(check(simulate(world, make(keys_of(world)), disordered(conditions), seed)))
        except AssertionError:
            continue  # C-Strobe notices a row that is there already
    assert refuted(verdicts, Consistency.CONVERGENCE)


def test_duplicates_are_refused() -> None:
    world = three_sources(at_b(1.0, (8, 1), 2))
    with pytest.raises(HeadwaterError, match="tables have keys"):
        simulate(world, strobe(keys_of(world)), FAR)


@pytest.mark.parametrize("n", range(2, 7))
def test_c_strobe_asks_factorially_often(n: int) -> None:
    """Σ (n − 1)!/(n − 1 − r)! queries of n − 1 − r questions each; and is complete still."""
    world = interfering(n)
    history = simulate(world, c_strobe(keys_of(world)), DISTANT)
    assert history.questions == worst(n) == [1, 4, 15, 64, 325][n - 2]
    assert check(history).level is Consistency.COMPLETE
    assert simulate(world, strobe(keys_of(world)), DISTANT).questions == n - 1


def test_the_experiment_agrees_with_the_paper() -> None:
    findings = c_strobe_messages.EXPERIMENT.run(Run())
    assert all(claim.holds for claim in findings.claims), findings.claims
