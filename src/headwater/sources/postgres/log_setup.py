"""What capture by the log needs at the server: made when a table is captured, gone when none is any longer.

    headwater.log, logged, commits    what moving notes (`log.py`)
    publication headwater             the tables that the log tells, and `parts`
    slot headwater_<database>         keeps the log for us from here on

**Order of making.** The publication comes before the slot, which decodes nothing of a publication that came after it;
the slot comes before the position that a table's capture begins at, so that whatever that position does not show is
told. A table enters the publication in the transaction that keeps its writers out: whoever wrote before has ended, and
whoever comes after is told with whole old rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.log import COLUMNS_NOW, PUBLICATION, STATE, is_used
from headwater.sources.postgres.script import Do

TABLES = """
CREATE TABLE IF NOT EXISTS headwater.log (slot text NOT NULL, moved pg_lsn NOT NULL, publication xid NOT NULL);
CREATE TABLE IF NOT EXISTS headwater.logged
    (oid oid PRIMARY KEY, was "char" NOT NULL, columns text NOT NULL, publication oid NOT NULL);
CREATE TABLE IF NOT EXISTS headwater.commits (xid xid8 PRIMARY KEY, lsn pg_lsn NOT NULL);
ALTER TABLE headwater.log REPLICA IDENTITY FULL
"""

FAULT = """
CREATE OR REPLACE FUNCTION headwater.fault_of_log(captured oid) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN s.slot_name IS NULL THEN coalesce(
            (SELECT 'it ' || max(reason) FROM headwater.gaps AS h WHERE h.oid = captured AND h.reason ~ ' given up: '),
            format('the replication slot %s is gone', l.slot))
        WHEN s.wal_status = 'lost' THEN format('the server has thrown away what slot %s needs of its log', l.slot)
        WHEN c.relreplident <> 'f' THEN 'its REPLICA IDENTITY is no longer FULL'
        WHEN p.oid IS NULL THEN 'it is no longer in publication headwater, or was taken out of it for a while' END
    FROM headwater.logged AS g CROSS JOIN headwater.log AS l JOIN pg_catalog.pg_class AS c ON c.oid = g.oid
    LEFT JOIN pg_catalog.pg_replication_slots AS s ON s.slot_name = l.slot AND s.database = current_database()
    LEFT JOIN pg_catalog.pg_publication_rel AS p ON p.oid = g.publication AND p.prrelid = g.oid
    WHERE g.oid = captured $$
"""


def prepare(do: Do, fault: str) -> None:
    """What capture by the log notes, and functions that know of it."""
    do(TABLES)
    do(FAULT)
    do(fault)


_PUBLISH = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = {name}) THEN
        CREATE PUBLICATION {publication} FOR TABLE headwater.parts WITH ({options});
    ELSIF NOT EXISTS (SELECT FROM pg_catalog.pg_publication_tables WHERE pubname = {name}
            AND schemaname = 'headwater' AND tablename = 'parts') THEN
        ALTER PUBLICATION {publication} ADD TABLE headwater.parts;
    END IF;
END $$
"""

_UNPUBLISH = """
DO $$ BEGIN ALTER PUBLICATION {publication} DROP TABLE {table}; EXCEPTION WHEN undefined_object THEN NULL; END $$
"""
"""Also where it is not in the publication, or there is none."""


def create_publication(do: Do, server: int) -> None:
    """Before the slot, which decodes nothing of a publication that came after it. Transactions that only say that they
    are parts of a global one have a place in the log as well."""
    options = "publish_via_partition_root = true" + (", publish_generated_columns = stored" if server >= 180000 else "")
    name, publication = sql.Literal(PUBLICATION), sql.Identifier(PUBLICATION)
    do(sql.SQL(_PUBLISH).format(name=name, publication=publication, options=sql.SQL(options)))


def publish(do: Do, oid: int, table: sql.Composable) -> None:
    """In the transaction that keeps writers of the table out: from its commit on, the log tells whole old rows. The
    publication is there."""
    do("INSERT INTO headwater.logged SELECT oid, relreplident, '[]', 0 FROM pg_class WHERE oid = %s", [oid])
    _unpublish(do, table)
    do(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(table))
    do(sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(sql.Identifier(PUBLICATION), table))
    do(
        "UPDATE headwater.logged AS g SET publication = p.oid FROM pg_publication_rel AS p JOIN pg_publication AS b"
        " ON b.oid = p.prpubid WHERE b.pubname = %s AND p.prrelid = g.oid AND g.oid = %s",
        [PUBLICATION, oid],
    )


def begin_slot(connection: Connection, do: Do, anew: bool = False) -> None:
    """After the publication is there, and before a position is. Waits for transactions that are under way. In no
    transaction, because a slot that is made in one cannot tell of it. `anew`: what is there is of another capture."""
    row = connection.execute("SELECT to_regclass('headwater.log') IS NOT NULL").fetchone()
    state = connection.execute(STATE).fetchone() if row and row[0] and not anew else None
    if state is not None and state[2] and not state[3] and state[4]:
        return
    do("DELETE FROM headwater.log")  # what it was is of no use: tables that relied on it have a gap
    whole = sql.SQL("ALTER PUBLICATION {} SET (publish = 'insert, update, delete, truncate')")
    do(whole.format(sql.Identifier(PUBLICATION)))
    row = connection.execute("SELECT oid::bigint FROM pg_database WHERE datname = current_database()").fetchone()
    assert row is not None
    slot = f"headwater_{row[0]}"
    do("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", [slot])
    create = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput') WHERE to_regclass('headwater.log') IS NOT NULL"
    do(create, [slot])
    do(
        "INSERT INTO headwater.log SELECT s.slot_name, s.confirmed_flush_lsn, p.xmin FROM pg_replication_slots AS s,"
        " pg_publication AS p WHERE s.slot_name = %s AND p.pubname = %s",
        [slot, PUBLICATION],
    )


def note_columns(do: Do, oids: Sequence[int]) -> None:
    do(
        f"UPDATE headwater.logged AS g SET columns = n.columns FROM ({COLUMNS_NOW}) AS n (oid, columns)"
        " WHERE n.oid = g.oid AND g.oid = ANY (%s)",
        [list(oids)],
    )


def forget(connection: Connection, do: Do, oid: int) -> None:
    """The table is not captured this way any longer; its replica identity is what it was."""
    row = connection.execute(
        "SELECT g.was::text, n.nspname::text, c.relname::text FROM headwater.logged AS g"
        " LEFT JOIN pg_class AS c ON c.oid = g.oid LEFT JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE g.oid = %s",
        [oid],
    ).fetchone()
    if row is None:
        return
    was, schema, table = row
    do("DELETE FROM headwater.logged WHERE oid = %s", [oid])
    if table is None:
        return
    name = sql.Identifier(schema, table)
    _unpublish(do, name)
    before = {"d": "DEFAULT", "n": "NOTHING"}.get(was)
    if before is not None:  # an index that was its identity may be gone; FULL serves who relied on it as well
        do(sql.SQL("ALTER TABLE {} REPLICA IDENTITY " + before).format(name))


def _unpublish(do: Do, table: sql.Composable) -> None:
    do(sql.SQL(_UNPUBLISH).format(publication=sql.Identifier(PUBLICATION), table=table))


def abandon(do: Do) -> None:
    """What a capture that must not be used left beside its schema."""
    do(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(PUBLICATION)))
    do(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
        " AND slot_name = 'headwater_' || (SELECT oid FROM pg_database WHERE datname = current_database())"
    )


def end_slot(connection: Connection) -> list[str]:
    """When no table is captured this way any longer."""
    row = connection.execute("SELECT to_regclass('headwater.log') IS NOT NULL").fetchone()
    if not (row and row[0]) or is_used(connection):
        return []
    found = connection.execute("SELECT slot FROM headwater.log").fetchall()
    connection.execute("DELETE FROM headwater.log")
    connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(PUBLICATION)))
    for (slot,) in found:
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", [slot]
        )
    return [f"dropped replication slot {slot}" for (slot,) in found]
