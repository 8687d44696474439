"""One SELECT shape for base rows and logged rows, and its answer as exact Arrow columns.

    samples                      one row, so that ADBC knows every column's type
    UNION ALL the rows           each column as its codec reads it
    UNION ALL the changes after p, with the opposite sign          R(p) = R(now) − changes after p  (TID rules, eq. 2)

A value that its type cannot hold fails the statement; it is then looked for and named.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import adbc_driver_manager
import pyarrow as pa

from headwater.model.conditions import Condition
from headwater.model.errors import ConfigError, PositionTrimmed, SchemaChanged, ValueUnfit
from headwater.model.names import TableName
from headwater.model.source import COUNT
from headwater.sources.sqlite_capture import CapturedTable
from headwater.sources.sqlite_files import Connection, literal, quote
from headwater.sources.sqlite_types import FAILED, TEXT, Codec, Unfit, codec

_INT64 = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True)
class Table:
    """A captured table with the codecs of its columns."""

    name: TableName
    captured: CapturedTable

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
    ) -> Iterator[pa.RecordBatch]:
        """The rows of all parts. With `keys`, once for each of them; the first has number 0 in ?1 and alone answers
        with the samples, so that they are the first row of all."""
        samples = [sample for c in self.columns for sample in self.table.codec(c).samples]
        once = " WHERE ?1 = 0" if keys is not None else ""
        selects = [f"SELECT {', '.join([*samples, *('0' for _ in self.extra)])}{once}"]
        for part in parts:
            read = [sql for c in self.columns for sql in self.table.codec(c).read(part.where[c])]
            selects.append(f"SELECT {', '.join([*read, *part.extra])} {part.tail()}")
        first = True
        try:
            for batch in connection.stream(" UNION ALL ".join(selects), keys):
                rows = batch.slice(1) if first else batch
                first = False
                if rows.num_rows:
                    yield self._decode(rows)
        except (adbc_driver_manager.Error, OSError, pa.ArrowException) as error:
            if FAILED in str(error):
                self._name_unfit(connection, parts, anywhere=keys is not None)
            raise

    def _decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays: list[pa.Array] = []
        parts = batch.columns
        place = 0
        for column in self.columns:
            found = self.table.codec(column)
            width = len(found.samples)
            try:
                arrays.append(found.decode(parts[place : place + width]))
            except Unfit as error:
                raise self._unfit(column, str(error)) from None
            place += width
        return pa.RecordBatch.from_arrays([*arrays, *parts[place:]], names=[*self.columns, *self.extra])

    def _name_unfit(self, connection: Connection, parts: Sequence[Part], anywhere: bool) -> None:
        """Find the value that failed the statement, in the same read transaction."""
        for part in parts:
            tail = f"FROM {part.source}" if anywhere else part.tail()
            for column in self.columns:
                name = part.where[column]
                found = connection.rows(
                    f"SELECT shown FROM (SELECT substr(quote({name}), 1, 80) AS shown,"
                    f" {self.table.codec(column).fits(name)} AS fits {tail}) WHERE NOT fits LIMIT 1"
                )
                if found:
                    raise self._unfit(column, found[0][0]) from None

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
