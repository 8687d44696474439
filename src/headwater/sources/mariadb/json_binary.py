"""MySQL's JSON as its log has it, to the text that SELECT tells.

    value      the number of its type · itself
    object     how many · its size · an entry per key (where, how long) · an entry per value · keys · values
    array      how many · its size · an entry per value · values

Sizes and places are two bytes wide, or four where a document is large; places count from where the object or array
begins. A small number stands in its entry. Keys are in the server's own order (by length, then by bytes), which is
the order that SELECT tells them in.
"""

from __future__ import annotations

import base64
import struct
from decimal import Decimal

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY = 0, 1, 2, 3
_LITERALS = {0: "null", 1: "true", 2: "false"}
_NUMBERS = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q"}
_LITERAL, _DOUBLE, _TEXT, _OPAQUE = 4, 11, 12, 15
_DECIMAL, _DATES, _TIME, _DATE = 246, frozenset({7, 10, 12}), 11, 10
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def text_of(raw: bytes) -> str:
    """A JSON value in MySQL's words."""
    return _value(raw[0], raw, 1) if raw else "null"


def _value(kind: int, raw: bytes, at: int) -> str:
    if kind <= _LARGE_ARRAY:
        return _compound(raw[at:], kind in (_LARGE_OBJECT, _LARGE_ARRAY), kind in (_SMALL_OBJECT, _LARGE_OBJECT))
    if kind == _LITERAL:
        return _LITERALS[raw[at]]
    if kind in _NUMBERS:
        return str(struct.unpack_from(_NUMBERS[kind], raw, at)[0])
    if kind == _DOUBLE:
        return double(struct.unpack_from("<d", raw, at)[0])
    if kind == _TEXT:
        size, begin = _size(raw, at)
        return quoted(raw[begin : begin + size].decode())
    if kind == _OPAQUE:
        size, begin = _size(raw, at + 1)
        return _opaque(raw[at], raw[begin : begin + size])
    raise ValueError(f"JSON holds a value of type {kind}")


def _compound(raw: bytes, large: bool, keyed: bool) -> str:
    width = 4 if large else 2

    def number(at: int, size: int = width) -> int:
        return int.from_bytes(raw[at : at + size], "little")

    count = number(0)
    keys = 2 * width
    values = keys + (count * (width + 2) if keyed else 0)
    found = []
    for n in range(count):
        entry = values + n * (1 + width)
        kind = raw[entry]
        inside = kind in (_LITERAL, 5, 6) or (large and kind in (7, 8))
        told = _value(kind, raw, entry + 1 if inside else number(entry + 1))
        if keyed:
            begin = number(keys + n * (width + 2))
            size = number(keys + n * (width + 2) + width, 2)
            told = f"{quoted(raw[begin : begin + size].decode())}: {told}"
        found.append(told)
    return f"{{{', '.join(found)}}}" if keyed else f"[{', '.join(found)}]"


def _size(raw: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first."""
    size = shift = 0
    while True:
        byte = raw[at]
        size |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return size, at


_ESCAPED = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES = str.maketrans({**{chr(n): f"\\u{n:04x}" for n in range(32)}, **_ESCAPED})


def quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def double(value: float) -> str:
    """The shortest digits that mean it, as MySQL writes them: with an exponent where that is shorter."""
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0")
    exponent += len(digits) - len(text)
    minus = "-" if sign else ""
    if not text:
        return f"{minus}0.0"
    point = len(text) + exponent  # digits before the point
    if -_PLAIN < point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    if 0 < point <= max(_PLAIN, len(text) - 1):
        whole, part = text[:point].ljust(point, "0"), text[point:]
        return f"{minus}{whole}.{part or '0'}"
    behind = f".{text[1:]}" if len(text) > 1 else ""
    return f"{minus}{text[0]}{behind}e{point - 1}"


_PLAIN = 15
"""Digits before the point, or zeros after it, that are written out."""


def _opaque(kind: int, raw: bytes) -> str:
    if kind == _DECIMAL:
        return _decimal(raw[0], raw[1], raw[2:])
    if kind in _DATES or kind == _TIME:
        whole = int.from_bytes(raw, "little", signed=True)
        return f'"{_moment(kind, whole)}"'
    return f'"base64:type{kind}:{base64.b64encode(raw).decode()}"'


def _moment(kind: int, whole: int) -> str:
    minus, whole = ("-", -whole) if whole < 0 else ("", whole)
    micros, packed = whole & 0xFFFFFF, whole >> 24
    if kind == _TIME:
        clock = f"{packed >> 12 & 1023:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}"
        return f"{minus}{clock}.{micros:06d}"
    day, time = packed >> 17, packed & 0x1FFFF
    date = f"{(day >> 5) // 13:04d}-{(day >> 5) % 13:02d}-{day & 31:02d}"
    if kind == _DATE:
        return date
    return f"{date} {time >> 12:02d}:{time >> 6 & 63:02d}:{time & 63:02d}.{micros:06d}"


def _decimal(precision: int, scale: int, raw: bytes) -> str:
    from headwater.sources.mariadb.images import decimal_reader

    return str(decimal_reader(precision, scale)(raw, 0)[0])
