"""Generated worlds with keys in which updates interfere; deleted keys come back. And updates that never pause."""

from __future__ import annotations

from random import Random

from headwater.lab.simulation.network import Link, Network, exponential
from headwater.lab.simulation.simulator import Capacity, Conditions
from headwater.lab.worlds.keyed import keyed_chain, keyed_updates
from headwater.lab.worlds.workload import Mix, every, in_turn, poisson, weighted
from headwater.lab.worlds.world import World


def generated_keyed(seed: int, sources: int = 0, size: int = 1) -> tuple[World, Conditions]:
    """Chains of 2 to 4 relations, each at its own source or at so many `sources`; transactions of `size` changes."""
    random = Random(seed)
    world = keyed_chain(random.choice([2, 3, 4]), random.choice([2, 4, 6]), random.choice([1, 2, 3]), seed, sources)
    origins = weighted(world.sources, [random.choice([1, 3]) for _ in world.sources], random)
    times = poisson(random.choice([0.5, 1, 3]), random)
    mix = Mix(random.choice([0.3, 0.5, 0.7]), size, random.choice([1, 2, 3]))
    world = keyed_updates(world, random.randint(2, 9), origins, times, seed, mix)
    network = Network(Link(exponential(random.choice([0.2, 1, 2]))))
    return world, Conditions(network, Capacity(random.choice([1, 2]), exponential(0.5)))


def endless(sources: int = 0) -> tuple[World, Conditions]:
    """An insert every half second, and questions that take one: cut off after 40 seconds, when they still come."""
    world = keyed_chain(3, rows=6, domain=6, sources=sources)
    world = keyed_updates(world, 200, in_turn(world.sources), every(0.5), 0, Mix(deletes=0.0, domain=6))
    return world, Conditions(until=40.0)
