"""How an update got to the warehouse: its *path*, the messages and queries that brought it, read off a history.

    t_network    as long as one of the path's messages was on its way
    t_query      from the arrival of what is asked at a source to the end of the query, queueing included

Each algorithm labels its messages in its own way, so there is one reading for each. What a message waits for before it
is sent (the next interval, a node that is off, the one before it) is in neither part.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from headwater.lab.histories.history import History, Message, Service
from headwater.maintenance.strategies.contract import Label, Node

Interval = tuple[float, float]


class Path(NamedTuple):
    """t_network and t_query of messages and queries from the source of an update to the warehouse; how many queries."""

    network: float
    query: float
    queries: int


class _Covered:
    """The times at which at least one of some intervals lasts: things at the same time count once."""

    def __init__(self, intervals: Iterable[Interval]) -> None:
        self._apart: list[Interval] = []
        for start, stop in sorted(intervals):
            if self._apart and start <= self._apart[-1][1]:
                before = self._apart.pop()
                start, stop = before[0], max(before[1], stop)
            self._apart.append((start, stop))
        self.total = sum(stop - start for start, stop in self._apart)

    def __iter__(self) -> Iterator[Interval]:
        return iter(self._apart)

    def outside(self, other: _Covered) -> float:
        """How much of another one is not in this one."""
        return other.total - sum(self._within(start, stop) for start, stop in other)

    def _within(self, start: float, stop: float) -> float:
        total = 0.0
        at = max(bisect_right(self._apart, (start, start)) - 1, 0)
        while at < len(self._apart) and self._apart[at][0] < stop:
            total += max(0.0, min(stop, self._apart[at][1]) - max(start, self._apart[at][0]))
            at += 1
        return total


def _under_way(messages: Iterable[Message]) -> _Covered:
    return _Covered((m.sent, m.arrived) for m in messages if m.arrived is not None)


def _queried(messages: Iterable[Message], services: Iterable[Service]) -> float:
    """From the arrival of what is asked to the end of the query: waiting for the source's other queries too."""
    arrivals: dict[Node, list[float]] = {}
    for message in messages:
        if message.arrived is not None:
            arrivals.setdefault(message.receiver, []).append(message.arrived)
    for times in arrivals.values():
        times.sort()

    def asked(service: Service) -> float:
        times = arrivals.get(service.source, [])
        at = bisect_right(times, service.start)
        return times[at - 1] if at else service.start

    return _Covered((asked(s), s.end) for s in services).total


def _path(messages: Sequence[Message], services: Sequence[Service]) -> Path:
    return Path(_under_way(messages).total, _queried(messages, services), len(services))


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
    return {u: [_path(messages[u], services.get(u, []))] for state in history.states for u in state.covers}


def both_ways(history: History) -> Paths:
    """Pull-Push: forward through the sources behind its own, backward through those before."""
    messages, services = _labelled(history)
    found: Paths = {}
    for u in (u for state in history.states for u in state.covers):
        ahead = [s for s in services.get(u, []) if s.source > u.source]
        back = [s for s in services.get(u, []) if s.source < u.source]
        ways = [[m for m in messages[u] if m.kind == kind] for kind in ("forward", "backward")]
        found[u] = [_path(ways[0], ahead), _path(ways[1], back)]
    return found


def composite(history: History) -> Paths:
    """Nested SWEEP: its own notice, and all that was asked for the updates that were committed with it."""
    messages, services = _labelled(history)
    found: Paths = {}
    for state in history.states:
        asked = [m for u in state.covers for m in messages[u] if m.kind != "notice"]
        worked = [s for u in state.covers for s in services.get(u, [])]
        found.update(_shared(state.covers, messages, asked, worked))
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
        found.update(_shared(covers, messages, own, worked))
    return found


def _shared(
    covers: Iterable[Label], messages: dict[Label, list[Message]], asked: list[Message], worked: list[Service]
) -> Paths:
    """Paths that differ in the notice only: what they share is summed once, however many updates were together."""
    common, query = _under_way(asked), _queried(asked, worked)
    notices = {u: _under_way(m for m in messages[u] if m.kind == "notice") for u in covers}
    return {u: [Path(common.total + common.outside(own), query, len(worked))] for u, own in notices.items()}


def at_the_warehouse(path: Path) -> int:
    """Hops between modules in WHIPS: monitor → integrator → view manager, if something is asked on to the query
    processor and back, then → warehouse wrapper. However many sources there are."""
    return 5 if path.queries else 3


def at_the_sources(path: Path) -> int:
    """Hops in the modified WHIPS (figure 3): monitor → update manager; at each source on the way update manager →
    query processor and back; view manager → warehouse wrapper."""
    return 2 + 2 * path.queries
