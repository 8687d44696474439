"""A database of its own on the server of the run, an adapter on it, and what tests ask of both."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import COUNT, ORDINAL, Chunk, Question, SourceSpec
from headwater.sources.postgres.adapter import PostgresSource
from postgres_server import PostgresServer

from .rig_postgres import OBJECTS

SRC = SourceName("pg")
_numbers = itertools.count()


class Database:
    """A database of its own, an adapter on it, and connections that write to it."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server, self.name = server, name
        self.url = server.create_database(name)
        self.source = PostgresSource(SourceSpec(SRC, self.url))
        self._opened: list[psycopg.Connection[Any]] = []
        self.main = self.connect()

    def connect(self, autocommit: bool = True) -> psycopg.Connection[Any]:
        self._opened.append(psycopg.connect(self.url, autocommit=autocommit))
        return self._opened[-1]

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.main.execute(statement)

    def captured(self, definition: str, table: str = "t", schema: str = "public") -> TableName:
        self.run(definition)
        name = TableName(SRC, table, schema)
        self.source.install([name])
        return name

    def objects(self) -> set[str]:
        return {row[0] for row in self.main.execute(OBJECTS)}

    def close(self) -> None:
        self.source.close()
        for connection in self._opened:
            connection.close()
        self.server.drop_database(self.name)


@pytest.fixture
def db(postgres: PostgresServer) -> Iterator[Database]:
    database = Database(postgres, f"test_{next(_numbers)}")
    yield database
    database.close()


def fold(batches: Iterable[pa.RecordBatch] | pa.Table) -> Counter[tuple[Any, ...]]:
    """The bag, without the ordinal; zeros dropped."""
    found: Counter[tuple[Any, ...]] = Counter()
    tables = [batches] if isinstance(batches, pa.Table) else batches
    for batch in tables:
        for row in batch.to_pylist():
            row.pop(ORDINAL, None)
            count = row.pop(COUNT)
            found[tuple(row.values())] += count
    return Counter({row: count for row, count in found.items() if count})


def scanned(db: Database, table: TableName, columns: Sequence[str], at: Position) -> Counter[tuple[Any, ...]]:
    return fold(db.source.scan(Chunk(table, 0), columns, at))


def asked(db: Database, table: TableName, keys: dict[str, Any], columns: Sequence[str], at: Position) -> pa.Table:
    question = Question(table, tuple(keys), pa.table(keys), tuple(columns))
    return pa.Table.from_batches(db.source.ask(question, at))
