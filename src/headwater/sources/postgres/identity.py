"""Tables as a reader last saw them, and the columns that are expected of them.

A table is read from the catalog once, with the digest of its shape, and every statement compares that digest in its own
snapshot (`headwater.holds`). If it moved, the table is read again and judged: a column that is another than the one
expected (`Identity.became`) raises SchemaChanged; anything else about it may change as it likes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psycopg

from headwater.model.errors import CaptureMissing, SchemaChanged
from headwater.model.names import SourceName, TableName
from headwater.model.schema import Identities
from headwater.sources.postgres import catalog
from headwater.sources.postgres.catalog import PgTable
from headwater.sources.postgres.connection import LIFE, MOVED, Connection
from headwater.sources.postgres.types import PgColumn


def may_have_moved(error: psycopg.Error) -> bool:
    """Whether reading the catalog again may help: the table is in another shape, a name in the statement is gone, a
    change's text does not fit its column any longer. LIFE: a table's capture was dropped while we looked for its
    witness."""
    state = error.sqlstate or ""
    return state in (MOVED, LIFE, "42703", "42P01", "42704", "42804", "42846", "3F000") or state.startswith("22")


class KnownTables:
    def __init__(self, source: SourceName) -> None:
        self._source = source
        self._known: dict[TableName, PgTable] = {}
        self._left: dict[TableName, PgTable] = {}
        self.expected: Mapping[TableName, Identities] = {}

    def forget(self, names: Sequence[TableName]) -> None:
        for name in names:
            if name in self._known:
                self._left[name] = self._known.pop(name)

    def table(self, connection: Connection, name: TableName) -> PgTable:
        """As remembered, or as it is now."""
        if name not in self._known:
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                found = catalog.captured_table(connection, self._source, name)
            if found is None:
                self._left.pop(name, None)
                raise SchemaChanged(f"{name} does not exist", "create it again, or change the views")
            self._known[name] = found
        return self._known[name]

    def captured(self, connection: Connection, name: TableName, columns: Sequence[str]) -> PgTable:
        """The table, if its capture is whole and these columns are the ones expected."""
        remembered = name in self._known
        table = self.table(connection, name)
        if remembered and (self._fault(table, columns) or table.capture is None):
            self.forget([name])
            table = self.table(connection, name)
        fault = self._fault(table, columns)
        left = self._left.pop(name, None)
        if fault is not None:
            raise fault
        for column in columns:
            was = left.columns.get(column) if left else None
            now = table.columns[column]
            if was is not None and (was.base, was.type) != (now.base, now.type):
                raise SchemaChanged(
                    f"{name}.{column} is {now.declared} now, it was {was.declared}", "change the views that use it"
                )
        return table

    def identities(
        self, connection: Connection, tables: Mapping[TableName, Sequence[str]]
    ) -> dict[TableName, Identities]:
        found: dict[TableName, Identities] = {}
        for name, columns in tables.items():
            self.forget([name])
            self._left.pop(name, None)
            table = self.table(connection, name)
            if table.capture is None:
                raise CaptureMissing(f"{name} is not captured", "run 'headwater setup'")
            fault = _broken(table) or _missing(table, columns, None)
            if fault is not None:
                raise fault
            found[name] = {column: table.identity(table.columns[column]) for column in columns}
        return found

    def _fault(self, table: PgTable, columns: Sequence[str]) -> Exception | None:
        fault = _broken(table) or _missing(table, columns, self._left.get(table.name))
        if fault is not None:
            return fault
        expected = self.expected.get(table.name, {})
        for column in columns:
            if column in expected:
                became = expected[column].became(table.identity(table.columns[column]))
                if became:
                    return SchemaChanged(
                        f"{table.name}.{column} {became}", "'headwater apply' loads the views that use it again"
                    )
        return None


def _broken(table: PgTable) -> Exception | None:
    if table.capture is None or table.capture.fault is None:
        return None
    return CaptureMissing(
        f"capture of {table.name} is broken: {table.capture.fault}", "run 'headwater setup', which captures it anew"
    )


def _missing(table: PgTable, columns: Sequence[str], left: PgTable | None) -> Exception | None:
    for name in columns:
        column: PgColumn | None = table.columns.get(name)
        if column is None and left is not None and name in left.columns:
            return SchemaChanged(f"{table.name}.{name} was dropped or renamed", "change the views that use it")
        if column is None:
            return SchemaChanged(f"{table.name} has no column {name!r}", "change the views that use it")
        if column.type is None:
            return SchemaChanged(
                f"{table.name}.{name} is of type {column.declared}, which Headwater cannot hold", "leave it out"
            )
    return None
