"""What a source last said of its tables, kept in the warehouse: so a run can begin while a source is away.

An absent source delays only what truly needs it. The views that read it are known from before, their columns from here;
when it is back, its poller and every question compare with what it has then.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from headwater.model.names import SourceName, TableName
from headwater.model.schema import Column, TableSchema
from headwater.storage import Storage

FOLDER = "catalog"


def remember(storage: Storage, source: SourceName, tables: Iterable[TableSchema]) -> None:
    """Keep what is known of these tables of a source."""
    text = json.dumps([_to_json(table) for table in tables], ensure_ascii=False).encode()
    if storage.get(_file(source)) != text:
        storage.put(_file(source), text)


def recall(storage: Storage, source: SourceName) -> dict[TableName, TableSchema]:
    """What was known of a source's tables; empty if nothing was."""
    text = storage.get(_file(source))
    found = [_from_json(source, raw) for raw in json.loads(text)] if text is not None else []
    return {table.name: table for table in found}


def _file(source: SourceName) -> str:
    return f"{FOLDER}/{quote(source, safe='')}.json"


def _to_json(table: TableSchema) -> dict[str, Any]:
    types = pa.schema([pa.field(c.name, c.type) for c in table.supported()]).serialize()
    return {
        "schema": table.name.schema,
        "table": table.name.table,
        "columns": [[c.name, c.declared, c.nullable] for c in table.columns],
        "types": base64.b64encode(types).decode(),
        "key": table.key,
        "indexes": table.indexes,
        "rows": table.rows,
    }


def _from_json(source: SourceName, raw: dict[str, Any]) -> TableSchema:
    types = {f.name: f.type for f in pa.ipc.read_schema(pa.py_buffer(base64.b64decode(raw["types"])))}
    columns = tuple(Column(name, types.get(name), declared, nullable) for name, declared, nullable in raw["columns"])
    indexes = tuple(tuple(index) for index in raw["indexes"])
    return TableSchema(TableName(source, raw["table"], raw["schema"]), columns, tuple(raw["key"]), indexes, raw["rows"])
