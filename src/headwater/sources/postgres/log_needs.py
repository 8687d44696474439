"""What capture by the log asks of the server, the role and the tables: all that is missing at once, as statements.

What the role lacks, a DBA may do in its place (`headwater setup --print`); what the server lacks, nobody can replace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.log import PUBLICATION, is_used

_RESTART = "  -- then restart the server; a managed one has a parameter of its own for it (rds.logical_replication = 1)"

_SERVER = """
SELECT pg_is_in_recovery(), current_setting('wal_level'), current_setting('max_replication_slots')::int,
       (SELECT count(*) FROM pg_replication_slots)
"""

_ROLE = """
SELECT current_database()::text, current_user::text, r.rolsuper OR r.rolreplication OR coalesce(bool_or(m.held), false),
       max(m.name), has_database_privilege(current_database(), 'CREATE'),
       (SELECT pg_get_userbyid(p.pubowner)::text FROM pg_publication AS p WHERE p.pubname = %s
            AND NOT pg_has_role(p.pubowner, 'USAGE')),
       EXISTS (SELECT FROM pg_publication AS p WHERE p.pubname = %s)
FROM pg_roles AS r LEFT JOIN LATERAL (
    SELECT rolname::text AS name, pg_has_role(oid, 'MEMBER') AS held FROM pg_roles
    WHERE rolname IN ('rds_replication', 'azure_replication')) AS m ON true
WHERE r.rolname = current_user GROUP BY r.rolsuper, r.rolreplication
"""

_TABLES = """
WITH RECURSIVE tree (oid, root) AS (
    SELECT oid, true FROM pg_class WHERE oid = ANY (%s::oid[])
    UNION ALL SELECT i.inhrelid, false FROM tree JOIN pg_inherits AS i ON i.inhparent = tree.oid)
SELECT n.nspname::text, c.relname::text, pg_get_userbyid(c.relowner)::text, pg_has_role(c.relowner, 'USAGE'),
       EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attgenerated = 's' AND NOT a.attisdropped),
       c.relkind = 'p' AND NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND i.indisprimary),
       c.relkind = 'p' AND EXISTS (SELECT FROM pg_publication AS p WHERE p.pubname = 'headwater' AND p.pubviaroot)
FROM tree JOIN pg_class AS c ON c.oid = tree.oid JOIN pg_namespace AS n ON n.oid = c.relnamespace
ORDER BY n.nspname, c.relname
"""

MAY_NOT_REPLICATE = "may not use replication slots"


@dataclass(frozen=True)
class Lack:
    """What is missing, and the statement that helps; `otherwise` is what to do where none does."""

    what: str
    statement: str = ""
    otherwise: str = ""


def unable(connection: Connection, oids: Sequence[int]) -> tuple[str, str] | None:
    """Why the log cannot be used here for these tables, and what to do; None if it can."""
    return _said([*server_lacks(connection, oids), *role_lacks(connection, oids)])


def server_unable(connection: Connection, oids: Sequence[int]) -> tuple[str, str] | None:
    """The same, whoever sets it up."""
    return _said(server_lacks(connection, oids))


def _said(lacks: Sequence[Lack]) -> tuple[str, str] | None:
    if not lacks:
        return None
    hopeless = [lack for lack in lacks if lack.otherwise]
    if hopeless:
        return hopeless[0].what, hopeless[0].otherwise
    return ", ".join(lack.what for lack in lacks), as_fix([lack.statement for lack in lacks])


def as_fix(statements: Sequence[str]) -> str:
    """What to run, to be pasted: a statement a line."""
    listed = list(dict.fromkeys(statements))
    return f"run {listed[0]}" if len(listed) == 1 else "run\n" + "\n".join(f"    {s}" for s in listed)


def server_lacks(connection: Connection, oids: Sequence[int]) -> list[Lack]:
    """What is missing whoever sets it up."""
    row = connection.execute(_SERVER).fetchone()
    assert row is not None
    recovering, level, slots, taken = row
    lacks = []
    if recovering:
        lacks.append(Lack("the server is a standby", otherwise="connect to the primary"))
    if level != "logical":
        lacks.append(Lack(f"wal_level is {level}", f"ALTER SYSTEM SET wal_level = logical;{_RESTART}"))
    if taken >= slots and not is_used(connection):
        what = f"all {slots} replication slots are taken"
        lacks.append(Lack(what, f"ALTER SYSTEM SET max_replication_slots = {slots + 5};  -- then restart the server"))
    told = connection.info.server_version >= 180000
    for schema, table, _, _, generated, keyless, via_root in connection.execute(_TABLES, [list(oids)]):
        what = f"{schema}.{table}"
        if keyless:
            what += " has partitions and no primary key: in a new one the server would refuse UPDATE and DELETE"
            lacks.append(Lack(what, otherwise='give it a primary key, or say capture = "triggers" for this source'))
        elif via_root:
            what += " has partitions, and the publication is of an older Headwater, which could not tell them"
            lacks.append(Lack(what, otherwise="'headwater teardown', then 'headwater setup'; views are loaded again"))
        elif generated and not told:
            what += " has generated columns, which the log of this version does not tell"
            lacks.append(Lack(what, otherwise='say capture = "triggers" for this source, or use PostgreSQL 18'))
    return lacks


def role_lacks(connection: Connection, oids: Sequence[int]) -> list[Lack]:
    """What the role may not do, and somebody else can."""
    row = connection.execute(_ROLE, [PUBLICATION, PUBLICATION]).fetchone()
    assert row is not None
    database, role, replicates, by_grant, creates, stranger, published = row
    to = _quoted(connection, role)
    lacks = [] if replicates else [replication_lack(role, to, by_grant)]
    if not published and not creates:
        grant = f"GRANT CREATE ON DATABASE {_quoted(connection, database)} TO {to};"
        lacks.append(Lack(f"the role {role} may not create a publication", grant))
    if stranger:
        what = f"the publication {PUBLICATION} belongs to {stranger}"
        lacks.append(Lack(what, f"GRANT {_quoted(connection, stranger)} TO {to};"))
    for schema, table, owner, owned, *_ in connection.execute(_TABLES, [list(oids)]):
        if not owned:
            what = f"{schema}.{table} belongs to {owner}, and only its owner may set its REPLICA IDENTITY"
            lacks.append(Lack(what, f"GRANT {_quoted(connection, owner)} TO {to};"))
    return lacks


def replication_lack(role: str, to: str, by_grant: str | None) -> Lack:
    """Managed servers have a role to be a member of, in place of an attribute."""
    what = f"the role {role} {MAY_NOT_REPLICATE}"
    return Lack(what, f"GRANT {by_grant} TO {to};" if by_grant else f"ALTER ROLE {to} REPLICATION;")


def _quoted(connection: Connection, name: str) -> str:
    return sql.Identifier(name).as_string(connection)
