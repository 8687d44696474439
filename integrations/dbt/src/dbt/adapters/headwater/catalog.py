"""What `dbt docs generate` shows: columns of views and of the sources' tables, and what Headwater knows of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from dbt.adapters.headwater.relation import DATABASE, HeadwaterRelation

import headwater
from headwater.model.errors import HeadwaterError
from headwater.runtime.reading.html import halted, level

if TYPE_CHECKING:
    import agate

_STATS = ("consistency", "seq", "history", "sources")
COLUMNS = (
    "table_database", "table_schema", "table_name", "table_type", "table_comment", "table_owner",
    "column_name", "column_index", "column_type", "column_comment",
    *(f"stats:{stat}:{part}" for stat in _STATS for part in ("label", "value", "description", "include")),
)  # fmt: skip


def sql_type(kind: pa.DataType | None, declared: str = "") -> str:
    """A column's type as Spark calls it, in which models are written."""
    if kind is None:
        return declared
    named = {pa.int64(): "bigint", pa.int32(): "int", pa.int16(): "smallint", pa.int8(): "tinyint",
             pa.float64(): "double", pa.float32(): "float", pa.string(): "string", pa.large_string(): "string",
             pa.binary(): "binary", pa.bool_(): "boolean", pa.date32(): "date"}  # fmt: skip
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    return named.get(kind, str(kind))


def catalog(warehouse: headwater.Warehouse, relations: Iterable[HeadwaterRelation]) -> agate.Table:
    """One row for every column of these views and tables, as far as they are there."""
    from dbt_common.clients.agate_helper import table_from_data_flat

    rows = [row for relation in relations for row in _described(warehouse, relation)]
    return table_from_data_flat(rows, list(COLUMNS))


def _described(warehouse: headwater.Warehouse, relation: HeadwaterRelation) -> Iterator[dict[str, Any]]:
    if relation.include_policy.schema:
        yield from _table(warehouse, relation)
        return
    cut = warehouse.cut(create=True)
    name = next((view for view in cut.views if view.lower() == str(relation.identifier).lower()), None)
    if name is None:
        return
    state = cut.views[name]
    stats = {
        "consistency": ("Consistency", level(state), "the level that the view keeps"),
        "seq": ("Transaction", int(state.seq), halted(state) or "the last one that the view shows"),
        "history": ("History from", int(state.horizon), "the oldest transaction after which it can be read"),
        "sources": ("Sources", ", ".join(state.sources), "the databases it is made of"),
    }
    told = {
        f"stats:{stat}:{part}": value
        for stat, facts in stats.items()
        for part, value in zip(("label", "value", "description", "include"), (*facts, True), strict=True)
    }
    for number, column in enumerate(warehouse.columns(name), 1):
        yield _row(relation, "materialized view", column.name, number, sql_type(column.type)) | told


def _table(warehouse: headwater.Warehouse, relation: HeadwaterRelation) -> Iterator[dict[str, Any]]:
    source, schema = place(relation)
    try:
        described = warehouse.catalog.resolve(source, schema, str(relation.identifier))
    except HeadwaterError:
        return  # it is away, or there is no such table: docs are made of what there is
    for number, column in enumerate(described.columns, 1):
        yield _row(relation, "table", column.name, number, sql_type(column.type, column.declared))


def place(relation: HeadwaterRelation) -> tuple[str, str]:
    """The source and the schema in it of a source's table."""
    if relation.database == DATABASE:
        return str(relation.schema), ""
    return str(relation.database), str(relation.schema)


def _row(relation: HeadwaterRelation, kind: str, column: str, number: int, type_: str) -> dict[str, Any]:
    whose = {"table_database": relation.database, "table_schema": relation.schema, "table_name": relation.identifier}
    empty = dict.fromkeys(COLUMNS)
    return {
        **empty, **whose, "table_type": kind, "column_name": column, "column_index": number, "column_type": type_,
    }  # fmt: skip
