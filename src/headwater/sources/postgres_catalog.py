"""What the catalog of a PostgreSQL source says about its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from psycopg import sql

from headwater.model.names import SourceName, TableName
from headwater.model.schema import Column, TableSchema
from headwater.sources.postgres_connection import Connection
from headwater.sources.postgres_types import PgColumn, arrow_type


@dataclass(frozen=True)
class PgTable:
    name: TableName
    oid: int
    columns: Mapping[str, PgColumn]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...]
    rows: int | None

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.name.schema, self.name.table)

    def indexed(self, key: Iterable[str]) -> bool:
        """Whether some index can find rows by these columns."""
        wanted = set(key)
        return any(index[0] in wanted for index in self.indexes)

    def schema(self) -> TableSchema:
        columns = tuple(Column(c.name, c.type, c.declared, c.nullable) for c in self.columns.values())
        return TableSchema(self.name, columns, self.key, self.indexes, self.rows)


_COUNTED = 50_000

# Partitions are left out: they are read and captured through their parent. A virtual generated column (PostgreSQL 18)
# is absent from transition tables, so it cannot be captured; it is described as a column without a type.
_TABLES = """
SELECT c.oid::bigint, n.nspname, c.relname, c.reltuples::bigint,
       a.attname, NOT (a.attnotnull OR t.typnotnull), format_type(a.atttypid, a.atttypmod),
       b.typname, bn.nspname, CASE WHEN t.typbasetype = 0 THEN a.atttypmod ELSE t.typtypmod END,
       b.typtype = 'e', a.attgenerated = 'v',
       CASE WHEN b.typtype = 'e' THEN
           (SELECT array_agg(enumlabel::text ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = b.oid)
       ELSE '{}' END
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_type AS t ON t.oid = a.atttypid
LEFT JOIN pg_type AS b ON b.oid = CASE WHEN t.typbasetype = 0 THEN t.oid ELSE t.typbasetype END
LEFT JOIN pg_namespace AS bn ON bn.oid = b.typnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('headwater', 'information_schema') AND n.nspname !~ '^pg_'
  AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
  AND (%(schema)s::text IS NULL OR (n.nspname = %(schema)s AND c.relname = %(table)s))
ORDER BY n.nspname, c.relname, a.attnum
"""

_INDEXES = """
SELECT i.indrelid::bigint, i.indisprimary, array_agg(a.attname::text ORDER BY k.place)
FROM pg_index AS i
CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, place)
JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
JOIN pg_class AS ic ON ic.oid = i.indexrelid
JOIN pg_am AS m ON m.oid = ic.relam
WHERE i.indrelid = ANY (%s) AND i.indisvalid AND i.indisready AND i.indpred IS NULL AND i.indexprs IS NULL
  AND m.amname IN ('btree', 'hash') AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid, i.indrelid, i.indisprimary
ORDER BY i.indrelid, i.indisprimary DESC, i.indexrelid
"""

_RESOLVE = """
SELECT n.nspname, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('headwater', 'information_schema') AND n.nspname !~ '^pg_'
  AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
  AND lower(c.relname) = lower(%(table)s) AND (%(schema)s = '' OR lower(n.nspname) = lower(%(schema)s))
ORDER BY array_position(current_schemas(false) || 'public'::name, n.nspname), n.nspname, c.relname
"""


def tables(connection: Connection, source: SourceName, only: TableName | None = None) -> dict[TableName, PgTable]:
    """Ordinary and partitioned tables this role may read; `only` limits it to one."""
    choice = {"schema": only.schema if only else None, "table": only.table if only else None}
    columns: dict[TableName, dict[str, PgColumn]] = {}
    oids: dict[TableName, tuple[int, int]] = {}
    for oid, schema, table, rows, *column in connection.execute(_TABLES, choice):
        name = TableName(source, table, schema)
        oids[name] = (oid, rows)
        found = columns.setdefault(name, {})
        attribute, nullable, declared, base, base_schema, modifier, is_enum, is_virtual, labels = column
        if attribute is not None:
            kind = None if is_virtual else arrow_type(base, modifier, is_enum)
            found[attribute] = PgColumn(attribute, base, base_schema, declared, kind, nullable, tuple(labels))
    keys: dict[int, tuple[str, ...]] = {}
    indexes: dict[int, list[tuple[str, ...]]] = {}
    for oid, primary, names in connection.execute(_INDEXES, [[oid for oid, _ in oids.values()]]):
        indexes.setdefault(oid, []).append(tuple(names))
        if primary:
            keys[oid] = tuple(names)
    return {
        name: PgTable(
            name=name,
            oid=oid,
            columns=columns[name],
            key=keys.get(oid, ()),
            indexes=tuple(dict.fromkeys(indexes.get(oid, ()))),
            rows=rows if rows >= 0 else None,
        )
        for name, (oid, rows) in oids.items()
    }


def resolve(connection: Connection, source: SourceName, schema: str, table: str) -> TableName | None:
    """Exact names first, then names that differ only in case. Without a schema: the search path and public, in their
    order, then any schema. A name that fits several tables equally well is none."""
    found = [(str(s), str(t)) for s, t in connection.execute(_RESOLVE, {"schema": schema, "table": table})]
    row = connection.execute("SELECT current_schemas(false)::text[] || 'public'::text").fetchone()
    path = list(dict.fromkeys(row[0])) if row else []
    exact_table = [(s, t) for s, t in found if t == table]
    if schema:
        tries = [[f for f in exact_table if f[0] == schema], found]
    else:
        tries = [[f for f in names if f[0] == place] for names in (exact_table, found) for place in path]
        tries += [exact_table, found]
    for candidates in tries:
        if len(candidates) == 1:
            return TableName(source, candidates[0][1], candidates[0][0])
        if candidates:
            return None
    return None


def estimated_rows(connection: Connection, table: PgTable) -> int:
    """The planner's estimate, which is good for large tables never analysed, too; small tables are counted."""
    row = connection.execute(sql.SQL("EXPLAIN (FORMAT JSON) SELECT FROM {}").format(table.identifier)).fetchone()
    estimate = int(row[0][0]["Plan"]["Plan Rows"]) if row else 0
    if estimate > _COUNTED:
        return estimate
    row = connection.execute(
        sql.SQL("SELECT count(*) FROM (SELECT FROM {} LIMIT {}) AS counted").format(table.identifier, 2 * _COUNTED)
    ).fetchone()
    return int(row[0]) if row else estimate
