"""Foreign keys as sources tell them: those that are meant to hold after every statement."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headwater.model.names import SourceName, TableName
from headwater.model.schema import ForeignKey
from headwater.model.source import SourceSpec
from headwater.sources.sqlite.adapter import SqliteSource

from .postgres_database import SRC, Database, db

__all__ = ["db"]  # a fixture


def test_of_sqlite_as_the_tables_spell_them(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as file, file:
        file.executescript(
            "CREATE TABLE Parent (Id INTEGER PRIMARY KEY, other INTEGER);"
            "CREATE TABLE pair (a INTEGER, b INTEGER, PRIMARY KEY (a, b));"
            "CREATE TABLE child (id INTEGER PRIMARY KEY, p INTEGER REFERENCES parent, q INTEGER REFERENCES PARENT (ID),"
            " x INTEGER, y INTEGER, z INTEGER REFERENCES nowhere, FOREIGN KEY (y, x) REFERENCES pair (b, a));"
        )
    shop = SourceName("shop")
    found = SqliteSource(SourceSpec(shop, f"sqlite:///{tmp_path / 'shop.db'}")).describe()
    parent = TableName(shop, "Parent")
    assert set(found[TableName(shop, "child")].foreign_keys) == {
        ForeignKey(("p",), parent, ("Id",)),
        ForeignKey(("q",), parent, ("Id",)),
        ForeignKey(("y", "x"), TableName(shop, "pair"), ("b", "a")),
    }
    assert found[parent].foreign_keys == ()


@pytest.mark.postgres
def test_of_postgresql_but_those_that_are_checked_late_or_not(db: Database) -> None:
    db.run(
        "CREATE SCHEMA other",
        "CREATE TABLE other.parent (id bigint PRIMARY KEY, a int, b int, UNIQUE (a, b))",
        "CREATE TABLE child (p bigint REFERENCES other.parent, a int, b int, late bigint REFERENCES other.parent"
        " DEFERRABLE, old bigint, FOREIGN KEY (b, a) REFERENCES other.parent (b, a))",
        "ALTER TABLE child ADD FOREIGN KEY (old) REFERENCES other.parent NOT VALID",
    )
    parent = TableName(SRC, "parent", "other")
    assert set(db.source.describe()[TableName(SRC, "child", "public")].foreign_keys) == {
        ForeignKey(("p",), parent, ("id",)),
        ForeignKey(("b", "a"), parent, ("b", "a")),
    }
