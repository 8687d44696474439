"""The user's tables as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.sources.sqlite.connection import Connection

PREFIX = "_headwater_"
"""Everything of ours in a source begins so."""


@dataclass(frozen=True)
class LiveColumn:
    name: str
    declared: str
    nullable: bool
    key: int
    """Its place in the primary key, from 1; 0 if it is not part of it."""
    default: str | None = None
    """The SQL of its default."""
    generated: bool = False


@dataclass(frozen=True)
class LiveIndex:
    name: str
    unique: bool
    partial: bool
    columns: tuple[tuple[str | None, str], ...]
    """Column (None: an expression) and collation."""

    def covers(self, key: Sequence[str]) -> bool:
        return self.unique and not self.partial and tuple(c for c, _ in self.columns) == tuple(key)


@dataclass(frozen=True)
class LiveTable:
    """A table as it is now."""

    name: str
    columns: tuple[LiveColumn, ...]
    indexes: tuple[LiveIndex, ...]
    without_rowid: bool

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(c.name for c in sorted(self.columns, key=lambda c: c.key) if c.key)

    @property
    def rowid(self) -> str | None:
        """What this table calls its rowid: the INTEGER PRIMARY KEY, or a name that no column took."""
        if self.without_rowid:
            return None
        declared = {c.name: c.declared.upper() for c in self.columns}
        if (
            len(self.key) == 1
            and declared[self.key[0]] == "INTEGER"
            and not any(i.covers(self.key) for i in self.indexes)
        ):
            return self.key[0]
        taken = {c.name.lower() for c in self.columns}
        return next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)

    @property
    def uniques(self) -> tuple[str, ...]:
        """Its unique keys, as comparable text."""
        return tuple(sorted(repr(index.columns) for index in self.indexes if index.unique))


def live_tables(connection: Connection) -> dict[str, LiveTable]:
    """The user's tables: no views, no virtual tables or their shadows, nothing of SQLite's or ours."""
    columns: dict[str, list[LiveColumn]] = {}
    without_rowid: dict[str, bool] = {}
    for table, wr, name, declared, notnull, key, default, hidden in connection.rows(
        "SELECT t.name, t.wr, c.name, coalesce(c.type, ''), c.\"notnull\", c.pk, c.dflt_value, c.hidden"
        " FROM pragma_table_list t"
        " JOIN pragma_table_xinfo(t.name) c WHERE t.schema = 'main' AND t.type = 'table'"
        f" AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND t.name NOT GLOB '{PREFIX}*' AND c.hidden <> 1"
        " ORDER BY t.name, c.cid"
    ):
        without_rowid[table] = bool(wr)
        columns.setdefault(table, []).append(LiveColumn(name, declared, not notnull, key, default, hidden in (2, 3)))
    indexes: dict[str, dict[str, LiveIndex]] = {table: {} for table in columns}
    for table, index, unique, partial, column, collation in connection.rows(
        "SELECT t.name, i.name, i.\"unique\", i.partial, c.name, coalesce(c.coll, 'BINARY') FROM pragma_table_list t"
        " JOIN pragma_index_list(t.name) i JOIN pragma_index_xinfo(i.name) c"
        " WHERE t.schema = 'main' AND t.type = 'table' AND c.key ORDER BY t.name, i.seq, c.seqno"
    ):
        if table in indexes:
            known = indexes[table].get(index)
            before = known.columns if known else ()
            indexes[table][index] = LiveIndex(index, bool(unique), bool(partial), (*before, (column, collation)))
    return {
        table: LiveTable(table, tuple(found), tuple(indexes[table].values()), without_rowid[table])
        for table, found in columns.items()
    }
