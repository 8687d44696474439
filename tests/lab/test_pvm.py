"""PVM and PVM CC: their levels on generated histories, the paper's lemmas, figure 22, and equations 6 and 7 counted."""

from __future__ import annotations

import pytest

from headwater.algebra.bag import Bag
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.experiment import Run
from headwater.lab.experiments import pvm_equations, pvm_fig22
from headwater.lab.settings.cost_model import local_queries, remote_queries
from headwater.lab.settings.pvm import EVEN, VARYING, PvmLoad, history
from headwater.lab.simulation.network import constant
from headwater.lab.simulation.simulator import Capacity, Conditions, Simulation, simulate
from headwater.lab.worlds.workload import Mix, chain, every, in_turn, updates
from headwater.lab.worlds.world import PlannedUpdate, World, table_name
from headwater.maintenance.strategies.contract import WAREHOUSE, Factory, Strategy, StrategySetting
from headwater.maintenance.strategies.pvm import AtOnce, Pvm, pvm
from headwater.maintenance.strategies.pvm_cc import InOrder, pvm_cc
from headwater.maintenance.strategies.sweep import sweep
from lab.interference import disordered, generated, recomputed

SEEDS = range(250)
PARALLEL = (1, 2, 3, 5)


def test_pvm_converges_and_no_count_is_negative_at_the_end() -> None:
    """Convergence, and lemma 7."""
    for seed in SEEDS:
        world, conditions = generated(seed)
        done = simulate(world, pvm(PARALLEL[seed % 4]), conditions, seed)
        final = done.final()["V"]
        assert final == recomputed(world, done), f"seed {seed}"
        assert all(count > 0 for count in final.counts.values()), f"seed {seed}"
        assert Consistency.CONVERGENCE in check(done).holds, f"seed {seed}"


def test_pvm_promises_no_more_than_convergence() -> None:
    """Committing out of order shows states that no source ever had."""
    world, conditions = generated(21)
    verdict = check(simulate(world, pvm(3), conditions, 21))
    assert verdict.level is Consistency.CONVERGENCE
    assert verdict.witness is not None


def test_pvm_cc_is_complete() -> None:
    for seed in SEEDS:
        world, conditions = generated(seed)
        verdict = check(simulate(world, pvm_cc(PARALLEL[seed % 4]), conditions, seed))
        assert verdict.level is Consistency.COMPLETE, f"seed {seed}: {verdict}"


@pytest.mark.parametrize("one", [pvm(1), pvm_cc(1)])
def test_with_one_thread_it_is_sweep(one: Factory) -> None:
    """The same states at the same times, after the same messages."""
    for seed in SEEDS[:100]:
        world, conditions = generated(seed)
        mine, sweeps = (simulate(world, factory, conditions, seed) for factory in (one, sweep))
        assert mine.states == sweeps.states, f"seed {seed}"
        assert mine.messages == sweeps.messages, f"seed {seed}"


def test_without_the_rpu_concurrent_updates_are_missed() -> None:
    """Section 3.2.1: UMQ and PPU are not enough."""

    class Forgetful(dict):  # type: ignore[type-arg]
        def __setitem__(self, key: object, value: object) -> None:
            return None

    def forgetful(setting: StrategySetting) -> Strategy:
        warehouse = Pvm(setting, 3, AtOnce())
        warehouse.rpu = Forgetful()
        return Strategy({WAREHOUSE: warehouse})

    wrong = 0
    for seed in SEEDS[:100]:
        world, conditions = generated(seed)
        done = simulate(world, forgetful, conditions, seed)
        wrong += done.final()["V"] != recomputed(world, done)
    assert wrong > 0


@pytest.mark.parametrize(("order", "ever"), [(AtOnce, True), (InOrder, False)])
def test_the_rpu_holds_what_is_related_only(order: type[AtOnce] | type[InOrder], ever: bool) -> None:
    """Definitions 1 and 2: empty in the end; never used by PVM CC, which commits in order."""
    used = False
    for seed in SEEDS[:100]:
        world, conditions = generated(seed)
        warehouse = Pvm(world.setting(), 3, order())
        simulation = Simulation(world, Strategy({WAREHOUSE: warehouse}), conditions, seed)
        receive = warehouse.receive

        def watched(sender, body, now, receive=receive, warehouse=warehouse):  # type: ignore[no-untyped-def]
            nonlocal used
            effects = list(receive(sender, body, now))
            used = used or bool(warehouse.rpu)
            assert len(warehouse.ppu) <= 3
            assert all(min(warehouse.ppu) < stamp for stamp in warehouse.rpu)
            return effects

        warehouse.receive = watched  # type: ignore[method-assign]
        simulation.run()
        assert [*warehouse.rpu, *warehouse.ppu, *warehouse.umq] == []
    assert used is ever


def out_of_order() -> tuple[World, Conditions]:
    """Figure 8: DU1 adds <3> to B, then DU2 deletes <1> from A; A answers slowly, so DU2 is committed first."""
    world = World.of(
        {"ISA.A": ("x",), "ISB.B": ("y",)},
        {"V": "SELECT A.x AS x, B.y AS y FROM ISA.A JOIN ISB.B ON 1 = 1"},
        {"ISA.A": [(1,)], "ISB.B": [(2,)]},
    )
    a, b = table_name("ISA.A"), table_name("ISB.B")
    world = world.having(
        [PlannedUpdate(0.0, "ISB", {b: Bag({(3,): 1})}), PlannedUpdate(0.1, "ISA", {a: Bag({(1,): -1})})]
    )
    return world, Conditions(capacities={"ISA": Capacity(1, constant(10.0))})


def test_the_negative_counter() -> None:
    """Figure 12: <1, 3> is deleted before it is added; the count −1 remembers it."""
    world, conditions = out_of_order()
    done = simulate(world, pvm(2), conditions)
    assert [label.source for state in done.states for label in state.covers] == ["ISA", "ISB"]
    first = done.content["V"] + dict(done.states[0].changes)["V"]
    assert first == Bag({(1, 3): -1})
    assert done.final()["V"] == Bag()
    in_order = simulate(world, pvm_cc(2), conditions)
    assert [label.source for state in in_order.states for label in state.covers] == ["ISB", "ISA"]


def test_a_slow_head_keeps_pvm_cc_from_starting_others() -> None:
    """Figure 17: what is known but not committed stays in the PPU."""
    world = chain(3, 20, 20, seed=1)
    world = updates(world, 30, in_turn(world.sources, 3), every(0.0), 1, Mix(domain=20))
    conditions = Conditions(capacity=Capacity(1, constant(1.0)))
    assert simulate(world, pvm(5), conditions).finished < simulate(world, pvm_cc(5), conditions).finished


def test_sweep_needs_channels_that_keep_their_order() -> None:
    """Assumption 1, and that the checker notices."""
    levels = []
    for seed in SEEDS[:40]:
        world, conditions = generated(seed)
        levels.append(check(simulate(world, sweep, disordered(conditions), seed)).level)
    assert Consistency.NONE in levels
    assert any(level.rank < Consistency.STRONG.rank for level in levels)


def test_figure_22_cell_by_cell() -> None:
    findings = pvm_fig22.EXPERIMENT.run(Run())
    compared = [row for row in findings.rows if row["algorithm"] in pvm_fig22.printed()]
    assert len(compared) == 13 * 9
    assert [row for row in compared if row["measured"] != row["paper"]] == []
    assert all(claim.holds for claim in findings.claims)


@pytest.mark.parametrize("factory", [sweep, pvm(3), pvm_cc(3)])
@pytest.mark.parametrize(("m", "n"), [(2, 20), (3, 12), (4, 12), (5, 10)])
def test_equations_6_and_7_counted(factory: Factory, m: int, n: int) -> None:
    done = history(PvmLoad(m, n), factory, EVEN, seed=1)
    assert done.questions == remote_queries(m, n)
    assert done.local_joins == local_queries(m, n)


def test_only_the_printed_equation_4_is_refuted() -> None:
    refuted = [claim.said for claim in pvm_equations.EXPERIMENT.run(Run()).claims if not claim.holds]
    assert refuted == ["equation 4 gives the entries of matrix 3"]


@pytest.mark.parametrize("factory", [sweep, pvm(4), pvm_cc(4)])
def test_no_question_of_the_experiments_has_an_empty_answer(factory: Factory) -> None:
    """Section 7.1 kept them so, at relations of 5000 rows; and every update changes its relation."""
    for seed, conditions in ((0, EVEN), (1, VARYING)):
        happened = history(PvmLoad(4, 60, interval=0.2), factory, conditions, seed)
        answers = [m for m in happened.messages if m.kind == "answer"]
        assert len(answers) == 3 * 60
        assert all(m.weight for m in answers)
        assert all(bag.total() == 5000 for bag in happened.initial.values())
        deletes = sum(change.total() < 0 for u in happened.transactions for change in u.changes.values())
        assert 15 < deletes < 30
