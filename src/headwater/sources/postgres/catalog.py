"""What the catalog of a PostgreSQL source says about its tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from psycopg import sql

from headwater.model.names import SourceName, TableName
from headwater.model.schema import Column, Identity, TableSchema
from headwater.sources.postgres import log
from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.types import PgColumn, arrow_type


@dataclass(frozen=True)
class PgCapture:
    """Capture of one table as it was found: its life, the digest of its shape, and what is wrong with it, if anything
    is (see `schema.py`)."""

    life: str
    shape: str
    fault: str | None
    logged: bool = False


@dataclass(frozen=True)
class PgTable:
    """`columns` are all that it has, in the order of their numbers. `storage` changes whenever all its values are
    written anew: the file of its rows; of a partitioned table, that of its oldest partition."""

    name: TableName
    oid: int
    columns: Mapping[str, PgColumn]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...]
    rows: int | None
    partitioned: bool = False
    storage: str = ""
    capture: PgCapture | None = None

    @property
    def logged(self) -> bool:
        """Whether the server's log tells its changes (`log.py`)."""
        return self.capture is not None and self.capture.logged

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.name.schema, self.name.table)

    @property
    def rows_of_its_own(self) -> sql.Composable:
        """To read from: a table that others inherit from, without their rows."""
        return self.identifier if self.partitioned else sql.SQL("ONLY {}").format(self.identifier)

    def place(self, column: str) -> int:
        """Which field of a change's row it is, from 1."""
        return list(self.columns).index(column) + 1

    def indexed(self, key: Iterable[str]) -> bool:
        """Whether some index can find rows by these columns."""
        wanted = set(key)
        return any(index[0] in wanted for index in self.indexes)

    def schema(self) -> TableSchema:
        columns = tuple(Column(c.name, c.type, c.declared, c.nullable) for c in self.columns.values())
        return TableSchema(self.name, columns, self.key, self.indexes, self.rows)

    def identity(self, column: PgColumn) -> Identity:
        """Which column a name of this table stands for."""
        life = self.capture.life if self.capture else ""
        return Identity(f"{life}.{self.oid}.{column.number}", column.definition, self.storage, column.labels)


_COUNTED = 50_000

# Partitions are left out: they are read and captured through their parent. A virtual generated column (PostgreSQL 18)
# is absent from transition tables, so it cannot be captured; it is described as a column without a type. Tables that
# the role may not read are there too: whoever names one is then told which GRANT is missing.
_TABLES = """
SELECT c.oid::bigint, n.nspname, c.relname, c.reltuples::bigint, c.relkind = 'p',
       CASE WHEN c.relkind = 'r' THEN c.relfilenode::text ELSE (
           WITH RECURSIVE tree (oid) AS (
               SELECT inhrelid FROM pg_inherits WHERE inhparent = c.oid
               UNION ALL SELECT inhrelid FROM tree JOIN pg_inherits ON inhparent = tree.oid)
           SELECT p.oid || ' ' || p.relfilenode FROM tree JOIN pg_class AS p USING (oid) WHERE p.relkind = 'r'
           ORDER BY p.oid LIMIT 1) END,
       a.attname, a.attnum, NOT (a.attnotnull OR t.typnotnull), format_type(a.atttypid, a.atttypmod),
       b.typname, bn.nspname, CASE WHEN t.typtype = 'd' THEN d.modifier ELSE a.atttypmod END,
       b.typtype = 'e', a.attgenerated = 'v',
       CASE WHEN b.typtype = 'e' THEN
           (SELECT array_agg(oid || '=' || enumlabel ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = b.oid)
       ELSE '{}' END,
       concat_ws('.', a.xmin, a.atttypid, a.atttypmod), ln.nspname, l.collname
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_type AS t ON t.oid = a.atttypid
LEFT JOIN LATERAL (
    WITH RECURSIVE below (oid, base, modifier) AS (
        SELECT t.oid, t.typbasetype, a.atttypmod
        UNION ALL
        SELECT u.oid, u.typbasetype, v.typtypmod
        FROM below JOIN pg_type AS v ON v.oid = below.oid JOIN pg_type AS u ON u.oid = below.base)
    SELECT oid, modifier FROM below WHERE base = 0) AS d ON t.typtype = 'd'
LEFT JOIN pg_type AS b ON b.oid = CASE WHEN t.typtype = 'd' THEN d.oid ELSE t.oid END
LEFT JOIN pg_namespace AS bn ON bn.oid = b.typnamespace
LEFT JOIN pg_collation AS l ON l.oid = a.attcollation AND l.collname <> 'default'
LEFT JOIN pg_namespace AS ln ON ln.oid = l.collnamespace
WHERE c.relkind IN ('r', 'p') AND (NOT c.relispartition OR %(schema)s::text IS NOT NULL) AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('headwater', 'information_schema') AND n.nspname !~ '^pg_'
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
  AND lower(c.relname) = lower(%(table)s) AND (%(schema)s = '' OR lower(n.nspname) = lower(%(schema)s))
ORDER BY array_position(current_schemas(false) || 'public'::name, n.nspname), n.nspname, c.relname
"""


def tables(connection: Connection, source: SourceName, only: TableName | None = None) -> dict[TableName, PgTable]:
    """Ordinary and partitioned tables, whether this role may read them or not; `only` limits it to one."""
    choice = {"schema": only.schema if only else None, "table": only.table if only else None}
    columns: dict[TableName, dict[str, PgColumn]] = {}
    oids: dict[TableName, tuple[int, int, bool, str]] = {}
    for oid, schema, table, rows, partitioned, storage, *column in connection.execute(_TABLES, choice):
        name = TableName(source, table, schema)
        oids[name] = (oid, rows, partitioned, storage or "")
        found = columns.setdefault(name, {})
        attribute, number, nullable, declared, base, base_schema, modifier, is_enum, is_virtual, labels, *rest = column
        if attribute is not None:
            found[attribute] = PgColumn(
                name=attribute,
                base=base,
                base_schema=base_schema,
                declared=declared,
                type=None if is_virtual else arrow_type(base, modifier, is_enum),
                nullable=nullable,
                labels=tuple(labels),
                number=number,
                definition=rest[0],
                collation=(rest[1], rest[2]) if rest[2] else None,
            )
    keys: dict[int, tuple[str, ...]] = {}
    indexes: dict[int, list[tuple[str, ...]]] = {}
    for oid, primary, names in connection.execute(_INDEXES, [[oid for oid, *_ in oids.values()]]):
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
            partitioned=partitioned,
            storage=storage,
        )
        for name, (oid, rows, partitioned, storage) in oids.items()
    }


def captured_table(connection: Connection, source: SourceName, name: TableName) -> PgTable | None:
    """The table with its capture, all of one snapshot: the connection's transaction is a REPEATABLE READ one."""
    table = tables(connection, source, only=name).get(name)
    row = connection.execute("SELECT to_regproc('headwater.shape') IS NOT NULL").fetchone()
    if table is None or row is None or not row[0]:
        return table
    found = connection.execute(
        "SELECT life::text, headwater.shape(oid), headwater.fault(oid) FROM headwater.tables WHERE oid = %s",
        [table.oid],
    ).fetchone()
    by_log = found is not None and table.oid in log.logged(connection)
    return dataclasses.replace(table, capture=PgCapture(found[0], found[1], found[2], by_log)) if found else table


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
    row = connection.execute(sql.SQL("EXPLAIN (FORMAT JSON) SELECT FROM {}").format(table.rows_of_its_own)).fetchone()
    estimate = int(row[0][0]["Plan"]["Plan Rows"]) if row else 0
    if estimate > _COUNTED:
        return estimate
    row = connection.execute(
        sql.SQL("SELECT count(*) FROM (SELECT FROM {} LIMIT {}) AS counted").format(table.rows_of_its_own, 2 * _COUNTED)
    ).fetchone()
    return int(row[0]) if row else estimate
