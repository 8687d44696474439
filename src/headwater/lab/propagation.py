"""How an update got to the warehouse: its *path*, the messages and queries that brought it, read off a history.

    t_network    as long as one of the path's messages was on its way
    t_query      from the arrival of what is asked at a source to the end of the query, queueing included

Each algorithm labels its messages in its own way, so there is one reading for each. What a message waits for before it
is sent (the next interval, a node that is off, the one before it) is in neither part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headwater.lab.history import History, Message, Service
from headwater.maintenance.strategies.contract import Label


class Path(NamedTuple):
    """Messages and queries, one after the other, from the source of an update to the warehouse."""

    messages: Sequence[Message]
    services: Sequence[Service]

    @property
    def network(self) -> float:
        return _covered((m.sent, m.arrived) for m in self.messages if m.arrived is not None)

    @property
    def query(self) -> float:
        """From the arrival of what is asked to the end of the query: waiting for the source's other queries too."""
        return _covered((self._asked(s), s.end) for s in self.services)

    def _asked(self, service: Service) -> float:
        arrivals = (m.arrived for m in self.messages if m.receiver == service.source and m.arrived is not None)
        return max((at for at in arrivals if at <= service.start), default=service.start)


def _covered(intervals: Iterable[tuple[float, float]]) -> float:
    """How long at least one of the intervals lasts: things at the same time count once."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


Paths = dict[Label, list[Path]]
"""For each update that reached the warehouse, the ways that it took at the same time."""


def _labelled(history: History) -> tuple[dict[Label, list[Message]], dict[Label, list[Service]]]:
    messages: dict[Label, list[Message]] = {}
    services: dict[Label, list[Service]] = {}
    for message in history.messages:
        for label in message.about:
            messages.setdefault(label, []).append(message)
    for service in history.services:
        for label in service.about:
            services.setdefault(label, []).append(service)
    return messages, services


def of_its_own(history: History) -> Paths:
    """Pure-Push: each batch has its own messages."""
    messages, services = _labelled(history)
    return {u: [Path(messages[u], services.get(u, []))] for state in history.states for u in state.covers}


def both_ways(history: History) -> Paths:
    """Pull-Push: forward through the sources behind its own, backward through those before."""
    messages, services = _labelled(history)
    found: Paths = {}
    for u in (u for state in history.states for u in state.covers):
        ahead = [s for s in services.get(u, []) if s.source > u.source]
        back = [s for s in services.get(u, []) if s.source < u.source]
        ways = [[m for m in messages[u] if m.kind == kind] for kind in ("forward", "backward")]
        found[u] = [Path(ways[0], ahead), Path(ways[1], back)]
    return found


def composite(history: History) -> Paths:
    """Nested SWEEP: its own notice, and all that was asked for the updates that were committed with it."""
    messages, services = _labelled(history)
    found: Paths = {}
    for state in history.states:
        asked = [m for u in state.covers for m in messages[u] if m.kind != "notice"]
        worked = [s for u in state.covers for s in services.get(u, [])]
        for u in state.covers:
            found[u] = [Path([*(m for m in messages[u] if m.kind == "notice"), *asked], worked)]
    return found


def batch_by_batch(history: History) -> Paths:
    """The wave: its own notice, and all that was asked in the batch; one batch is over before the next begins."""
    messages, _ = _labelled(history)
    asked = iter(sorted((m for m in history.messages if m.kind in ("query", "reply")), key=lambda m: m.sent))
    services = iter(sorted(history.services, key=lambda s: s.start))
    found: Paths = {}
    by_end: dict[float, list[Label]] = {}
    for state in history.states:
        by_end.setdefault(state.at, []).extend(state.covers)
    message, service = next(asked, None), next(services, None)
    for end, covers in by_end.items():
        own: list[Message] = []
        worked: list[Service] = []
        while message is not None and message.sent < end:
            own.append(message)
            message = next(asked, None)
        while service is not None and service.start < end:
            worked.append(service)
            service = next(services, None)
        for u in covers:
            found[u] = [Path([*(m for m in messages[u] if m.kind == "notice"), *own], worked)]
    return found


def at_the_warehouse(path: Path) -> int:
    """Hops between modules in WHIPS: monitor → integrator → view manager, if something is asked on to the query
    processor and back, then → warehouse wrapper. However many sources there are."""
    return 5 if path.services else 3


def at_the_sources(path: Path) -> int:
    """Hops in the modified WHIPS (figure 3): monitor → update manager; at each source on the way update manager →
    query processor and back; view manager → warehouse wrapper."""
    return 2 + 2 * len(path.services)
