"""The server's packets, as fast as Python reads them: events of the log, and rows of an answer.

The driver reads a packet with several calls, and a value with several more. Here blocks are read and cut up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pymysql

from headwater.sources.mariadb.events import packed

_BLOCK = 1 << 18
_ENOUGH = 1 << 19
_MOST = 0xFFFFFF
_NULL = 251
_DONE, _ERROR = 0xFE, 0xFF

Reading = Callable[[int], bytes]
"""Reads at most so many bytes; none at the end."""

Columns = list[list[bytes | None]]


@dataclass(frozen=True, eq=False)
class Block:
    """Whole packets that stand one behind the other: where in the data each begins and ends."""

    data: bytes
    begins: list[int]
    ends: list[int]

    @cached_property
    def bytes(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self.data, np.uint8)

    @cached_property
    def spans(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        return np.array(self.begins, np.int64), np.array(self.ends, np.int64)

    @cached_property
    def kinds(self) -> npt.NDArray[np.uint8]:
        """Of events; a packet that is none may look like any."""
        return self.bytes[np.minimum(self.spans[0] + 5, len(self.data) - 1)]

    def after(self, packets: int) -> Block:
        """Without the first ones."""
        return Block(self.data, self.begins[packets:], self.ends[packets:]) if packets else self


def blocks(read: Reading) -> Iterator[Block]:
    """Whole packets of the protocol, until the server says that it is done: what there is at first, then many at a
    time."""
    held, wanted = b"", 1
    while True:
        at, begins, ends = 0, list[int](), list[int]()
        while True:
            length, end = len(held), 0
            while at + 4 < length:
                begin = at + 4
                end = begin + (held[at] | held[at + 1] << 8 | held[at + 2] << 16)
                if end > length or held[begin] >= _DONE or end - begin == _MOST:
                    break
                begins.append(begin)
                ends.append(end)
                at = end
            if at < end <= length or (begins and at >= wanted):
                break
            held += _more(read)
        if begins:
            yield Block(held, begins, ends)
            held, wanted = held[at:], _ENOUGH
            continue
        packet, held = _joined(held, read)
        if packet[0] == _ERROR:
            said = packet[9:].decode("utf-8", "replace")
            raise pymysql.OperationalError(int.from_bytes(packet[1:3], "little"), said)
        if packet[0] == _DONE and len(packet) < 9:
            return
        yield Block(packet, [0], [len(packet)])


def _joined(held: bytes, read: Reading) -> tuple[bytes, bytes]:
    """The first packet, with those that it goes on in; and what comes after."""
    parts, size = [], _MOST
    while size == _MOST:
        while len(held) < 4 or len(held) < 4 + int.from_bytes(held[:3], "little"):
            held += _more(read)
        size = int.from_bytes(held[:3], "little")
        parts.append(held[4 : 4 + size])
        held = held[4 + size :]
    return b"".join(parts), held


def _more(read: Reading) -> bytes:
    found = read(_BLOCK)
    if not found:
        raise pymysql.OperationalError(2013, "lost the connection while an answer was read")
    return found


def packets(read: Reading) -> Iterator[bytes]:
    """The same, one by one."""
    for block in blocks(read):
        for begin, end in zip(block.begins, block.ends, strict=True):
            yield block.data[begin:end]


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
