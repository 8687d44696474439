"""The foreign keys that tables declare: those that are validated, enforced, and checked with every statement.

A deferred one is checked at commit, and may be satisfied later in our order than there (see the adapter's limits). Of
the others nothing is taken as proven either: a superuser's session may switch them off.
"""

from __future__ import annotations

from headwater.model.names import SourceName, TableName
from headwater.model.schema import ForeignKey
from headwater.sources.postgres.connection import Connection

_FOREIGN_KEYS = """
SELECT n.nspname, c.relname, fn.nspname, f.relname,
       array_agg(a.attname::text ORDER BY k.place), array_agg(fa.attname::text ORDER BY k.place)
FROM pg_constraint AS o
JOIN pg_class AS c ON c.oid = o.conrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_class AS f ON f.oid = o.confrelid JOIN pg_namespace AS fn ON fn.oid = f.relnamespace
CROSS JOIN unnest(o.conkey, o.confkey) WITH ORDINALITY AS k (here, there, place)
JOIN pg_attribute AS a ON a.attrelid = o.conrelid AND a.attnum = k.here
JOIN pg_attribute AS fa ON fa.attrelid = o.confrelid AND fa.attnum = k.there
WHERE o.contype = 'f' AND o.convalidated AND NOT o.condeferrable AND o.conparentid = 0
  AND coalesce((to_jsonb(o) ->> 'conenforced')::boolean, true)
GROUP BY o.oid, n.nspname, c.relname, fn.nspname, f.relname
ORDER BY o.oid
"""


def foreign_keys(connection: Connection, source: SourceName) -> dict[TableName, tuple[ForeignKey, ...]]:
    """Per table. `conenforced` is there from PostgreSQL 18 on."""
    found: dict[TableName, tuple[ForeignKey, ...]] = {}
    for schema, table, other_schema, other, columns, referenced in connection.execute(_FOREIGN_KEYS):
        key = ForeignKey(tuple(columns), TableName(source, other, other_schema), tuple(referenced))
        name = TableName(source, table, schema)
        found[name] = (*found.get(name, ()), key)
    return found
