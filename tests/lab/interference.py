"""Generated worlds in which updates interfere: chains of 2 to 4 sources, inserts and deletes, several updates of one
source in a row, random delays over channels that keep their order, sources of random capacity."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from headwater.algebra.bag import Bag
from headwater.lab.histories.history import History
from headwater.lab.simulation.network import Link, Network, exponential
from headwater.lab.simulation.simulator import Capacity, Conditions
from headwater.lab.worlds.workload import Mix, chain, every, poisson, updates, weighted
from headwater.lab.worlds.world import World, after


def generated(seed: int) -> tuple[World, Conditions]:
    random = Random(seed)
    world = chain(random.choice([2, 3, 4]), random.choice([0, 3, 6]), random.choice([2, 3]), seed)
    origins = weighted(world.sources, [random.choice([1, 3]) for _ in world.sources], random)
    times = poisson(random.choice([0.3, 1, 4]), random) if random.random() < 0.8 else every(0.0)
    mix = Mix(deletes=random.choice([0.3, 0.5, 0.7]), size=random.choice([1, 2, 3]), domain=3)
    world = updates(world, random.randint(3, 12), origins, times, seed, mix)
    network = Network(Link(exponential(random.choice([0.1, 1, 3]))))
    capacity = Capacity(random.choice([1, 2, 4]), exponential(random.choice([0.2, 1.0])))
    return world, Conditions(network, capacity, local=random.choice([0.0, 0.1]))


def disordered(conditions: Conditions) -> Conditions:
    """The same, over channels that do not keep their order."""
    return replace(conditions, network=Network(replace(conditions.network.link, fifo=False)))


def recomputed(world: World, history: History) -> Bag:
    """The view over the sources at the end."""
    return world.compiled[0].evaluate(after(world.initial, history.transactions))
