"""What a source last said of its tables, kept in the warehouse: so a run can begin while a source is away.

An absent source delays only what truly needs it. The views that read it are known from before, their columns from here;
when it is back, its poller and every question compare with what it has then.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import quote

import pyarrow as pa

from headwater.model.names import SourceName, TableName
from headwater.model.schema import Column, ForeignKey, TableSchema
from headwater.storage import Storage
from headwater.storage.records import decode, encode

FOLDER = "catalog"


def remember(storage: Storage, source: SourceName, tables: Iterable[TableSchema]) -> None:
    """Keep what is known of these tables of a source."""
    text = encode([_stored(table) for table in tables])
    if storage.get(_file(source)) != text:
        storage.put(_file(source), text)


def recall(storage: Storage, source: SourceName) -> dict[TableName, TableSchema]:
    """What was known of a source's tables; empty if nothing was."""
    text = storage.get(_file(source))
    if text is None:
        return {}
    found = [_schema(source, table) for table in decode(text, list[_Table], storage.uri(_file(source)))]
    return {table.name: table for table in found}


def _file(source: SourceName) -> str:
    return f"{FOLDER}/{quote(source, safe='')}.json"


@dataclass(frozen=True)
class _Table:
    schema: str
    table: str
    columns: list[tuple[str, str, bool]]
    """(name, declared type, whether it may be null) each."""
    types: str
    """The Arrow types of those that are supported, as Arrow writes a schema."""
    key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...]
    rows: int | None
    foreign_keys: list[tuple[tuple[str, ...], str, str, tuple[str, ...]]] = field(default_factory=list)
    """(columns, schema and table referred to, columns there) each."""


def _stored(table: TableSchema) -> _Table:
    types = pa.schema([pa.field(c.name, c.type) for c in table.supported()]).serialize()
    columns = [(c.name, c.declared, c.nullable) for c in table.columns]
    encoded = base64.b64encode(types).decode()
    refers = [(k.columns, k.table.schema, k.table.table, k.referenced) for k in table.foreign_keys]
    name = table.name
    return _Table(name.schema, name.table, columns, encoded, table.key, table.indexes, table.rows, refers)


def _schema(source: SourceName, known: _Table) -> TableSchema:
    types = {f.name: f.type for f in pa.ipc.read_schema(pa.py_buffer(base64.b64decode(known.types)))}
    columns = tuple(Column(name, types.get(name), declared, nullable) for name, declared, nullable in known.columns)
    name = TableName(source, known.table, known.schema)
    refers = tuple(ForeignKey(here, TableName(source, t, s), there) for here, s, t, there in known.foreign_keys)
    return TableSchema(name, columns, known.key, known.indexes, known.rows, foreign_keys=refers)
