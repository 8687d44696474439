"""What PostgreSQL's own output plugin says of a transaction, read: messages in, rows as texts out. Pure.

Protocol version 1, text values. A tuple becomes the text that PostgreSQL itself would write of the row, `(1,"a b",,t)`,
because that is what a change is in a change table (`triggers.py`); values are taken as they are, byte for byte.

An update tells a large value that it did not touch as "unchanged"; the row before has it (REPLICA IDENTITY FULL).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

EPOCH_MICROSECONDS = 946_684_800_000_000
"""2000-01-01, from where the server counts."""

_BEGIN, _COMMIT, _INT, _SHORT = (struct.Struct(f) for f in (">qqI", ">bqqq", ">I", ">H"))
_SPECIAL = re.compile(rb'["\\(),\s]')


@dataclass(frozen=True)
class Relation:
    """A table as the log has it from here on: the names of the columns that it tells, in their order."""

    oid: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """One row that came (count 1) or went (−1), as text; `relation` is how its columns are called."""

    relation: Relation
    count: int
    row: bytes


@dataclass
class Transaction:
    """`end` is where its commit ends in the log, `at` when it was committed, in microseconds since 1970. `truncated`
    are tables that it emptied; `partial` those of which an old row was not told whole."""

    xid: int
    at: int
    end: int = 0
    changes: list[Change] = field(default_factory=list)
    truncated: set[int] = field(default_factory=set)
    partial: set[int] = field(default_factory=set)


def transactions(messages: Iterable[bytes]) -> Iterator[Transaction]:
    """Whole transactions, in the order of their commits."""
    relations: dict[int, Relation] = {}
    now: Transaction | None = None
    for data in messages:
        kind = data[:1]
        if kind in _ROWS:
            assert now is not None
            _tell(now, relations, kind, data)
        elif kind == b"B":
            _, at, xid = _BEGIN.unpack_from(data, 1)
            now = Transaction(xid, at + EPOCH_MICROSECONDS)
        elif kind == b"C":
            assert now is not None
            _, _, now.end, _ = _COMMIT.unpack_from(data, 1)
            yield now
            now = None
        elif kind == b"R":
            relation = _relation(data)
            relations[relation.oid] = relation
        elif kind == b"T":
            assert now is not None
            (number,) = _INT.unpack_from(data, 1)
            now.truncated |= {_INT.unpack_from(data, 6 + 4 * n)[0] for n in range(number)}


_ROWS = (b"I", b"U", b"D")


def _tell(now: Transaction, relations: dict[int, Relation], kind: bytes, data: bytes) -> None:
    (oid,) = _INT.unpack_from(data, 1)
    relation = relations[oid]
    if kind == b"I":
        now.changes.append(Change(relation, 1, text(_values(data, 6)[0])))
        return
    old: list[bytes | None] | None = None
    at = 6
    if data[5:6] == b"O":
        found, at = _values(data, 6)
        old = [None if value is UNCHANGED else value for value in found]
        at += 1
    if old is None:
        now.partial.add(oid)
        return
    now.changes.append(Change(relation, -1, text(old)))
    if kind == b"U":
        new = _values(data, at)[0]
        whole = [old[n] if value is UNCHANGED else value for n, value in enumerate(new)]
        now.changes.append(Change(relation, 1, text(whole)))


UNCHANGED = b"\0unchanged"
"""Stands for a value that was not told again: no text has such bytes."""


def _values(data: bytes, at: int) -> tuple[list[bytes | None], int]:
    """A tuple's values, and where it ends."""
    (number,) = _SHORT.unpack_from(data, at)
    at += 2
    values: list[bytes | None] = []
    for _ in range(number):
        kind = data[at]
        at += 1
        if kind == 0x74:  # t
            (length,) = _INT.unpack_from(data, at)
            at += 4
            values.append(data[at : at + length])
            at += length
        else:
            values.append(None if kind == 0x6E else UNCHANGED)  # n, u
    return values, at


def text(values: Iterable[bytes | None]) -> bytes:
    """A row as PostgreSQL writes it."""
    return b"(" + b",".join(map(_field, values)) + b")"


def _field(value: bytes | None) -> bytes:
    if value is None:
        return b""
    if value and not _SPECIAL.search(value):
        return value
    return b'"' + value.replace(b"\\", b"\\\\").replace(b'"', b'""') + b'"'


def _relation(data: bytes) -> Relation:
    (oid,) = _INT.unpack_from(data, 1)
    at = data.index(b"\0", data.index(b"\0", 5) + 1) + 2  # schema, name, replica identity
    (number,) = _SHORT.unpack_from(data, at)
    at += 2
    names = []
    for _ in range(number):
        end = data.index(b"\0", at + 1)
        names.append(data[at + 1 : end].decode())
        at = end + 9  # type and modifier
    return Relation(oid, tuple(names))
