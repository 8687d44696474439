"""What is in a file, as rows of the table: Parquet, or CSV with a line of names.

The table's columns are those of its first file. A file that lacks one has NULLs there; one more is nobody's concern. A
value that does not fit its column's type is NULL, and told beside the row (UNFIT).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from headwater.model.changelog import one_zero
from headwater.model.source import UNFIT
from headwater.sources.columnar import held_type

_MAGIC = b"PAR1"
_NULLS = [""]
_PARSE = pcsv.ParseOptions(newlines_in_values=True)


def is_whole(path: Path) -> bool:
    """Whether a file is complete as far as that can be seen: Parquet ends with its footer."""
    if path.suffix != ".parquet":
        return True
    with path.open("rb") as file:
        file.seek(0, 2)
        if file.tell() < 12:
            return False
        file.seek(-4, 2)
        return file.read(4) == _MAGIC


def schema_of(path: Path) -> pa.Schema:
    """The columns of a first file, as it has them."""
    if path.suffix == ".parquet":
        return pq.read_schema(path)
    found = pcsv.read_csv(path, parse_options=_PARSE, convert_options=_convert({})).schema
    return pa.schema([(f.name, pa.string() if pa.types.is_null(f.type) else _exact(f.type)) for f in found])


def rows_of(path: Path, schema: pa.Schema) -> pa.Table:
    """These columns of a file; with UNFIT where a value of them does not fit."""
    if path.suffix == ".parquet":
        names = [name for name in schema.names if name in pq.read_schema(path).names]
        there = pq.read_table(path, columns=names, partitioning=None)
    else:
        texts = _convert(dict.fromkeys(schema.names, pa.string()))
        there = pcsv.read_csv(path, parse_options=_PARSE, convert_options=texts)
    columns, unfit = [], dict[int, dict[str, str]]()
    for field in schema:
        if field.name not in there.column_names:
            columns.append(pa.nulls(there.num_rows, field.type))
            continue
        values = there.column(field.name)
        try:
            columns.append(values.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            fitted, odd = _one_by_one(values, field)
            columns.append(fitted)
            for number, value in odd.items():
                unfit.setdefault(number, {})[field.name] = value
    rows = one_zero(pa.table(columns, schema=schema))
    if not unfit:
        return rows
    marks = pa.array([_mark(path, n, unfit[n]) if n in unfit else None for n in range(rows.num_rows)], pa.string())
    return rows.append_column(UNFIT, marks)


def _mark(path: Path, number: int, values: dict[str, str]) -> str:
    return json.dumps({"key": f"row {number + 1} of {path.name}", "values": values}, ensure_ascii=False)


def _one_by_one(values: pa.ChunkedArray, field: pa.Field) -> tuple[pa.Array, dict[int, str]]:
    fitted: list[pa.Scalar | None] = []
    odd: dict[int, str] = {}
    for number, value in enumerate(values):
        try:
            fitted.append(value.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            odd[number] = str(value.as_py())[:200]
            fitted.append(None)
    return pa.array([None if v is None else v.as_py() for v in fitted], field.type), odd


def _convert(types: dict[str, pa.DataType]) -> pcsv.ConvertOptions:
    """An empty field is NULL, of text, too; nothing else is."""
    return pcsv.ConvertOptions(column_types=types, null_values=_NULLS, strings_can_be_null=True)


def _exact(kind: pa.DataType) -> pa.DataType:
    """Times of CSV in microseconds, as all sources tell them."""
    return pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else kind


def held(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([pa.field(name, held_type(schema.field(name).type)) for name in names])


def unfit_of(rows: pa.Table) -> str | None:
    """The first mark of a row that does not fit, None if all do."""
    marks = rows.column(UNFIT).drop_null() if UNFIT in rows.column_names else pa.chunked_array([], pa.string())
    return None if not len(marks) else str(pc.first(marks).as_py())
