"""What keeps a role from capturing tables, all of it at once, as statements that a DBA can paste."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from headwater.model.errors import SourceRefused
from headwater.model.names import TableName
from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.log_needs import as_fix

_RELATIONS = """
WITH RECURSIVE tree (root, oid) AS (
    SELECT oid, oid FROM pg_class WHERE oid = ANY (%s)
    UNION ALL SELECT tree.root, i.inhrelid FROM tree JOIN pg_inherits AS i ON i.inhparent = tree.oid)
SELECT tree.root::bigint, n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence <> 'p',
       has_schema_privilege(n.oid, 'USAGE'), has_table_privilege(c.oid, 'SELECT'),
       has_table_privilege(c.oid, 'TRIGGER'),
       row_security_active(c.oid), r.relkind <> 'p' AND EXISTS (
           SELECT FROM pg_inherits AS i WHERE r.oid IN (i.inhrelid, i.inhparent)), tree.oid = tree.root
FROM tree JOIN pg_class AS c ON c.oid = tree.oid JOIN pg_class AS r ON r.oid = tree.root
JOIN pg_namespace AS n ON n.oid = c.relnamespace
ORDER BY n.nspname, c.relname
"""

_HERE = """
SELECT current_database()::text, current_user::text, has_database_privilege(current_database(), 'CREATE'),
       (SELECT pg_get_userbyid(nspowner)::text FROM pg_namespace WHERE nspname = 'headwater'
            AND NOT pg_has_role(nspowner, 'USAGE'))
"""


def check(connection: Connection, wanted: Sequence[tuple[TableName, int]], new_schema: bool) -> None:
    """Raise what keeps these tables from being captured."""
    row = connection.execute(_HERE).fetchone()
    assert row is not None
    database, role, may_create, stranger = row
    to = _quoted(connection, role)
    lacking, statements, refusals = list[str](), list[str](), list[tuple[str, str]]()
    if new_schema and not may_create:
        lacking.append(f"may not create a schema in {database}")
        statements.append(f"GRANT CREATE ON DATABASE {_quoted(connection, database)} TO {to};")
    if not new_schema and stranger:
        lacking.append(f"may not use the capture that {stranger} installed")
        statements.append(f"GRANT {_quoted(connection, stranger)} TO {to};")
    names = {oid: table for table, oid in wanted}
    for root, schema, table, kind, unlogged, usage, select, trigger, hidden, inherits, is_root in connection.execute(
        _RELATIONS, [list(names)]
    ):
        name, shown = _quoted(connection, schema, table), str(names[root]) if is_root else f"{schema}.{table}"
        if inherits:
            refusals.append((
                f"{names[root]} takes part in table inheritance: writes through a parent do not fire its children's"
                " triggers",
                "use declarative partitioning, or capture tables that inherit nothing",
            ))  # fmt: skip
            continue
        if kind not in ("r", "p"):
            refusals.append((f"{shown}, a partition of {names[root]}, is a foreign table", "detach that partition"))
            continue
        if not usage:
            grant = f"GRANT USAGE ON SCHEMA {_quoted(connection, schema)} TO {to};"
            if grant not in statements:
                lacking.append(f"may not use schema {schema}")
                statements.append(grant)
        missing = [word for word, granted in (("SELECT", select), ("TRIGGER", trigger)) if not granted]
        if missing:
            lacking.append(f"lacks {' and '.join(missing)} on {shown}")
            statements.append(f"GRANT {', '.join(missing)} ON TABLE {name} TO {to};")
        if hidden:
            lacking.append(f"does not see the rows of {shown} that row level security hides")
            statements.append(f"ALTER ROLE {to} BYPASSRLS;")
        if unlogged:
            lacking.append(f"cannot rely on {shown}, which is UNLOGGED: a crash empties it")
            statements.append(f"ALTER TABLE {name} SET LOGGED;")
    if refusals:
        raise SourceRefused(*refusals[0])
    if statements:
        raise SourceRefused(f"the role {role} {', '.join(lacking)}", as_fix(statements))


def _quoted(connection: Connection, *names: str) -> str:
    return sql.Identifier(*names).as_string(connection)
