"""Polling the sources, each in its own thread and at its own pace: one that is gone is tried again with growing pauses
and holds nobody up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Literal

from headwater.model.errors import HeadwaterError, SourceUnavailable
from headwater.model.logged import event
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Identities
from headwater.model.source import Poll, Source
from headwater.runtime.clock import SYSTEM, Clock

log = logging.getLogger(__name__)

LONGEST_PAUSE = 30.0
LONGEST_REST = 2.0
"""A source that answered everything is left alone for as long as that took, which is what others need its machine for,
our own batches among them; but no longer than this."""


@dataclass(frozen=True)
class SourceState:
    """What a person wants to know of a source. `since` is when that state began."""

    state: Literal["ok", "unreachable", "failing"] = "ok"
    reason: str = ""
    since: float = 0.0
    more: bool = False


@dataclass(frozen=True)
class PollScope:
    """What a source is asked about: the columns of its tables that views use, about how many transactions at
    most, and which columns the names stand for."""

    tables: Mapping[TableName, Sequence[str]]
    limit: int
    expected: Mapping[TableName, Identities]


class Poller:
    """Keeps one question "what happened after?" under way at one source."""

    def __init__(
        self, source: Source, trimmer: Source, pool: Executor, position: Position, clock: Clock = SYSTEM
    ) -> None:
        self.source, self._pool, self._clock = source, pool, clock
        self._position = self._numbered = position
        self._trimmer = trimmer  # a connection of its own: trimming a long log must not hold up polling
        self._asked_at = self._answered_at = 0.0
        self._state = SourceState(since=clock.time())
        self._running: Future[Poll] | None = None
        self._next = 0.0
        self._pause = self._took = 0.0
        self._trimming: Future[int] | None = None

    @property
    def name(self) -> SourceName:
        return self.source.name

    @property
    def state(self) -> SourceState:
        return self._state

    @property
    def position(self) -> Position:
        """Where the source was when it last answered."""
        return self._position

    @property
    def numbered(self) -> Position:
        """Where the source was with everything of it that has a number; `position` may be further."""
        return self._numbered

    @property
    def answered_at(self) -> float:
        """When the last question that was answered was asked."""
        return self._answered_at

    @property
    def busy(self) -> bool:
        return self._running is not None

    @property
    def due(self) -> bool:
        """Whether it is neither being asked nor resting."""
        return self._running is None and self._clock.monotonic() >= self._next

    @property
    def rests(self) -> float:
        """Seconds until it is due; 0 if it is, or is being asked."""
        return 0.0 if self.busy else max(0.0, self._next - self._clock.monotonic())

    def start(self, wanted: PollScope) -> None:
        """Ask, unless it is being asked already or resting."""
        if not self.due or not wanted.tables:
            return
        self._asked_at = self._clock.monotonic()
        self._running = self._pool.submit(self._poll, wanted)

    def _poll(self, wanted: PollScope) -> Poll:
        begun = self._clock.monotonic()
        self.source.expect(wanted.expected)
        poll = self.source.poll(self._position, wanted.tables, wanted.limit)
        self._took = self._clock.monotonic() - begun
        return poll

    def finish(self, pause: float) -> Poll | HeadwaterError | None:
        """The answer if it is there; the next question waits `pause` seconds, or longer after a failure."""
        if self._running is None or not self._running.done():
            return None
        running, self._running = self._running, None
        try:
            poll = running.result()
        except HeadwaterError as error:
            log.info("source %s: %s", self.name, error.what, extra=event("source.failed", source=self.name))
            self._failed(error)
            return error
        except Exception as error:  # a defect of ours, or a driver's: shown, tried again, and the others go on
            log.exception("source %s: a defect", self.name, extra=event("source.failed", source=self.name))
            unexpected = HeadwaterError(f"unexpected {type(error).__name__}: {error}")
            self._failed(unexpected)
            return unexpected
        since = self._state.since if self._state.state == "ok" else self._clock.time()
        self._state = SourceState("ok", "", since, poll.more)
        self._answered_at = self._asked_at
        self._pause = 0.0
        self._next = 0.0 if poll.more else self._clock.monotonic() + max(pause, min(self._took, LONGEST_REST))
        self._position = poll.end
        return poll

    def took_in(self, position: Position) -> None:
        """Everything up to here has a number."""
        self._numbered = position

    def _failed(self, error: HeadwaterError) -> None:
        kind: Literal["unreachable", "failing"] = "unreachable" if isinstance(error, SourceUnavailable) else "failing"
        since = self._state.since if self._state.state == kind else self._clock.time()
        self._state = SourceState(kind, error.what, since)
        self._pause = min(LONGEST_PAUSE, max(0.5, self._pause * 2))
        self._next = self._clock.monotonic() + self._pause

    def trim(self, below: Position) -> None:
        """Let the source forget what nobody will ask about, in the background."""
        if self._trimming is not None:
            if not self._trimming.done():
                return
            failure = self._trimming.exception()
            if failure is not None:  # no harm done: it is tried again
                facts = event("source.not_trimmed", source=self.name)
                log.warning("source %s could not be trimmed: %s", self.name, failure, extra=facts)
        if self._state.state == "ok":
            self._trimming = self._pool.submit(self._trimmer.trim, below)

    def close(self) -> None:
        """Connections in use are left to the thread that uses them: it may hang in one."""
        if self._running is None or self._running.done():
            self.source.close()
        if self._trimming is None or self._trimming.done():
            self._trimmer.close()


class Pollers:
    """The pollers of a run. Each has connections of its own: an adapter serves one thread at a time."""

    def __init__(self, connect: Callable[[SourceName], Source], pool: Executor, clock: Clock = SYSTEM) -> None:
        self._connect, self._pool, self._clock = connect, pool, clock
        self._all: dict[SourceName, Poller] = {}

    def __iter__(self) -> Iterator[Poller]:
        return iter(list(self._all.values()))

    def __contains__(self, source: object) -> bool:
        return source in self._all

    def __getitem__(self, source: SourceName) -> Poller:
        return self._all[source]

    def get(self, source: SourceName) -> Poller | None:
        return self._all.get(source)

    def add(self, sources: Collection[SourceName], known: Mapping[SourceName, Position]) -> None:
        """Poll these sources from where they are known to have been."""
        for source in sorted(set(sources) - set(self._all)):
            poll, trim = self._connect(source), self._connect(source)
            self._all[source] = Poller(poll, trim, self._pool, known[source], self._clock)

    def remove(self, source: SourceName) -> None:
        if source in self._all:
            self._all.pop(source).close()

    @property
    def numbered(self) -> dict[SourceName, Position]:
        """Where each source was with everything that has a number."""
        return {name: poller.numbered for name, poller in self._all.items()}

    def close(self) -> None:
        for poller in self._all.values():
            poller.close()
