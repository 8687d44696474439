"""The messages of PostgreSQL's protocol 3.0: bytes in, bytes out, and nothing else.

A message is a letter, a length that counts itself, and a body; the first one of a connection has no letter. What a
client sends is taken apart by a `Body`, which never reads past the end: whatever is malformed is `Malformed`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.model.errors import UsageError

VERSION = 3 << 16
SSL, GSS, CANCEL = 80877103, 80877104, 80877102
MOST_BYTES = 16 * 1024 * 1024
"""No message of a client may be longer; before the password, `MOST_BYTES_BEFORE`."""
MOST_BYTES_BEFORE = 10_000


class Malformed(UsageError):
    """What came is no message of the protocol. The connection ends."""


class Body:
    """What a message says, from its first byte to its last."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, length: int) -> bytes:
        if length < 0 or self._at + length > len(self._data):
            raise Malformed("a message ends before what it announces")
        self._at += length
        return self._data[self._at - length : self._at]

    def byte(self) -> bytes:
        return self.take(1)

    def int16(self) -> int:
        found: int = struct.unpack("!h", self.take(2))[0]
        return found

    def int32(self) -> int:
        found: int = struct.unpack("!i", self.take(4))[0]
        return found

    def oid(self) -> int:
        found: int = struct.unpack("!I", self.take(4))[0]
        return found

    def text(self) -> str:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise Malformed("a text in a message has no end")
        try:
            found = self.take(end - self._at).decode()
        except UnicodeDecodeError:
            raise Malformed("a text in a message is not UTF-8") from None
        self.take(1)
        return found

    def value(self) -> bytes | None:
        length = self.int32()
        return None if length == -1 else self.take(length)

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def many(self) -> int:
        """How many things follow."""
        found = self.int16()
        if found < 0:
            raise Malformed("a message announces less than nothing")
        return found


def startup(body: Body) -> dict[str, str]:
    """What a client says of itself: user, database, settings."""
    said: dict[str, str] = {}
    while name := body.text():
        said[name] = body.text()
    return said


@dataclass(frozen=True)
class Parse:
    name: str
    sql: str
    types: tuple[int, ...]

    @classmethod
    def read(cls, body: Body) -> Parse:
        return cls(body.text(), body.text(), tuple(body.oid() for _ in range(body.many())))


@dataclass(frozen=True)
class Bind:
    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    answer_formats: tuple[int, ...]

    @classmethod
    def read(cls, body: Body) -> Bind:
        portal, statement = body.text(), body.text()
        formats = tuple(body.int16() for _ in range(body.many()))
        values = tuple(body.value() for _ in range(body.many()))
        found = cls(portal, statement, formats, values, tuple(body.int16() for _ in range(body.many())))
        if any(code not in (0, 1) for code in (*found.formats, *found.answer_formats)):
            raise Malformed("a format is neither text nor binary")
        return found


def format_of(formats: Sequence[int], number: int) -> int:
    """The format of one value: none said is text, one said is for all."""
    if not formats:
        return 0
    if len(formats) > 1 and number >= len(formats):
        raise Malformed("there are fewer formats than values")
    return formats[0] if len(formats) == 1 else formats[number]


@dataclass(frozen=True)
class Column:
    """A column of an answer, as a client is told of it."""

    name: str
    oid: int
    size: int = -1
    modifier: int = -1


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _text(value: str) -> bytes:
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


AUTHENTICATED = message(b"R", struct.pack("!i", 0))
PARSED, BOUND, CLOSED, NO_DATA = message(b"1"), message(b"2"), message(b"3"), message(b"n")
SUSPENDED, EMPTY = message(b"s"), message(b"I")


def sasl(mechanisms: Sequence[str]) -> bytes:
    return message(b"R", struct.pack("!i", 10) + b"".join(_text(m) for m in mechanisms) + b"\0")


def sasl_continue(data: bytes) -> bytes:
    return message(b"R", struct.pack("!i", 11) + data)


def sasl_final(data: bytes) -> bytes:
    return message(b"R", struct.pack("!i", 12) + data)


def parameter(name: str, value: str) -> bytes:
    return message(b"S", _text(name) + _text(value))


def key_data(process: int, secret: int) -> bytes:
    return message(b"K", struct.pack("!ii", process, secret))


def ready(status: bytes) -> bytes:
    """I: idle, T: in a transaction, E: in one that failed."""
    return message(b"Z", status)


def older_version(unknown: Sequence[str]) -> bytes:
    """That 3.0 is spoken here, and which options are not understood."""
    return message(b"v", struct.pack("!ii", VERSION, len(unknown)) + b"".join(_text(name) for name in unknown))


def row_description(columns: Sequence[Column], formats: Sequence[int] = ()) -> bytes:
    said = [
        _text(c.name) + struct.pack("!IhIhih", 0, 0, c.oid, c.size, c.modifier, format_of(formats, n))
        for n, c in enumerate(columns)
    ]
    return message(b"T", struct.pack("!h", len(columns)) + b"".join(said))


def parameter_description(oids: Sequence[int]) -> bytes:
    return message(b"t", struct.pack(f"!h{len(oids)}I", len(oids), *oids))


def data_row(values: Sequence[bytes | None]) -> bytes:
    parts = [struct.pack("!h", len(values))]
    for value in values:
        parts.append(b"\xff\xff\xff\xff" if value is None else struct.pack("!i", len(value)) + value)
    return message(b"D", b"".join(parts))


def complete(tag: str) -> bytes:
    return message(b"C", _text(tag))


def _fields(fields: Mapping[str, str]) -> bytes:
    return b"".join(name.encode() + _text(value) for name, value in fields.items() if value) + b"\0"


def error(severity: str, state: str, what: str, hint: str = "") -> bytes:
    return message(b"E", _fields({"S": severity, "V": severity, "C": state, "M": what, "H": hint}))


def warning(what: str, hint: str = "") -> bytes:
    return message(b"N", _fields({"S": "WARNING", "V": "WARNING", "C": "01000", "M": what, "H": hint}))
