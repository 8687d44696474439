"""The setting of the cluster experiments: a chain over 16 sources, all updates there at the start, K PCs side by side.

The paper measures nothing and gives no numbers. Here a message between two PCs takes little, one to or from a source
fifty times as much, a question at a source twice that.
"""

from __future__ import annotations

from headwater.lab.simulation.network import Delay, Link, Network, constant
from headwater.lab.simulation.simulator import Capacity, Conditions
from headwater.lab.worlds.workload import Mix, every, in_turn, paired_chain, updates
from headwater.lab.worlds.world import World
from headwater.maintenance.strategies.cluster_naive import pc
from headwater.maintenance.strategies.contract import Factory
from headwater.maintenance.strategies.equal_partition import equal_partition
from headwater.maintenance.strategies.frequency_partition import frequency_partition
from headwater.maintenance.strategies.simple_parallel import simple_parallel
from headwater.maintenance.strategies.sweep import sweep
from headwater.maintenance.strategies.waves import wave

RELATIONS = 16
DOMAIN = 50
UPDATES = 64
PCS = (1, 2, 4, 8, 16)
INSIDE, REMOTE, SERVICE, LOCAL = 0.01, 0.5, 1.0, 0.001
"""A message between two PCs, a message to or from a source, a question at a source, a local join: time units."""

ALONE: tuple[tuple[str, Factory], ...] = (("SWEEP", sweep), ("our wave", wave()))
"""On one machine, whatever K is."""


def line(n: int, seed: int) -> World:
    """n relations in a chain: a row has one partner in each neighbour."""
    return paired_chain(n, DOMAIN, seed)


def waiting(seed: int) -> World:
    """The line, and updates in turn, all there at the start."""
    world = line(RELATIONS, seed)
    return updates(world, UPDATES, in_turn(world.sources), every(0.0), seed, Mix(0.5, 1, DOMAIN))


def cluster(service: Delay, q: int = UPDATES) -> Conditions:
    """A fast network between the PCs, a slow one to the sources, which work on q questions at a time."""
    pcs = [pc(i) for i in range(max(PCS))]
    inside = {(a, b): Link(constant(INSIDE)) for a in pcs for b in pcs if a != b}
    return Conditions(Network(Link(constant(REMOTE)), inside), Capacity(q, service), local=LOCAL)


EVEN = cluster(constant(SERVICE))


def parallel(k: int) -> tuple[tuple[str, Factory], ...]:
    """The algorithms for K PCs."""
    return (
        ("simple parallel", simple_parallel(k)),
        ("equal partition", equal_partition(k)),
        ("frequency partition", frequency_partition(k, [1.0] * RELATIONS)),
    )
