"""SQLite stores any value anywhere; Headwater has one exact Arrow type per column. This is the bridge.

A column's **codec** follows from its declared type. It says

- `fits`: the SQL test that a stored value has a storage class this type represents. Whatever does not fit is told
  apart (`read.py`), never bent;
- `read`: SQL expressions whose storage class is the same in every row, so that ADBC, which guesses types from the
  first rows, is told by a first row of `samples` and never has to guess. A value that does not fit reads as NULL;
- `decode`: those columns as one Arrow array, or Unfit for a value that only fits by its storage class;
- `spell`: an Arrow key array as the values SQLite may hold for it, so that `=` through an index finds exactly the
  equal rows. One key may have several spellings (a timestamp with 'T' or ' '). None: too many, match in Arrow.

Decoding is a function of the stored value alone, hence −old cancels +old in every fold.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Spelling = tuple[pa.Array, pa.Array]
"""Indices of keys, and one stored value for each."""


class Unfit(Exception):
    """A value that fits its storage class but not its type."""

    def __init__(self, value: str | bytes | float) -> None:
        super().__init__(value)
        self.value = value


@dataclass(frozen=True)
class Codec:
    type: pa.DataType
    fits: Callable[[str], str]
    read: Callable[[str], tuple[str, ...]]
    samples: tuple[str, ...]
    decode: Callable[[Sequence[pa.Array]], pa.Array]
    spell: Callable[[pa.Array], list[Spelling]] | None


def codec(declared: str) -> Codec | None:
    """The codec of a declared type; None where Headwater has no exact type for it."""
    words = re.sub(r"\(.*", "", declared).upper().split()
    size = re.search(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", declared)
    if not words:
        return None
    head = words[0]
    if any(re.fullmatch(r"(TINY|SMALL|MEDIUM|BIG)?INT(EGER|\d+)?", word) for word in words):
        return INTEGER
    if head in ("DECIMAL", "NUMERIC", "DEC"):
        precision, scale = (int(size[1]), int(size[2] or 0)) if size else (38, 18)
        return _decimal(precision, scale) if precision <= 38 and scale <= precision else None
    if head in ("TIMESTAMP", "TIMESTAMPTZ", "DATETIME"):
        zoned = head == "TIMESTAMPTZ" or "WITH TIME ZONE" in declared.upper()
        return TIMESTAMP_UTC if zoned else TIMESTAMP
    if any(kind in word for word in words for kind in ("CHAR", "TEXT", "CLOB")):
        return TEXT
    return _NAMED.get(head)


def _only(kind: str) -> Callable[[str], str]:
    return lambda c: f"typeof({c}) IN ('{kind}', 'null')"


def _case(c: str, *kinds: str) -> str:
    """`kind THEN expression`…; anything else is NULL."""
    return f"CASE typeof({c}) {' '.join(f'WHEN {k}' for k in kinds)} END"


def _as(kind: str) -> Callable[[str], tuple[str, ...]]:
    return lambda c: (_case(c, f"'{kind}' THEN {c}"),)


def _all(keys: pa.Array, values: pa.Array | None = None) -> list[Spelling]:
    return [(pa.array(np.arange(len(keys))), keys if values is None else values)]


def _first(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0]


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _text(arrays: Sequence[pa.Array]) -> pa.Array:
    """SQLite does not check UTF-8, Arrow strings must be UTF-8."""
    try:
        arrays[0].validate(full=True)
    except pa.ArrowInvalid:
        for value in arrays[0].cast(pa.binary()).to_pylist():
            try:
                (value or b"").decode()
            except UnicodeDecodeError:
                raise Unfit(value) from None
    return arrays[0]


def _json_read(c: str) -> tuple[str, ...]:
    """A JSON column has numeric affinity: the document `1` is stored as a number."""
    return (_case(c, f"'text' THEN {c}", f"'integer' THEN quote({c})", f"'real' THEN quote({c})"),)


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _bool(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0].cast(pa.bool_())


def _decimal(precision: int, scale: int) -> Codec:
    """NUMERIC affinity leaves integers and reals only. An integer is itself, a real stands for the decimal whose
    nearest real it is."""
    kind = pa.decimal128(precision, scale)
    return Codec(
        kind,
        fits=lambda c: f"typeof({c}) IN ('integer', 'real', 'null')",
        read=lambda c: (
            _case(c, f"'integer' THEN {c}"),
            _case(c, f"'real' THEN {c}"),
        ),
        samples=("0", "0.5"),
        decode=lambda arrays: _decode_decimal(arrays, kind),
        spell=_spell_decimal,
    )


def _decode_decimal(arrays: Sequence[pa.Array], kind: pa.Decimal128Type) -> pa.Array:
    integers, reals = arrays
    if reals.null_count == len(reals):
        exact = _integers(integers, kind)
    elif integers.null_count == len(integers):
        exact = _reals(reals, kind)
    else:
        exact = _reals(pc.coalesce(reals, _small(integers)), kind)
    if exact is not None:
        return exact
    return pa.array([_one_decimal(i, r, kind) for i, r in zip(*_py(integers, reals), strict=True)], kind)


def _integers(integers: pa.Array, kind: pa.Decimal128Type) -> pa.Array | None:
    try:
        return integers.cast(pa.decimal128(19, 0)).cast(kind)
    except pa.ArrowInvalid:
        return None


def _small(integers: pa.Array) -> pa.Array:
    """Integers as reals; those too big to be exact become NaN, which no decimal equals."""
    fits = pc.and_(pc.less(integers, 1 << 53), pc.greater(integers, -(1 << 53)))
    return pc.if_else(fits, pc.cast(integers, pa.float64(), safe=False), float("nan"))


def _py(*arrays: pa.Array) -> list[list[int | float | None]]:
    return [a.to_pylist() for a in arrays]


def _reals(reals: pa.Array, kind: pa.Decimal128Type) -> pa.Array | None:
    """All at once: u = r·10^s rounded, and u / 10^s must give r back. Dividing two exact numbers rounds correctly, so
    this says that r is the real nearest to u·10^−s. None where that arithmetic is not exact."""
    valid = pc.is_valid(reals)
    values = reals.fill_null(0.0).to_numpy(zero_copy_only=False)
    for scale in sorted({min(kind.scale, s) for s in (0, 2, 4, 6, kind.scale)}):
        power = 10.0**scale
        with np.errstate(all="ignore"):
            scaled = np.rint(values * power)
            good = (np.abs(scaled) < 2.0**53) & (scaled / power == values)
        if scale <= 22 and good.all():
            break
    else:
        return None
    unscaled = scaled.astype(np.int64)
    wide = np.stack([unscaled, unscaled >> 63], axis=1)  # little-endian 128 bits
    buffers = [pc.if_else(valid, True, None).buffers()[0], pa.py_buffer(np.ascontiguousarray(wide))]
    plain = pa.Array.from_buffers(pa.decimal128(38, scale), len(reals), buffers)
    try:
        return plain.cast(kind)
    except pa.ArrowInvalid:
        return None


def _one_decimal(integer: int | float | None, real: int | float | None, kind: pa.Decimal128Type) -> Decimal | None:
    stored = real if integer is None else integer
    if stored is None:
        return None
    value = Decimal(stored) if abs(stored) >= 1 << 53 else Decimal(repr(stored))
    if not value.is_finite():
        raise Unfit(stored)
    _, digits, exponent = value.normalize().as_tuple()
    assert isinstance(exponent, int)
    if -exponent > kind.scale or len(digits) + exponent > kind.precision - kind.scale:
        raise Unfit(stored)
    return value


def _spell_decimal(keys: pa.Array) -> list[Spelling]:
    integers: list[tuple[int, int]] = []
    reals: list[tuple[int, float]] = []
    for n, key in enumerate(keys.to_pylist()):
        if key == key.to_integral_value() and abs(key) < 1 << 63:
            integers.append((n, int(key)))
        else:
            real = float(key)
            if (Decimal(real) if abs(real) >= 1 << 53 else Decimal(repr(real))) == key:
                reals.append((n, real))
    return [*_grouped(integers, pa.int64()), *_grouped(reals, pa.float64())]


def _grouped(found: Sequence[tuple[int, object]], kind: pa.DataType) -> Iterator[Spelling]:
    if found:
        yield pa.array([n for n, _ in found], pa.int64()), pa.array([value for _, value in found], kind)


# ── dates and times, as ISO text ─────────────────────────────────────────────────────────────────────────────────

_DATE = r"\d{4}-\d\d-\d\d"
_CLOCK = r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?"


def _iso(pattern: str, kind: pa.DataType) -> Callable[[Sequence[pa.Array]], pa.Array]:
    """Arrow's own parser, behind a pattern so that exactly the spellings `spell` knows are accepted."""

    def decode(arrays: Sequence[pa.Array]) -> pa.Array:
        texts = arrays[0]
        good = pc.match_substring_regex(texts, f"^{pattern}$")
        if pc.all(good).as_py() is not False:
            try:
                return texts.cast(kind)
            except pa.ArrowInvalid:
                pass
        for text in texts.to_pylist():
            if text is not None:
                try:
                    assert re.fullmatch(pattern, text)
                    pa.array([text], pa.string()).cast(kind)
                except (AssertionError, pa.ArrowInvalid):
                    raise Unfit(text) from None
        raise AssertionError("a column does not parse although each of its values does")

    return decode


def _spell_timestamp(keys: pa.Array) -> list[Spelling]:
    return list(_grouped([(n, text) for n, key in enumerate(keys.to_pylist()) for text in spellings(key)], pa.string()))


def spellings(moment: dt.datetime) -> list[str]:
    """Every text that `TIMESTAMP` decodes to this moment."""
    base, fraction = moment.strftime("%H:%M:%S"), f"{moment.microsecond:06d}"
    digits = len(fraction.rstrip("0"))
    clock = [f"{base}.{fraction[:n]}" for n in range(max(1, digits), 7)]
    if not moment.microsecond:
        clock.append(base)
        if not moment.second:
            clock.append(base[:5])
    day = f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}"
    alone = [] if any(moment.timetuple()[3:6]) or moment.microsecond else [day]
    return alone + [f"{day}{separator}{time}" for separator in (" ", "T") for time in clock]


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────

INTEGER = Codec(pa.int64(), _only("integer"), _as("integer"), ("0",), _first, _all)
TEXT = Codec(pa.string(), _only("text"), _as("text"), ("''",), _text, _all)
TIMESTAMP = Codec(
    pa.timestamp("us"),
    _only("text"),
    _as("text"),
    ("''",),
    _iso(f"{_DATE}([ T]{_CLOCK})?", pa.timestamp("us")),
    _spell_timestamp,
)
TIMESTAMP_UTC = Codec(
    pa.timestamp("us", "UTC"),
    _only("text"),
    _as("text"),
    ("''",),
    _iso(rf"{_DATE}[ T]{_CLOCK}(Z|[+-]\d\d(:?\d\d)?)", pa.timestamp("us", "UTC")),
    None,
)

_REAL = Codec(
    pa.float64(),
    fits=lambda c: f"typeof({c}) IN ('real', 'integer', 'null')",
    # + 0.0: a row keeps no sign of zero where its change may
    read=lambda c: (_case(c, f"'real' THEN {c} + 0.0", f"'integer' THEN {c} + 0.0"),),
    samples=("0.5",),
    decode=_first,
    spell=_all,
)
_BOOLEAN = Codec(
    pa.bool_(),
    fits=lambda c: f"(typeof({c}) = 'null' OR typeof({c}) = 'integer' AND {c} IN (0, 1))",
    read=lambda c: (_case(c, f"'integer' THEN CASE WHEN {c} IN (0, 1) THEN {c} END"),),
    samples=("0",),
    decode=_bool,
    spell=lambda keys: _all(keys, keys.cast(pa.int64())),
)
_DAY = Codec(
    pa.date32(),
    _only("text"),
    _as("text"),
    ("''",),
    _iso(_DATE, pa.date32()),
    lambda keys: _all(keys, keys.cast(pa.string())),
)
_BLOB = Codec(pa.binary(), _only("blob"), _as("blob"), ("x''",), _first, _all)
_JSON = Codec(pa.string(), lambda c: f"typeof({c}) <> 'blob'", _json_read, ("''",), _text, None)

_NAMED = {
    "REAL": _REAL,
    "FLOAT": _REAL,
    "DOUBLE": _REAL,
    "BOOLEAN": _BOOLEAN,
    "BOOL": _BOOLEAN,
    "DATE": _DAY,
    "TIME": TEXT,
    "BLOB": _BLOB,
    "UUID": TEXT,
    "JSON": _JSON,
}
