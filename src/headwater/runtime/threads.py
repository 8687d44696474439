"""Threads that end when they are told to, whatever they are waiting for.

A thread may hang in a network connection or in a JVM. Ctrl-C must not wait for it: all that is durable is done in steps
that can be repeated, so a thread that does not end in time is left behind, and the process ends without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

PREFIX = "headwater-"
PATIENCE_SECONDS = 6.0
"""So long a stopping run waits for its threads, all together."""


def pool(name: str, width: int) -> ThreadPoolExecutor:
    """Named threads: a dump of the process shows what each is for."""
    return ThreadPoolExecutor(width, thread_name_prefix=f"{PREFIX}{name}")


class Bell:
    """Rung whenever a task has ended, so that whoever waits for any of many need not look again and again."""

    def __init__(self) -> None:
        self._rung = threading.Event()

    def heard_in(self, pool: Executor) -> Executor:
        """The pool, every task of which rings."""
        return _Ringing(pool, self)

    def ring(self) -> None:
        self._rung.set()

    @property
    def rung(self) -> bool:
        """Whether it has rung since somebody waited last."""
        return self._rung.is_set()

    def wait(self, seconds: float) -> None:
        """Until it rings or has rung since the last time, at most so long."""
        self._rung.wait(seconds)
        self._rung.clear()


class _Ringing(Executor):
    def __init__(self, pool: Executor, bell: Bell) -> None:
        self._pool, self._bell = pool, bell

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = self._pool.submit(fn, *args, **kwargs)
        future.add_done_callback(lambda done: self._bell.ring())
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


def end(*pools: Executor, seconds: float = PATIENCE_SECONDS) -> bool:
    """Begin nothing new, wait a while for what is under way; False if some of it is still under way then."""
    for one in pools:
        one.shutdown(wait=False, cancel_futures=True)
    until = time.monotonic() + seconds
    threads = [thread for one in pools if isinstance(one, ThreadPoolExecutor) for thread in one._threads]
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


def left_behind() -> list[str]:
    """The threads of ours that have not ended: the interpreter would wait for them for ever."""
    return [t.name for t in threading.enumerate() if t.name.startswith(PREFIX) and not t.daemon]
