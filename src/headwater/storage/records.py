"""How small records are written: one JSON form for every frozen dataclass that outlives the process.

A record's fields are its format. A field that is added gets a default, so an older record is read as if it had been
there; a field that is gone is passed over. What does not fit is refused with the record's name, never half read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from headwater.model.errors import WarehouseError
from headwater.model.names import SourceName, TableName

T = TypeVar("T")
V = TypeVar("V")

TableRow = tuple[SourceName, str, str, V]
"""A table and what is known of it: (source, schema, table, value). JSON has no table names as keys."""


def encode(record: object) -> bytes:
    """A record as JSON."""
    return msgspec.json.encode(record)


def decode(data: bytes | str, kind: type[T], name: str) -> T:
    """The record that `data` holds; `name` says in an error which one it is."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WarehouseError(
            f"{name} cannot be read: {error}",
            "it was damaged or written by another version of Headwater; put it back from a copy",
        ) from error


def by_table(rows: Mapping[TableName, V]) -> list[TableRow[V]]:
    """A mapping from tables, as a record holds it."""
    return [(table.source, table.schema, table.table, value) for table, value in rows.items()]


def of_tables(rows: list[TableRow[V]]) -> dict[TableName, V]:
    """The mapping that `by_table` took apart."""
    return {TableName(source, table, schema): value for source, schema, table, value in rows}


def as_builtins(record: object) -> Any:
    """A record as dicts, lists and scalars, to be shown as a part of something larger."""
    return msgspec.to_builtins(record)
