"""Questions of dbt, answered from one cut: DuckDB over the files that the cut names. No JVM, no server.

Each statement sees the newest cut, all views in the same state. Tables of sources are read from the sources themselves,
whole and as they are now; that is for tests on sources, whose tables should not be large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

import headwater
from headwater.model.changelog import visible
from headwater.model.errors import UsageError
from headwater.runtime.reading.mentions import occurring
from headwater.warehouse.duck import LOCKED, fold_sql, log_files
from headwater.warehouse.reading import identifier

ROWS = 1_000_000
"""A table of a source may have so many rows to be tested."""


class Reader:
    """The connection that dbt holds."""

    def __init__(self, project: Path) -> None:
        self.project = project

    def cursor(self) -> Cursor:
        return Cursor(self.project)

    def close(self) -> None: ...


class Cursor:
    """One statement and its answer, as DB-API has them."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self.description: list[tuple[str]] | None = None
        self._rows: list[tuple[Any, ...]] = []

    @property
    def rowcount(self) -> int:
        return len(self._rows)

    def execute(self, sql: str, bindings: Any = None) -> None:
        engine = duckdb.connect(":memory:")
        try:
            statements = engine.extract_statements(sql)
            if all(statement.type == duckdb.StatementType.TRANSACTION for statement in statements):
                return  # hooks say commit; every statement is one state anyway
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise UsageError("views are only read here", "what changes them are models, and 'dbt run'")
            warehouse = headwater.open(self._project)
            _tables(engine, warehouse, sql)
            with _views(engine, warehouse, sql):
                for setting in LOCKED:
                    engine.execute(setting)
                table = engine.sql(sql, params=bindings).to_arrow_table()
            self.description = [(name,) for name in table.column_names]
            self._rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        finally:
            engine.close()

    def fetchall(self) -> list[tuple[Any, ...]]:
        rows, self._rows = self._rows, []
        return rows

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        rows, self._rows = self._rows[:size], self._rows[size:]
        return rows


@contextmanager
def _views(engine: duckdb.DuckDBPyConnection, warehouse: headwater.Warehouse, sql: str) -> Iterator[None]:
    """The engine knows the views that the query may mean, all of one cut, whose files stay as long as this is open."""
    if not warehouse.cut(create=True).views:
        yield
        return
    with warehouse.session() as session:
        found = session.pinned(occurring(sql, session.cut.views))  # of halted ones `headwater check` tells
        for number, (name, pinned) in enumerate(found.items()):
            files = log_files(warehouse.storage, pinned)
            engine.register(f"__log{number}", files)
            engine.execute(f"CREATE VIEW {identifier(name)} AS {fold_sql(f'__log{number}', files.schema, pinned.seq)}")
        yield


def _tables(engine: duckdb.DuckDBPyConnection, warehouse: headwater.Warehouse, sql: str) -> None:
    for source, schema, table in sorted(source_tables(sql, list(warehouse.config.sources))):
        rows = read_source(warehouse, source, schema, table)
        place = [schema or source, table]
        if schema:  # the database's own schema: the database of headwater.toml is a catalog
            engine.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {identifier(source)}")
            place.insert(0, source)
        engine.execute(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(identifier(part) for part in place[:-1])}")
        engine.register("__rows", rows)
        engine.execute(f"CREATE TABLE {'.'.join(identifier(part) for part in place)} AS SELECT * FROM __rows")
        engine.unregister("__rows")


def source_tables(sql: str, sources: Sequence[str]) -> set[tuple[str, str, str]]:
    """The tables of sources that a query names: (source, schema or nothing, table)."""
    try:
        parsed = sqlglot.parse_one(sql, dialect="duckdb")
    except SqlglotError:
        return set()
    known = {source.lower(): source for source in sources}
    found = set()
    for table in parsed.find_all(exp.Table):
        if table.catalog.lower() in known:
            found.add((known[table.catalog.lower()], table.db, table.name))
        elif not table.catalog and table.db.lower() in known:
            found.add((known[table.db.lower()], "", table.name))
    return found


def read_source(warehouse: headwater.Warehouse, source: str, schema: str, table: str) -> pa.Table:
    """The rows of a table as it is now."""
    described = warehouse.catalog.resolve(source, schema, table)
    adapter = warehouse.catalog.source(source)
    fields = pa.schema([(column.name, column.type) for column in described.supported()])
    at, parts, rows = adapter.position(), list[pa.Table](), 0
    for chunk in adapter.chunks(described.name, ROWS):
        for batch in adapter.scan(chunk, fields.names, at):
            parts.append(visible(pa.table(batch)))
            rows += batch.num_rows
            if rows > ROWS:
                raise UsageError(f"{described.name} has more than {ROWS:,} rows", "test a model over it instead")
    return pa.concat_tables([part.select(fields.names) for part in parts]) if parts else fields.empty_table()
