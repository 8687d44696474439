"""Time as a port: a run uses the system's, the coordinator's tests a virtual one."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds that only ever grow, for pauses and intervals."""

    def time(self) -> float:
        """Seconds since 1970, for what people and records see."""


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()


SYSTEM = SystemClock()
