"""Row images of the log: the values of one row after the other, each as its type lays it out.

    image    which columns are NULL (one bit each) · the values of the others
    UPDATE   the old image, then the new one

A value is read as the server's own SELECT would tell it (`types.py` makes Arrow's of both). What a column's type
here cannot hold is told as `Unfit`.
"""

from __future__ import annotations

import datetime as dt
import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.model.errors import SchemaChanged
from headwater.sources.mariadb import json_binary
from headwater.sources.mariadb.charsets import Decoder
from headwater.sources.mariadb.events import DELETES, UPDATES, Layout, Rows
from headwater.sources.mariadb.types import MariaColumn, Unfit

Read = Callable[[bytes, int], tuple[Any, int]]
"""A value, and where the next one begins."""

_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


@dataclass(frozen=True)
class Wanted:
    """The columns that are read of a table, with how its texts are decoded: by character set."""

    columns: tuple[MariaColumn, ...]
    texts: Mapping[str, Decoder]


Values = list[list[Any]]

Plan = Sequence[tuple[int, int, Read]]
"""Per column of an image: its bit among the NULLs, its place among the wanted ones (−1: none), how it is read."""


def decode(rows: Rows, plan: Plan, into: Values, counts: list[int]) -> None:
    """Append each column's values, and +1 or −1 for each row."""
    images, end = rows.images, len(rows.images)
    width = (len(plan) + 7) // 8
    at = 0
    update = rows.kind in UPDATES
    sign = -1 if update or rows.kind in DELETES else 1
    while at < end:
        nulls = int.from_bytes(images[at : at + width], "little")
        at += width
        for bit, slot, read in plan:
            if nulls & bit:
                value = None
            else:
                value, at = read(images, at)
            if slot >= 0:
                into[slot].append(value)
        counts.append(sign)
        if update:
            sign = -sign


def planned(layout: Layout, wanted: Wanted) -> Plan:
    """How images of this layout are read."""
    slots = {column.name: n for n, column in enumerate(wanted.columns)}
    missing = [name for name in slots if name not in layout.columns]
    if missing:
        raise SchemaChanged(
            f"{layout.table} was written when it had no column {missing[0]!r}",
            "'headwater apply' loads the views that use it again",
        )
    plan = []
    for n, (code, said) in enumerate(zip(layout.types, layout.metadata, strict=True)):
        slot = slots.get(layout.columns[n], -1)
        column = wanted.columns[slot] if slot >= 0 else None
        text = wanted.texts.get(column.charset) if column is not None else None
        plan.append((1 << n, slot, _reader(code, said, column, text)))
    return plan


def _reader(code: int, said: int, column: MariaColumn | None, text: Decoder | None) -> Read:
    """`code` is the type's own number, `said` what the layout says about it; without a column it is skipped."""
    unsigned = column is not None and "unsigned" in column.declared
    if code in _NUMBERS:
        return _number(*_NUMBERS[code], unsigned, column is not None and column.base == "bigint" and unsigned)
    if code in (15, 253):
        return _sized(1 if said < 256 else 2, _finished(column, text))
    if code == 245 and column is not None:
        return _sized(said, json_binary.text_of)
    if code in (249, 250, 251, 252, 140, 255, 245, 242):
        return _sized(said, _finished(column, text))
    if code == 141:
        return _sized(1 if said < 256 else 2, bytes)
    if code == 254:
        return _string(said, column, text)
    if code == 246:
        return decimal_reader(said >> 8, said & 255)
    if code == 16:
        return _bits((said >> 8) * 8 + (said & 255), column)
    if code in _TIMES:
        return _TIMES[code](said)
    raise SchemaChanged(f"a column is of type {code} in the log, which Headwater does not know", "leave its table out")


def width(code: int, said: int) -> tuple[int, bool]:
    """How many bytes a value has; or, if that is counted before each, how many bytes count it."""
    if code in _NUMBERS:
        return _NUMBERS[code][1], False
    if code in (15, 253, 141):
        return (1 if said < 256 else 2), True
    if code in (245, 249, 250, 251, 252, 140, 255, 242):
        return said, True
    if code == 254 and said >> 8 not in (247, 248):
        return (1 if _longest(said) < 256 else 2), True
    _, size = _reader(code, said, None, None)(bytes(1 << 8), 0)
    return size, False


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────

_NUMBERS = {1: ("b", 1), 2: ("h", 2), 3: ("i", 4), 8: ("q", 8), 9: ("", 3), 4: ("f", 4), 5: ("d", 8)}


def _number(form: str, size: int, unsigned: bool, as_text: bool) -> Read:
    if not form:  # three bytes
        return lambda b, at: (int.from_bytes(b[at : at + 3], "little", signed=not unsigned), at + 3)
    unpack = struct.Struct("<" + (form.upper() if unsigned and form not in "fd" else form)).unpack_from
    if as_text:
        return lambda b, at: (str(unpack(b, at)[0]), at + size)
    return lambda b, at: (unpack(b, at)[0], at + size)


def _digits(precision: int, scale: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Before the point and behind it: bytes, and the digits they hold."""
    whole, part = precision - scale, scale
    before = [(_DIGIT_BYTES[whole % 9], whole % 9)] + [(4, 9)] * (whole // 9)
    return before, [(4, 9)] * (part // 9) + [(_DIGIT_BYTES[part % 9], part % 9)]


def decimal_parts(precision: int, scale: int) -> list[tuple[int, int]]:
    """All of it, without what has no bytes."""
    before, behind = _digits(precision, scale)
    return [part for part in (*before, *behind) if part[0]]


def decimal_reader(precision: int, scale: int) -> Read:
    """Nine digits in four bytes, the rest at both ends in fewer; negative ones inverted, the first bit flipped."""
    sizes, parts = _digits(precision, scale)
    total = sum(size for size, _ in sizes + parts)
    inverse = (1 << 8 * total) - 1
    flip = 1 << 8 * total - 1

    def read(b: bytes, at: int) -> tuple[str, int]:
        raw = int.from_bytes(b[at : at + total], "big")
        negative = not raw & flip
        raw = (raw ^ flip) ^ (inverse if negative else 0)
        left = raw.to_bytes(total, "big")
        place, digits = 0, []
        for size, count in sizes:
            if size:
                digits.append(f"{int.from_bytes(left[place : place + size], 'big'):0{count}d}")
                place += size
        text = "".join(digits).lstrip("0") or "0"
        if scale:
            behind = []
            for size, count in parts:
                if size:
                    behind.append(f"{int.from_bytes(left[place : place + size], 'big'):0{count}d}")
                    place += size
            text = f"{text}.{''.join(behind)}"
        return ("-" + text if negative else text), at + total

    return read


def _bits(bits: int, column: MariaColumn | None) -> Read:
    size = (bits + 7) // 8
    if bits == 1:
        return lambda b, at: (b[at] == 1, at + 1)
    if bits == 64:
        return lambda b, at: (str(int.from_bytes(b[at : at + size], "big")), at + size)
    return lambda b, at: (int.from_bytes(b[at : at + size], "big"), at + size)


# ── texts and bytes ──────────────────────────────────────────────────────────────────────────────────────────────


def _finished(column: MariaColumn | None, text: Decoder | None) -> Callable[[bytes], Any]:
    if column is None or text is None:
        return bytes

    def decoded(raw: bytes) -> str:
        try:
            return text(raw)
        except UnicodeDecodeError:
            return Unfit(raw.hex())

    return decoded


def _sized(prefix: int, finish: Callable[[bytes], Any]) -> Read:
    if prefix == 1:

        def short(b: bytes, at: int) -> tuple[Any, int]:
            end = at + 1 + b[at]
            return finish(b[at + 1 : end]), end

        return short

    def long(b: bytes, at: int) -> tuple[Any, int]:
        begin = at + prefix
        end = begin + int.from_bytes(b[at:begin], "little")
        return finish(b[begin:end]), end

    return long


def _string(said: int, column: MariaColumn | None, text: Decoder | None) -> Read:
    """CHAR and BINARY, whose padding is not in the log; ENUM and SET, which are numbers there."""
    kind, size = said >> 8, _longest(said)
    if kind in (247, 248):
        return _labelled(size, column, kind == 248)
    finish = _finished(column, text)
    if column is not None and column.base == "char":
        return _sized(1 if size < 256 else 2, lambda raw: finish(raw).rstrip(" "))
    if column is not None and column.base == "binary":
        return _sized(1 if size < 256 else 2, lambda raw: bytes(raw).ljust(column.size, b"\0"))
    return _sized(1 if size < 256 else 2, finish)


def _longest(said: int) -> int:
    """How many bytes one may have."""
    kind, size = said >> 8, said & 255
    return size if kind & 0x30 == 0x30 else size | (kind & 0x30 ^ 0x30) << 4


def _labelled(size: int, column: MariaColumn | None, several: bool) -> Read:
    labels = column.labels if column is not None else ()

    @functools.lru_cache(maxsize=4096)
    def label(number: int) -> str:
        if several:
            return ",".join(name for n, name in enumerate(labels) if number >> n & 1)
        return labels[number - 1] if 0 < number <= len(labels) else ""

    return lambda b, at: (label(int.from_bytes(b[at : at + size], "little")), at + size)


# ── times ────────────────────────────────────────────────────────────────────────────────────────────────────────

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _date(_: int) -> Read:
    def read(b: bytes, at: int) -> tuple[Any, int]:
        raw = b[at] | b[at + 1] << 8 | b[at + 2] << 16
        year, month, day = raw >> 9, raw >> 5 & 15, raw & 31
        try:
            return dt.date(year, month, day), at + 3
        except ValueError:
            return Unfit(f"{year:04d}-{month:02d}-{day:02d}"), at + 3

    return read


def _year(_: int) -> Read:
    return lambda b, at: (b[at] and 1900 + b[at], at + 1)


def _fraction(b: bytes, at: int, digits: int) -> tuple[int, int]:
    """Microseconds: two digits a byte."""
    size = (digits + 1) // 2
    return int.from_bytes(b[at : at + size], "big") * 10 ** (6 - 2 * size), at + size


def _timestamp(digits: int) -> Read:
    def read(b: bytes, at: int) -> tuple[Any, int]:
        seconds = int.from_bytes(b[at : at + 4], "big")
        micros, end = _fraction(b, at + 4, digits)
        if not seconds and not micros:
            return Unfit("0000-00-00 00:00:00"), end
        return _EPOCH + dt.timedelta(seconds=seconds, microseconds=micros), end

    return read


def _datetime(digits: int) -> Read:
    def read(b: bytes, at: int) -> tuple[Any, int]:
        packed = int.from_bytes(b[at : at + 5], "big") - 0x8000000000
        micros, end = _fraction(b, at + 5, digits)
        day, time = packed >> 17, packed & 0x1FFFF
        months = day >> 5
        parts = months // 13, months % 13, day & 31, time >> 12, time >> 6 & 63, time & 63
        try:
            return dt.datetime(*parts, micros), end
        except ValueError:
            return Unfit("{:04d}-{:02d}-{:02d} {:02d}:{:02d}:{:02d}".format(*parts)), end

    return read


def _time(digits: int) -> Read:
    """Up to 838 hours and negative: one number of which the lowest bits are the fraction, all of it offset."""
    size = 3 + (digits + 1) // 2
    offset = 0x800000 << 8 * (size - 3)

    def read(b: bytes, at: int) -> tuple[str, int]:
        value = int.from_bytes(b[at : at + size], "big") - offset
        sign, value = ("-", -value) if value < 0 else ("", value)
        whole = value >> 8 * (size - 3)
        text = f"{sign}{whole >> 12 & 1023:02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}"
        if digits:
            micros = (value & (1 << 8 * (size - 3)) - 1) * 10 ** (6 - 2 * (size - 3))
            text += f".{micros:06d}"[: digits + 1]
        return text, at + size

    return read


_TIMES: dict[int, Callable[[int], Read]] = {10: _date, 13: _year, 17: _timestamp, 18: _datetime, 19: _time}
