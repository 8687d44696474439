"""Numbers that displays make of a run's snapshots: rates, and how long a load still takes."""

from __future__ import annotations

import time
from collections import deque

from headwater.runtime.snapshot import Loading

RATE_SECONDS = 10.0


class Rate:
    """How fast a growing number grows, over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def of(self, count: int) -> float:
        now = time.monotonic()
        self._seen.append((now, count))
        while len(self._seen) > 2 and self._seen[0][0] < now - RATE_SECONDS:
            self._seen.popleft()
        since, first = self._seen[0]
        return (count - first) / (now - since) if now - since > 0.5 else 0.0


def load_left(load: Loading) -> tuple[float, float | None]:
    """Rows a second, and seconds left of a first load's copying (None: not known)."""
    spent = time.time() - load.started
    rate = load.rows / spent if spent > 0.2 else 0.0
    left = (load.total - load.rows) / rate if load.total is not None and rate > 0 else None
    return rate, left
