"""The mobile world of Pull-Push (section 5.2, table 1), and what becomes of an update in it.

Four relations in a chain, one at each of four sources; V1 … V4 join the first one, two, three, four of them. A row of
one relation meets one row of the next (join factor 1).

The update propagation time (UPT) has the paper's four parts; `propagation` reads them off the history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import NamedTuple

from headwater.algebra.bag import Row
from headwater.lab.histories.history import History, Message
from headwater.lab.settings.propagation import (
    Path,
    Paths,
    at_the_sources,
    at_the_warehouse,
    batch_by_batch,
    both_ways,
    composite,
    of_its_own,
)
from headwater.lab.simulation.network import Link, Network, constant, on_and_off
from headwater.lab.simulation.simulator import Capacity, Conditions
from headwater.lab.simulation.tries import HOUSEKEEPING
from headwater.lab.worlds.workload import Mix, updates
from headwater.lab.worlds.world import World
from headwater.maintenance.strategies.acknowledged import acknowledged
from headwater.maintenance.strategies.contract import WAREHOUSE, Factory
from headwater.maintenance.strategies.nested_sweep import nested_sweep
from headwater.maintenance.strategies.pull_push import pull_push
from headwater.maintenance.strategies.pure_push import pure_push
from headwater.maintenance.strategies.waves import wave
from headwater.model.names import TableName

CARDINALITY = 1000
INTERFERENCE = 0.65
ACK_AFTER = 0.2
"""Δt."""

RELATIONS = {
    "S1.R": ("A", "B", "RX"),
    "S2.S": ("B", "C", "SX"),
    "S3.T": ("C", "D", "TX"),
    "S4.U": ("D", "E", "UX"),
}


@dataclass(frozen=True)
class Costs:
    """Seconds. The paper took them from WHIPS and does not print them; these are ours: a message 30 ms and 1 ms for
    each value in it, a query 100 ms at its source, a local join 20 ms, a hop between two modules of a node 5 ms."""

    latency: float = 0.03
    per_value: float = 0.001
    query: float = 0.1
    join: float = 0.02
    hop: float = 0.005


COSTS = Costs()


@dataclass(frozen=True)
class Sleep:
    """s' and s: the fraction of the time that sources and warehouse are off; `mean` is 1/ω."""

    sources: float = 0.0
    warehouse: float = 0.0
    mean: float = 20.0


AWAKE = Sleep()


def mobile_world(n: int, seed: int = 0) -> World:
    """Vn over the first n relations."""
    random = Random(seed)
    tables = dict(list(RELATIONS.items())[:n])
    names = [name.partition(".")[2] for name in tables]
    keys = [(r, column) for r, columns in zip(names, tables.values(), strict=True) for column in columns[:2]]
    select = ", ".join(f"{r}.{column} AS {r}_{column}" for r, column in keys)
    joins = "".join(
        f" JOIN {table} ON {left}.{columns[0]} = {right}.{columns[0]}"
        for (table, columns), left, right in zip(list(tables.items())[1:], names, names[1:], strict=False)
    )
    held = {}
    for table in tables:
        # Both columns are keys: each row meets exactly one of the next relation.
        left, right = random.sample(range(CARDINALITY), CARDINALITY), random.sample(range(CARDINALITY), CARDINALITY)
        held[table] = [(a, b, random.randrange(10**9)) for a, b in zip(left, right, strict=True)]
    return World.of(tables, {"V": f"SELECT {select} FROM {next(iter(tables))}{joins}"}, held)


@dataclass(frozen=True)
class MobileLoad:
    """Every `spacing` one source commits an update, in turn. With probability `interference` another one commits one
    as well, at most `spread` later."""

    spacing: float
    until: float
    interference: float = 0.0
    spread: float = 0.3

    @staticmethod
    def at_rate(f: float, n: int, until: float, interference: float = 0.0) -> MobileLoad:
        """F updates per second of each of n sources."""
        return MobileLoad((1 + interference * (n > 1)) / (f * n), until, interference)

    def over(self, world: World, seed: int) -> World:
        random = Random(seed)
        planned: list[tuple[float, str]] = []
        for k in range(int(self.until / self.spacing)):
            at = (k + random.uniform(0.25, 0.75)) * self.spacing
            source = world.sources[k % len(world.sources)]
            planned.append((at, source))
            others = [s for s in world.sources if s != source]
            if others and random.random() < self.interference:
                planned.append((at + random.uniform(0, self.spread), random.choice(others)))
        planned.sort()
        times, origins = (at for at, _ in planned), (source for _, source in planned)

        def row(random: Random, table: TableName) -> Row:
            return random.randrange(CARDINALITY), random.randrange(CARDINALITY), random.randrange(10**9)

        # As many deletions as insertions: the relations keep their size and the join factor stays 1 in long runs.
        return updates(world, len(planned), origins, times, seed, Mix(deletes=0.5), row)


def conditions(
    world: World, until: float, seed: int, sleep: Sleep = AWAKE, retransmit: float | None = None
) -> Conditions:
    """`retransmit`: the channels send again what is lost, each message on its own; for algorithms that do not do it
    themselves."""
    costs = COSTS
    random = Random(seed)
    off = {source: on_and_off(random, sleep.sources, sleep.mean, until) for source in world.sources}
    off[WAREHOUSE] = on_and_off(random, sleep.warehouse, sleep.mean, until)
    link = Link(constant(costs.latency), per_value=costs.per_value, retransmit=retransmit)
    network = Network(link, off={node: intervals for node, intervals in off.items() if intervals})
    return Conditions(network, Capacity(service=constant(costs.query)), local=costs.join, until=until)


class MobileAlgorithm(NamedTuple):
    """`make` takes the Update_Interval, which is the Update_Window too."""

    name: str
    make: Callable[[float], Factory]
    paths: Callable[[History], Paths]
    hops: Callable[[Path], int]


ALGORITHMS = (
    MobileAlgorithm(
        "Nested SWEEP", lambda interval: acknowledged(nested_sweep(), ACK_AFTER), composite, at_the_warehouse
    ),
    MobileAlgorithm("Pure-Push", lambda interval: pure_push(interval, interval, ACK_AFTER), of_its_own, at_the_sources),
    MobileAlgorithm("Pull-Push", lambda interval: pull_push(interval, ACK_AFTER), both_ways, at_the_sources),
    MobileAlgorithm("our wave", lambda interval: acknowledged(wave(), ACK_AFTER), batch_by_batch, at_the_warehouse),
)


@dataclass(frozen=True)
class Upt:
    """Means per update that reached the warehouse, in seconds. `elapsed` is from commit to view, waiting included;
    `halves` is t_network as the mean of the ways taken at the same time instead of the longest."""

    network: float
    computation: float
    query: float
    inner: float
    elapsed: float
    halves: float

    @property
    def total(self) -> float:
        return self.network + self.computation + self.query + self.inner


def account(algorithm: MobileAlgorithm, history: History, costs: Costs = COSTS) -> Upt:
    """The UPT's four parts. Of ways taken at the same time the longest counts."""
    paths = algorithm.paths(history)
    longest = [max(ways, key=lambda path: path.network + path.query) for ways in paths.values()]
    return Upt(
        network=fmean(path.network for path in longest),
        computation=history.local_joins * costs.join / len(longest),
        query=fmean(path.query for path in longest),
        inner=costs.hop * fmean(algorithm.hops(path) for path in longest),
        elapsed=fmean(history.staleness()),
        halves=fmean(fmean(path.network for path in ways) for ways in paths.values()),
    )


def tries(history: History) -> list[Message]:
    """What was sent, again ones included, without acknowledgements and the broadcasts of t_v."""
    return [m for m in history.messages if m.kind not in HOUSEKEEPING]
