"""The checker bites: every planted fault is caught, at the state that brute force finds; without it all is well."""

from __future__ import annotations

from itertools import product

import pytest

from headwater.algebra.bag import Bag
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import Verdict, check
from headwater.lab.histories.history import History
from headwater.lab.simulation.faults import FAULTS, Fault
from headwater.lab.simulation.simulator import simulate
from headwater.lab.worlds.workload import Mix, chain, every, in_turn, updates
from headwater.lab.worlds.world import World, after
from lab.interference import recomputed

SEEDS = range(8)


def busy_world(seed: int) -> World:
    """Three sources, two transactions in a row from each; few values, so that they meet."""
    w = chain(3, 6, 4, seed)
    return updates(w, 15, in_turn(w.sources, 2), every(0.4), seed, Mix(0.5, 1, 4))


def run(fault: Fault, seed: int, *, wrong: bool) -> tuple[World, History, Verdict]:
    w = busy_world(seed)
    history = (
        simulate(w, fault.wrong, fault.conditions, seed) if wrong else simulate(w, fault.right, fault.without, seed)
    )
    return w, history, check(history)


def first_unreal(w: World, history: History) -> int | None:
    """The first state that is the view over no source state, by recomputing them all."""
    chains = [[u for u in history.transactions if u.source == s] for s in w.sources]
    real = []
    for numbers in product(*(range(len(c) + 1) for c in chains)):
        done = [update for c, n in zip(chains, numbers, strict=True) for update in c[:n]]
        real.append(w.compiled[0].evaluate(after(w.initial, done)))
    known = set(real)
    return next((k for k, content in enumerate(history.contents()) if content["V"] not in known), None)


def converges(w: World, history: History) -> bool:
    """Nothing hidden: negative counts are compared, too."""
    return history.final()["V"] == recomputed(w, history)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_the_fault_is_caught(fault: Fault) -> None:
    caught = 0
    for seed in SEEDS:
        w, history, verdict = run(fault, seed, wrong=True)
        unreal = first_unreal(w, history)
        assert (Consistency.CONVERGENCE in verdict.holds) == converges(w, history)
        assert (Consistency.WEAK in verdict.holds) == (unreal is None)
        for found in verdict.witnesses:
            assert f"state {found.state} at {found.at:g}" in str(verdict)
            if found.level is Consistency.WEAK:
                assert found.state == unreal
                assert found.extra or found.missing
            elif found.level is Consistency.CONVERGENCE:
                assert found.state == len(history.states)
        caught += fault.promises not in verdict.holds
    assert caught >= len(SEEDS) // 2, f"{fault.name} shows in {caught} of {len(SEEDS)} histories"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_without_the_fault_the_promise_holds(fault: Fault) -> None:
    for seed in SEEDS:
        _, _, verdict = run(fault, seed, wrong=False)
        assert fault.promises in verdict.holds, f"seed {seed}: {verdict}"


def test_no_compensation_shows_too_much() -> None:
    """What SWEEP would have taken out again is in the view, and stays there."""
    fault = FAULTS[0]
    verdicts = [run(fault, seed, wrong=True)[2] for seed in SEEDS]
    assert any(found.level is Consistency.CONVERGENCE and found.extra for v in verdicts for found in v.witnesses)


def test_no_negative_counters_leaves_a_row_behind() -> None:
    """Figure 12: the delete came first and was ignored, so the row that it should have cancelled stays."""
    fault = FAULTS[2]
    for seed in SEEDS:
        _, _, verdict = run(fault, seed, wrong=True)
        if Consistency.CONVERGENCE not in verdict.holds:
            assert verdict.witness is not None
            assert verdict.witness.extra
            assert verdict.witness.missing == Bag()


def test_out_of_order_still_converges() -> None:
    """Sums do not mind the order: only the states in between are wrong."""
    fault = FAULTS[3]
    for seed in SEEDS:
        _, _, verdict = run(fault, seed, wrong=True)
        assert Consistency.CONVERGENCE in verdict.holds
