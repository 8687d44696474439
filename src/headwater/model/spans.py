"""Spans of time, as people write them: "5 s", "500 ms", "2 minutes"."""

from __future__ import annotations

import re

_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)
_UNITS = {"ms": 0.001, "s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400,
          "day": 86400}  # fmt: skip


def seconds_of(said: str) -> float | None:
    """How many seconds; None if it is no span of time, or none at all."""
    span = _SPAN.fullmatch(said)
    word = span[2].lower() if span else ""
    unit = _UNITS.get(word) or _UNITS.get(word.removesuffix("s"))
    return float(span[1]) * unit if span and unit and float(span[1]) > 0 else None
