"""PostgreSQL's types as Arrow's: how keys leave, as array literals, and how rows come back (read in `postgres_csv.py`).

What leaves the server is chosen so that a base row and a captured row of the same value give the same bytes: numbers
and times in their shortest exact text (the session's settings are pinned), `bytea` as hex, all else as `::text`. So
`char(n)` comes without its padding, `uuid` in lower case, `json` verbatim. CSV, because Arrow parses it vectorised and
it tells NULL (nothing) from the empty text (a pair of quotes).
"""

from __future__ import annotations

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
<<<<<<< HEAD


# ── rows: CSV → Arrow ────────────────────────────────────────────────────────────────────────────────────────────

_BLOCK_BYTES = 4 << 20
_PARSE = pcsv.ParseOptions(newlines_in_values=True)


class Misfit(Exception):
    """A value that its column's type cannot represent: the column, and the value as text."""

    def __init__(self, column: str, value: str) -> None:
        super().__init__(column, value)
        self.column, self.value = column, value


def read_csv(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Record batches from whole CSV rows, a few megabytes at a time; at least one, if only to tell the schema."""
    return _read(rows, schema, _parsed)


def read_csv_with_misfits(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The same, but a value that does not fit is null, and named in UNFIT: the last column of the schema, which the
    rows do not have. The column before that one is the row's key."""
    return _read(rows, schema, _marked)


def shortened(value: str) -> str:
    return value if len(value) <= 60 else value[:57] + "…"


Row = bytes | bytearray | memoryview


def _read(
    rows: Iterable[Row], schema: pa.Schema, parsed: Callable[[bytes, pa.Schema], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    held: list[Row] = []
    size = given = 0
    for row in rows:
        held.append(row)
        size += len(row)
        if size >= _BLOCK_BYTES:
            yield parsed(b"".join(held), schema)
            held, size, given = [], 0, given + 1
    if held or not given:
        yield parsed(b"".join(held), schema)


def _parsed(block: bytes, schema: pa.Schema) -> pa.RecordBatch:
    if not block:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    try:
        parsed = _parse(block, [_read_as(field.type) for field in schema])
        arrays = [_finished(c, field.type) for field, c in zip(schema, parsed.columns, strict=True)]
    except pa.ArrowInvalid:
        raise _first_misfit(block, schema) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _marked(block: bytes, schema: pa.Schema) -> pa.RecordBatch:
    if not block:
        return _parsed(block, schema)
    *fields, _ = schema
    texts = _parse(block, [pa.binary()] * len(fields)).columns
    arrays: list[pa.Array] = []
    misfits: dict[int, dict[str, str]] = {}
    for field, column in zip(fields, texts, strict=True):
        array, wrong = _fitting(pa.concat_arrays(column.chunks), field.type)
        arrays.append(array)
        for row, value in wrong.items():
            misfits.setdefault(row, {})[field.name] = shortened(value)
    keys = arrays[-1]
    said = [
        json.dumps({"key": keys[n].as_py(), "values": misfits[n]}, ensure_ascii=False) if n in misfits else None
        for n in range(len(keys))
    ]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(said, pa.string())], schema=schema)


def _fitting(texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, dict[int, str]]:
    """The values, null where the type cannot represent one; and those, by row."""
    try:
        return _typed(texts, kind), {}
    except pa.ArrowInvalid:
        pass
    wrong = {value for value in texts.unique().to_pylist() if value is not None and not _fits(value, kind)}
    rows = {n: v.decode(errors="replace") for n, v in enumerate(texts.to_pylist()) if v in wrong}
    fits = np.ones(len(texts), np.bool_)
    fits[list(rows)] = False
    return _typed(pc.if_else(pa.array(fits), texts, None), kind), rows


def _fits(value: bytes, kind: pa.DataType) -> bool:
    try:
        _typed(pa.array([value], pa.binary()), kind)
    except pa.ArrowInvalid:
        return False
    return True


def _typed(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts as what `_parse` makes of them."""
    if pa.types.is_string(kind):
        return texts.cast(kind)
    block = io.BytesIO()
    beside = pa.array(np.zeros(len(texts), np.int8))  # a line with nothing but a null would be no line
    pcsv.write_csv(
        pa.table({"c": texts.cast(pa.string()), "_": beside}), block, pcsv.WriteOptions(include_header=False)
    )
    return _finished(_parse(block.getvalue(), [_read_as(kind), pa.int8()]).column(0), kind)


def _read_as(kind: pa.DataType) -> pa.DataType:
    """Decimals go through text, to be looked at first: Arrow does not notice every one that is too large."""
    return pa.string() if pa.types.is_binary(kind) or pa.types.is_decimal(kind) else kind


def _finished(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    array = pa.concat_arrays(column.chunks)
    if pa.types.is_floating(kind):
        return pc.add(array, pa.scalar(0.0, kind))  # −0.0 is 0.0: they are equal, and groups make one of them
    if pa.types.is_binary(kind):
        return _unhexed(array)
    if pa.types.is_decimal(kind) and pc.all(pc.match_substring_regex(array, _digits(kind))).as_py() is False:
        raise pa.ArrowInvalid("more digits than the type has")
    return array.cast(kind)


def _digits(kind: pa.DataType) -> str:
    """Texts of a decimal that the type can hold. Arrow's own cast notices only some of the others."""
    return rf"^-?0*[0-9]{{0,{kind.precision - kind.scale}}}(\.[0-9]{{0,{kind.scale}}}0*)?$"


def _parse(block: bytes, types: Sequence[pa.DataType]) -> pa.Table:
    names = [f"c{i}" for i in range(len(types))]
    return pcsv.read_csv(
        pa.BufferReader(block),
        pcsv.ReadOptions(column_names=names, block_size=len(block) + 1),
        _PARSE,
        pcsv.ConvertOptions(
            column_types=dict(zip(names, types, strict=True)),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
        ),
    )


def _unhexed(texts: pa.Array) -> pa.Array:
    """Hex text to bytes, the whole column at once: half the offsets, one call for the data."""
    validity, offsets, data = texts.buffers()
    if data is None:
        return texts.cast(pa.binary())
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4)
    raw = binascii.unhexlify(memoryview(data)[ends[0] : ends[-1]])
    halves = ((ends - ends[0]) // 2).astype(np.int32)
    plain = pa.Array.from_buffers(pa.binary(), len(texts), [None, pa.py_buffer(halves), pa.py_buffer(raw)])
    return pc.if_else(texts.is_valid(), plain, None) if validity is not None else plain


def _first_misfit(block: bytes, schema: pa.Schema) -> Misfit:
    """Which value it was: read everything as text, and try column by column, value by value."""
    for field, column in zip(schema, _parse(block, [pa.binary()] * len(schema)).columns, strict=True):
        _, wrong = _fitting(pa.concat_arrays(column.chunks), field.type)
        if wrong:
            return Misfit(field.name, wrong[min(wrong)])
    raise AssertionError("every value fits, and yet they do not")


def misfit_advice(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return "declare the column numeric(p,s) with p up to 38 at the source, or leave it out of the view"
    if pa.types.is_temporal(kind):
        return (
            "use NULL or a real date from year 1 to 9999 instead of infinity or BC, or leave the column out of the view"
        )
    if pa.types.is_string(kind):
        return "convert the database to UTF-8, or leave the column out of the view"
    return "leave the column out of the view"
=======
>>>>>>> postgres
