"""Places in the server's log, as it writes them and as numbers."""

from __future__ import annotations


def int_of(lsn: str) -> int:
    high, low = lsn.split("/")
    return (int(high, 16) << 32) | int(low, 16)


def lsn_of(place: int) -> str:
    return f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"
