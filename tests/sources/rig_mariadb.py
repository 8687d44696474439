"""MariaDB and MySQL in the contract suite: one database per test on the server of the run. Texts fold case,
as they do by default."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pymysql
import pytest

from headwater.model.names import SourceName, TableName
from headwater.model.source import Source, SourceSpec
from mariadb_server import MariadbServer

from .rigs import RIGS, Change, Delete, Insert, Rig, Row

TYPES = {
    "int": "bigint",
    "float": "double",
    "text": "varchar(300)",
    "bool": "bit(1)",
    "time": "time",
    "timestamp": "datetime(6)",
    "timestamptz": "timestamp(6) NULL",
    "bytes": "varbinary(300)",
    "uuid": "char(36)",
}
_DEADLOCK = 1213


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class MariadbRig:
    exact_transactions = True

    def __init__(self, server: MariadbServer, database: str, name: str = "mariadb") -> None:
        self.name = name
        self._server, self._database = server, database
        self.spec = SourceSpec(SourceName("src"), server.create_database(database))
        self._local = threading.local()
        self._opened: list[pymysql.Connection] = []

    def source(self) -> Source:
        from headwater.sources.mariadb.adapter import MariadbSource

        return MariadbSource(self.spec)

    def connection(self) -> pymysql.Connection:
        """This thread's own."""
        if getattr(self._local, "connection", None) is None:
            self._local.connection = self._server.connect(self._database, init_command="SET time_zone = '+00:00'")
            self._opened.append(self._local.connection)
        connection: pymysql.Connection = self._local.connection
        return connection

    def run(self, statement: str, values: Sequence[Any] = ()) -> Any:
        with self.connection().cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall()

    def close(self) -> None:
        for connection in self._opened:
            connection.close()
        self._server.drop_database(self._database)

    def create(
        self,
        table: str,
        columns: Mapping[str, str],
        key: Sequence[str] = (),
        unique: Sequence[Sequence[str]] = (),
        indexes: Sequence[Sequence[str]] = (),
    ) -> TableName:
        def listed(names: Sequence[str]) -> str:
            return ", ".join(map(quote, names))

        lines = [f"{quote(c)} {TYPES.get(t, t)}{' NOT NULL' if c in key else ''}" for c, t in columns.items()]
        lines += [f"PRIMARY KEY ({listed(key)})"] if key else []
        lines += [f"UNIQUE ({listed(names)})" for names in unique]
        lines += [f"INDEX ({listed(names)})" for names in indexes]
        self.run(f"CREATE TABLE {quote(table)} ({', '.join(lines)})")
        return TableName(self.spec.name, table)

    def transaction(self, *changes: Change, part_of: tuple[str, int] | None = None) -> None:
        connection = self.connection()
        while True:
            try:
                connection.begin()
                if part_of is not None:
                    self.run("INSERT INTO _headwater_parts (global_id, parts) VALUES (%s, %s)", part_of)
                for change in changes:
                    self._apply(change)
                connection.commit()
                return
            except pymysql.MySQLError as error:
                connection.rollback()
                if error.args[0] != _DEADLOCK:
                    raise

    def age(self) -> None:
        self.run("DROP TABLE _headwater_parts")

    def _apply(self, change: Change) -> None:
        table = quote(change.table.table)
        with self.connection().cursor() as cursor:
            if isinstance(change, Insert):
                marks = ", ".join(["%s"] * len(change.row))
                columns = ", ".join(map(quote, change.row)).replace("%", "%%")
                cursor.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", list(change.row.values()))
                return
            old = change.row if isinstance(change, Delete) else change.old
            where, values = _equal(old)
            if isinstance(change, Delete):
                cursor.execute(f"DELETE FROM {table} WHERE {where} LIMIT 1", values)
                assert cursor.rowcount == 1, f"no row to change: {change}"
            else:
                sets = ", ".join(f"{quote(c)} = %s" for c in change.new)
                done = cursor.execute(
                    f"UPDATE {table} SET {sets} WHERE {where} LIMIT 1", [*change.new.values(), *values]
                )
                assert done == 1 or change.old == change.new, f"no row to change: {change}"

    def objects(self) -> set[str]:
        found = self.run(
            "SELECT CONCAT_WS(' ', TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, COLUMN_KEY) FROM information_schema.COLUMNS"
            " WHERE TABLE_SCHEMA = DATABASE() UNION ALL SELECT CONCAT('trigger ', TRIGGER_NAME) FROM"
            " information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE() UNION ALL SELECT CONCAT('routine ',"
            " ROUTINE_NAME) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE() UNION ALL"
            " SELECT CONCAT('database ', SCHEMA_NAME) FROM information_schema.SCHEMATA"
        )
        return {str(row[0]) for row in found}

    def reset(self) -> None:
        for (table,) in self.run("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"):
            self.run(f"DROP TABLE {quote(table)}")


def _equal(row: Row) -> tuple[str, list[Any]]:
    """NULL equals NULL, and text only itself."""
    parts = [f"BINARY {quote(c)} <=> BINARY %s" if isinstance(v, str) else f"{quote(c)} <=> %s" for c, v in row.items()]
    return " AND ".join(parts), list(row.values())


_databases = itertools.count()


@contextmanager
def open_mariadb(request: pytest.FixtureRequest, name: str = "mariadb") -> Iterator[Rig]:
    server: MariadbServer = request.getfixturevalue(name)
    rig = MariadbRig(server, f"rig_{next(_databases)}", name)
    try:
        yield rig
    finally:
        rig.close()


def open_mysql(request: pytest.FixtureRequest) -> AbstractContextManager[Rig]:
    return open_mariadb(request, "mysql")


RIGS.append(pytest.param(open_mariadb, id="mariadb", marks=pytest.mark.mariadb))
RIGS.append(pytest.param(open_mysql, id="mysql", marks=pytest.mark.mysql))
