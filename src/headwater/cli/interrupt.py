"""Ctrl-C while Spark works: its jobs are cancelled, then KeyboardInterrupt is raised as usual.

PySpark installs a handler of its own when it starts, which talks to the JVM over the very connection that the
interrupted call is waiting on, and fills the screen. This one uses another thread, hence another connection.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SECONDS = 3.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible() -> Iterator[None]:
    """For what runs after Spark has started."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        cancel_jobs()
        raise KeyboardInterrupt

    before = {kind: signal.signal(kind, interrupt) for kind in SIGNALS}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def cancel_jobs() -> None:
    """Make Spark's calls return. What it then says about being interrupted is no news."""
    from pyspark import SparkContext

    logging.disable(logging.CRITICAL)
    context = SparkContext._active_spark_context
    if context is None:
        return

    def cancel() -> None:
        with suppress(Exception):
            context.cancelAllJobs()

    thread = threading.Thread(target=cancel, daemon=True)
    thread.start()
    thread.join(SECONDS)
