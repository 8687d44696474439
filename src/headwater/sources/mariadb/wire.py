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
_DONE, _ERROR = 0xFE, 0xFF

Reading = Callable[[int], bytes]
"""Reads at most so many bytes; none at the end."""

Columns = list[list[bytes | None]]


def packets(read: Reading) -> Iterator[bytes]:
    """Whole packets of the protocol, until the server says that it is done."""
    held, at, length = b"", 0, 0
    parts: list[bytes] = []
    while True:
        begin = end = at + 4
        if begin <= length:
            end = begin + int.from_bytes(held[at : at + 3], "little")
        if end > length:
            more = read(_BLOCK)
            if not more:
                raise pymysql.OperationalError(2013, "lost the connection while an answer was read")
            held, at = held[at:] + more, 0
            length = len(held)
            continue
        packet, at = held[begin:end], end
        if parts or end - begin == _MOST:
            parts.append(packet)
            if end - begin == _MOST:
                continue
            packet, parts = b"".join(parts), []
        if packet[0] >= _DONE:
            if packet[0] == _ERROR:
                said = packet[9:].decode("utf-8", "replace")
                raise pymysql.OperationalError(int.from_bytes(packet[1:3], "little"), said)
            if len(packet) < 9:
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
