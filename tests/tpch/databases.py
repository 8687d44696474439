"""TPC-H's tables in real databases: PostgreSQL `sales`, the SQLite files `parts` and `geo`.

What a transaction does at several of them is one global transaction: its parts carry the same tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg

from headwater.model.names import SourceName, TableName
from headwater.model.schema import TableSchema
from runtime.world import Sqlite

from .standard import Schema
from .world import Edit, Row

SALES = SourceName("sales")
FILES = (SourceName("parts"), SourceName("geo"))
INDEXES = {
    SALES: ("orders (o_custkey)", "lineitem (l_partkey, l_suppkey)", "lineitem (l_suppkey)"),
    "parts": ("partsupp (ps_suppkey)", "supplier (s_nationkey)"),
    "geo": ("nation (n_regionkey)",),
}
"""As a database with foreign keys has them."""

Statement = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Databases:
    """`commit` makes one transaction at every source that the edits touch, and says at which."""

    folder: Path
    sales: str
    schema: Schema

    def create(self, rows: Mapping[TableName, Sequence[Row]]) -> None:
        with psycopg.connect(self.sales) as db:
            for sql, values in self._created(SALES, rows):
                db.execute(sql.replace("?", "%s"), values)
        for name in FILES:
            with self._file(name) as db:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("BEGIN")
                for sql, values in self._created(name, rows):
                    db.execute(sql, tuple(map(_stored, values)))
                db.execute("COMMIT")

    def settings(self) -> str:
        files = "".join(f'[sources.{name}]\nurl = "sqlite:///{name}.db"\n' for name in FILES)
        return f'[sources.{SALES}]\nurl = "{self.sales}"\n{files}'

    def commit(self, edits: Iterable[Edit], tag: str) -> list[SourceName]:
        by_source: dict[SourceName, list[Edit]] = {}
        for edit in edits:
            by_source.setdefault(edit[0].source, []).append(edit)
        whole = (tag, len(by_source)) if len(by_source) > 1 else None
        for source, some in by_source.items():
            changes = [statement(self.schema[edit[0]], edit) for edit in some]
            if source == SALES:
                self._commit_sales(changes, whole)
            else:
                self._commit_file(source, changes, whole)
        return list(by_source)

    def _commit_sales(self, changes: Iterable[Statement], whole: tuple[str, int] | None) -> None:
        with psycopg.connect(self.sales) as db:
            if whole:
                db.execute("SELECT headwater.part_of(%s, %s)", whole)
            for sql, values in changes:
                db.execute(sql.replace("?", "%s"), values)

    def _commit_file(self, source: SourceName, changes: Iterable[Statement], whole: tuple[str, int] | None) -> None:
        with self._file(source) as db:
            db.execute("BEGIN IMMEDIATE")
            if whole:
                db.execute("INSERT INTO _headwater_transaction(tag, parts) VALUES (?, ?)", whole)
            else:
                db.execute("INSERT INTO _headwater_transaction(tag) VALUES (NULL)")
            for sql, values in changes:
                db.execute(sql, tuple(map(_stored, values)))
            db.execute("COMMIT")

    def _created(self, source: SourceName, rows: Mapping[TableName, Sequence[Row]]) -> Iterable[Statement]:
        for name, table in self.schema.items():
            if name.source == source:
                columns = ", ".join(f"{c.name} {c.declared}" for c in table.columns)
                yield f"CREATE TABLE {name.table} ({columns}, PRIMARY KEY ({', '.join(table.key)}))", ()
                yield from (statement(table, (name, None, row)) for row in rows[name])
        yield from ((f"CREATE INDEX {_index_name(on)} ON {on}", ()) for on in INDEXES[source])

    def _file(self, name: SourceName) -> Sqlite:
        return Sqlite(self.folder / f"{name}.db")


def statement(table: TableSchema, edit: Edit) -> Statement:
    """What an application would say to have this done."""
    _, old, new = edit
    names = [c.name for c in table.columns]
    found = f"WHERE {' AND '.join(f'{name} = ?' for name in table.key)}"
    if old is None:
        assert new is not None
        return f"INSERT INTO {table.name.table} VALUES ({', '.join('?' * len(new))})", new
    key = tuple(old[names.index(name)] for name in table.key)
    if new is None:
        return f"DELETE FROM {table.name.table} {found}", key
    return f"UPDATE {table.name.table} SET {', '.join(f'{name} = ?' for name in names)} {found}", (*new, *key)


def _stored(value: Any) -> Any:
    """SQLite has no decimals: a DECIMAL column makes a number of the text."""
    return str(value) if isinstance(value, Decimal) else value


def _index_name(on: str) -> str:
    return "by_" + "_".join(word.strip("(),") for word in on.split())
