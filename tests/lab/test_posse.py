"""POSSE: complete however many probing queries are under way at once; what the concurrency buys and costs."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from headwater.algebra.bag import Bag
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.histories.history import History
from headwater.lab.settings.features import questions_at_once, view_changes_at_once
from headwater.lab.simulation.network import Link, Network, exponential
from headwater.lab.simulation.simulator import Capacity, Conditions, simulate
from headwater.lab.worlds.workload import Mix, chain, every, in_turn, poisson, updates, weighted
from headwater.lab.worlds.world import World
from headwater.maintenance.strategies.posse import Concurrency, plan, posse
from headwater.maintenance.strategies.sweep import sweep
from lab.interference import disordered, generated, recomputed
from lab.keyed_histories import endless

EACH = pytest.mark.parametrize("concurrency", Concurrency)


@EACH
def test_complete(concurrency: Concurrency) -> None:
    for seed in range(130):
        world, conditions = generated(seed)
        history = simulate(world, posse(concurrency), conditions, seed)
        verdict = check(history)
        assert verdict.level is Consistency.COMPLETE, f"seed {seed}: {verdict}"
        assert history.final()["V"] == recomputed(world, history), f"seed {seed}"
        assert len(history.states) == len(history.transactions), f"seed {seed}"


TABLES = {f"S{i}.R{i}": ("A", "B") for i in (1, 2, 3, 4)}
VIEWS = {
    "a ring": "SELECT R1.A, R2.A AS A2, R3.A AS A3 FROM S1.R1 JOIN S2.R2 ON R1.A = R2.B JOIN S3.R3 ON R2.A = R3.B "
    "AND R3.A = R1.B",
    "a star": "SELECT R1.A, R2.B AS B2 FROM S1.R1 JOIN S2.R2 ON R1.A = R2.A JOIN S3.R3 ON R1.A = R3.A "
    "JOIN S4.R4 ON R1.B = R4.B",
    "a condition": "SELECT R1.A FROM S1.R1 JOIN S2.R2 ON R1.A = R2.B JOIN S3.R3 ON R2.A = R3.B "
    "WHERE R3.A > 0 AND R1.B + R2.A > 1",
}


@EACH
@pytest.mark.parametrize("shape", VIEWS)
def test_complete_for_views_that_are_no_chains(concurrency: Concurrency, shape: str) -> None:
    """Equalities between two branches are met where the branches are."""
    empty = World.of(TABLES, {"V": VIEWS[shape]}, {})
    for seed in range(25):
        random = Random(seed)
        rows = {t: Bag.of((random.randrange(3), random.randrange(3)) for _ in range(4)) for t in empty.columns}
        world = replace(empty, initial=rows)
        origins = weighted(world.sources, [1.0] * 4, random)
        world = updates(world, 8, origins, poisson(1.0, random), seed, Mix(size=2, domain=3))
        conditions = Conditions(Network(Link(exponential(1.0))), Capacity(2, exponential(0.5)))
        verdict = check(simulate(world, posse(concurrency), conditions, seed))
        assert verdict.level is Consistency.COMPLETE, f"seed {seed}: {verdict}"


def test_sequential_is_sweep() -> None:
    for seed in range(60):
        world, conditions = generated(seed)
        mine, its = (simulate(world, factory, conditions, seed) for factory in (posse(Concurrency.SEQUENTIAL), sweep))
        assert mine.states == its.states, f"seed {seed}"
        assert mine.messages == its.messages, f"seed {seed}"


def test_plans() -> None:
    assert plan(Concurrency.SEQUENTIAL, 2, 5) == [(1, 0, 3, 4)]
    assert plan(Concurrency.TWO_WAY, 2, 5) == [(1, 0), (3, 4)]
    assert plan(Concurrency.TWO_WAY, 0, 3) == [(1, 2)], "nothing is to the left"
    assert plan(Concurrency.FULL, 2, 5) == [(1,), (0,), (3,), (4,)]
    assert plan(Concurrency.FULL, 0, 1) == []


def load(concurrency: Concurrency) -> History:
    world = chain(5, 20, 20, seed=1)
    world = updates(world, 40, in_turn(world.sources), every(0.0), 1, Mix(domain=20))
    return simulate(world, posse(concurrency), Conditions(local=0.01))


def test_concurrency_buys_time_and_costs_bytes() -> None:
    """The same number of questions, fewer one after the other. Whole relations come back with FULL; the sweeps of
    TWO_WAY each carry one side only, and are lighter than one that carries both."""
    sequential, two_way, full = (load(c) for c in (Concurrency.SEQUENTIAL, Concurrency.TWO_WAY, Concurrency.FULL))
    assert sequential.questions == two_way.questions == full.questions == 4 * 40
    assert sequential.finished > 1.2 * two_way.finished > 1.2 * 1.2 * full.finished
    assert two_way.bytes < sequential.bytes < full.bytes / 2
    assert sequential.final() == two_way.final() == full.final()
    assert [questions_at_once(h) for h in (sequential, two_way, full)] == [1, 2, 4]
    assert {view_changes_at_once(h) for h in (sequential, two_way, full)} == {1}, "one update at a time"


@EACH
def test_commits_while_updates_do_not_pause(concurrency: Concurrency) -> None:
    world, conditions = endless()
    assert len(simulate(world, posse(concurrency), conditions).states) >= 19


@EACH
def test_needs_channels_that_keep_their_order(concurrency: Concurrency) -> None:
    levels = set()
    for seed in range(40):
        world, conditions = generated(seed)
        levels.add(check(simulate(world, posse(concurrency), disordered(conditions), seed)).level)
    assert Consistency.NONE in levels
