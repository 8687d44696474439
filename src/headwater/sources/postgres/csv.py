"""Rows as they come from the server, CSV, to Arrow; and values that their type cannot represent.

Arrow parses a piece of many whole rows at once. Only if that fails is the piece looked at column by column, value by
value: a question is then answered with the value that did not fit (`Misfit`), a poll goes on without it and says so
(UNFIT).
"""

from __future__ import annotations

import binascii
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

Piece = bytes | bytearray

_PARSE = pcsv.ParseOptions(newlines_in_values=True)


class Misfit(Exception):
    """A value that its column's type cannot represent: the column, and the value as text."""

    def __init__(self, column: str, value: str) -> None:
        super().__init__(column, value)
        self.column, self.value = column, value


def read_csv(pieces: Iterable[Piece], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """A record batch for each piece, which ends where a row ends; at least one, if only to tell the schema."""
    return _read(pieces, schema, _parsed)


def read_csv_with_misfits(pieces: Iterable[Piece], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The same, but a value that does not fit is null, and named in UNFIT: the last column of the schema, which the
    rows do not have. The column before that one is the row's key."""
    return _read(pieces, schema, _marked)


def shortened(value: str) -> str:
    return value if len(value) <= 60 else value[:57] + "…"


def _read(
    pieces: Iterable[Piece], schema: pa.Schema, parsed: Callable[[Piece, pa.Schema], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    given = False
    for piece in pieces:
        yield parsed(piece, schema)
        given = True
    if not given:
        yield parsed(b"", schema)


def _parsed(block: Piece, schema: pa.Schema) -> pa.RecordBatch:
    if not block:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    try:
        parsed = _parse(block, [_read_as(field.type) for field in schema])
        arrays = [_finished(c, field.type) for field, c in zip(schema, parsed.columns, strict=True)]
    except pa.ArrowInvalid:
        raise _first_misfit(block, schema) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _marked(block: Piece, schema: pa.Schema) -> pa.RecordBatch:
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


def _parse(block: Piece, types: Sequence[pa.DataType]) -> pa.Table:
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


def _first_misfit(block: Piece, schema: pa.Schema) -> Misfit:
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
