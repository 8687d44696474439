"""The messages of Flight SQL, as far as they are spoken here.

They are protobuf, of its simplest kind: a message is a sequence of (number << 3 | how, value), where a value is a whole
number (how 0) or bytes with their length (how 2). What a client sends is read into `Fields`; whatever is malformed is
`Malformed`. A command travels in an `Any`: its name and its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.serve.messages import Malformed

PREFIX = "type.googleapis.com/arrow.flight.protocol.sql."
_NUMBER, _BYTES = 0, 2
_SKIPPED = {1: 8, 5: 4}
"""Numbers of fixed size, which no message here has; how many bytes to pass over."""


@dataclass(frozen=True)
class Fields:
    """What a message says: (number of the field, value), in their order."""

    values: tuple[tuple[int, int | bytes], ...]

    @classmethod
    def read(cls, data: bytes) -> Fields:
        return cls(tuple(_read(data)))

    def bytes(self, number: int) -> bytes | None:
        """The last one that was said, as protobuf wants it; None: none was."""
        found = [value for field, value in self.values if field == number]
        if not found:
            return None
        if not isinstance(found[-1], bytes):
            raise Malformed(f"field {number} of a command is no text")
        return found[-1]

    def text(self, number: int) -> str | None:
        found = self.bytes(number)
        return None if found is None else _decoded(found)

    def texts(self, number: int) -> list[str]:
        return [_decoded(v) for field, v in self.values if field == number and isinstance(v, bytes)]

    def messages(self, number: int) -> list[Fields]:
        return [Fields.read(value) for field, value in self.values if field == number and isinstance(value, bytes)]

    def whole(self, number: int) -> int:
        found = [value for field, value in self.values if field == number]
        if found and not isinstance(found[-1], int):
            raise Malformed(f"field {number} of a command is no number")
        return int(found[-1]) if found else 0

    def wholes(self, number: int) -> list[int]:
        """Repeated numbers, which may come packed together."""
        found: list[int] = []
        for field, value in self.values:
            if field == number:
                found.extend([value] if isinstance(value, int) else _packed(value))
        return found


def command(data: bytes) -> tuple[str, Fields]:
    """The name of a command, and what it says."""
    outer = Fields.read(data)
    name = outer.text(1) or ""
    if not name.startswith(PREFIX):
        raise Malformed("this is no command of Flight SQL")
    return name.removeprefix(PREFIX), Fields.read(outer.bytes(2) or b"")


def any_of(name: str, *fields: tuple[int, bytes]) -> bytes:
    """A message with these fields, in an Any."""
    return packed(name, message(*fields))


def packed(name: str, body: bytes) -> bytes:
    """A message in an Any."""
    return message((1, f"{PREFIX}{name}".encode()), (2, body))


def number(*fields: tuple[int, int]) -> bytes:
    """A message of numbers."""
    return b"".join(_varint(field << 3 | _NUMBER) + _varint(value) for field, value in fields)


def message(*fields: tuple[int, bytes]) -> bytes:
    return b"".join(_varint(number << 3 | _BYTES) + _varint(len(value)) + value for number, value in fields)


def _read(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        how = key & 7
        if how == _NUMBER:
            whole, at = _number(data, at)
            yield key >> 3, whole
        elif how == _BYTES:
            length, at = _number(data, at)
            if at + length > len(data):
                raise Malformed("a command ends before what it announces")
            yield key >> 3, data[at : at + length]
            at += length
        elif how in _SKIPPED and at + _SKIPPED[how] <= len(data):
            at += _SKIPPED[how]
        else:
            raise Malformed("a command is not written as protobuf writes it")


def _number(data: bytes, at: int) -> tuple[int, int]:
    found = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise Malformed("a command ends within a number")
        found |= (data[at] & 127) << shift
        at += 1
        if not data[at - 1] & 128:
            return found, at
    raise Malformed("a command holds a number that has no end")


def _packed(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        found, at = _number(data, at)
        yield found


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Malformed("a text in a command is not UTF-8") from None
