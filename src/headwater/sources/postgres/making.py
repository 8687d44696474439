"""What installing capture does to a database, and taking a table's capture away: statements, done or written down
(`script.py`). Looking comes first; nothing here depends on what it has just done.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from headwater.model.names import TableName
from headwater.sources.postgres import log, log_setup, owners, parts
from headwater.sources.postgres import schema as layout
from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.script import Do
from headwater.sources.postgres.standing import Standing, leaves_of, unwatched
from headwater.sources.postgres.triggers import (
    capture_statements,
    changes_table,
    drop_row_triggers,
    function_of,
    row_triggers,
    truncate_trigger,
)

_TRUNCATED = """
SELECT FROM headwater.leaves AS l JOIN pg_class AS c ON c.oid = l.oid WHERE l.oid = %s AND l.filenode <> c.relfilenode
"""

_UNMOVED = """
DO $$ BEGIN
    IF EXISTS (SELECT FROM headwater.leaves AS l JOIN pg_class AS c ON c.oid = l.oid
            WHERE l.oid = {leaf} AND l.filenode <> c.relfilenode) THEN
        RAISE EXCEPTION 'a partition was truncated meanwhile: print the statements again';
    END IF;
END $$
"""
"""Where statements are run later than they were made."""

_NOTE_LEAVES = """
INSERT INTO headwater.leaves SELECT %(root)s, t.oid, c.relfilenode,
    coalesce(headwater.signature(t.oid, %(root)s), 'since ' || t.since)
FROM headwater.tree(%(root)s) AS t JOIN pg_class AS c ON c.oid = t.oid WHERE t.oid = %(leaf)s OR %(leaf)s = 0
"""

_NOTE_LOGGED_LEAVES = """
INSERT INTO headwater.leaves SELECT %(root)s, t.oid, c.relfilenode,
    coalesce(headwater.signature(t.oid, %(root)s), 'since ' || t.since)
FROM headwater.tree(%(root)s) AS t JOIN pg_class AS c ON c.oid = t.oid
WHERE c.relkind = 'p' OR t.oid IN (SELECT l.oid FROM headwater.logged_leaves AS l)
"""
"""Those that have been made ready; one that came meanwhile was not."""


def make_schema(do: Do, found: Standing, by_log: bool, server: int) -> None:
    if found.stale:
        log_setup.abandon(do)
        do("DROP SCHEMA headwater CASCADE")
    if found.stale or not found.there:
        for statement in layout.statements():
            do(statement)
        do(parts.CREATE)
    if by_log:
        log_setup.prepare(do, layout.fault_with_log())
        log_setup.create_publication(do, server)


def make_table(connection: Connection, do: Do, found: Standing, wanted: tuple[TableName, int], by_log: bool) -> None:
    """Capture of one table, unless it is captured well."""
    table, oid = wanted
    if oid in found.tables and found.tables[oid].fault is None and _watch(connection, do, oid):
        return
    if oid in found.tables or oid in found.logged:  # the latter: a setup that was cut short
        forget_table(connection, do, oid)
    for gone in (c for c in found.tables.values() if c.recorded == (table.schema, table.table) and c.oid != oid):
        if gone.current is None:
            forget_table(connection, do, gone.oid)
            do("DELETE FROM headwater.owned WHERE oid = %s", [gone.oid])
    leaves = leaves_of(connection, oid)
    names = None if leaves is None else [name for name, _, _ in leaves]
    identifier = sql.Identifier(table.schema, table.table)
    if by_log:
        log_setup.publish(do, oid, identifier)
    for statement in capture_statements(oid, identifier, names, by_log):
        do(statement)
    if by_log:
        for name, leaf, _ in leaves or ():
            log_setup.publish_leaf(do, oid, leaf, name)
        return  # noted when the slot is there
    # CREATE TRIGGER waited for every writer of the table and keeps new ones out until we commit. So a snapshot taken
    # now shows all that was written without capture, and whatever it does not show will be captured.
    note_table(do, table, oid)
    do(_NOTE_LEAVES, {"root": oid, "leaf": 0})


def note_logged(do: Do, new: Sequence[tuple[TableName, int]]) -> None:
    """The slot tells every transaction that a snapshot taken now does not show: it was there before, and those under
    way then have ended."""
    for table, oid in new:
        note_table(do, table, oid)
        do(_NOTE_LOGGED_LEAVES, {"root": oid})
    log_setup.note_columns(do, [oid for _, oid in new])


def note_table(do: Do, table: TableName, oid: int) -> None:
    do(
        "INSERT INTO headwater.tables VALUES (%(oid)s, %(schema)s, %(table)s, pg_current_snapshot(), gen_random_uuid(),"
        " headwater.signature(%(oid)s, %(oid)s))",
        {"oid": oid, "schema": table.schema, "table": table.table},
    )


def _watch(connection: Connection, do: Do, oid: int) -> bool:
    """Put TRUNCATE triggers on partitions that came since. Creating one keeps writers out, so if a partition is still
    the one whose first row was noted, nothing was missed."""
    for name, leaf, _ in unwatched(connection, oid):
        for statement in truncate_trigger(oid, name):
            do(statement)
        moved = connection.execute(_TRUNCATED, [leaf])
        if moved.rowcount:
            return False
        do(sql.SQL(_UNMOVED).format(leaf=sql.Literal(leaf)))
        if oid in log.logged(connection):
            log_setup.publish_leaf(do, oid, leaf, name)
        do("DELETE FROM headwater.leaves WHERE oid = %s", [leaf])
        do(_NOTE_LEAVES, {"root": oid, "leaf": leaf})
    return True


def to_log(connection: Connection, do: Do, table: TableName, oid: int) -> None:
    """From triggers, while writers are kept out."""
    name = sql.Identifier(table.schema, table.table)
    leaves = leaves_of(connection, oid) or []
    log_setup.publish(do, oid, name)
    log_setup.note_columns(do, [oid])
    for statement in drop_row_triggers(name):
        do(statement)
    for leaf_name, leaf, watched in leaves:
        for statement in () if watched else truncate_trigger(oid, leaf_name):
            do(statement)
        log_setup.publish_leaf(do, oid, leaf, leaf_name)
    _note_triggers(do, oid)


def to_triggers(connection: Connection, do: Do, table: TableName, oid: int) -> None:
    """From the log, which has been moved, while writers are kept out."""
    name, leaves = sql.Identifier(table.schema, table.table), leaves_of(connection, oid)
    log_setup.forget(connection, do, oid)
    for statement in row_triggers(oid, name, leaves is not None):
        do(statement)
    _note_triggers(do, oid)


def _note_triggers(do: Do, oid: int) -> None:
    do("UPDATE headwater.tables SET signature = headwater.signature(oid, oid) WHERE oid = %s", [oid])
    do("DELETE FROM headwater.leaves WHERE root = %s", [oid])
    do(_NOTE_LEAVES, {"root": oid, "leaf": 0})


def forget_table(connection: Connection, do: Do, oid: int) -> None:
    """Cascading from our own function drops the triggers, too: dropping them by name would take the table's owner."""
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [f"headwater.changes_{oid}"]).fetchone()
    if row and row[0]:
        owners.remember_witnesses(do, oid)
    do(sql.SQL("DROP FUNCTION IF EXISTS {}() CASCADE").format(function_of(oid)))
    do(sql.SQL("DROP TABLE IF EXISTS {}").format(changes_table(oid)))
    for place in ("tables", "gaps"):
        do(sql.SQL("DELETE FROM {} WHERE oid = %s").format(sql.Identifier("headwater", place)), [oid])
    do("DELETE FROM headwater.leaves WHERE root = %s", [oid])
    if oid in log.logged(connection):
        log_setup.forget(connection, do, oid)
