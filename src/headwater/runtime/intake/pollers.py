"""Polling the sources, each in its own thread and at its own pace: one that is gone is tried again with growing pauses
and holds nobody up."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from headwater.model.errors import HeadwaterError, SourceUnavailable
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Identities
from headwater.model.source import Poll, Source

LONGEST_PAUSE = 30.0


@dataclass(frozen=True)
class SourceState:
    """What a person wants to know of a source. `since` is when that state began."""

    state: Literal["ok", "unreachable", "failing"] = "ok"
    reason: str = ""
    since: float = 0.0
    more: bool = False


class Poller:
    """Keeps one question "what happened after?" under way at one source."""

    def __init__(self, source: Source, trimmer: Source, pool: ThreadPoolExecutor, position: Position) -> None:
        self.source, self.position = source, position
        self.numbered = position
        """Where the source was with everything of it that has a number; `position` may be further."""
        self._trimmer = trimmer  # a connection of its own: trimming a long log must not hold up polling
        self.asked_at = 0.0
        self.answered_at = 0.0
        """When the last question that was answered was asked."""
        self.state = SourceState(since=time.time())
        self._pool = pool
        self._running: Future[Poll] | None = None
        self._next = 0.0
        self._pause = 0.0
        self._trimming: Future[int] | None = None

    @property
    def name(self) -> SourceName:
        return self.source.name

    @property
    def busy(self) -> bool:
        return self._running is not None

    @property
    def due(self) -> bool:
        """Whether it is neither being asked nor resting."""
        return self._running is None and time.monotonic() >= self._next

    def start(
        self, tables: Mapping[TableName, Sequence[str]], limit: int, expected: Mapping[TableName, Identities]
    ) -> None:
        """Ask, unless it is being asked already or resting."""
        if not self.due or not tables:
            return
        self.asked_at = time.monotonic()
        self._running = self._pool.submit(self._poll, tables, limit, expected)

    def _poll(
        self, tables: Mapping[TableName, Sequence[str]], limit: int, expected: Mapping[TableName, Identities]
    ) -> Poll:
        self.source.expect(expected)
        return self.source.poll(self.position, tables, limit)

    def finish(self, pause: float) -> Poll | HeadwaterError | None:
        """The answer if it is there; the next question waits `pause` seconds, or longer after a failure."""
        if self._running is None or not self._running.done():
            return None
        running, self._running = self._running, None
        try:
            poll = running.result()
        except HeadwaterError as error:
            self.failed(error)
            return error
        except Exception as error:  # a defect of ours, or a driver's: shown, tried again, and the others go on
            unexpected = HeadwaterError(f"unexpected {type(error).__name__}: {error}")
            self.failed(unexpected)
            return unexpected
        if self.state.state != "ok":
            self.state = SourceState(since=time.time())
        self.state = SourceState("ok", "", self.state.since, poll.more)
        self.answered_at = self.asked_at
        self._pause = 0.0
        self._next = 0.0 if poll.more else time.monotonic() + pause
        self.position = poll.end
        return poll

    def failed(self, error: HeadwaterError) -> None:
        kind: Literal["unreachable", "failing"] = "unreachable" if isinstance(error, SourceUnavailable) else "failing"
        since = self.state.since if self.state.state == kind else time.time()
        self.state = SourceState(kind, error.what, since)
        self._pause = min(LONGEST_PAUSE, max(0.5, self._pause * 2))
        self._next = time.monotonic() + self._pause

    def trim(self, below: Position) -> None:
        """Let the source forget what nobody will ask about, in the background."""
        if self.state.state == "ok" and (self._trimming is None or self._trimming.done()):
            self._trimming = self._pool.submit(self._trimmer.trim, below)

    def close(self) -> None:
        """Connections in use are left to the thread that uses them: it may hang in one."""
        if self._running is None or self._running.done():
            self.source.close()
        if self._trimming is None or self._trimming.done():
            self._trimmer.close()
