"""Every algorithm of the registry keeps what `headwater lab list` says it promises, on generated histories."""

from __future__ import annotations

import pytest

from headwater.lab.algorithms import ALGORITHMS, explained, factory
from headwater.lab.checker.verdict import check
from headwater.lab.simulation.network import Link, Network, exponential, uniform
from headwater.lab.simulation.simulator import Capacity, Conditions, simulate
from headwater.lab.worlds.keyed import keyed_chain, keyed_updates, keys_of
from headwater.lab.worlds.workload import Mix, chain, every, in_turn, updates
from headwater.lab.worlds.world import World

KEYED = ("strobe", "c-strobe")


def world_for(name: str, seed: int) -> World:
    if name in KEYED:
        world = keyed_chain(3, 6, 4, seed)
        return keyed_updates(world, 14, in_turn(world.sources), every(1.5), seed)
    if name == "eca":
        world = World.of(
            {"S.R1": ("A", "B"), "S.R2": ("A", "B"), "S.R3": ("A", "B")},
            {"V": "SELECT R1.A, R3.B FROM S.R1 JOIN S.R2 ON R1.B = R2.A JOIN S.R3 ON R2.B = R3.A"},
            {f"S.R{i}": [(a, (a * i) % 4) for a in range(4)] for i in (1, 2, 3)},
        )
        return updates(world, 14, in_turn(world.sources), every(1.5), seed, Mix(0.4, 1, 4))
    world = chain(3, 8, 5, seed)
    return updates(world, 16, in_turn(world.sources), every(1.3), seed, Mix(0.45, 1, 5))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_keeps_its_promise(name: str) -> None:
    algorithm = ALGORITHMS[name]
    for seed in range(8):
        world = world_for(name, seed)
        keys = ",".join(f"{t}.{c}" for t, cs in keys_of(world).items() for c in cs) if name in KEYED else ""
        strategy = factory(name, {"keys": keys} if keys else {})
        conditions = Conditions(
            Network(Link(uniform(0.0, 1.0))), Capacity(2, exponential(0.7)), until=world.transactions[-1].at + 100.0
        )
        history = simulate(world, strategy, conditions, seed)
        verdict = check(history)
        assert algorithm.level in verdict.holds, f"seed {seed}: {verdict}"
        assert history.states


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_can_be_explained(name: str) -> None:
    assert len(explained(name)) > 200
