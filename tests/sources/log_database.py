"""A database on a server of the run, an adapter on it, connections that write to it, and what they all tell."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pymysql

from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import COUNT, ORDINAL, UNFIT, Chunk, Poll, SourceSpec
from headwater.sources.mariadb.adapter import MariadbSource
from mariadb_server import MariadbServer

SRC = SourceName("shop")
_numbers = itertools.count()
Bag = Counter[tuple[Any, ...]]


class Database:
    """A database of its own, an adapter on it, and connections that write to it."""

    def __init__(self, server: MariadbServer) -> None:
        self.server, self.name = server, f"test_{next(_numbers)}"
        self.url = server.create_database(self.name)
        self.source = self.adapter()
        self._opened: list[pymysql.Connection[Any]] = []
        self.main = self.connect()

    @property
    def is_mysql(self) -> bool:
        return self.url.startswith("mysql")

    def words(self, mariadb: str, mysql: str) -> str:
        """A statement that the two have different words for."""
        return mysql if self.is_mysql else mariadb

    def adapter(self, **options: str) -> MariadbSource:
        return MariadbSource(SourceSpec(SRC, self.url, tuple(options.items())))

    def connect(self) -> pymysql.Connection[Any]:
        self._opened.append(self.server.connect(self.name))
        return self._opened[-1]

    def run(self, *statements: str, by: pymysql.Connection[Any] | None = None) -> Any:
        found: Any = ()
        with (by or self.main).cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                found = cursor.fetchall()
        return found

    def captured(self, definition: str, table: str = "t") -> TableName:
        self.run(definition)
        name = TableName(SRC, table)
        self.source.install([name])
        return name

    def close(self) -> None:
        self.source.close()
        for connection in self._opened:
            if connection.open:
                connection.close()
        self.server.drop_database(self.name)


def fold(batches: Iterable[Any]) -> Bag:
    found: Bag = Counter()
    for batch in batches:
        for row in batch.to_pylist():
            for name in (ORDINAL, UNFIT):
                row.pop(name, None)
            count = row.pop(COUNT)
            found[tuple(row.values())] += count
    return Counter({row: n for row, n in found.items() if n})


def scanned(db: Database, table: TableName, columns: Sequence[str], at: Position) -> Bag:
    return fold(db.source.scan(Chunk(table, 0), columns, at))


def told(poll: Poll, table: TableName) -> list[Bag]:
    """Per transaction."""
    found: list[Bag] = [Counter() for _ in range(poll.transactions.num_rows)]
    for row in poll.changes[table].to_pylist() if table in poll.changes else []:
        ordinal, count = row.pop(ORDINAL), row.pop(COUNT)
        found[ordinal][tuple(row.values())] += count
    return [Counter({row: n for row, n in bag.items() if n}) for bag in found]
