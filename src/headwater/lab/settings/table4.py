"""What the experiments after PVM's table 4 share: its algorithms, and worlds in which all of them can run.

Strobe and C-Strobe need keys, so everybody gets the chain with keys. ECA knows one source, so it gets the same
relations at one source. A question takes one second of virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from headwater.algebra.bag import Bag
from headwater.lab.simulation.network import Link, Network, constant
from headwater.lab.simulation.simulator import Capacity, Conditions
from headwater.lab.worlds.keyed import keyed_chain, keys_of
from headwater.lab.worlds.world import PlannedUpdate, World
from headwater.maintenance.strategies.c_strobe import c_strobe
from headwater.maintenance.strategies.contract import Factory
from headwater.maintenance.strategies.eca import eca
from headwater.maintenance.strategies.nested_sweep import nested_sweep
from headwater.maintenance.strategies.posse import Concurrency, posse
from headwater.maintenance.strategies.pvm import pvm
from headwater.maintenance.strategies.pvm_cc import pvm_cc
from headwater.maintenance.strategies.strobe import strobe
from headwater.maintenance.strategies.sweep import sweep
from headwater.maintenance.strategies.waves import wave

P = 4
"""How many updates PVM and PVM CC handle at the same time."""


class Table4Algorithm(NamedTuple):
    """`make` may look at the world's keys. `sources` is 1 if it knows one source only."""

    name: str
    make: Callable[[World], Factory]
    sources: int = 0


ALGORITHMS = (
    Table4Algorithm("ECA", lambda world: eca, sources=1),
    Table4Algorithm("Strobe", lambda world: strobe(keys_of(world))),
    Table4Algorithm("C-Strobe", lambda world: c_strobe(keys_of(world))),
    Table4Algorithm("SWEEP", lambda world: sweep),
    Table4Algorithm("Nested SWEEP", lambda world: nested_sweep()),
    Table4Algorithm("POSSE", lambda world: posse(Concurrency.FULL)),
    Table4Algorithm("PVM", lambda world: pvm(P)),
    Table4Algorithm("PVM CC", lambda world: pvm_cc(P)),
    Table4Algorithm("our wave", lambda world: wave()),
)


def named(*names: str) -> tuple[Table4Algorithm, ...]:
    return tuple(algorithm for algorithm in ALGORITHMS if algorithm.name in names)


EVEN = Conditions(capacity=Capacity(1, constant(1.0)))
DISTANT = Conditions(network=Network(Link(constant(0.5))), capacity=Capacity(8, constant(1.0)))
"""Sources that work on several questions at once, half a second away: updates half a second apart meet on the way."""


def interfering(m: int, deletes: int | None = None, sources: int = 0) -> World:
    """C-Strobe's worst case. An insert into R1, and before any question about it is evaluated a delete at each other
    source; or `deletes` of them in turn. Every row joins with every other."""
    others = list(range(2, m + 1))
    number = len(others) if deletes is None else deletes
    world = keyed_chain(m, rows=2 + number // len(others), domain=1, sources=sources)
    tables = list(world.columns)
    planned = [PlannedUpdate(0.0, str(tables[0].source), {tables[0]: Bag({(99, 0, 0): 1})})]
    for n in range(number):
        table = tables[others[n % len(others)] - 1]
        planned.append(PlannedUpdate(0.1, str(table.source), {table: Bag({(n // len(others), 0, 0): -1})}))
    return world.having(planned)
