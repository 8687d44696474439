"""What is known of capture, as long as the file's schema stays what it was.

Every read asks for SQLite's schema version in its own read transaction. If it is the one that was looked at last, all
that was found out then still holds; if not, everything is looked at anew, in that same read transaction. So a table
that was rebuilt, a trigger that was dropped and a column that was renamed are noticed by the first read that would have
been wrong. Which tables are whose may change without the schema, and is read every time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.model.errors import CaptureMissing, LifeChanged, SchemaChanged
from headwater.model.names import SourceName, TableName
from headwater.model.schema import Identities
from headwater.sources.sqlite import capture, layout
from headwater.sources.sqlite.capture import CapturedTable
from headwater.sources.sqlite.connection import Connection
from headwater.sources.sqlite.life import LOAD_AGAIN, Log
from headwater.sources.sqlite.read import Table
from headwater.sources.sqlite.tables import LiveTable

SETUP = "run 'headwater setup', then 'headwater apply' loads the views over it again"


@dataclass(frozen=True)
class Known:
    tables: Mapping[str, LiveTable]
    captured: Mapping[str, CapturedTable]
    broken: Mapping[str, str]


class Watch:
    """Looks before every read; remembers what it saw, per file and schema version."""

    def __init__(self, source: SourceName) -> None:
        self._source = source
        self._seen: tuple[object, Known] | None = None
        self.expected: Mapping[TableName, Identities] = {}

    def forget(self) -> None:
        self._seen = None

    def look(self, connection: Connection) -> Known:
        """Raises CaptureMissing if there is no capture, or one that cannot be used."""
        version = (connection.opened_on, connection.rows("PRAGMA schema_version")[0][0])
        if self._seen is not None and self._seen[0] == version:
            return self._seen[1]
        self._seen = None
        wrong = layout.what_is_wrong(connection)
        if wrong is None:
            if not connection.rows("SELECT 1 FROM sqlite_master LIMIT 1"):
                raise LifeChanged(
                    f"source {self._source}: the database is empty, there is not one table in it",
                    f"put the file back; if it is meant to be new, {SETUP}",
                )
            raise CaptureMissing(f"source {self._source}: capture is not installed", SETUP)
        if wrong:
            raise CaptureMissing(f"source {self._source}: capture {wrong.partition(';')[0]}", SETUP)
        now, captured = capture.present(connection), capture.captured_tables(connection)
        broken = {name: why for name, table in captured.items() if (why := capture.what_broke(table, now))}
        known = Known(now.tables, captured, broken)
        self._seen = (version, known)
        return known

    def tables(
        self, known: Known, log: Log, names: Mapping[TableName, Sequence[str]], compare: bool = True
    ) -> list[Table]:
        """Tables that this project may rely on, with the columns it expects."""
        found = [self._intact(known, log.tables, name, columns) for name, columns in names.items()]
        for table in found if compare else ():
            self._check_expected(table.captured, table.name, names[table.name])
        return found

    def _intact(self, known: Known, mine: frozenset[str], name: TableName, columns: Sequence[str]) -> Table:
        captured = known.captured.get(name.table)
        if captured is None or name.table not in mine:
            if name.table not in known.tables:
                raise SchemaChanged(f"table {name} is gone: it was dropped or renamed", "correct the views that use it")
            raise CaptureMissing(f"{name} is not captured for this project", SETUP)
        live = known.tables.get(name.table)
        if live is None:
            raise SchemaChanged(f"table {name} is gone: it was dropped or renamed", "correct the views that use it")
        there = {c.name for c in live.columns}
        for column in columns:
            if column not in there:
                raise SchemaChanged(
                    f"{name}.{column} is gone: the column was dropped or renamed", "correct the views that use it"
                )
        if name.table in known.broken:
            raise CaptureMissing(f"{name} is no longer captured without a gap: {known.broken[name.table]}", SETUP)
        return Table(name, captured, live.key)

    def _check_expected(self, captured: CapturedTable, name: TableName, columns: Sequence[str]) -> None:
        expected = self.expected.get(name, {})
        for column in columns:
            now = captured.identity(column)
            if column in expected and now is not None and (why := expected[column].became(now)):
                raise SchemaChanged(f"{name}.{column} {why}", LOAD_AGAIN)
