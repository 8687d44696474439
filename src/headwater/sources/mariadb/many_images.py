"""Row images of many events at once: column by column, not value by value.

    round 0   the first image of every event
    round 1   the second one, of those that have one: of an update the new row
    …

In a round every column's values are found for all events together: where each begins, how many bytes it has, whether
it is NULL. Numbers, days, moments and texts in UTF-8 become Arrow's from there. Values of other types, and of a column
that has an odd one (a zero date, a text that is none), are read one by one, as `images.py` does. So what is told is the
same, whichever way it was read (`tests/sources/test_mariadb_runs.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.sources.mariadb.events import DELETES, UPDATES
from headwater.sources.mariadb.images import Plan, Read, Wanted, decimal_parts, planned, width
from headwater.sources.mariadb.runs import Alike, Bytes, Ints, numbers
from headwater.sources.mariadb.types import MariaColumn, Misfits, from_log

Truths = npt.NDArray[np.bool_]

_UTF8 = frozenset({"utf8mb4", "utf8mb3", "utf8"})
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_WHOLE = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
_FLOATS = {4: "<f4", 5: "<f8"}
_DECIMAL, _DATE, _TIMESTAMP, _DATETIME = 246, 10, 17, 18
_DIGITS = 18
"""Of a decimal that eight bytes hold."""
_DAY = 86_400_000_000
_FIRST, _LAST = -719_162 * _DAY, 2_932_897 * _DAY - 1
"""Microseconds since 1970: the years 1 to 9999."""
_NEVER = -1_000_000 * _DAY
"""Before all of them."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """Rows in the order of their transactions: of which event each is, +1 or −1, and the wanted columns."""

    of: Ints
    counts: Ints
    columns: list[tuple[pa.Array, Misfits]]

    def where(self, wanted: Truths) -> Decoded:
        kept = {int(row): n for n, row in enumerate(np.flatnonzero(wanted))}
        mask = pa.array(wanted)
        columns = [
            (array.filter(mask), {kept[row]: said for row, said in wrong.items() if row in kept})
            for array, wrong in self.columns
        ]
        return Decoded(self.of[wanted], self.counts[wanted], columns)


@dataclass(frozen=True, eq=False)
class _Places:
    """Where the values of a column begin, and which are NULL."""

    at: Ints
    null: Truths

    def take(self, order: Ints) -> _Places:
        return _Places(self.at[order], self.null[order])


@dataclass(frozen=True)
class _How:
    """A column's type in the log, what the layout says about it, how many bytes a value has (or what counts them), and
    how one is read."""

    code: int
    said: int
    size: int
    counted: bool
    read: Read


def decoded(part: Alike, wanted: Wanted) -> Decoded:
    plan = planned(part.layout, wanted)
    widths = [width(code, said) for code, said in zip(part.layout.types, part.layout.metadata, strict=True)]
    data = np.frombuffer(part.data, np.uint8)
    event, at = np.arange(len(part.of)), part.begins
    events: list[Ints] = []
    found: list[list[_Places]] = [[] for _ in plan]
    while len(event):
        places, at = _image(data, at, plan, widths)
        for column, place in zip(found, places, strict=True):
            column.append(place)
        events.append(event)
        left = at < part.ends[event]
        event, at = event[left], at[left]
    of = np.concatenate(events) if events else np.zeros(0, np.int64)
    rounds = np.repeat(np.arange(len(events)), [len(one) for one in events])
    order = np.argsort(of, kind="stable")
    columns: list[tuple[pa.Array, Misfits]] = [(pa.nulls(0), {})] * len(wanted.columns)
    kinds = zip(part.layout.types, part.layout.metadata, widths, strict=True)
    for (_, slot, read), places, (code, said, size) in zip(plan, found, kinds, strict=True):
        if slot >= 0:
            whole = _Places(*(np.concatenate(arrays) for arrays in zip(*((p.at, p.null) for p in places), strict=True)))
            how = _How(code, said, *size, read)
            columns[slot] = _values((data, part.data), whole.take(order), wanted.columns[slot], how)
    return Decoded(of[order], _signs(part.kinds[of[order]], rounds[order]), columns)


def _signs(kinds: Ints, rounds: Ints) -> Ints:
    """An update has the old row, then the new one."""
    gone = np.where(np.isin(kinds, list(UPDATES)), rounds % 2 == 0, np.isin(kinds, list(DELETES)))
    return np.where(gone, -1, 1)


def _image(data: Bytes, at: Ints, plan: Plan, widths: list[tuple[int, bool]]) -> tuple[list[_Places], Ints]:
    """One image of each event: where its values are, and where the next image begins."""
    nulls, at = at, at + (len(plan) + 7) // 8
    places = []
    for n, (size, counted) in enumerate(widths):
        null = data[nulls + n // 8] >> n % 8 & 1 == 1
        places.append(_Places(at, null))
        length = size + numbers(data, np.where(null, 0, at), size) if counted else size
        at = np.where(null, at, at + length)
    return places, at


def _values(data: tuple[Bytes, bytes], places: _Places, column: MariaColumn, how: _How) -> tuple[pa.Array, Misfits]:
    view, raw = data
    at = np.where(places.null, 0, places.at)
    found = _together(view, _Places(at, places.null), column, how)
    if found is not None:
        return found, {}
    values = [None if gone else how.read(raw, one)[0] for one, gone in zip(at.tolist(), places.null, strict=True)]
    return from_log(values, column)


def _together(data: Bytes, places: _Places, column: MariaColumn, how: _How) -> pa.Array | None:
    """All values of a column at once; None if they are to be read one by one."""
    at, null, kind, code = places.at, places.null, column.type, how.code
    assert kind is not None
    if code in _WHOLE and pa.types.is_integer(kind):
        return pa.array(_signed(data, at, _WHOLE[code], "unsigned" in column.declared), mask=null).cast(kind)
    if code in _FLOATS and pa.types.is_floating(kind):
        floats = data[at[:, None] + np.arange(how.size)].reshape(-1).view(_FLOATS[code])
        return pc.add(pa.array(floats, mask=null).cast(kind), pa.scalar(0.0, kind))
    if how.counted and column.base in _TEXTS and column.charset in _UTF8:
        texts = _texts(data, places, how.size)
        return pc.utf8_rtrim(texts, " ") if texts is not None and column.base == "char" else texts
    if (
        code == _DECIMAL
        and pa.types.is_decimal(kind)
        and (kind.precision, kind.scale) == (how.said >> 8, how.said & 255)
    ):
        return _decimals(data, places, kind) if kind.precision <= _DIGITS else None
    if code in _MOMENTS and pa.types.is_temporal(kind):
        moments = _MOMENTS[code](data, at, how.said)
        if (~null & ((moments < _FIRST) | (moments > _LAST))).any():
            return None
        if pa.types.is_date(kind):
            return pa.array(np.where(null, 0, moments // _DAY).astype(np.int32), mask=null).cast(kind)
        return pa.array(np.where(null, 0, moments), mask=null).cast(kind)
    return None


def _signed(data: Bytes, at: Ints, size: int, unsigned: bool) -> Ints:
    found = numbers(data, at, size)
    if unsigned or size == 8:
        return found
    return found - ((found >> 8 * size - 1 & 1) << 8 * size)


def _backwards(data: Bytes, at: Ints, size: int) -> Ints:
    """The highest byte first."""
    found = np.zeros(len(at), np.int64)
    for n in range(size):
        found |= data[at + n].astype(np.int64) << 8 * (size - 1 - n)
    return found


def _texts(data: Bytes, places: _Places, size: int) -> pa.Array | None:
    """None if some are no texts."""
    lengths = np.where(places.null, 0, numbers(data, places.at, size))
    ends = np.cumsum(lengths)
    each = np.repeat(places.at + size - (ends - lengths), lengths)
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    held = pa.py_buffer(data[each + np.arange(len(each))])
    parts = [pa.array(~places.null).buffers()[1], pa.py_buffer(offsets), held]
    try:
        found = pa.Array.from_buffers(pa.large_binary(), len(places.at), parts).cast(pa.large_string())
    except pa.ArrowInvalid:
        return None
    return found.cast(pa.string())


# ── decimals and times, laid out as `images.py` says ─────────────────────────────────────────────────────────────


def _decimals(data: Bytes, places: _Places, kind: pa.Decimal128Type) -> pa.Array:
    at = places.at
    negative = data[at] < 128
    first = True
    total = np.zeros(len(at), np.int64)
    for size, digits in decimal_parts(kind.precision, kind.scale):
        part = _backwards(data, at, size)
        if first:
            part ^= 1 << 8 * size - 1
        part = np.where(negative, part ^ ((1 << 8 * size) - 1), part)
        if first:
            part &= (1 << 8 * size) - 1
        total, at, first = total * 10**digits + part, at + size, False
    total = np.where(places.null, 0, np.where(negative, -total, total))
    halves = np.stack([total, total >> 63], axis=1)
    parts = [pa.array(~places.null).buffers()[1], pa.py_buffer(halves)]
    return pa.Array.from_buffers(kind, len(total), parts)


def _micros(data: Bytes, at: Ints, digits: int) -> Ints:
    size = (digits + 1) // 2
    unit: int = 10 ** (6 - 2 * size)
    return _backwards(data, at, size) * unit


def _days(year: Ints, month: Ints, day: Ints) -> Ints:
    """Since 1970; _NEVER where there is no such day."""
    months = (year - 1970) * 12 + month - 1
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + day - 1
    after = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    there = (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12) & (day >= 1) & (days < after)
    found: Ints = np.where(there, days, _NEVER // _DAY)
    return found


def _of_date(data: Bytes, at: Ints, _: int) -> Ints:
    raw = numbers(data, at, 3)
    return _days(raw >> 9, raw >> 5 & 15, raw & 31) * _DAY


def _of_datetime(data: Bytes, at: Ints, digits: int) -> Ints:
    packed = _backwards(data, at, 5) - 0x8000000000
    days, time = packed >> 17, packed & 0x1FFFF
    months = days >> 5
    hour, minute, second = time >> 12, time >> 6 & 63, time & 63
    there = (packed >= 0) & (hour < 24) & (minute < 60) & (second < 60)
    seconds = _days(months // 13, months % 13, days & 31) * 86_400 + hour * 3600 + minute * 60 + second
    moments: Ints = np.where(there, seconds * 1_000_000 + _micros(data, at + 5, digits), _NEVER)
    return moments


def _of_timestamp(data: Bytes, at: Ints, digits: int) -> Ints:
    seconds, micros = _backwards(data, at, 4), _micros(data, at + 4, digits)
    moments: Ints = np.where((seconds == 0) & (micros == 0), _NEVER, seconds * 1_000_000 + micros)
    return moments


_MOMENTS = {_DATE: _of_date, _DATETIME: _of_datetime, _TIMESTAMP: _of_timestamp}
