"""Statements whose rows are being fetched: how many at once, and how one is broken off.

One ends early because its client asks for that (`CancelFlightInfo`, `CancelQuery`), because its client went away, or
because it takes too long. Whichever it is, what the engine computes for it is interrupted; nobody waits for a batch to
be complete first. Invariant: a call's context is never looked at after the call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from headwater.serve.batches import Batches
from headwater.serve.errors import Refused
from headwater.serve.stopping import WATCH, Stopped

LOOK_SECONDS = 0.1
"""So often it is seen whether a client is still there."""
_ASKED = "a client asked to stop it"


class Stream:
    """The rows of one statement on their way to its client."""

    def __init__(self, context: Any, seconds: float) -> None:
        self._context, self._seconds = context, seconds
        self._stopped, self._lock = Stopped(), threading.Lock()
        self._asked_to_stop = self._over = False

    def more(self, batches: Batches, most: int) -> pa.RecordBatch | None:
        """The next rows; None: there are no more, or nobody is there to take them."""
        if self._context.is_cancelled():
            return None
        with self._stopped.watching(batches.interrupt, self._seconds):
            if self._asked_to_stop:  # while its client took what came before
                raise Refused("57014", f"canceling statement: {_ASKED}", "ask again")
            return batches.more(most)

    def cancel(self) -> None:
        self._asked_to_stop = True
        self._stopped.cancel(_ASKED)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Meanwhile it is broken off as soon as its client is gone."""
        self._look()
        try:
            yield
        finally:
            with self._lock:
                self._over = True

    def _look(self) -> None:
        """Again and again: an engine that has not begun yet does not notice that it is interrupted."""
        with self._lock:
            if self._over:
                return
            gone = self._context.is_cancelled()
            WATCH.after(LOOK_SECONDS, self._look)
        if gone or self._asked_to_stop:
            self._stopped.cancel("its client is gone" if gone else _ASKED)


class Running:
    """All streams of a server, at most so many at once."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._streams: dict[bytes, Stream] = {}

    @contextmanager
    def one(self, handle: bytes, stream: Stream) -> Iterator[Stream]:
        with self._lock:
            if len(self._streams) >= self._most:
                raise Refused(
                    "53300",
                    f"{self._most} statements are being fetched already",
                    "try again when one has ended, or raise [serve] connections",
                )
            self._streams[handle] = stream
        try:
            with stream.watched():
                yield stream
        finally:
            with self._lock:
                del self._streams[handle]

    def cancel(self, handle: bytes) -> bool:
        """Whether there is such a statement. Its stream ends with an error."""
        with self._lock:
            stream = self._streams.get(handle)
        if stream is not None:
            stream.cancel()
        return stream is not None

    def close(self) -> None:
        with self._lock:
            streams = list(self._streams.values())
        for stream in streams:
            stream.cancel()
