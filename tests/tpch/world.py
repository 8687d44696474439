"""The sources of a benchmark, played by one DuckDB: every table has its key, every transaction its number.

A transaction is what it does to rows: by table, (row that goes or None, row that comes or None).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import pyarrow as pa

from headwater.algebra.relations import Table
from headwater.maintenance.operators.program import COUNT, SEQ, Asked
from headwater.model.names import TableName

from .standard import Schema, arrow_schema

Row = tuple[Any, ...]
Key = tuple[Any, ...]
Edit = tuple[TableName, Row | None, Row | None]
"""A table, the row that goes, the row that comes."""


class World:
    """All tables now, and the transactions since `batch` was asked for last."""

    def __init__(self, schema: Schema, rows: Mapping[TableName, Iterable[Row]]) -> None:
        self.schema, self.connection = schema, duckdb.connect(config={"threads": 1})
        self.seq = 0
        self.log: list[tuple[int, Edit]] = []
        self._places = {
            name: [[c.name for c in table.columns].index(k) for k in table.key] for name, table in schema.items()
        }
        self.rows: dict[TableName, dict[Key, Row]] = {
            name: {self.key(name, row): row for row in rows.get(name, ())} for name in schema
        }
        for source in dict.fromkeys(name.source for name in schema):
            self.connection.execute(f"CREATE SCHEMA {source}")
        for name in schema:
            self._stored(name)

    def key(self, table: TableName, row: Row) -> Key:
        return tuple(row[i] for i in self._places[table])

    def commit(self, edits: Iterable[Edit]) -> int:
        """A transaction; its number. Edits that say what is so already count for nothing."""
        self.seq += 1
        touched = set()
        for table, old, new in edits:
            rows = self.rows[table]
            old = rows.pop(self.key(table, old), None) if old is not None else None
            if new is not None and self.key(table, new) in rows:
                new = None
            if new is not None:
                rows[self.key(table, new)] = new
            if old != new:
                self.log.append((self.seq, (table, old, new)))
                touched.add(table)
        for table in touched:
            self._stored(table)
        return self.seq

    def batch(self) -> list[tuple[int, Edit]]:
        """What happened since the last batch."""
        found, self.log = self.log, []
        return found

    def answer(self, step: Asked, keys: pa.Table) -> pa.Table:
        """The rows of now that have the keys."""
        names = dict(zip(step.table.columns, step.table.names, strict=True))
        chosen = ", ".join([*(f"t_.{n} AS {c}" for c, n in names.items()), f"CAST(1 AS BIGINT) AS {COUNT}"])
        meets = [f"t_.{names[c]} IS NOT DISTINCT FROM keys_.k{i}" for i, c in enumerate(step.columns)]
        self.connection.register("keys_", keys)
        text = (
            f"SELECT {chosen} FROM {step.table.table} AS t_"
            f" WHERE EXISTS (SELECT 1 FROM keys_ WHERE {' AND '.join(meets) or 'TRUE'})"
        )
        return self.connection.sql(text).to_arrow_table()

    def changes(self, table: Table, log: Iterable[tuple[int, Edit]]) -> pa.Table:
        """What a log says of one table: its columns, how often, when."""
        told = [
            (seq, row, n) for seq, (t, old, new) in log if t == table.table for row, n in ((old, -1), (new, 1)) if row
        ]
        names = [c.name for c in self.schema[table.table].columns]
        types = arrow_schema(self.schema[table.table])
        columns = {
            c: pa.array([row[names.index(n)] for _, row, _ in told], types.field(n).type)
            for c, n in zip(table.columns, table.names, strict=True)
        }
        counts = pa.array([n for _, _, n in told], pa.int64())
        return pa.table({**columns, COUNT: counts, SEQ: pa.array([seq for seq, _, _ in told], pa.int64())})

    def _stored(self, name: TableName) -> None:
        rows, types = list(self.rows[name].values()), arrow_schema(self.schema[name])
        arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(types)]
        self.connection.register("rows_", pa.Table.from_arrays(arrays, schema=types))
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM rows_")
        self.connection.unregister("rows_")
