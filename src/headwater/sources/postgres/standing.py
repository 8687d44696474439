"""The capture that is at a PostgreSQL source: what it is, which tables it holds, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from headwater.model.names import TableName
from headwater.sources.postgres import log
from headwater.sources.postgres import schema as layout
from headwater.sources.postgres.connection import Connection

_INSPECT = """
SELECT t.oid::bigint, t.schema_name, t.table_name, n.nspname, c.relname, headwater.fault(t.oid),
       EXISTS (SELECT FROM headwater.owned AS o WHERE o.oid = t.oid AND o.owner = %s)
FROM headwater.tables AS t
LEFT JOIN pg_class AS c ON c.oid = t.oid
LEFT JOIN pg_namespace AS n ON n.oid = c.relnamespace
ORDER BY 2, 3
"""

_LEAVES = """
SELECT n.nspname::text, p.relname::text, p.oid::bigint, EXISTS (
    SELECT FROM pg_trigger AS g WHERE g.tgrelid = p.oid AND g.tgname = 'headwater_truncate')
FROM (WITH RECURSIVE tree (oid) AS (
    SELECT inhrelid FROM pg_inherits WHERE inhparent = %s
    UNION ALL SELECT inhrelid FROM tree JOIN pg_inherits ON inhparent = tree.oid) SELECT oid FROM tree) AS tree
JOIN pg_class AS p ON p.oid = tree.oid AND p.relkind = 'r' JOIN pg_namespace AS n ON n.oid = p.relnamespace
ORDER BY p.oid
"""


@dataclass(frozen=True)
class Captured:
    """One row of headwater.tables as it stands now; `fault` says what is wrong with it, None if nothing is."""

    oid: int
    recorded: tuple[str, str]
    current: tuple[str, str] | None
    fault: str | None
    owned: bool


@dataclass(frozen=True)
class Meta:
    """The capture that is here. `stale` says why it must not be used, empty if it may."""

    generation: str
    stale: str = ""


def meta(connection: Connection) -> Meta | None:
    """None when there is no capture here."""
    row = connection.execute(
        "SELECT to_regclass('headwater.meta') IS NOT NULL, EXISTS (SELECT FROM pg_attribute WHERE attname = 'format'"
        " AND attrelid = to_regclass('headwater.meta') AND NOT attisdropped)"
    ).fetchone()
    if row is None or not row[0]:
        return None
    if not row[1]:
        old = connection.execute("SELECT generation::text FROM headwater.meta").fetchone()
        return Meta(old[0], "was installed by an older Headwater") if old else None
    found = connection.execute("SELECT generation::text, format FROM headwater.meta").fetchone()
    if found is None:
        return None
    if found[1] != layout.FORMAT:
        age = "an older" if found[1] < layout.FORMAT else "a newer"
        return Meta(found[0], f"was installed by {age} Headwater")
    home = connection.execute("SELECT home = headwater.here() FROM headwater.meta").fetchone()
    stale = "" if home and home[0] else "came with a copy of the database that it was installed in"
    return Meta(found[0], stale)


def inspect(connection: Connection, owner: str) -> list[Captured]:
    return [
        Captured(oid, (schema, table), None if now_table is None else (now_schema, now_table), fault, owned)
        for oid, schema, table, now_schema, now_table, fault, owned in connection.execute(_INSPECT, [owner])
    ]


def noted(connection: Connection) -> list[tuple[str, str]]:
    """The tables of a capture of any format."""
    rows = connection.execute("SELECT schema_name, table_name FROM headwater.tables ORDER BY 1, 2")
    return [(schema, table) for schema, table in rows]


@dataclass(frozen=True)
class Standing:
    """The capture that an installation finds: `stale` is to be replaced, `tables` are those that are captured, by their
    oids, and `logged` those of them that the log tells."""

    there: bool
    stale: bool
    tables: Mapping[int, Captured]
    logged: frozenset[int]


def standing(connection: Connection, owner: str) -> Standing:
    found = meta(connection)
    if found is None or found.stale:
        return Standing(found is not None, found is not None, {}, frozenset())
    tables = {c.oid: c for c in inspect(connection, owner)}
    return Standing(True, False, tables, frozenset(log.logged(connection)))


def new_tables(found: Standing, wanted: Sequence[tuple[TableName, int]]) -> list[tuple[TableName, int]]:
    """Those that are to be captured, or captured anew."""
    return [(t, oid) for t, oid in wanted if oid not in found.tables or found.tables[oid].fault is not None]


def leaves_of(connection: Connection, oid: int) -> list[tuple[sql.Identifier, int, bool]] | None:
    """The partitions that hold rows, and whether their TRUNCATE is watched; None of a table that has no partitions."""
    row = connection.execute("SELECT relkind::text FROM pg_class WHERE oid = %s", [oid]).fetchone()
    if row is None or row[0] != "p":
        return None
    found = connection.execute(_LEAVES, [oid])
    return [(sql.Identifier(schema, table), leaf, watched) for schema, table, leaf, watched in found]


def unwatched(connection: Connection, oid: int) -> list[tuple[sql.Identifier, int, bool]]:
    return [leaf for leaf in leaves_of(connection, oid) or () if not leaf[2]]
