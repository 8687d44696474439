"""The events of the log, as the server sends them: which there are, and what is read of each.

    header   when (4) · type (1) · server (4) · size (4) · end (4) · flags (2)
    body     as its type says

MariaDB and MySQL number their own events apart, so both are read here.

Only what Headwater needs is read; of all other events, only that they are there. Compressed events are what they are
without compression.
"""

from __future__ import annotations

import functools
import struct
import uuid
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from headwater.sources.mariadb.places import Place

QUERY, ROTATE, FORMAT, XID, TABLE_MAP, XA_PREPARE = 2, 4, 15, 16, 19, 38
GTID = 162
QUERY_COMPRESSED = 165
PAYLOAD = 40
"""MySQL: a whole transaction's events, compressed."""
MYSQL_GTIDS = frozenset({33, 34, 42})
_ANONYMOUS, _TAGGED = 34, 42
INSERTS = frozenset({23, 30, 166, 169})
PARTIAL = 39
"""MySQL: an update of which the log has a part of the new row (binlog_row_value_options)."""
UPDATES = frozenset({24, 31, 167, 170, PARTIAL})
DELETES = frozenset({25, 32, 168, 171})
ROWS = INSERTS | UPDATES | DELETES
_ROWS_V2 = frozenset({30, 31, 32, PARTIAL, 169, 170, 171})
_COMPRESSED = frozenset({166, 167, 168, 169, 170, 171})

STANDALONE, PREPARED = 1, 64
"""Flags of a GTID event: no COMMIT follows; what follows is prepared (XA), and committed later."""

HEADER = struct.Struct("<IBIIIH")
_COLUMN_NAMES = 4


class Event(NamedTuple):
    """A tuple, because there are millions of them, and a dataclass takes three times as long to make."""

    kind: int
    when: int
    """Seconds since 1970."""
    end: Place
    body: bytes


@dataclass(frozen=True)
class Statement:
    """A statement that the log has as text: it changes tables, or it is one that a session chose to log so."""

    database: str
    text: str


@dataclass(frozen=True)
class Layout:
    """A table as rows that follow are laid out. `columns` is empty where the server did not log their names."""

    database: str
    table: str
    types: bytes
    metadata: tuple[int, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Rows:
    """Rows of one table that one event holds, not decoded yet. `whole` says whether all columns are there."""

    layout: Layout
    kind: int
    """Of the event: INSERTS, UPDATES or DELETES."""
    whole: bool
    images: bytes


# ── numbers of variable length ───────────────────────────────────────────────────────────────────────────────────


def packed(body: bytes, at: int) -> tuple[int, int]:
    """A length-encoded number, and where the next thing begins."""
    first = body[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(body[at + 1 : at + 1 + size], "little"), at + 1 + size


def _unzipped(body: bytes, at: int) -> bytes:
    """What MariaDB compressed: a byte that says how long the length is, the length, the data."""
    return zlib.decompress(body[at + 1 + (body[at] & 7) :])


# ── bodies ───────────────────────────────────────────────────────────────────────────────────────────────────────


def rotated(body: bytes) -> tuple[str, int]:
    """The file that goes on, and where in it."""
    return body[8:].decode(), int.from_bytes(body[:8], "little")


def gtid(body: bytes, server: int) -> tuple[str, int]:
    """The transaction's own name, and flags."""
    sequence, domain, flags = struct.unpack_from("<QIB", body)
    return f"{domain}-{server}-{sequence}", flags


def mysql_gtid(kind: int, body: bytes) -> str:
    """The transaction's own name; empty if it has none."""
    if kind == _ANONYMOUS:
        return ""
    if kind != _TAGGED:
        return f"{uuid.UUID(bytes=body[1:17])}:{int.from_bytes(body[17:25], 'little')}"
    return _tagged(body)


def _tagged(body: bytes) -> str:
    """Fields by number, each as it is: flags, 16 bytes of the server, the transaction's number, the tag."""
    at = 0
    for _ in range(3):  # version, size, the last field that must be understood
        _, at = _varying(body, at)
    server, number, tag = bytearray(), 0, ""
    for _ in range(4):
        field, at = _varying(body, at)
        if field == 0:
            at += 1
        elif field == 1:
            for _ in range(16):
                byte, at = _varying(body, at)
                server.append(byte)
        elif field == 2:
            number, at = _varying(body, at)
            number = number >> 1  # its lowest bit is the sign
        elif field == 3:
            size, at = _varying(body, at)
            tag, at = body[at : at + size].decode(), at + size
    return f"{uuid.UUID(bytes=bytes(server))}:{tag}:{number}"


def _varying(body: bytes, at: int) -> tuple[int, int]:
    """A number whose first byte says by its lowest ones how many bytes follow."""
    size = 1
    while size < 9 and body[at] >> size - 1 & 1:
        size += 1
    raw = int.from_bytes(body[at : at + size], "little")
    return (raw >> size if size < 9 else raw >> 8), at + size


def unpacked(found: Iterable[Event]) -> Iterator[Event]:
    """The events, and in place of a payload those that are in it: they end where it does."""
    for event in found:
        if event.kind == PAYLOAD:
            whole, at = _payload(event.body), 0
            while at < len(whole):
                when, kind, _, size, _, _ = HEADER.unpack_from(whole, at)
                yield Event(kind, when, event.end, whole[at + HEADER.size : at + size])
                at += size
        else:
            yield event


def _payload(body: bytes) -> bytes:
    """Fields (number, length, value) up to a zero, then the data."""
    at, said = 0, {_PLAIN: 0, _COMPRESSION: _UNCOMPRESSED}
    while body[at]:
        field, at = packed(body, at)
        size, at = packed(body, at)
        said[field], _ = packed(body, at)
        at += size
    if said[_COMPRESSION] == _UNCOMPRESSED:
        return body[at + 1 :]
    return bytes(pa.decompress(body[at + 1 :], said[_PLAIN], codec="zstd", asbytes=True))


_COMPRESSION, _PLAIN, _UNCOMPRESSED = 2, 3, 255


def statement(kind: int, body: bytes) -> Statement:
    length, status = body[8], int.from_bytes(body[11:13], "little")
    begin = 13 + status
    database = body[begin : begin + length].decode("utf-8", "replace")
    text = _unzipped(body, begin + length + 1) if kind == QUERY_COMPRESSED else body[begin + length + 1 :]
    return Statement(database, text.decode("utf-8", "replace"))


def prepared(body: bytes) -> bytes:
    """Which transaction is prepared: its format, and both parts of its name."""
    form, first, second = struct.unpack_from("<III", body, 1)
    return xid(form, body[13 : 13 + first], body[13 + first : 13 + first + second])


def in_one_phase(body: bytes) -> bool:
    """Whether what is prepared is committed with it."""
    return body[0] == 1


def xid(form: int, first: bytes, second: bytes) -> bytes:
    return b"%d:%s:%s" % (form, first.hex().encode(), second.hex().encode())


def layout(body: bytes) -> Layout:
    """Of a TABLE_MAP event; its number is the first six bytes. A table is described again with every statement, in the
    same words."""
    return _layout(body[8:])


@functools.lru_cache(maxsize=1000)
def _layout(body: bytes) -> Layout:
    database, at = _name(body, 0)
    table, at = _name(body, at)
    count, at = packed(body, at)
    types, at = body[at : at + count], at + count
    size, at = packed(body, at)
    metadata, end = [], at + size
    for kind in types:
        width = _METADATA.get(kind, 0)
        raw = body[at : at + width]
        metadata.append(int.from_bytes(raw, "big" if kind in _BIG_ENDIAN else "little"))
        at += width
    at = end + (count + 7) // 8
    columns: list[str] = []
    while at < len(body):
        field = body[at]
        size, at = packed(body, at + 1)
        if field == _COLUMN_NAMES:
            columns = _names(body[at : at + size])
        at += size
    return Layout(database, table, types, tuple(metadata), tuple(columns))


_METADATA = {
    4: 1, 5: 1, 15: 2, 16: 2, 17: 1, 18: 1, 19: 1, 140: 1, 141: 2, 242: 1, 245: 1, 246: 2, 247: 2, 248: 2, 249: 1,
    250: 1, 251: 1, 252: 1, 253: 2, 254: 2, 255: 1,
}  # fmt: skip
"""How many bytes the layout says about a column of a type."""
_BIG_ENDIAN = frozenset({246, 247, 248, 254})


def _name(body: bytes, at: int) -> tuple[str, int]:
    size = body[at]
    return body[at + 1 : at + 1 + size].decode(), at + 2 + size


def _names(body: bytes) -> list[str]:
    found, at = [], 0
    while at < len(body):
        size, at = packed(body, at)
        found.append(body[at : at + size].decode())
        at += size
    return found


def table_number(body: bytes) -> int:
    return int.from_bytes(body[:6], "little")


def rows(kind: int, body: bytes, table: Layout) -> Rows:
    """The images begin after the bitmaps that say which columns they have."""
    at = 8
    if kind in _ROWS_V2:
        at += int.from_bytes(body[8:10], "little")
    count, at = packed(body, at)
    width = (count + 7) // 8
    maps = 2 if kind in UPDATES else 1
    present = int.from_bytes(body[at : at + width], "little")
    whole = kind != PARTIAL and count == len(table.types) and _all(present, count)
    if maps == 2:
        whole = whole and _all(int.from_bytes(body[at + width : at + 2 * width], "little"), count)
    at += maps * width
    images = _unzipped(body, at) if kind in _COMPRESSED else body[at:]
    return Rows(table, kind, whole, images)


def _all(bits: int, count: int) -> bool:
    everything = (1 << count) - 1
    return bits & everything == everything
