"""Runs of thousands of seconds: messages are counted, not kept, and the tries of an outage are counted at once.

`Tally` stands where a history keeps its messages. It keeps those that brought updates, which a path is read from, and
counts all.

`Piling` are channels that send every message again on its own until it gets through, however many others wait; the
receiver puts them in order. Whether a try is lost depends on the time only: the try at k · Δt is lost if its sender is
off when it leaves, or its receiver when it arrives. So the first k that is not lost follows from the ends of these
intervals, and nobody has to make the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil
from typing import Any

from headwater.lab.histories.history import Message
from headwater.lab.simulation.network import Network
from headwater.lab.simulation.simulator import Conditions, Simulation
from headwater.lab.worlds.world import World
from headwater.maintenance.strategies.contract import Factory, Node

HOUSEKEEPING = ("acknowledgement", "applied")
"""Kinds of messages that the paper does not count."""
ASKING = ("query", "reply")
"""The wave does not say which updates these are about."""


class TryCounts(list[Message]):
    """`made` are all tries by kind, `left` those whose sender was on."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network
        self.made: Counter[str] = Counter()
        self.left: Counter[str] = Counter()

    def append(self, message: Message) -> None:
        kind = message.kind
        self.made[kind] += 1
        if message.arrived is not None:
            self.left[kind] += 1
            if message.about or kind in ASKING:
                super().append(message)
        elif self._network.reachable(message.sender, message.sent):
            self.left[kind] += 1

    @property
    def tries(self) -> int:
        """Again ones included, without acknowledgements and the broadcasts of t_v."""
        return _counted(self.made)

    @property
    def tries_of_nodes_on(self) -> int:
        return _counted(self.left)


def _counted(kinds: Counter[str]) -> int:
    return sum(count for kind, count in kinds.items() if kind not in HOUSEKEEPING)


def tallied(
    world: World, factory: Factory, conditions: Conditions, seed: int, again: float | None = None
) -> Simulation:
    """A run whose messages are a `Tally`. `again`: over `Piling` channels with this Δt."""
    strategy, tally = factory(world.setting()), TryCounts(conditions.network)
    if again is None:
        return Simulation(world, strategy, conditions, seed, tally)
    simulation = Piling(world, strategy, conditions, seed, tally)
    simulation.again = again
    return simulation


class Piling(Simulation):
    """Delays must be constant and nothing lost by chance."""

    again = 0.2
    """Δt."""

    def _send(self, sender: Node, receiver: Node, kind: str, body: Any, weight: int, about: tuple[Any, ...]) -> None:
        if sender == receiver:
            super()._send(sender, receiver, kind, body, weight, about)
            return
        now, link = self.now, self.conditions.network.between(sender, receiver)
        takes = link.delay(self._random) + link.per_value * weight
        most = int((self.conditions.until - now) / self.again) + 1
        silent, heard = self._lost_tries(sender, receiver, takes, most)
        tally = self._messages
        assert isinstance(tally, TryCounts)
        tally.made[kind] += silent + heard
        tally.left[kind] += heard
        if silent + heard < most:
            self.now = now + (silent + heard) * self.again
            super()._send(sender, receiver, kind, body, weight, about)
            self.now = now

    def _lost_tries(self, sender: Node, receiver: Node, takes: float, most: int) -> tuple[int, int]:
        """How many tries from now on are lost, at most `most`: first those of a sender that is off, then the others."""
        off = self.conditions.network.off
        here, there = off.get(sender, ()), off.get(receiver, ())
        k = silent = 0
        while k < most:
            sent = self.now + k * self.again
            asleep = _interval(here, sent)
            if asleep is not None:
                after = min(self._first(asleep[1], k), most)
                silent += after - k
                k = after
                continue
            away = _interval(there, sent + takes)
            if away is None:
                break
            begins = next((start for start, _ in here if start > sent), float("inf"))
            k = min(self._first(away[1] - takes, k), self._first(begins, k), most)
        return silent, k - silent

    def _first(self, time: float, k: int) -> int:
        """The number of the first try at `time` or later; k was before it."""
        if time == float("inf"):
            return 2**62
        return max(ceil((time - self.now) / self.again), k + 1)


def _interval(intervals: Sequence[tuple[float, float]], at: float) -> tuple[float, float] | None:
    return next(((start, end) for start, end in intervals if start <= at < end), None)
