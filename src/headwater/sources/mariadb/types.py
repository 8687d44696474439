"""MariaDB's types as Arrow's: how rows come back as texts, how keys leave as literals.

A value that is read from a table and the same value read from the log (`images.py`) give the same Arrow value. What
Arrow's type cannot hold is no value but a misfit, told as text: a zero date, a decimal of more than 38 digits.

`tinyint(1)` is a number here, as it is there; `bit(1)` is a truth value. A TIME has up to 838 hours, so it is told
as text, in the server's own words. ENUM and SET are told as their labels.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_SIGNED = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "mediumint": pa.int32(),
    "int": pa.int32(),
    "bigint": pa.int64(),
}
_UNSIGNED = {
    "tinyint": pa.int16(),
    "smallint": pa.int32(),
    "mediumint": pa.int32(),
    "int": pa.int64(),
    "bigint": pa.decimal128(20, 0),
}
_FIXED = {
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", "UTC"),
    "time": pa.string(),
    "year": pa.int16(),
}
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_LABEL = re.compile(r"'((?:[^']|'')*)'")
_FIRST_DAY, _LAST_DAY = dt.date(1, 1, 1), dt.date(9999, 12, 31)


@dataclass(frozen=True)
class MariaColumn:
    """A column as the catalog has it; `type` is None where Headwater cannot hold it."""

    name: str
    base: str
    declared: str
    type: pa.DataType | None
    nullable: bool = True
    charset: str = ""
    size: int = 0
    """Of BINARY(n): n. Of a decimal: its digits. Of times: digits of a second. Of BIT: bits."""
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What decides how its values read; longer texts, defaults and NOT NULL are not it."""
        sized = self.base in ("binary", "time") and f"({self.size})"
        return f"{self.base}{sized or ''}:{self.type}:{self.charset}"


def arrow_type(base: str, declared: str, precision: int, scale: int) -> pa.DataType | None:
    if "compressed" in declared.lower() or "mariadb-5.3" in declared:
        return None
    if base in _SIGNED:
        return _UNSIGNED[base] if "unsigned" in declared else _SIGNED[base]
    if base in _FIXED:
        return _FIXED[base]
    if base == "decimal":
        return pa.decimal128(min(precision, 38), scale)
    if base == "bit":
        return pa.bool_() if precision == 1 else pa.int64() if precision < 64 else pa.decimal128(20, 0)
    return pa.string() if base in _TEXTS else pa.binary() if base in _BYTES else None


def labels_of(base: str, declared: str) -> tuple[str, ...]:
    """The values of an ENUM or SET."""
    if base not in ("enum", "set"):
        return ()
    return tuple(found.replace("''", "'") for found in _LABEL.findall(declared))


# ── from the server's texts ──────────────────────────────────────────────────────────────────────────────────────


def selected(reference: str, column: MariaColumn) -> str:
    """How a column is read: floats with all their digits, numbers without padding."""
    if column.base == "float":
        return f"CAST({reference} AS DOUBLE)"
    return f"{reference}+0" if column.base == "bit" or "zerofill" in column.declared else reference


def may_be_unfit(column: MariaColumn) -> bool:
    return column.base in ("date", "datetime", "timestamp", "decimal")


Misfits = dict[int, str]
"""Row → the value that its column's type cannot hold, as text."""


def from_texts(values: Sequence[str | bytes | None], column: MariaColumn) -> tuple[pa.Array, Misfits]:
    """A column of an answer, or of the log where it has texts."""
    kind = column.type
    assert kind is not None
    if kind == pa.string() or kind == pa.binary():
        return pa.array(values, kind), {}
    if kind == pa.bool_():
        return pa.array([None if v is None else v == b"1" for v in values], kind), {}
    texts = pa.array(values, pa.string())
    try:
        return _typed(texts, kind), {}
    except pa.ArrowInvalid:
        wrong = {v for v in texts.unique().to_pylist() if v is not None and not _fits(v, kind)}
        said = texts.to_pylist()
        fitting = pa.array([None if v in wrong else v for v in said], pa.string())
        return _typed(fitting, kind), {n: v for n, v in enumerate(said) if v in wrong}


def _typed(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_floating(kind):
        return pc.add(texts.cast(pa.float64()).cast(kind), pa.scalar(0.0, kind))  # −0.0 is 0.0
    if pa.types.is_decimal(kind):
        digits = rf"^-?0*[0-9]{{0,{kind.precision - kind.scale}}}(\.[0-9]{{0,{kind.scale}}}0*)?$"
        if pc.all(pc.match_substring_regex(texts, digits)).as_py() is False:
            raise pa.ArrowInvalid("more digits than the type has")
        return texts.cast(kind)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        if pc.any(pc.starts_with(texts, "0000")).as_py():
            raise pa.ArrowInvalid("there is no year 0")
        plain = texts.cast(pa.date32() if pa.types.is_date(kind) else pa.timestamp("us"))
        return plain if plain.type == kind else plain.cast(pa.int64()).cast(kind)
    return texts.cast(kind)


def _fits(text: str, kind: pa.DataType) -> bool:
    try:
        _typed(pa.array([text]), kind)
    except pa.ArrowInvalid:
        return False
    return True


# ── from the log's values ────────────────────────────────────────────────────────────────────────────────────────


class Unfit(str):
    """A value of the log that its column's type cannot hold, as text."""

    __slots__ = ()


def from_log(values: Sequence[Any], column: MariaColumn) -> tuple[pa.Array, Misfits]:
    """A column of changes, as `images.py` reads it: decimals as texts, misfits as such, all else as it is."""
    kind = column.type
    assert kind is not None
    wrong: Misfits = {}
    if column.base in ("date", "datetime", "timestamp") or kind == pa.string():
        wrong = {n: str(v) for n, v in enumerate(values) if type(v) is Unfit}
        if wrong:
            values = [None if n in wrong else v for n, v in enumerate(values)]
    if pa.types.is_decimal(kind):
        return from_texts(values, column)
    if pa.types.is_floating(kind):
        return pc.add(pa.array(values, kind), pa.scalar(0.0, kind)), wrong
    return pa.array(values, kind), wrong


# ── keys and conditions: Arrow → literals ────────────────────────────────────────────────────────────────────────


def fitted(values: pa.ChunkedArray | pa.Array, column: MariaColumn) -> pa.Array:
    """Keys as values of the column; null where no value of it can equal the key."""
    kind = column.type
    assert kind is not None
    plain = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    try:
        found = plain.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        found = pa.array([_fitted_one(value, kind) for value in plain], kind)
    if pa.types.is_floating(kind):
        return pc.add(found, pa.scalar(0.0, kind))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        days = found.cast(pa.date32(), safe=False)
        held = pc.and_(pc.greater_equal(days, _FIRST_DAY), pc.less_equal(days, _LAST_DAY))
        return pc.if_else(held, found, None)
    return found


def _fitted_one(value: pa.Scalar, kind: pa.DataType) -> object:
    try:
        return value.cast(kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def compared(reference: str, column: MariaColumn) -> str:
    """A column as it is compared with literals, so that its index is used. (MySQL compares JSON by what it means.)"""
    if column.base == "json":
        return f"CAST({reference} AS CHAR)"
    return f"CAST({reference} AS DOUBLE)" if column.base == "float" else reference


def literal(value: Any) -> str:
    """A value as SQL writes it, whatever the session's modes."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str):
        return f"_utf8mb4 X'{value.encode().hex()}'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        plain = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        return f"TIMESTAMP'{plain.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE'{value.isoformat()}'"
    if isinstance(value, float):
        return f"{value!r}e0" if "e" not in repr(value) else repr(value)
    return format(value, "f") if isinstance(value, Decimal) else str(value)
