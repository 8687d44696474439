"""How many events a second the lab's simulator handles, one core.

    python bench/lab.py

Four sources, 20,000 single-row transactions, 200 rows a table, about one partner for each row; every question is
evaluated for real, every message and state is recorded. `loop` is virtual time alone: messages that nobody reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from headwater.lab.simulation.network import Link, Network, uniform
from headwater.lab.simulation.simulator import Conditions, Simulation, simulate
from headwater.lab.worlds.workload import Mix, chain, every, in_turn, updates
from headwater.lab.worlds.world import World
from headwater.maintenance.strategies.contract import WAREHOUSE, Effects, Factory, Send, Strategy
from headwater.maintenance.strategies.pvm import pvm
from headwater.maintenance.strategies.sweep import sweep
from headwater.maintenance.strategies.tid_rules import tid_rules
from headwater.maintenance.strategies.waves import wave

TRANSACTIONS = 20_000
ROWS = 200
RUNS = 3


class Parcel(NamedTuple):
    weight: int = 1


class Back:
    """Sends back whatever it gets."""

    def __init__(self, other: str, first: int = 0) -> None:
        self._other, self._first = other, first

    def start(self) -> Effects:
        return [Send(self._other, Parcel()) for _ in range(self._first)]

    def receive(self, sender: str, body: Any, now: float) -> Effects:
        return (Send(self._other, body),)


def measure() -> dict[str, int]:
    """Events a second of CPU time, the best of three runs."""
    world = chain(4, ROWS, ROWS)
    world = updates(world, TRANSACTIONS, in_turn(world.sources), every(8.0), 1, Mix(0.5, 1, ROWS))
    conditions = Conditions(Network(Link(uniform(0.1, 1.0))), until=8.0 * TRANSACTIONS + 100)
    found = {"loop": _best(lambda: _loop(world))}
    algorithms: dict[str, Factory] = {"sweep": sweep, "pvm_p4": pvm(4), "tid_rules": tid_rules(8.0), "wave": wave()}
    for name, factory in algorithms.items():
        # the wave's batches are of one transaction here, each an Arrow program: its own work, not the simulator's
        shorter = world.having(world.transactions[:1_000]) if name == "wave" else world
        found[name] = _best(lambda w=shorter, f=factory: simulate(w, f, conditions).events)  # type: ignore[misc]
    return found


def _loop(world: World) -> int:
    strategy = Strategy({"a": Back("b", 100), "b": Back("a"), WAREHOUSE: Back("nobody")})
    quiet = Conditions(Network(Link(uniform(0.1, 1.0))), most_events=300_000)
    return Simulation(world.having(()), strategy, quiet).run().events


def _best(run: Callable[[], int]) -> int:
    best = 0.0
    for _ in range(RUNS):
        start = time.process_time()
        events = run()
        best = max(best, events / (time.process_time() - start))
    return round(best)


def main() -> None:
    for name, rate in measure().items():
        print(f"{name:12}{rate:>12,} events/s")


if __name__ == "__main__":
    main()
