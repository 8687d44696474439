"""Figures 8 and 9: messages per update batch with nodes that are off, in independent runs.

A run has its own updates and its own times at which nodes go off and come back. All algorithms are given the same ones,
and so is a run with nothing off: what is compared is compared within a run, and its difference varies less than its
parts. The runs of a point are independent of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.lab.settings.mobile import (
    ACK_AFTER,
    ALGORITHMS,
    INTERFERENCE,
    MobileAlgorithm,
    MobileLoad,
    Sleep,
    conditions,
    mobile_world,
)
from headwater.lab.settings.propagation import at_the_warehouse, composite
from headwater.lab.simulation.tries import TryCounts, tallied
from headwater.maintenance.strategies.nested_sweep import nested_sweep

N = 4
F = 0.3
INTERVAL = 1.0
PILING = MobileAlgorithm("Nested SWEEP, piling up", lambda interval: nested_sweep(), composite, at_the_warehouse)
"""Over channels that send each message again on its own, however many are waiting."""
COMPARED = (*ALGORITHMS, PILING)


@dataclass(frozen=True)
class TimeScale:
    """How long a run is, and after how long on average a node changes."""

    duration: float
    mean: float


@dataclass(frozen=True)
class OutageRun:
    """Per batch committed: every try, the tries of nodes that were on, and which share had arrived in the end. `off` is
    the share of the time that nodes were off in fact, `changes` how often they changed."""

    messages: float
    left: float
    arrived: float
    off: float
    changes: int


Reading = Callable[[OutageRun], float]


def played(algorithm: MobileAlgorithm, who: str, asleep: float, scale: TimeScale, seed: int) -> OutageRun:
    """One run; `who` is off: the sources or the warehouse."""
    world = MobileLoad.at_rate(F, N, scale.duration, INTERFERENCE).over(mobile_world(N, seed), seed)
    how = conditions(world, scale.duration, seed, Sleep(**{who: asleep}, mean=scale.mean))
    simulation = tallied(world, algorithm.make(INTERVAL), how, seed, ACK_AFTER if algorithm is PILING else None)
    history, batches, until = simulation.run(), len(world.transactions), scale.duration
    tally = history.messages
    assert isinstance(tally, TryCounts)
    off = [sum(min(end, until) - start for start, end in spans if start < until) / until
           for spans in how.network.off.values()]  # fmt: skip
    return OutageRun(
        tally.tries / batches,
        tally.tries_of_nodes_on / batches,
        sum(len(state.covers) for state in history.states) / batches,
        sum(off) / len(off) if off else 0.0,
        sum((start < until) + (end < until) for spans in how.network.off.values() for start, end in spans),
    )


class Outages:
    """What was played: runs of each figure, probability and algorithm; run k of each has the same world."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, float, str], Sequence[OutageRun]] = {}

    def add(self, who: str, asleep: float, algorithm: str, runs: Sequence[OutageRun]) -> None:
        self._runs[who if asleep else "", asleep, algorithm] = runs

    def at(self, who: str, asleep: float, algorithm: str) -> Sequence[OutageRun]:
        """Where nothing is off, both figures show the same runs."""
        return self._runs[who if asleep else "", asleep, algorithm]

    def values(self, who: str, asleep: float, algorithm: str, reading: Reading) -> list[float]:
        return [reading(run) for run in self.at(who, asleep, algorithm)]

    def more(self, who: str, asleep: float, algorithm: str, reading: Reading) -> list[float]:
        """How many more than in the same run with nothing off."""
        return [a - b for a, b in self._beside_none(who, asleep, algorithm, reading)]

    def times(self, who: str, asleep: float, algorithm: str, reading: Reading) -> list[float]:
        """How many times as many."""
        return [a / b for a, b in self._beside_none(who, asleep, algorithm, reading)]

    def _beside_none(self, who: str, asleep: float, algorithm: str, reading: Reading) -> list[tuple[float, float]]:
        here = self.values(who, asleep, algorithm, reading)
        return list(zip(here, self.values(who, 0.0, algorithm, reading), strict=True))


def difference(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """a − b, run by run."""
    return [x - y for x, y in zip(a, b, strict=True)]
