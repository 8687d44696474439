"""The tables of one database: columns, keys, indexes, and what keeps a table from being captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.model.names import SourceName, TableName
from headwater.model.schema import Column, TableSchema
from headwater.sources.mariadb.charsets import is_read
from headwater.sources.mariadb.connection import Connection, quoted, rows
from headwater.sources.mariadb.types import MariaColumn, arrow_type, labels_of

OWN = "_headwater_"
"""What the names of capture's own tables begin with."""
_COUNTED = 20_000

_TABLES = """
SELECT TABLE_NAME, ENGINE, TABLE_TYPE, TABLE_ROWS FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
"""
_COLUMNS = """
SELECT c.TABLE_NAME, c.COLUMN_NAME, c.DATA_TYPE, c.COLUMN_TYPE, c.IS_NULLABLE = 'YES', c.CHARACTER_SET_NAME,
       coalesce(c.NUMERIC_PRECISION, 0), coalesce(c.NUMERIC_SCALE, 0), coalesce(c.DATETIME_PRECISION, 0),
       coalesce(c.CHARACTER_MAXIMUM_LENGTH, 0), c.EXTRA, coalesce(s.MAXLEN, 1)
FROM information_schema.COLUMNS AS c LEFT JOIN information_schema.CHARACTER_SETS AS s
    ON s.CHARACTER_SET_NAME = c.CHARACTER_SET_NAME
WHERE c.TABLE_SCHEMA = DATABASE()
"""
_INDEXES = """
SELECT TABLE_NAME, INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = DATABASE() AND INDEX_TYPE IN ('BTREE', 'HASH')
"""
_CASCADES = """
SELECT TABLE_NAME, CONSTRAINT_NAME, REFERENCED_TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE CONSTRAINT_SCHEMA = DATABASE()
    AND (DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT') OR UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT'))
"""


@dataclass(frozen=True)
class MariaTable:
    name: TableName
    columns: Mapping[str, MariaColumn]
    key: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    estimate: int | None = None
    refusal: tuple[str, str] | None = None
    """Why it cannot be captured, and what to do; None if it can."""

    @property
    def sql(self) -> str:
        return quoted(self.name.table)

    def schema(self) -> TableSchema:
        columns = tuple(Column(c.name, c.type, c.declared, c.nullable) for c in self.columns.values())
        return TableSchema(self.name, columns, self.key, self.indexes, self.estimate, quote="`")


def tables(connection: Connection, source: SourceName, only: str | None = None) -> dict[TableName, MariaTable]:
    """All that the user may see, or only one."""
    one, wanted = (" AND {}TABLE_NAME = %s", [only]) if only is not None else ("", [])
    about = rows(connection, _TABLES + one.format(""), wanted)
    columns: dict[str, dict[str, MariaColumn]] = {}
    for table, *described in rows(connection, _COLUMNS + one.format("c.") + " ORDER BY c.ORDINAL_POSITION", wanted):
        column = _column(described)
        columns.setdefault(table, {})[column.name] = column
    indexes: dict[str, dict[str, list[str]]] = {}
    for table, index, name in rows(connection, _INDEXES + one.format("") + " ORDER BY SEQ_IN_INDEX", wanted):
        if name is not None:
            indexes.setdefault(table, {}).setdefault(index, []).append(name)
    cascades = {
        table: (constraint, parent)
        for table, constraint, parent in rows(connection, _CASCADES + one.format(""), wanted)
    }
    found = {}
    for table, engine, kind, estimate in about:
        if table.startswith(OWN):
            continue
        name = TableName(source, table)
        mine = indexes.get(table, {})
        found[name] = MariaTable(
            name,
            columns.get(table, {}),
            tuple(mine.get("PRIMARY", ())),
            tuple(tuple(index) for index in mine.values()),
            None if estimate is None else int(estimate),
            _refusal(name, engine or "", kind, cascades.get(table)),
        )
    return found


def primary_key(connection: Connection, name: TableName) -> tuple[str, ...]:
    """As it is now; the columns of a table are remembered, and its key may go without their becoming others."""
    statement = _INDEXES + " AND INDEX_NAME = 'PRIMARY' AND TABLE_NAME = %s ORDER BY SEQ_IN_INDEX"
    return tuple(column for _, _, column in rows(connection, statement, [name.table]))


def _column(described: Sequence[object]) -> MariaColumn:
    name, base, declared, nullable, charset, precision, scale, fraction, length, extra, widest = described
    base, declared, charset = str(base), str(declared), str(charset or "")
    digits, behind = int(precision), int(scale)  # type: ignore[call-overload]  # the catalog's numbers
    kind = arrow_type(base, declared, digits, behind)
    if "VIRTUAL GENERATED" in str(extra) or (charset and not is_read(charset, int(widest))):  # type: ignore[call-overload]  # as above
        kind = None
    sizes = {"binary": length, "time": fraction, "datetime": fraction, "timestamp": fraction}
    size = int(sizes.get(base, digits))  # type: ignore[call-overload]  # as above
    return MariaColumn(str(name), base, declared, kind, bool(nullable), charset, size, labels_of(base, declared))


def _refusal(name: TableName, engine: str, kind: str, cascade: tuple[str, str] | None) -> tuple[str, str] | None:
    if engine.lower() != "innodb":
        return (
            f"{name} is kept by {engine or 'an unknown engine'}, which has no snapshots: what it held at a moment"
            " cannot be proven",
            f"ALTER TABLE {quoted(name.table)} ENGINE = InnoDB",
        )
    if kind == "SYSTEM VERSIONED":
        return f"{name} is system-versioned, which Headwater does not read", "leave it out"
    if cascade is not None:
        constraint, parent = cascade
        return (
            f"rows of {name} go or change when those of {parent} do ({constraint}: CASCADE or SET NULL), and the"
            " server's log does not tell that, nor do triggers",
            f"let the application do it: ALTER TABLE {quoted(name.table)} DROP FOREIGN KEY {quoted(constraint)}, and"
            " add it again without ON DELETE and ON UPDATE; or leave the table out",
        )
    return None


def resolve(known: Sequence[TableName], schema: str, database: str, table: str) -> TableName | None:
    """Exactly, or whatever the case if that means one table only. The schema is the database, or nothing."""
    if schema and schema.lower() != database.lower():
        return None
    for candidates in ([t for t in known if t.table == table], [t for t in known if t.table.lower() == table.lower()]):
        if len(candidates) == 1:
            return candidates[0]
    return None


def row_count(connection: Connection, table: MariaTable) -> int:
    """The server's estimate; small tables are counted."""
    if (table.estimate or 0) > _COUNTED:
        return table.estimate or 0
    ((counted,),) = rows(connection, f"SELECT COUNT(*) FROM (SELECT 1 FROM {table.sql} LIMIT {2 * _COUNTED}) AS c")
    return int(counted)
