"""The server's packets, as fast as Python reads them: events of the log, and rows of an answer.

The driver reads a packet with several calls, and a value with several more. Here blocks are read and cut up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pymysql

from headwater.sources.mariadb.events import packed

_BLOCK = 1 << 18
_MOST = 0xFFFFFF
_NULL = 251

Reading = Callable[[int], bytes]
"""Reads at most so many bytes; none at the end."""

Columns = list[list[bytes | None]]


def packets(read: Reading) -> Iterator[bytes]:
    """Whole packets of the protocol, until the server says that it is done."""
    held, at = b"", 0
    parts: list[bytes] = []
    while True:
        while len(held) - at < 4 or len(held) - at < 4 + int.from_bytes(held[at : at + 3], "little"):
            more = read(_BLOCK)
            if not more:
                raise pymysql.OperationalError(2013, "lost the connection while an answer was read")
            held, at = held[at:] + more, 0
        size = int.from_bytes(held[at : at + 3], "little")
        packet, at = held[at + 4 : at + 4 + size], at + 4 + size
        if size == _MOST or parts:
            parts.append(packet)
            if size == _MOST:
                continue
            packet, parts = b"".join(parts), []
        if packet[0] == 0xFF:
            raise pymysql.OperationalError(int.from_bytes(packet[1:3], "little"), packet[9:].decode("utf-8", "replace"))
        if packet[0] == 0xFE and len(packet) < 9:
            return
        yield packet


def columns_of(read: Reading, width: int, most: int) -> Iterator[Columns]:
    """The rows of an answer as columns of texts, so many rows at a time."""
    columns: Columns = [[] for _ in range(width)]
    count = 0
    for packet in packets(read):
        at = 0
        for column in columns:
            size = packet[at]
            if size < _NULL:
                at += 1
                column.append(packet[at : at + size])
                at += size
            elif size == _NULL:
                column.append(None)
                at += 1
            else:
                size, at = packed(packet, at)
                column.append(packet[at : at + size])
                at += size
        count += 1
        if count == most:
            yield columns
            columns, count = [[] for _ in range(width)], 0
    if count:
        yield columns
