"""One SELECT shape for base rows and logged rows, and its answer as exact Arrow columns.

    samples                      one row, so that ADBC knows every column's type
    UNION ALL the rows           each column as its codec reads it
    UNION ALL the changes after p, with the opposite sign          R(p) = R(now) − changes after p  (TID rules, eq. 2)

A value that its type cannot hold is null in the answer and told beside it (`Misfits`): a poll passes it on, an answer
raises it (`unfit.py`).
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.model.conditions import Condition
from headwater.model.errors import ConfigError, PositionTrimmed, SchemaChanged
from headwater.model.names import TableName
from headwater.model.source import COUNT
from headwater.sources.sqlite.capture import CapturedTable
from headwater.sources.sqlite.connection import Connection
from headwater.sources.sqlite.files import literal, quote
from headwater.sources.sqlite.types import TEXT, Codec, Unfit, codec

SHOWN = 80
"""Characters of a value that are shown."""
Misfits = Mapping[int, Mapping[str, str]]
"""Row of a batch → column → its value as SQL writes it."""
_INT64 = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True)
class Table:
    """A captured table with the codecs of its columns."""

    name: TableName
    captured: CapturedTable
    key: tuple[str, ...] = ()

    def codec(self, column: str) -> Codec:
        declared = next((c.declared for c in self.captured.columns if c.name == column), None)
        if declared is None:
            raise SchemaChanged(f"{self.name} has no captured column {column}", "run 'headwater setup' to capture it")
        found = codec(declared)
        if found is None:
            what = f"its declared type is {declared!r}" if declared else "it has no declared type"
            raise ConfigError(f"Headwater cannot read {self.name}.{column}: {what}", "leave it out of the view")
        return found

    def slots(self) -> dict[str, str]:
        """Where the log keeps each column."""
        return {column.name: f"c{n}" for n, column in enumerate(self.captured.columns)}

    def columns(self) -> dict[str, str]:
        return {column.name: f"{quote(self.name.table)}.{quote(column.name)}" for column in self.captured.columns}

    def row_text(self, where: Mapping[str, str]) -> str:
        """SQL that names a row for people: by its primary key, or by its first columns if it has none. As bytes, for
        text need not be UTF-8."""
        shown = self.key or tuple(c.name for c in self.captured.columns[:3])
        parts = [f"{literal(f'{c} = ')} || substr(quote({where[c]}), 1, {SHOWN})" for c in shown]
        joined = " || ', ' || ".join(parts)
        return f"CAST({joined} AS BLOB)"

    def check_since(self, columns: Sequence[str], position: int) -> None:
        """The log knows a column from the moment its capture began."""
        since = max((c.since for c in self.captured.columns if c.name in columns), default=0)
        if position < since:
            raise PositionTrimmed(
                f"capture of {self.name} begins at position {since}, it cannot answer as of {position}",
                "use a newer position",
            )


@dataclass(frozen=True)
class Part:
    """One FROM and WHERE. `where` says what SQL calls each column there: its own name, or its slot in the log."""

    where: Mapping[str, str]
    source: str
    terms: Sequence[str]
    extra: Sequence[str]
    """SQL of the shape's extra columns."""

    def tail(self) -> str:
        return f"FROM {self.source}{' WHERE ' if self.terms else ''}{' AND '.join(self.terms)}"


@dataclass(frozen=True)
class Shape:
    """The columns a SELECT reads, and extra integer columns (COUNT and the like) after them."""

    table: Table
    columns: tuple[str, ...]
    extra: tuple[str, ...] = (COUNT,)

    def read(
        self, connection: Connection, parts: Sequence[Part], keys: pa.RecordBatch | None = None
    ) -> Iterator[tuple[pa.RecordBatch, Misfits]]:
        return self.decoded(self.raw(connection, parts, keys))

    def raw(
        self, connection: Connection, parts: Sequence[Part], keys: pa.RecordBatch | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of all parts. With `keys`, once for each of them; the first has number 0 in ?1 and alone answers
        with the samples, so that they are the first row of all."""
        samples = [sample for c in self.columns for sample in self.table.codec(c).samples]
        once = " WHERE ?1 = 0" if keys is not None else ""
        selects = [f"SELECT {', '.join([*samples, *('0' for _ in self.extra), literal('')])}{once}"]
        for part in parts:
            read = [sql for c in self.columns for sql in self.table.codec(c).read(part.where[c])]
            selects.append(f"SELECT {', '.join([*read, *part.extra, self._odd(part.where)])} {part.tail()}")
        return connection.stream(" UNION ALL ".join(selects), keys)

    def decoded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, Misfits]]:
        first = True
        for batch in batches:
            rows = batch.slice(1) if first else batch
            first = False
            if rows.num_rows:
                yield self._decode(rows)

    def _odd(self, where: Mapping[str, str]) -> str:
        """NULL, or as JSON the values of a row that have another storage class than their type."""
        if not self.columns:
            return "NULL"
        fits = {c: self.table.codec(c).fits(where[c]) for c in self.columns}
        told = ", ".join(
            f"CASE WHEN {fit} THEN NULL ELSE substr(quote({where[c]}), 1, {SHOWN}) END" for c, fit in fits.items()
        )
        return f"CASE WHEN {' AND '.join(fits.values())} THEN NULL ELSE json_array({told}) END"

    def _decode(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Misfits]:
        arrays: list[pa.Array] = []
        parts = batch.columns
        misfits = self._told(parts[-1])
        place = 0
        for column in self.columns:
            found = self.table.codec(column)
            width = len(found.samples)
            array, odd = _decoded(found, parts[place : place + width])
            for row, value in odd.items():
                misfits.setdefault(row, {})[column] = _shown(value)
            arrays.append(array)
            place += width
        extra = parts[place:-1]
        return pa.RecordBatch.from_arrays([*arrays, *extra], names=[*self.columns, *self.extra]), misfits

    def _told(self, odd: pa.Array) -> dict[int, dict[str, str]]:
        if odd.null_count == len(odd):
            return {}
        texts = odd.cast(pa.binary()).to_pylist()
        found = {row: json.loads(text.decode(errors="replace")) for row, text in enumerate(texts) if text is not None}
        return {
            row: {c: value for c, value in zip(self.columns, values, strict=True) if value is not None}
            for row, values in found.items()
        }


def _decoded(found: Codec, arrays: Sequence[pa.Array]) -> tuple[pa.Array, dict[int, str | bytes | float]]:
    """One array, and the values that do not fit, by row: found by halving, for they are few."""
    try:
        return found.decode(arrays), {}
    except Unfit as error:
        length = len(arrays[0])
        if length == 1:
            return pa.nulls(1, found.type), {0: error.value}
    half = length // 2
    left, odd_left = _decoded(found, [a.slice(0, half) for a in arrays])
    right, odd_right = _decoded(found, [a.slice(half) for a in arrays])
    return pa.concat_arrays([left, right]), odd_left | {half + row: value for row, value in odd_right.items()}


def _shown(value: str | bytes | float) -> str:
    """As SQL would write it."""
    if isinstance(value, bytes):
        return f"CAST(X'{value[:SHOWN].hex().upper()}' AS TEXT)"
    if isinstance(value, str):
        return literal(value)[:SHOWN]
    return repr(value) if math.isfinite(value) else f"{'-' if value < 0 else ''}9e999"


def pushed(table: Table, condition: Condition, column: str) -> str | None:
    """The condition in SQL, where SQLite means exactly the same by it; None: decide it in Arrow."""
    if condition.operator in ("is null", "is not null"):
        return f"{column} {condition.operator.upper()}"
    values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    written = [_written(value, table.codec(condition.column)) for value in values]
    if not written or None in written:
        return None
    if condition.operator == "in":
        return f"{column} COLLATE BINARY IN ({', '.join(map(str, written))})"
    return f"{column} {condition.operator} {written[0]} COLLATE BINARY"


def _written(value: object, kind: Codec) -> str | None:
    if isinstance(value, bool):
        return str(int(value)) if pa.types.is_boolean(kind.type) else None
    if isinstance(value, int):
        return str(value) if pa.types.is_int64(kind.type) and value in _INT64 else None
    if isinstance(value, str):
        return literal(value) if kind is TEXT and "\0" not in value else None
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime) and pa.types.is_date32(kind.type):
        return literal(value.isoformat())
    return None
