"""The setup that PVM's experiments share (section 7.1): relations R1(A, B) … Rm(A, B), one per source, the view of
figure 20, and sources that work on one question at a time.

The paper's relations range "up to several 5000-tuple clusters"; here each is one. An update counts only if it changes
its relation, and "the maintenance query results were not empty", by the choice of rows. So here: each value is once in
every column at the beginning, and those rows stay; updates insert rows with these values, and delete such rows again.

> Invariant: every value is in every column at all times. A row has a partner in each neighbour, so no question of SWEEP
> or PVM has an empty answer.

The paper measured seconds on Oracle 7 and does not give C_remote. Here a question takes one second of virtual time
(`REMOTE`), and a local join a hundredth of it, as in the example at the end of section 5.3. Two kinds of sources:

    even     every question takes exactly C_remote: what the cost model assumes
    varying  it takes C_remote on average, exponentially distributed: as of servers that have other work to do

and, in figure 21 only, a third between them: uniformly distributed between a half and one and a half C_remote.

Which of them judges a sentence depends on what it is about, not on how it comes out: one about the cost model is judged
by even sources, one about what was measured by varying ones (in figure 21 by both kinds, since the paper does not say
how its servers varied), one about both by both.

The time is the mean over a few seeds for sources that vary; the paper's is over about ten runs.
"""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import NamedTuple

from headwater.algebra.bag import Bag, Row
from headwater.lab.histories.history import History
from headwater.lab.simulation.network import constant, exponential, uniform
from headwater.lab.simulation.simulator import Capacity, Conditions, simulate
from headwater.lab.worlds.workload import every, in_turn, paired_chain
from headwater.lab.worlds.world import PlannedUpdate, World
from headwater.maintenance.strategies.contract import Factory
from headwater.maintenance.strategies.nested_sweep import nested_sweep
from headwater.maintenance.strategies.pvm import pvm
from headwater.maintenance.strategies.pvm_cc import pvm_cc
from headwater.maintenance.strategies.sweep import sweep
from headwater.maintenance.strategies.waves import wave

REMOTE = 1.0
LOCAL = 0.01 * REMOTE
"""C_remote and C_local, in seconds."""

RUNS = 5
ROWS = 5000
"""Of each relation at the beginning: one of the paper's clusters."""
DELETES = 0.4
"""The share of updates that delete, once there is something that may be deleted."""

EVEN = Conditions(capacity=Capacity(1, constant(REMOTE)), local=LOCAL)
VARYING = Conditions(capacity=Capacity(1, exponential(REMOTE)), local=LOCAL)
UNIFORM = Conditions(capacity=Capacity(1, uniform(0.5 * REMOTE, 1.5 * REMOTE)), local=LOCAL)


Algorithms = tuple[tuple[str, Factory], ...]


def algorithms(p: int) -> Algorithms:
    """SWEEP and PVM, as in the paper's figures, and three beside them."""
    return (
        ("SWEEP", sweep),
        ("PVM", pvm(p)),
        ("PVM CC", pvm_cc(p)),
        ("Nested SWEEP", nested_sweep()),
        ("our wave", wave()),
    )


class PvmLoad(NamedTuple):
    """n updates over m sources, c in a row from each, one every `interval` seconds."""

    m: int
    n: int
    c: int = 1
    interval: float = 0.0


def history(load: PvmLoad, factory: Factory, conditions: Conditions, seed: int) -> History:
    """One run."""
    return simulate(busy(load, seed), factory, conditions, seed)


def busy(load: PvmLoad, seed: int) -> World:
    """The sources and their updates. Nothing that was there at the beginning is deleted, nothing is inserted twice."""
    world, random = _sources(load.m, seed), Random(seed)
    tables = {str(table.source): table for table in world.columns}
    inserted: dict[str, list[Row]] = {source: [] for source in tables}
    origins, times = in_turn(world.sources, load.c), every(load.interval)
    planned = []
    for _ in range(load.n):
        source = next(origins)
        table, rows = tables[source], inserted[source]
        if rows and random.random() < DELETES:
            change = Bag({rows.pop(random.randrange(len(rows))): -1})
        else:
            row: Row = (random.randrange(ROWS), random.randrange(ROWS))
            while row in world.initial[table].counts or row in rows:
                row = (random.randrange(ROWS), random.randrange(ROWS))
            rows.append(row)
            change = Bag({row: 1})
        planned.append(PlannedUpdate(next(times), source, {table: change}))
    return world.having(planned)


@lru_cache(64)
def _sources(m: int, seed: int) -> World:
    """Remembered, with the view's first content: it takes longer than a run."""
    world = paired_chain(m, ROWS, seed)
    _ = world.content
    return world


def even(load: PvmLoad, factory: Factory, seed: int) -> float:
    """T, the time to handle all updates, with even sources."""
    return history(load, factory, EVEN, seed).finished


def varying(load: PvmLoad, factory: Factory, seed: int, conditions: Conditions = VARYING) -> float:
    """Mean T over `RUNS` runs with varying sources. All algorithms meet the same updates."""
    return sum(history(load, factory, conditions, seed * 1000 + r).finished for r in range(RUNS)) / RUNS


def times(load: PvmLoad, algorithms: Algorithms, seed: int) -> dict[str, float]:
    """T of each algorithm, by its name with varying sources, by "NAME, even" with even ones."""
    found: dict[str, float] = {}
    for name, factory in algorithms:
        found[name] = varying(load, factory, seed)
        found[f"{name}, even"] = even(load, factory, seed)
    return found
