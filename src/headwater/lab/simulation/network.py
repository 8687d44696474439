"""Channels between nodes: delay, order, loss, and nodes that are off for a while."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from headwater.maintenance.strategies.contract import Node

Delay = Callable[[Random], float]


def constant(seconds: float) -> Delay:
    return lambda _: seconds


def exponential(mean: float) -> Delay:
    rate = 1.0 / mean
    return lambda random: random.expovariate(rate)


def uniform(low: float, high: float) -> Delay:
    return lambda random: random.uniform(low, high)


NONE = constant(0.0)


@dataclass(frozen=True)
class Link:
    """How messages go from one node to another.

    `fifo` channels deliver in the order of sending. `per_value` is the time each value in a message takes on the wire.
    A lost message is gone, unless `retransmit` is set: then it is sent again after so much time, until it arrives; on a
    FIFO channel those behind it wait.
    """

    delay: Delay = NONE
    fifo: bool = True
    loss: float = 0.0
    per_value: float = 0.0
    retransmit: float | None = None


@dataclass(frozen=True)
class Network:
    """`link` is the usual one, `links` (by sender and receiver) the others. `off` says when a node neither sends nor
    receives: intervals, ascending. What is on its way to it then is lost."""

    link: Link = Link()
    links: Mapping[tuple[Node, Node], Link] = field(default_factory=dict)
    off: Mapping[Node, Sequence[tuple[float, float]]] = field(default_factory=dict)

    def between(self, sender: Node, receiver: Node) -> Link:
        return self.links.get((sender, receiver), self.link)

    def reachable(self, node: Node, at: float) -> bool:
        intervals = self.off.get(node)
        if not intervals:
            return True
        i = bisect_right(intervals, (at, float("inf"))) - 1
        return i < 0 or at >= intervals[i][1]


def on_and_off(random: Random, asleep: float, mean: float, until: float) -> list[tuple[float, float]]:
    """When a mobile node is off: a fraction `asleep` of the time, changing its mind after exponentially distributed
    intervals of `mean` on average (Pull-Push, table 1: s and ω)."""
    intervals: list[tuple[float, float]] = []
    if asleep <= 0:
        return intervals
    now = 0.0
    while now < until:
        now += random.expovariate(1 / (2 * mean * (1 - asleep)))
        start = now
        now += random.expovariate(1 / (2 * mean * asleep))
        intervals.append((start, now))
    return intervals
