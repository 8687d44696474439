"""Types as PostgreSQL's clients know them: OIDs, and values as text and as binary.

One table: for each type its OID, its size and how a value is written. Every type has a text form; those that drivers
ask for in binary (numbers, times, text, bytes, uuid) have that too. A client that wants another in binary is refused.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

from headwater.serve.errors import Refused

Writer = Callable[[Any], bytes]

_EPOCH = dt.datetime(2000, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=dt.UTC)


@dataclass(frozen=True)
class PgType:
    """`array` is the OID of its arrays; `duck` is what DuckDB calls it."""

    name: str
    oid: int
    array: int
    size: int
    duck: str
    text: Writer
    binary: Writer | None = None
    category: str = "U"


def _said(value: Any) -> bytes:
    return str(value).encode("utf-8", "replace")


def _float(value: float) -> bytes:
    if value != value:
        return b"NaN"
    if value in (float("inf"), float("-inf")):
        return b"Infinity" if value > 0 else b"-Infinity"
    return repr(value).removesuffix(".0").encode()


def _real(value: float) -> bytes:
    """As few digits as tell it from its neighbours among numbers of 32 bits."""
    if value != value or value in (float("inf"), float("-inf")):
        return _float(value)
    for digits in range(6, 10):
        if struct.pack("!f", float(f"{value:.{digits}g}")) == struct.pack("!f", value):
            return _float(float(f"{value:.{digits}g}"))
    return _float(value)


def _numeric(value: Decimal | int) -> bytes:
    return format(value, "f").encode() if isinstance(value, Decimal) else str(value).encode()


def _numeric_binary(value: Decimal | int) -> bytes:
    """Groups of four decimal digits, the weight of the first, sign, and digits after the point."""
    value = Decimal(value)
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    text = "".join(map(str, digits)) + "0" * max(0, exponent)
    whole, part = (text[:-scale], text[-scale:].rjust(scale, "0")) if scale else (text, "")
    whole = whole.rjust(-(-max(len(whole), 1) // 4) * 4, "0")
    part = part.ljust(-(-len(part) // 4) * 4, "0")
    groups = [int((whole + part)[n : n + 4]) for n in range(0, len(whole + part), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups, weight = groups[1:], weight - 1
    while groups and groups[-1] == 0:
        groups.pop()
    weight = weight if groups else 0
    return struct.pack(f"!hhHh{len(groups)}h", len(groups), weight, 0x4000 if sign else 0, scale, *groups)


def _timestamp(value: dt.datetime) -> bytes:
    return value.isoformat(" ").encode()


def _timestamptz(value: dt.datetime) -> bytes:
    return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(" ").encode() + b"+00"


def _micros(span: dt.timedelta) -> int:
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def _interval(value: Any) -> bytes:
    """(months, days, nanoseconds)"""
    months, days, nanos = value
    sign, rest = ("-" if nanos < 0 else ""), abs(nanos) // 1000
    seconds, micros = divmod(rest, 1_000_000)
    clock = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    parts = [f"{months} mons" if months else "", f"{days} days" if days else ""]
    return " ".join(p for p in (*parts, clock + (f".{micros:06}" if micros else "")) if p).encode()


def _json(value: Any) -> bytes:
    if isinstance(value, str):  # it is JSON already
        return _said(value)
    return json.dumps(value, default=str, ensure_ascii=False).encode("utf-8", "replace")


def _uuid(value: Any) -> bytes:
    return uuid.UUID(str(value)).bytes


BOOL = PgType("bool", 16, 1000, 1, "BOOLEAN", lambda v: b"t" if v else b"f", lambda v: b"\1" if v else b"\0", "B")
BYTEA = PgType("bytea", 17, 1001, -1, "BLOB", lambda v: b"\\x" + v.hex().encode(), bytes)
NAME = PgType("name", 19, 1003, 64, "VARCHAR", _said, _said, "S")
INT8 = PgType("int8", 20, 1016, 8, "BIGINT", _said, lambda v: struct.pack("!q", v), "N")
INT2 = PgType("int2", 21, 1005, 2, "SMALLINT", _said, lambda v: struct.pack("!h", v), "N")
INT4 = PgType("int4", 23, 1007, 4, "INTEGER", _said, lambda v: struct.pack("!i", v), "N")
TEXT = PgType("text", 25, 1009, -1, "VARCHAR", _said, _said, "S")
OID = PgType("oid", 26, 1028, 4, "BIGINT", _said, lambda v: struct.pack("!I", v), "N")
JSON = PgType("json", 114, 199, -1, "JSON", _json, _json)
FLOAT4 = PgType("float4", 700, 1021, 4, "FLOAT", _real, lambda v: struct.pack("!f", v), "N")
FLOAT8 = PgType("float8", 701, 1022, 8, "DOUBLE", _float, lambda v: struct.pack("!d", v), "N")
BPCHAR = PgType("bpchar", 1042, 1014, -1, "VARCHAR", _said, _said, "S")
VARCHAR = PgType("varchar", 1043, 1015, -1, "VARCHAR", _said, _said, "S")
DATE = PgType(
    "date", 1082, 1182, 4, "DATE", lambda v: v.isoformat().encode(),
    lambda v: struct.pack("!i", (v - _EPOCH.date()).days), "D",
)  # fmt: skip
TIME = PgType("time", 1083, 1183, 8, "TIME", lambda v: v.isoformat().encode(), None, "D")
TIMESTAMP = PgType(
    "timestamp", 1114, 1115, 8, "TIMESTAMP", _timestamp, lambda v: struct.pack("!q", _micros(v - _EPOCH)), "D"
)
TIMESTAMPTZ = PgType(
    "timestamptz", 1184, 1185, 8, "TIMESTAMPTZ", _timestamptz,
    lambda v: struct.pack("!q", _micros(v - _EPOCH_UTC)), "D",
)  # fmt: skip
INTERVAL = PgType("interval", 1186, 1187, 16, "INTERVAL", _interval, None, "T")
NUMERIC = PgType("numeric", 1700, 1231, -1, "DECIMAL", _numeric, _numeric_binary, "N")
UUID = PgType("uuid", 2950, 2951, 16, "UUID", _said, _uuid)

ALL = (BOOL, BYTEA, NAME, INT8, INT2, INT4, TEXT, OID, JSON, FLOAT4, FLOAT8, BPCHAR, VARCHAR, DATE, TIME, TIMESTAMP,
       TIMESTAMPTZ, INTERVAL, NUMERIC, UUID)  # fmt: skip
BY_OID = {t.oid: t for t in ALL}
BY_ARRAY = {t.array: t for t in ALL}
_BY_DUCK = {
    "boolean": BOOL, "blob": BYTEA, "bigint": INT8, "smallint": INT2, "tinyint": INT2, "utinyint": INT2,
    "integer": INT4, "usmallint": INT4, "uinteger": INT8, "ubigint": NUMERIC, "hugeint": NUMERIC, "uhugeint": NUMERIC,
    "float": FLOAT4, "double": FLOAT8, "decimal": NUMERIC, "date": DATE, "time": TIME, "timestamp": TIMESTAMP,
    "timestamp_s": TIMESTAMP, "timestamp_ms": TIMESTAMP, "timestamp with time zone": TIMESTAMPTZ,
    "interval": INTERVAL, "uuid": UUID, "json": JSON, "struct": JSON, "map": JSON,
}  # fmt: skip
_ALIASES = {
    "integer": INT4, "int": INT4, "bigint": INT8, "smallint": INT2, "real": FLOAT4, "double precision": FLOAT8,
    "boolean": BOOL, "character varying": VARCHAR, "character": BPCHAR, "decimal": NUMERIC,
    "timestamp without time zone": TIMESTAMP, "timestamp with time zone": TIMESTAMPTZ,
}  # fmt: skip
SPOKEN = {t.oid: name for name, t in reversed(_ALIASES.items()) if name not in ("int", "decimal")}
"""What format_type says, where it is not the type's own name."""


@dataclass(frozen=True)
class Shown:
    """A type of a column of an answer: how its values are written. `of` is set for arrays."""

    oid: int
    size: int
    modifier: int
    text: Writer
    binary: Writer | None


def shown(duck: Any) -> Shown:
    """From DuckDB's type of a column."""
    kind = str(duck.id).lower()
    if kind in ("list", "array"):
        inner = _BY_DUCK.get(str(duck.children[0][1].id).lower(), TEXT)
        return Shown(inner.array, -1, -1, lambda values: _array(values, inner.text), None)
    found = _BY_DUCK.get(kind, TEXT)
    modifier = -1
    if kind == "decimal":
        sizes = dict(duck.children)
        modifier = (sizes["precision"] << 16 | sizes["scale"]) + 4
    return Shown(found.oid, found.size, modifier, found.text, found.binary)


def _array(values: Sequence[Any], text: Writer) -> bytes:
    def element(value: Any) -> bytes:
        if value is None:
            return b"NULL"
        said = text(value)
        return _quoted(said)

    return b"{" + b",".join(element(v) for v in values) + b"}"


def _quoted(said: bytes) -> bytes:
    """An element of an array, as text."""
    plain = said and said.upper() != b"NULL" and not any(c in b'{}," \\\t\n\r' for c in said)
    return said if plain else b'"' + said.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def writer(kind: Shown, binary: int) -> Writer:
    if not binary:
        return kind.text
    if kind.binary is None:
        raise Refused("0A000", "a column cannot be sent in binary", "ask for it as text, or cast it to text")
    return kind.binary


_ELEMENT = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^",{}\\]+))\s*(,|$)', re.DOTALL)


def read_array(text: str) -> list[str | None]:
    """The elements of '{1,2,NULL,"a b"}'; arrays of arrays are refused."""
    if not (text.startswith("{") and text.endswith("}")):
        raise Refused("22P02", f"{text[:80]!r} is no array", "write it as '{1,2}'")
    inner, at, found = text[1:-1], 0, list[str | None]()
    while at < len(inner):
        element = _ELEMENT.match(inner, at)
        if element is None:
            raise Refused("22P02", f"{text[:80]!r} is no array of one dimension", "write it as '{1,2}'")
        quoted, plain = element[1], element[2]
        if quoted is not None:
            found.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
        else:
            found.append(None if plain.strip().upper() == "NULL" else plain.strip())
        at = element.end()
    return found


_UNPACK = {20: "!q", 21: "!h", 23: "!i", 26: "!I", 700: "!f", 701: "!d"}


def read_parameter(oid: int, binary: int, value: bytes) -> str:
    """A parameter as text, whatever it came as."""
    try:
        if not binary:
            said = _dated(oid, value.decode())
        elif oid in _UNPACK:
            said = str(struct.unpack(_UNPACK[oid], value)[0])
        elif oid in (0, 19, 25, 114, 1042, 1043):
            said = value.decode()
        elif oid in BY_ARRAY:
            said = _read_binary_array(value)
        else:
            said = _READ[oid](value)
    except KeyError:
        raise Refused("0A000", f"a parameter of type {oid} cannot be read in binary", "send it as text") from None
    except (UnicodeDecodeError, struct.error, ValueError, OverflowError):
        raise Refused("22P03", f"a parameter of type {oid} is not what its type says", "send it as text") from None
    if "\0" in said:
        raise Refused("22021", "a text holds the character 0", "leave it out: PostgreSQL has none either")
    return said


_ZONED = re.compile(r"(\d{4,}-\d\d-\d\d) [+-]\d\d(:\d\d)?")


def _dated(oid: int, said: str) -> str:
    """JDBC writes a date with a time zone, which PostgreSQL passes over."""
    zoned = _ZONED.fullmatch(said) if oid in (0, 1082) else None
    return zoned[1] if zoned else said


def _read_binary_array(value: bytes) -> str:
    """Dimensions, whether there are NULLs, the type of the elements, (size, first number) of each dimension, and the
    elements."""
    dimensions, _, inner = struct.unpack("!iiI", value[:12])
    if dimensions == 0:
        return "{}"
    if dimensions != 1:
        raise Refused("0A000", "an array of arrays cannot be read", "send it as text, or give one array")
    count, at, parts = struct.unpack("!i", value[12:16])[0], 20, []
    for _ in range(count):
        length = struct.unpack("!i", value[at : at + 4])[0]
        element = value[at + 4 : at + 4 + length] if length >= 0 else b""
        if len(element) != max(length, 0):
            raise ValueError
        parts.append(b"NULL" if length < 0 else _quoted(read_parameter(inner, 1, element).encode()))
        at += 4 + max(length, 0)
    return (b"{" + b",".join(parts) + b"}").decode()


def _read_numeric(value: bytes) -> str:
    count, weight, sign, scale = struct.unpack("!hhHh", value[:8])
    if sign not in (0, 0x4000):
        raise ValueError
    groups = struct.unpack(f"!{count}h", value[8:])
    with localcontext(prec=4 * (count + abs(weight) + 2) + max(scale, 0)):
        total = sum((Decimal(group).scaleb(4 * (weight - n)) for n, group in enumerate(groups)), Decimal(0))
        return f"{'-' if sign else ''}{total:.{max(scale, 0)}f}"


_READ: dict[int, Callable[[bytes], str]] = {
    16: lambda v: "true" if v == b"\1" else "false",
    17: lambda v: "\\x" + v.hex(),
    1082: lambda v: (_EPOCH.date() + dt.timedelta(days=struct.unpack("!i", v)[0])).isoformat(),
    1083: lambda v: (_EPOCH + dt.timedelta(microseconds=struct.unpack("!q", v)[0])).time().isoformat(),
    1114: lambda v: (_EPOCH + dt.timedelta(microseconds=struct.unpack("!q", v)[0])).isoformat(" "),
    1184: lambda v: (_EPOCH_UTC + dt.timedelta(microseconds=struct.unpack("!q", v)[0])).isoformat(" "),
    1700: _read_numeric,
    2950: lambda v: str(uuid.UUID(bytes=v)),
}
