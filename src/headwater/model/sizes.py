"""Sizes in bytes, as people write them: `10 GB`, in thousands."""

from __future__ import annotations

import re

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?B)", re.IGNORECASE)


def bytes_of(text: str) -> int | None:
    """How many bytes that is; None if it is no size."""
    found = _WRITTEN.fullmatch(text.strip())
    return round(float(found.group(1)) * _UNITS[found.group(2).upper()]) if found else None


def byte_size(size: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1000
    raise AssertionError("no unit is left")
