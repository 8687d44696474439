"""One SELECT shape for base rows and logged rows, and its answer as exact Arrow columns.

    samples                      one row, so that ADBC knows every column's type
    UNION ALL the rows           each column as its codec reads it
    UNION ALL the changes after p, with the opposite sign          R(p) = R(now) − changes after p  (TID rules, eq. 2)

Beside the columns goes `unfit`: NULL, or the place and text of the first value in the row that its type cannot hold.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.conditions import Condition
from headwater.model.errors import ConfigError, PositionTrimmed, SchemaChanged, ValueUnfit
from headwater.model.names import TableName
from headwater.model.source import COUNT
from headwater.sources.sqlite_capture import CapturedTable
from headwater.sources.sqlite_files import literal, quote
from headwater.sources.sqlite_types import TEXT, Codec, Unfit, codec

_INT64 = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True)
class Table:
    """A captured table with the codecs of its columns."""

    name: TableName
    captured: CapturedTable

    def codec(self, column: str) -> Codec:
        declared = next((c.declared for c in self.captured.columns if c.name == column), None)
        if declared is None:
            raise SchemaChanged(f"{self.name} has no captured column {column}", "run headwater install to capture it")
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

    def check_since(self, columns: Sequence[str], position: int) -> None:
        """The log knows a column from the moment its capture began."""
        since = max((c.since for c in self.captured.columns if c.name in columns), default=0)
        if position < since:
            raise PositionTrimmed(
                f"capture of {self.name} begins at position {since}, it cannot answer as of {position}",
                "use a newer position",
            )


@dataclass(frozen=True)
class Shape:
    """The columns a SELECT reads, extra integer columns (COUNT and the like) after them."""

    table: Table
    columns: tuple[str, ...]
    extra: tuple[str, ...] = (COUNT,)

    def samples(self) -> str:
        found = [sample for c in self.columns for sample in self.table.codec(c).samples]
        nothing_unfit = "''"
        return f"SELECT {', '.join([*found, nothing_unfit, *('0' for _ in self.extra)])}"

    def select(self, where: Mapping[str, str], extra: Sequence[str]) -> str:
        """`where` says what SQL calls each column: its own name, or its slot in the log."""
        read = [part for c in self.columns for part in self.table.codec(c).read(where[c])]
        tests = " ".join(
            f"WHEN NOT {self.table.codec(c).fits(where[c])} THEN '{n}:' || substr(quote({where[c]}), 1, 80)"
            for n, c in enumerate(self.columns)
        )
        unfit = f"CASE {tests} END" if tests else "NULL"
        return f"SELECT {', '.join([*read, unfit, *extra])}"

    def decode(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = True
        for batch in batches:
            rows = batch.slice(1) if first else batch
            first = False
            if rows.num_rows:
                yield self._decode(rows)

    def _decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays: list[pa.Array] = []
        place = 0
        parts = batch.columns
        unfit = parts[-len(self.extra) - 1]
        if unfit.null_count < len(unfit):
            number, _, text = pc.drop_null(unfit)[0].as_py().partition(":")
            raise self._unfit(self.columns[int(number)], text)
        for column in self.columns:
            found = self.table.codec(column)
            width = len(found.samples)
            try:
                arrays.append(found.decode(parts[place : place + width]))
            except Unfit as error:
                raise self._unfit(column, str(error)) from None
            place += width
        arrays += parts[place + 1 :]
        return pa.RecordBatch.from_arrays(arrays, names=[*self.columns, *self.extra])

    def _unfit(self, column: str, text: str) -> ValueUnfit:
        return ValueUnfit(
            f"{self.table.name}.{column} holds {text}, which is not a {self.table.codec(column).type}",
            "correct the value at the source, or leave the column out of the view",
        )


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
