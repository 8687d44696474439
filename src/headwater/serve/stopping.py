"""What runs is broken off: after so long, or because a client asks. One thread watches over all of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from headwater.serve.errors import Refused

LOOK_SECONDS = 0.05
LOOKS = 40
"""After so many looks at nothing the watch sleeps until it is called: to wake it costs more than a look."""


class Interrupted(Exception):
    """By who reads a view without an engine: it was asked to stop."""


class Watch:
    """Calls what is due."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[int, tuple[float, Callable[[], None]]] = {}
        self._thread: threading.Thread | None = None
        self._asleep, self._keys = False, count()

    @contextmanager
    def over(self, seconds: float, late: Callable[[], None]) -> Iterator[None]:
        """Calls if what is done meanwhile takes longer."""
        key = self.after(seconds, late)
        try:
            yield
        finally:
            self.never(key)

    def after(self, seconds: float, late: Callable[[], None]) -> int:
        """Calls in so long, unless it is told `never` before."""
        with self._changed:
            key = next(self._keys)
            self._due[key] = (time.monotonic() + seconds, late)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="headwater-watch", daemon=True)
                self._thread.start()
            elif self._asleep:
                self._changed.notify()
            return key

    def never(self, key: int) -> None:
        with self._changed:
            self._due.pop(key, None)

    def _run(self) -> None:
        idle = 0
        while True:
            with self._changed:
                idle = 0 if self._due else idle + 1
                self._asleep = idle > LOOKS
                self._changed.wait(None if self._asleep else LOOK_SECONDS)
                now = time.monotonic()
                late = [(key, call) for key, (due, call) in self._due.items() if due <= now]
                for key, _ in late:
                    del self._due[key]
            for _, call in late:
                call()


WATCH = Watch()
"""Of this process."""


class Stopped:
    """Breaks off what a client's statement does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Callable[[], None] | None = None
        self._why = ""

    def cancel(self, why: str = "a client asked to stop this statement") -> None:
        with self._lock:
            if self._running is not None:
                self._why = why
                self._running()

    @contextmanager
    def watching(self, interrupt: Callable[[], None], seconds: float) -> Iterator[None]:
        """For what is done meanwhile; if it is broken off, the error says why."""
        with self._lock:
            self._running, self._why = interrupt, ""
        try:
            with WATCH.over(seconds, lambda: self.cancel(f"the statement took longer than {seconds:g} s")):
                yield
        except Exception:
            why = self._end()
            if why:
                raise Refused("57014", f"canceling statement: {why}", "ask for less: a WHERE, fewer columns") from None
            raise
        finally:
            self._end()

    def _end(self) -> str:
        with self._lock:
            self._running = None
            return self._why
