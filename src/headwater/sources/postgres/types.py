"""PostgreSQL's types as Arrow's: how keys leave, as array literals, and how rows come back (read in `csv.py`).

What leaves the server is chosen so that a base row and a captured row of the same value give the same bytes: numbers
and times in their shortest exact text (the session's settings are pinned), `bytea` as hex, all else as `::text`. So
`char(n)` comes without its padding, `uuid` in lower case, `json` verbatim. CSV, because Arrow parses it vectorised and
it tells NULL (nothing) from the empty text (a pair of quotes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

_FIXED: dict[str, pa.DataType] = {
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "bytea": pa.binary(),
}
_TEXT = frozenset({"text", "varchar", "bpchar", "name", "citext"})
_AS_TEXT = frozenset({"time", "uuid", "json", "jsonb"})

_CANONICAL = {
    "uuid": r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    "time": r"^(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?|24:00:00)$",
}
"""Other texts equal no value of the type, and must not reach its input function, which would refuse them."""


@dataclass(frozen=True)
class PgColumn:
    """A column as the catalog has it, domains resolved: `base` is the type's own name, in schema `base_schema`;
    `labels` are the values of an enum, each after its number. `number` is the column's in its table, `definition` what
    changes whenever it is altered, `collation` the one it is compared by if that is not the database's own."""

    name: str
    base: str
    base_schema: str
    declared: str
    type: pa.DataType | None
    nullable: bool = True
    labels: tuple[str, ...] = ()
    number: int = 0
    definition: str = ""
    collation: tuple[str, str] | None = None

    @property
    def values(self) -> tuple[str, ...]:
        """Those of an enum."""
        return tuple(label.partition("=")[2] for label in self.labels)

    def sql_type(self) -> sql.Composable:
        return sql.Identifier(self.base_schema, self.base)


def arrow_type(base: str, modifier: int, is_enum: bool) -> pa.DataType | None:
    """`modifier` is the catalog's atttypmod."""
    if base in _FIXED:
        return _FIXED[base]
    if is_enum or base in _TEXT or base in _AS_TEXT:
        return pa.string()
    if base != "numeric":
        return None
    if modifier < 0:
        return pa.decimal128(38, 18)
    precision, scale = (modifier - 4) >> 16, (((modifier - 4) & 0x7FF) ^ 1024) - 1024
    if scale < 0:
        precision, scale = precision - scale, 0
    if scale > 38:
        return None
    return pa.decimal128(min(max(precision, scale), 38), scale)


def fields_of(columns: Sequence[PgColumn]) -> list[tuple[str, pa.DataType]]:
    """As an Arrow schema is made of them."""
    return [(c.name, c.type) for c in columns]


def output(reference: sql.Composable, column: PgColumn) -> sql.Composable:
    """How a column leaves the server."""
    if column.type == pa.binary():
        return sql.SQL("encode({}, 'hex')").format(reference)
    return as_text(reference) if column.type == pa.string() else reference


def text_output(text: sql.Composable, column: PgColumn) -> sql.Composable:
    """How a column leaves the server that is at hand as its own text: the same, without reading it as what it is."""
    if column.type == pa.binary():
        return sql.SQL("substr({}, 3)").format(text)
    return sql.SQL("rtrim({}, ' ')").format(text) if column.base == "bpchar" else text


def as_text(reference: sql.Composable) -> sql.Composable:
    return sql.SQL('{}::text COLLATE "C"').format(reference)


_YEARS_1_TO_9999 = (-719_162, 2_932_897)
"""In days from 1970-01-01, end excluded: the dates that `read_csv` reads."""

# ── keys: Arrow → array literals ─────────────────────────────────────────────────────────────────────────────────


def indexable(column: PgColumn) -> bool:
    return not column.base.startswith("json")


def equals(reference: sql.Composable, key: sql.Composable, column: PgColumn) -> sql.Composable:
    """Exact equality with a key, in words that an index on the column can answer. Text types may compare more loosely
    than by code points (a collation, citext, char(n)): the index finds the candidates, `::text` decides."""
    if column.type != pa.string():
        return sql.SQL("{} = {}").format(reference, key)
    exact = sql.SQL("{} = {}").format(as_text(reference), key)
    if not indexable(column):
        return exact
    cast = key if column.base in ("text", "varchar", "name") else sql.SQL("{}::{}").format(key, column.sql_type())
    operators = column.base_schema if column.base == "citext" else "pg_catalog"
    operator = sql.SQL("OPERATOR({}.=)").format(sql.Identifier(operators))
    return sql.SQL("{} {} {} AND {}").format(reference, operator, cast, exact)


def joined_value(reference: sql.Composable, column: PgColumn) -> sql.Composable:
    """A column as other tables' columns are compared with it. Text leaves its collation behind, so that the column it
    meets is found through its own; a day that Headwater cannot hold is none."""
    if column.type == pa.string():
        return sql.SQL('{}::text COLLATE "default"').format(reference)
    if column.type == pa.date32():
        return sql.SQL("CASE WHEN {c} BETWEEN '0001-01-01' AND '9999-12-31' THEN {c} END").format(c=reference)
    return reference


def joined_key(value: sql.Composable, column: PgColumn, other: PgColumn) -> sql.Composable:
    """The value of column `other` as a key of `column`: NULL where it is a text that the type would refuse."""
    if column.type != pa.string() or (column.base_schema, column.base) == (other.base_schema, other.base):
        return value
    if column.labels:
        labels = sql.SQL(", ").join(map(sql.Literal, column.values))
        return sql.SQL("(CASE WHEN {v} IN ({labels}) THEN {v} END)").format(v=value, labels=labels)
    if column.base in _CANONICAL:
        like = sql.Literal(_CANONICAL[column.base])
        return sql.SQL("(CASE WHEN {v} ~ {like} THEN {v} END)").format(v=value, like=like)
    return value


def key_array(keys: pa.ChunkedArray, column: PgColumn) -> sql.Composable:
    """The keys as one array literal. A key that no value of the column can equal becomes NULL, which equals nothing."""
    assert column.type is not None
    values = _fitted(keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys, column.type)
    possible: pa.Array | None = None
    if pa.types.is_string(column.type):
        possible = pc.invert(pc.match_substring(values, "\x00"))
        if column.labels:
            possible = pc.is_in(values, value_set=pa.array(column.values, pa.string()))
        elif column.base in _CANONICAL:
            possible = pc.match_substring_regex(values, _CANONICAL[column.base])
    elif pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        first, past = (pa.scalar(day, pa.date32()).cast(column.type) for day in _YEARS_1_TO_9999)
        possible = pc.and_(pc.greater_equal(values, first), pc.less(values, past))
    if possible is not None:
        values = pc.if_else(possible, values, None)
    element = sql.SQL("text") if pa.types.is_string(column.type) else column.sql_type()
    return sql.SQL("{}::{}[]").format(sql.Literal(_array_literal(values)), element)


def _fitted(values: pa.Array, to: pa.DataType) -> pa.Array:
    if values.type == to:
        return values
    try:
        return values.cast(to)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([_fitted_one(value, to) for value in values], to)


def _fitted_one(value: pa.Scalar, to: pa.DataType) -> object:
    try:
        return value.cast(to).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _array_literal(values: pa.Array) -> str:
    if pa.types.is_binary(values.type):
        texts = pa.array([None if v is None else f'"\\\\x{v.hex()}"' for v in values.to_pylist()], pa.string())
    elif pa.types.is_string(values.type):
        escaped = pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), '"', '\\"')
        texts = pc.binary_join_element_wise('"', escaped, '"', "")
    else:
        texts = values.cast(pa.string())
    return "{" + ",".join(pc.fill_null(texts, "NULL").to_pylist()) + "}"
