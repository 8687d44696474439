"""PostgreSQL in the contract suite: one database per test on the servers of the run, with and without commit times."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql

from headwater.model.names import SourceName, TableName
from headwater.model.source import CAPTURE, Source, SourceSpec
from postgres_server import PostgresServer

from .rigs import RIGS, Change, Delete, Insert, Opener, Rig, Row

TYPES = {"int": "bigint", "float": "double precision", "bytes": "bytea"}

# Everything that someone could leave behind in a database, as text.
OBJECTS = """
SELECT 'class ' || c.oid::regclass || ' ' || relkind::text || coalesce(relacl::text, '')
  FROM pg_class c WHERE c.relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^pg_|^information_schema')
UNION ALL SELECT 'schema ' || nspname || coalesce(nspacl::text, '') FROM pg_namespace WHERE nspname !~ '^pg_.*temp'
UNION ALL SELECT 'function ' || p.oid::regprocedure FROM pg_proc p WHERE p.oid >= 16384
UNION ALL SELECT 'trigger ' || tgname || ' on ' || tgrelid::regclass FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'type ' || t.oid::regtype FROM pg_type t WHERE t.oid >= 16384
UNION ALL SELECT 'setting ' || setconfig::text FROM pg_db_role_setting
UNION ALL SELECT 'publication ' || pubname FROM pg_publication
UNION ALL SELECT 'event trigger ' || evtname FROM pg_event_trigger
UNION ALL SELECT 'slot ' || slot_name FROM pg_replication_slots
"""


class PostgresRig:
    name = "postgres"
    exact_transactions = True

    def __init__(self, url: str, timed: bool = True, capture: str = "triggers") -> None:
        self.orders_what_overlaps = timed or capture == "log"
        self.spec = SourceSpec(SourceName("src"), url, ((CAPTURE, capture),))
        self._local = threading.local()
        self._opened: list[psycopg.Connection] = []

    def source(self) -> Source:
        from headwater.sources.postgres.adapter import PostgresSource

        return PostgresSource(self.spec)

    def connection(self) -> psycopg.Connection:
        """This thread's own."""
        if getattr(self._local, "connection", None) is None:
            self._local.connection = psycopg.connect(self.spec.url)
            self._opened.append(self._local.connection)
        return self._local.connection

    def close(self) -> None:
        for connection in self._opened:
            connection.close()

    def create(
        self,
        table: str,
        columns: Mapping[str, str],
        key: Sequence[str] = (),
        unique: Sequence[Sequence[str]] = (),
        indexes: Sequence[Sequence[str]] = (),
    ) -> TableName:
        def listed(names: Sequence[str]) -> sql.Composed:
            return sql.SQL(", ").join(map(sql.Identifier, names))

        lines: list[sql.Composable] = [
            sql.SQL("{} {}{}").format(
                sql.Identifier(c), sql.SQL(_sql_type(t)), sql.SQL(" NOT NULL" if c in key else "")
            )
            for c, t in columns.items()
        ]
        if key:
            lines.append(sql.SQL("PRIMARY KEY ({})").format(listed(key)))
        lines += [sql.SQL("UNIQUE ({})").format(listed(names)) for names in unique]
        connection = self.connection()
        with connection.transaction():
            name = sql.Identifier("public", table)
            connection.execute(sql.SQL("CREATE TABLE {} ({})").format(name, sql.SQL(", ").join(lines)))
            for index in indexes:
                connection.execute(sql.SQL("CREATE INDEX ON {} ({})").format(name, listed(index)))
        return TableName(self.spec.name, table, "public")

    def transaction(self, *changes: Change, part_of: tuple[str, int] | None = None) -> None:
        while True:
            try:
                with self.connection().transaction():
                    if part_of is not None:
                        self.connection().execute("SELECT headwater.part_of(%s, %s)", part_of)
                    for change in changes:
                        self._apply(change)
                return
            except psycopg.errors.DeadlockDetected:
                continue

    def age(self) -> None:
        with self.connection().transaction():
            self.connection().execute("ALTER TABLE headwater.meta DROP COLUMN format")
            self.connection().execute(
                "DROP FUNCTION headwater.alive, headwater.holds, headwater.shape, headwater.newest"
            )

    def _apply(self, change: Change) -> None:
        name = sql.Identifier("public", change.table.table)
        if isinstance(change, Insert):
            columns, values = zip(*change.row.items(), strict=True)
            statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                name, sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(", ").join(map(sql.Literal, values))
            )
            self.connection().execute(statement)
            return
        old = change.row if isinstance(change, Delete) else change.old
        one = sql.SQL("ctid = (SELECT ctid FROM {} WHERE {} LIMIT 1 FOR UPDATE)").format(name, _equal(name, old))
        if isinstance(change, Delete):
            statement = sql.SQL("DELETE FROM {} WHERE {}").format(name, one)
        else:
            sets = [sql.SQL("{} = {}").format(sql.Identifier(c), sql.Literal(v)) for c, v in change.new.items()]
            statement = sql.SQL("UPDATE {} SET {} WHERE {}").format(name, sql.SQL(", ").join(sets), one)
        assert self.connection().execute(statement).rowcount == 1, f"no row to change: {change}"

    def objects(self) -> set[str]:
        with self.connection().transaction():
            return {str(row[0]) for row in self.connection().execute(OBJECTS)}

    def reset(self) -> None:
        with self.connection().transaction():
            self.connection().execute("DROP SCHEMA IF EXISTS headwater CASCADE; DROP SCHEMA public CASCADE")
            self.connection().execute("CREATE SCHEMA public")


def _equal(name: sql.Identifier, row: Row) -> sql.Composed:
    """NULL equals NULL. The UNION makes each value read as its column's type; json has no `=`, text has."""
    same = [
        sql.SQL(
            "{column}::text IS NOT DISTINCT FROM (SELECT v::text FROM (SELECT {column} FROM {name} WHERE false"
            " UNION ALL SELECT {value}) AS t (v))"
        ).format(column=sql.Identifier(c), name=name, value=sql.Literal(v))
        for c, v in row.items()
    ]
    return sql.SQL(" AND ").join(same)


def _sql_type(logical: str) -> str:
    return TYPES.get(logical, logical.replace("decimal", "numeric"))


_databases = itertools.count()


def _opener(fixture: str, capture: str = "triggers") -> Opener:
    @contextmanager
    def open_postgres(request: pytest.FixtureRequest) -> Iterator[Rig]:
        server: PostgresServer = request.getfixturevalue(fixture)
        name = f"rig_{next(_databases)}"
        rig = PostgresRig(server.create_database(name), server.timed, capture)
        try:
            yield rig
        finally:
            rig.close()
            server.drop_database(name)

    return open_postgres


RIGS += [
    pytest.param(_opener("postgres"), id="postgres", marks=pytest.mark.postgres),
    pytest.param(_opener("postgres_untimed"), id="postgres-untimed", marks=pytest.mark.postgres),
    pytest.param(_opener("postgres_untimed", "log"), id="postgres-log", marks=pytest.mark.postgres),
]
