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
from headwater.sources.postgres.log import PUBLICATION, STATE, is_used
from headwater.sources.postgres.moving import COLUMNS_NOW
from headwater.sources.postgres.script import Do

TABLES = """
CREATE TABLE IF NOT EXISTS headwater.log (slot text NOT NULL, moved pg_lsn NOT NULL, publication xid NOT NULL);
CREATE TABLE IF NOT EXISTS headwater.logged
    (oid oid PRIMARY KEY, was "char" NOT NULL, columns text NOT NULL, publication oid NOT NULL);
CREATE TABLE IF NOT EXISTS headwater.commits (xid xid8 PRIMARY KEY, lsn pg_lsn NOT NULL);
CREATE TABLE IF NOT EXISTS headwater.logged_leaves
    (oid oid PRIMARY KEY, root oid NOT NULL, was "char" NOT NULL, since pg_lsn NOT NULL);
ALTER TABLE headwater.log REPLICA IDENTITY FULL
"""

# A partition that is noted has a TRUNCATE trigger and REPLICA IDENTITY FULL. One that was created since has none, but
# is as good as captured until somebody updates, deletes or truncates there: the log says so, and that is a gap. How one
# that was attached is told from one that was created as a partition is said in `schema.py`.
FAULT = """
CREATE OR REPLACE FUNCTION headwater.fault_of_logged_partitions(root oid) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT reason FROM (
        SELECT 1 AS weight, format('its partition %s was dropped or detached', l.oid) AS reason
        FROM headwater.leaves AS l WHERE l.root = fault_of_logged_partitions.root
          AND l.oid NOT IN (SELECT t.oid FROM headwater.tree(l.root) AS t)
        UNION ALL
        SELECT 2, format('its partition %s %s', c.oid::regclass, CASE
            WHEN c.relkind NOT IN ('r', 'p') THEN 'is a foreign table'
            WHEN c.relpersistence <> 'p' THEN 'is not logged: a crash empties it unseen'
            WHEN l.oid IS NULL AND NOT EXISTS (
                    SELECT FROM pg_catalog.pg_attribute AS s JOIN pg_catalog.pg_attribute AS a
                        ON a.attrelid = s.attrelid AND a.attnum > 0 AND a.xmin = s.xmin AND a.cmin = s.cmin
                    WHERE s.attrelid = t.oid AND s.attnum = -1 AND s.xmin = t.since)
                THEN 'was attached, with whatever rows it had'
            WHEN l.oid IS NOT NULL AND c.relkind = 'r' AND c.relreplident <> 'f'
                THEN 'has no longer REPLICA IDENTITY FULL'
            WHEN l.signature IS DISTINCT FROM
                    coalesce(headwater.signature(t.oid, fault_of_logged_partitions.root), 'since ' || t.since)
                    AND l.oid IS NOT NULL
                THEN 'was detached, or its TRUNCATE trigger was gone or disabled, for a while'
            WHEN w.tgenabled NOT IN ('O', 'A') THEN 'has its TRUNCATE trigger disabled' END)
        FROM headwater.tree(fault_of_logged_partitions.root) AS t
        JOIN pg_catalog.pg_class AS c ON c.oid = t.oid
        LEFT JOIN headwater.leaves AS l ON l.oid = t.oid AND l.root = fault_of_logged_partitions.root
        LEFT JOIN pg_catalog.pg_trigger AS w ON w.tgrelid = t.oid AND w.tgname = 'headwater_truncate'
    ) AS found WHERE reason NOT LIKE '% ' ORDER BY weight LIMIT 1 $$;

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


_LEAVES = """
SELECT l.was::text, n.nspname::text, c.relname::text FROM headwater.logged_leaves AS l
JOIN pg_class AS c ON c.oid = l.oid JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE l.root = %s
"""


def create_publication(do: Do, server: int) -> None:
    """Before the slot, which decodes nothing of a publication that came after it. Transactions that only say that they
    are parts of a global one have a place in the log as well. Partitions tell for themselves: under their root's name
    the log would not say whether an old row is whole."""
    options = "publish_via_partition_root = false" + (
        ", publish_generated_columns = stored" if server >= 180000 else ""
    )
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


def publish_leaf(do: Do, root: int, oid: int, leaf: sql.Composable) -> None:
    """A partition that holds rows. Its writers are kept out; what it lets be told from here on is whole. `since` is
    where the log was when its TRUNCATE trigger had been put there."""
    do(
        "INSERT INTO headwater.logged_leaves SELECT oid, %s, relreplident, pg_current_wal_insert_lsn() FROM pg_class"
        " WHERE oid = %s ON CONFLICT (oid) DO UPDATE SET root = excluded.root, since = excluded.since",
        [root, oid],
    )
    do(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(leaf))


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
    _identity_before(do, was, name)
    row = connection.execute("SELECT to_regclass('headwater.logged_leaves') IS NOT NULL").fetchone()
    if row and row[0]:
        for was, schema, table in connection.execute(_LEAVES, [oid]).fetchall():
            _identity_before(do, was, sql.Identifier(schema, table))
        do("DELETE FROM headwater.logged_leaves WHERE root = %s", [oid])


def _identity_before(do: Do, was: str, table: sql.Composable) -> None:
    before = {"d": "DEFAULT", "n": "NOTHING"}.get(was)
    if before is not None:  # an index that was its identity may be gone; FULL serves who relied on it as well
        do(sql.SQL("ALTER TABLE {} REPLICA IDENTITY " + before).format(table))


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
