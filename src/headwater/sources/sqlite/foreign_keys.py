"""The foreign keys that tables declare.

SQLite enforces them for connections that say PRAGMA foreign_keys = ON, and for no other; so they tell what is meant and
prove nothing. Whoever relies on one looks at the rows as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.model.names import SourceName, TableName
from headwater.model.schema import ForeignKey
from headwater.sources.sqlite.connection import Connection
from headwater.sources.sqlite.tables import LiveTable


def foreign_keys(
    connection: Connection, source: SourceName, live: Mapping[str, LiveTable]
) -> dict[str, tuple[ForeignKey, ...]]:
    """Per table, in the spelling of the tables themselves. One that names no columns there means the primary key."""
    found: dict[tuple[str, int], list[tuple[str, str, str | None]]] = {}
    for table, number, other, here, there in connection.rows(
        'SELECT t.name, f.id, f."table", f."from", f."to" FROM pragma_table_list t'
        " JOIN pragma_foreign_key_list(t.name) f WHERE t.schema = 'main' AND t.type = 'table'"
        " ORDER BY t.name, f.id, f.seq"
    ):
        found.setdefault((table, number), []).append((other, here, there))
    named = {name.lower(): name for name in live}
    made: dict[str, tuple[ForeignKey, ...]] = {}
    for (table, _), parts in found.items():
        other = named.get(parts[0][0].lower())
        if table not in live or other is None:
            continue
        columns = _spelled(live[table], [here for _, here, _ in parts])
        referenced = _spelled(live[other], [there for _, _, there in parts if there is not None]) or live[other].key
        if columns and len(columns) == len(referenced) == len(parts):
            made[table] = (*made.get(table, ()), ForeignKey(columns, TableName(source, other), referenced))
    return made


def _spelled(table: LiveTable, names: list[str]) -> tuple[str, ...]:
    """Columns as the table spells them; nothing if one is not there."""
    known = {column.name.lower(): column.name for column in table.columns}
    found = [known.get(name.lower()) for name in names]
    return tuple(name for name in found if name is not None) if None not in found else ()
