"""What capture by the log asks of the server, the role and the tables."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.log import is_used

_ABLE = """
SELECT current_setting('wal_level'), r.rolsuper OR r.rolreplication
       OR EXISTS (SELECT FROM pg_roles AS m WHERE m.rolname IN ('rds_replication', 'azure_replication')
            AND pg_has_role(m.oid, 'MEMBER')),
       current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots),
       has_database_privilege(current_database(), 'CREATE'), pg_is_in_recovery()
FROM pg_roles AS r WHERE r.rolname = current_user
"""


def unable(connection: Connection, oids: Sequence[int]) -> tuple[str, str] | None:
    """Why the log cannot be used here for these tables, and what to do; None if it can."""
    row = connection.execute(_ABLE).fetchone()
    assert row is not None
    level, may, free, create, recovering = row
    role = connection.info.user
    if recovering:
        return "the server is a standby", "connect to the primary"
    if level != "logical":
        return f"wal_level is {level}", "ALTER SYSTEM SET wal_level = logical, and a restart of the server"
    if not may:
        return f"the role {role} may not use replication slots", f'ALTER ROLE "{role}" REPLICATION'
    if free < 1 and not is_used(connection):
        return "all replication slots are taken", "raise max_replication_slots, and restart the server"
    if not create:
        return f"the role {role} may not create a publication", f'GRANT CREATE ON DATABASE … TO "{role}"'
    return _unfit(connection, oids)


def _unfit(connection: Connection, oids: Sequence[int]) -> tuple[str, str] | None:
    generated = "" if connection.info.server_version >= 180000 else (
        " WHEN EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attgenerated = 's' AND NOT"
        " a.attisdropped) THEN 'has generated columns, which the log of this version does not tell'"
    )  # fmt: skip
    found = connection.execute(
        "SELECT c.oid::regclass::text, CASE WHEN c.relkind = 'p' THEN 'is partitioned'"
        " WHEN NOT pg_has_role(c.relowner, 'USAGE') THEN 'is not owned by the role ' || current_user" + generated +
        " END FROM pg_class AS c WHERE c.oid = ANY (%s::oid[]) ORDER BY 1",
        [list(oids)],
    )  # fmt: skip
    for name, why in found:
        if why is not None:
            return f"{name} {why}", 'capture = "triggers" for this source, or make the role an owner of the table'
    return None


def keeps_without_limit(connection: Connection) -> bool:
    row = connection.execute("SELECT current_setting('max_slot_wal_keep_size') = '-1'").fetchone()
    return bool(row and row[0])


def held_bytes(connection: Connection) -> int | None:
    """How much of its log the server keeps for us; None where nothing is captured this way."""
    if not is_used(connection):
        return None
    row = connection.execute(
        "SELECT (pg_current_wal_lsn() - s.restart_lsn)::bigint FROM headwater.log AS l"
        " JOIN pg_replication_slots AS s ON s.slot_name = l.slot"
    ).fetchone()
    return None if row is None else row[0]
