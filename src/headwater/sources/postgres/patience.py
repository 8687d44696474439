"""Transactions that lock other people's tables: one at a time, and no writer queues behind them for long."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg

from headwater.model.errors import SourceUnavailable
from headwater.sources.postgres.connection import Connection

LOCK_TIMEOUT = "2s"
LOCK_TRIES = 5
ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtextextended('headwater capture', 0))"


class Waiting:
    """What a transaction of ours waits for, and how long it still may: a budget for all its locks together."""

    def __init__(self, connection: Connection, seconds: float) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + seconds
        self.what = "schema headwater"

    def __call__(self, what: str) -> None:
        self.what = what
        left = max(int((self._deadline - time.monotonic()) * 1000), 1)
        self._connection.execute(f"SET LOCAL lock_timeout = '{left}ms'")


def patiently(connection: Connection, work: Callable[[Connection, Waiting], object]) -> None:
    """One transaction that never keeps writers queueing behind it for long: give up soon, try again a few times."""
    waiting = Waiting(connection, 0)
    for attempt in range(LOCK_TRIES):
        try:
            with connection.transaction():
                waiting = Waiting(connection, _seconds(LOCK_TIMEOUT))
                waiting(waiting.what)
                connection.execute(ONE_AT_A_TIME)
                work(connection, waiting)
            return
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            time.sleep(0.2 * (attempt + 1))
    raise SourceUnavailable(
        f"{waiting.what} is in use: its lock was not free within {LOCK_TIMEOUT}, {LOCK_TRIES} times",
        "try again when long transactions on it have ended (SELECT pid, xact_start, query FROM pg_stat_activity)",
    )


def _seconds(text: str) -> float:
    return float(text[:-2]) / 1000 if text.endswith("ms") else float(text[:-1])
