"""A benchmark of the TPC as files: `schema.sql` creates its tables as `source.table`, `queries/*.sql` are its views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import sqlglot
from sqlglot import exp

from headwater.algebra.statements import ParsedView, parse_views
from headwater.model.errors import UnknownName
from headwater.model.names import SourceName, TableName
from headwater.model.schema import Column, TableSchema

Schema = Mapping[TableName, TableSchema]

_TYPES = {
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DATE": pa.date32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "CHAR": pa.string(),
    "TEXT": pa.string(),
}


def read_schema(file: Path) -> Schema:
    """The tables that a file of CREATE TABLE statements makes."""
    found = {}
    for statement in sqlglot.parse(file.read_text(), read="postgres"):
        if isinstance(statement, exp.Create):
            table = _table(statement.this)
            found[table.name] = table
    return found


def _table(node: exp.Schema) -> TableSchema:
    columns, key = [], []
    for item in node.expressions:
        if isinstance(item, exp.PrimaryKey):
            key = [part.name for part in item.expressions]
            continue
        kind = item.args["kind"]
        columns.append(Column(item.name, _type(kind), kind.sql("postgres")))
        if any(isinstance(c.kind, exp.PrimaryKeyColumnConstraint) for c in item.constraints):
            key = [item.name]
    return TableSchema(TableName(SourceName(node.this.db), node.this.name), tuple(columns), tuple(key))


def _type(kind: exp.DataType) -> pa.DataType:
    if kind.is_type("decimal"):
        precision, scale = (int(part.name) for part in kind.expressions)
        return pa.decimal128(precision, scale)
    return _TYPES[kind.this.value.upper()]


def arrow_schema(table: TableSchema) -> pa.Schema:
    return pa.schema([pa.field(c.name, c.type) for c in table.columns])


def read_views(folder: Path) -> dict[str, ParsedView]:
    """Every view of a folder, by name."""
    found = [view for file in sorted(folder.glob("*.sql")) for view in parse_views(file.read_text(), str(file))]
    return {view.name: view for view in found}


class StandardCatalog:
    """What a view's names are looked up in."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def sources(self) -> Sequence[str]:
        return list(dict.fromkeys(name.source for name in self._schema))

    def tables(self, source: str) -> Sequence[str]:
        return [name.table for name in self._schema if name.source == source]

    def resolve(self, source: str, schema: str, table: str) -> TableSchema:
        found = self._schema.get(TableName(SourceName(source), table, schema))
        if found is None:
            raise UnknownName("table", table, self.tables(source), f"in {source}")
        return found
