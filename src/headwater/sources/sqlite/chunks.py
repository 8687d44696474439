"""Cutting a table into ranges of its leading primary-key column.

    chunk.bounds = (column, its collation, from, to)        SQL literals; empty: open

The first and the last range are open, and NULL belongs to the first: whatever a row's key becomes, exactly one chunk
has it, in the table and in the log. Bounds are found by short reads along the key's own index.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from headwater.model.names import TableName
from headwater.model.source import Chunk
from headwater.sources.sqlite.connection import Connection
from headwater.sources.sqlite.files import SqliteFile, quote
from headwater.sources.sqlite.tables import LiveTable


def whole(table: TableName, live: LiveTable, estimate: int | None) -> Chunk:
    """The table as one chunk, which `split` may cut."""
    leading = next((c for c in live.columns if c.key == 1), None)
    if leading is None:
        return Chunk(table, 0, (), estimate)
    primary = next((i for i in live.indexes if i.covers(live.key)), None)
    collation = primary.columns[0][1] if primary else "BINARY"
    return Chunk(table, 0, (leading.name, collation, "", ""), estimate)


def cut(file: SqliteFile, table: Chunk, target_rows: int) -> list[Chunk]:
    if not table.bounds:
        return [table]
    column, collation, _, _ = table.bounds
    edges = ["", *_edges(file, table, target_rows), ""]
    rows = target_rows if len(edges) > 2 else table.rows
    return [
        Chunk(table.table, n, (column, collation, low, high), rows) for n, (low, high) in enumerate(pairwise(edges))
    ]


def _edges(file: SqliteFile, chunk: Chunk, target_rows: int) -> Iterator[str]:
    while True:
        with file.reading() as connection:
            edge = next_edge(connection, chunk, target_rows)
        if not edge:
            return
        yield edge
        chunk = beyond(chunk, edge)


def beyond(chunk: Chunk, edge: str) -> Chunk:
    """What is left of a chunk from this edge on."""
    column, collation, _, high = chunk.bounds
    return Chunk(chunk.table, chunk.number, (column, collation, edge, high), chunk.rows)


def up_to(chunk: Chunk, edge: str) -> Chunk:
    column, collation, low, _ = chunk.bounds
    return Chunk(chunk.table, chunk.number, (column, collation, low, edge), chunk.rows)


def next_edge(connection: Connection, chunk: Chunk, rows: int) -> str:
    """The key about `rows` further on than the chunk begins, as a literal; empty if the chunk ends before. One value
    of the key may fill more than that."""
    if not chunk.bounds:
        return ""
    column, collation, low, high = chunk.bounds
    name, table, exact = quote(column), quote(chunk.table.table), f"COLLATE {quote(collation)}"
    before = [f"{name} < {high} {exact}"] if high else []

    def key(after: list[str], offset: int) -> str:
        where = " AND ".join([f"{name} IS NOT NULL", *after, *before])
        found = connection.rows(
            f"SELECT quote({name}) FROM {table} WHERE {where} ORDER BY {name} {exact} LIMIT 1 OFFSET {offset}"
        )
        return str(found[0][0]) if found else ""

    edge = key([f"{name} >= {low} {exact}"] if low else [], max(1, rows))
    if edge and low and connection.rows(f"SELECT {edge} = {low} {exact}")[0][0]:
        return key([f"{name} > {low} {exact}"], 0)
    return edge
