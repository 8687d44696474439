"""What keeps a role from capturing tables, all of it at once, as statements that a DBA can paste."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
            AND NOT pg_has_role(nspowner, 'USAGE')),
       coalesce(has_table_privilege(to_regclass('headwater.consumers')::oid, 'INSERT'), false)
"""


def check(connection: Connection, wanted: Sequence[tuple[TableName, int]], new_schema: bool) -> None:
    """Raise what keeps the role from capturing these tables itself."""
    here = _here(connection)
    found = _Missing(connection, here.role)
    if new_schema and not here.creates:
        on = _quoted(connection, here.database)
        found.add(f"may not create a schema in {here.database}", f"GRANT CREATE ON DATABASE {on} TO {found.to};")
    if not new_schema and here.stranger and (wanted or not here.registers):
        what = f"may not use the capture that {here.stranger} installed"
        found.add(what, f"GRANT {_quoted(connection, here.stranger)} TO {found.to};")
    found.look(wanted, ("SELECT", "TRIGGER"))
    if found.statements:
        raise SourceRefused(f"the role {here.role} {', '.join(found.lacking)}", as_fix(found.statements))


def to_read(connection: Connection, wanted: Sequence[tuple[TableName, int]]) -> tuple[str, list[str]]:
    """The role, and the statements that let it read these tables, captured by somebody else."""
    here = _here(connection)
    found = _Missing(connection, here.role)
    found.look(wanted, ("SELECT",))
    return here.role, found.statements


def is_strange(connection: Connection) -> bool:
    """Whether the capture that is here belongs to somebody else, and the role may not use it yet."""
    here = _here(connection)
    return bool(here.stranger) and not here.registers


@dataclass(frozen=True)
class _Here:
    """`stranger` owns the capture that is here, if the role has no part in that owner; `registers` says whether it may
    use the capture all the same."""

    database: str
    role: str
    creates: bool
    stranger: str | None
    registers: bool


def _here(connection: Connection) -> _Here:
    row = connection.execute(_HERE).fetchone()
    assert row is not None
    return _Here(*row)


class _Missing:
    """What a role lacks, and the statements that give it."""

    def __init__(self, connection: Connection, role: str) -> None:
        self._connection, self.to = connection, _quoted(connection, role)
        self.lacking: list[str] = []
        self.statements: list[str] = []

    def add(self, lacking: str, statement: str) -> None:
        if statement not in self.statements:
            self.statements.append(statement)
            self.lacking.append(lacking)

    def look(self, wanted: Sequence[tuple[TableName, int]], needed: Sequence[str]) -> None:
        """At these tables and their partitions; raises if one of them cannot be captured by anybody."""
        names, to = {oid: table for table, oid in wanted}, self.to
        for found in self._connection.execute(_RELATIONS, [list(names)]):
            root, schema, table, kind, unlogged, usage, select, trigger, hidden, inherits, is_root = found
            name = _quoted(self._connection, schema, table)
            shown = str(names[root]) if is_root else f"{schema}.{table}"
            if inherits:
                raise SourceRefused(
                    f"{names[root]} takes part in table inheritance: writes through a parent do not fire its children's"
                    " triggers",
                    "use declarative partitioning, or capture tables that inherit nothing",
                )
            if kind not in ("r", "p"):
                what = f"{shown}, a partition of {names[root]}, is a foreign table"
                raise SourceRefused(what, "detach that partition")
            if not usage:
                grant = f"GRANT USAGE ON SCHEMA {_quoted(self._connection, schema)} TO {to};"
                self.add(f"may not use schema {schema}", grant)
            granted = {"SELECT": select, "TRIGGER": trigger}
            missing = [word for word in needed if not granted[word]]
            if missing:
                grant = f"GRANT {', '.join(missing)} ON TABLE {name} TO {to};"
                self.add(f"lacks {' and '.join(missing)} on {shown}", grant)
            if hidden:
                what = f"does not see the rows of {shown} that row level security hides"
                self.add(what, f"ALTER ROLE {to} BYPASSRLS;")
            if unlogged:
                what = f"cannot rely on {shown}, which is UNLOGGED: a crash empties it"
                self.add(what, f"ALTER TABLE {name} SET LOGGED;")


def _quoted(connection: Connection, *names: str) -> str:
    return sql.Identifier(*names).as_string(connection)
