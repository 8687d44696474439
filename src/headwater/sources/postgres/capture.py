"""Capture at a PostgreSQL source: everything Headwater puts into somebody else's database, and how it goes again.

    schema headwater
      meta             one row: format and generation of the capture, what was trimmed, the database it was installed in
      tables, leaves   what is captured: the table's oid, its name then, the position `since` which; its partitions
      gaps             moments at which capture knowingly missed something
      consumers, owned for which projects (`owners.py`)
      witnesses        of changes that are gone, what proves the life of a position (`life.py`)
      ids              one sequence for all changes of the database
      changes_<oid>    the changes of one table, written by headwater_capture_<oid>() (`triggers.py`)
      parts, part_of() transactions tagged as parts of a global one (`parts.py`)
      functions and types that readers use (`schema.py`)
    on each captured table
      triggers, whose names begin with headwater_

Installing is one transaction: all tables or none. It waits for writers of each table, but keeps nobody waiting long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from headwater.model.errors import SourceRefused
from headwater.model.names import TableName
from headwater.model.source import SourceSpec
from headwater.sources.postgres import grants, log, log_needs, log_setup, owners, parts
from headwater.sources.postgres import schema as layout
from headwater.sources.postgres.connection import Connection, ConnectionPool
from headwater.sources.postgres.patience import Waiting, patiently
from headwater.sources.postgres.triggers import (
    PARTITION_TRIGGERS,
    TRIGGERS,
    capture_statements,
    changes_table,
    drop_row_triggers,
    function_of,
    row_triggers,
    truncate_trigger,
)

_INSPECT = """
SELECT t.oid::bigint, t.schema_name, t.table_name, n.nspname, c.relname, headwater.fault(t.oid),
       EXISTS (SELECT FROM headwater.owned AS o WHERE o.oid = t.oid AND o.owner = %s)
FROM headwater.tables AS t
LEFT JOIN pg_class AS c ON c.oid = t.oid
LEFT JOIN pg_namespace AS n ON n.oid = c.relnamespace
ORDER BY 2, 3
"""

_LEAVES = """
SELECT n.nspname::text, p.relname::text, p.oid::bigint, EXISTS (
    SELECT FROM pg_trigger AS g WHERE g.tgrelid = p.oid AND g.tgname = 'headwater_truncate')
FROM (WITH RECURSIVE tree (oid) AS (
    SELECT inhrelid FROM pg_inherits WHERE inhparent = %s
    UNION ALL SELECT inhrelid FROM tree JOIN pg_inherits ON inhparent = tree.oid) SELECT oid FROM tree) AS tree
JOIN pg_class AS p ON p.oid = tree.oid AND p.relkind = 'r' JOIN pg_namespace AS n ON n.oid = p.relnamespace
ORDER BY p.oid
"""

_NOTE_LEAVES = """
INSERT INTO headwater.leaves SELECT %(root)s, t.oid, c.relfilenode, headwater.signature(t.oid, %(root)s)
FROM headwater.tree(%(root)s) AS t JOIN pg_class AS c ON c.oid = t.oid WHERE t.oid = %(leaf)s OR %(leaf)s = 0
"""


@dataclass(frozen=True)
class Captured:
    """One row of headwater.tables as it stands now; `fault` says what is wrong with it, None if nothing is."""

    oid: int
    recorded: tuple[str, str]
    current: tuple[str, str] | None
    fault: str | None
    owned: bool


@dataclass(frozen=True)
class Meta:
    """The capture that is here. `stale` says why it must not be used, empty if it may."""

    generation: str
    stale: str = ""


def meta(connection: Connection) -> Meta | None:
    """None when there is no capture here."""
    row = connection.execute(
        "SELECT to_regclass('headwater.meta') IS NOT NULL, EXISTS (SELECT FROM pg_attribute WHERE attname = 'format'"
        " AND attrelid = to_regclass('headwater.meta') AND NOT attisdropped)"
    ).fetchone()
    if row is None or not row[0]:
        return None
    if not row[1]:
        old = connection.execute("SELECT generation::text FROM headwater.meta").fetchone()
        return Meta(old[0], "was installed by an older Headwater") if old else None
    found = connection.execute("SELECT generation::text, format FROM headwater.meta").fetchone()
    if found is None:
        return None
    if found[1] != layout.FORMAT:
        age = "an older" if found[1] < layout.FORMAT else "a newer"
        return Meta(found[0], f"was installed by {age} Headwater")
    home = connection.execute("SELECT home = headwater.here() FROM headwater.meta").fetchone()
    stale = "" if home and home[0] else "came with a copy of the database that it was installed in"
    return Meta(found[0], stale)


def inspect(connection: Connection, owner: str) -> list[Captured]:
    return [
        Captured(oid, (schema, table), None if now_table is None else (now_schema, now_table), fault, owned)
        for oid, schema, table, now_schema, now_table, fault, owned in connection.execute(_INSPECT, [owner])
    ]


def noted(connection: Connection) -> list[tuple[str, str]]:
    """The tables of a capture of any format."""
    rows = connection.execute("SELECT schema_name, table_name FROM headwater.tables ORDER BY 1, 2")
    return [(schema, table) for schema, table in rows]


# ── install ──────────────────────────────────────────────────────────────────────────────────────────────────────


def plan(connection: Connection, spec: SourceSpec, wanted: Sequence[tuple[TableName, int]]) -> list[str]:
    """The lines of `install`, after checking that it will be allowed to."""
    found, lines, standing = meta(connection), list[str](), dict[int, Captured]()
    if found is None:
        _check_name(connection)
        lines.append("create schema headwater: meta tables, a sequence, functions")
    elif found.stale:
        lines.append(f"create schema headwater anew, because the one that is here {found.stale}")
    else:
        standing = {c.oid: c for c in inspect(connection, spec.owner)}
        if not owners.registered(connection, spec) and not wanted:
            lines.append("share the capture that is here")
    new = [(table, oid) for table, oid in wanted if oid not in standing or standing[oid].fault is not None]
    watched = [(table, oid) for table, oid in wanted if (table, oid) not in new]
    unwatched = {oid: _unwatched(connection, oid) for _, oid in watched}
    grants.check(
        connection,
        [*new, *(one for one in watched if unwatched[one[1]])],
        new_schema=found is None or bool(found.stale),
    )
    by_log = _by_log(connection, spec, new)
    if by_log and not log.is_used(connection):
        lines.append(f"create publication {log.PUBLICATION} and a replication slot")
    for table, oid in new:
        again = f" anew, because {standing[oid].fault}" if oid in standing else ""
        if by_log:
            lines.append(f"capture {table}{again}: by the log, REPLICA IDENTITY FULL, trigger headwater_truncate")
            continue
        triggers = PARTITION_TRIGGERS if _leaves(connection, oid) is not None else TRIGGERS
        lines.append(f"capture {table}{again}: change table headwater.changes_{oid}, triggers {', '.join(triggers)}")
    for table, _ in _switched(connection, spec, watched):
        how = "the log" if spec.capture == "log" else "triggers"
        lines.append(f"capture {table} by {how} from now on, without a gap")
    for table, oid in watched:
        if unwatched[oid]:
            lines.append(f"capture {table}: trigger headwater_truncate on {len(unwatched[oid])} new partitions")
        elif not standing[oid].owned or not owners.registered(connection, spec):
            lines.append(f"share the capture of {table} that is here")
    return lines


def install(connections: ConnectionPool, spec: SourceSpec, wanted: Sequence[tuple[TableName, int]]) -> list[str]:
    with connections.borrow() as connection:
        lines = plan(connection, spec, wanted)
        if lines:
            standing = {} if meta(connection) is None else _standing(connection, spec)
            new = [(t, oid) for t, oid in wanted if oid not in standing or standing[oid].fault is not None]
            by_log = bool(_by_log(connection, spec, new))
            standing_ones = [one for one in wanted if one not in new]
            switched = _switched(connection, spec, standing_ones) if standing else []
            patiently(connection, lambda c, at: _install(c, spec, wanted, at, by_log))
            _switch(connections, connection, spec, switched)
            if by_log:
                log_setup.begin_slot(connection)
                patiently(connection, lambda c, at: _note_logged(c, spec, new))
    return lines


def _standing(connection: Connection, spec: SourceSpec) -> dict[int, Captured]:
    found = meta(connection)
    return {} if found is None or found.stale else {c.oid: c for c in inspect(connection, spec.owner)}


def _switched(
    connection: Connection, spec: SourceSpec, standing: Sequence[tuple[TableName, int]]
) -> list[tuple[TableName, int]]:
    """The tables whose changes are seen in another way than the project says."""
    logged = log.logged(connection)
    if spec.capture == "triggers":
        return [one for one in standing if one[1] in logged] if spec.says_capture else []
    others = [one for one in standing if one[1] not in logged]
    if spec.capture != "log" or not others:
        return []
    why = log_needs.unable(connection, [oid for _, oid in others])
    if why is not None:
        raise SourceRefused(f"source {spec.name} cannot be captured by its log: {why[0]}", why[1])
    return others


def _switch(
    connections: ConnectionPool, connection: Connection, spec: SourceSpec, tables: Sequence[tuple[TableName, int]]
) -> None:
    """Whoever has written to a table has ended when its writers are kept out: what was committed before was seen in
    one way, what comes after is seen in the other. The change table, and with it every position, goes on."""
    if tables and spec.capture == "log":
        patiently(connection, lambda c, at: log_setup.prepare(c, layout.fault_with_log()))
        log_setup.create_publication(connection)
        log_setup.begin_slot(connection)
    for table, oid in tables:
        patiently(connection, lambda c, at, t=table, o=oid: _switch_table(connections, c, t, o))  # type: ignore[misc]  # mypy cannot type defaults of lambdas
    if tables and spec.capture != "log":
        log_setup.end_slot(connection)


def _switch_table(connections: ConnectionPool, connection: Connection, table: TableName, oid: int) -> None:
    name = sql.Identifier(table.schema, table.table)
    connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(name))
    if oid in log.logged(connection):
        log.Log(connections).move_in(connection)
        log_setup.forget(connection, oid)
        statements = row_triggers(oid, name)
    else:
        log_setup.publish(connection, oid, name)
        log_setup.note_columns(connection, [oid])
        statements = drop_row_triggers(name)
    for statement in statements:
        connection.execute(statement)
    connection.execute("UPDATE headwater.tables SET signature = headwater.signature(oid, oid) WHERE oid = %s", [oid])


def _by_log(connection: Connection, spec: SourceSpec, new: Sequence[tuple[TableName, int]]) -> bool:
    """Whether tables that are to be captured are so by the log."""
    if spec.capture == "triggers" or not new:
        return False
    why = log_needs.unable(connection, [oid for _, oid in new])
    if why is not None and spec.capture == "log":
        raise SourceRefused(f"source {spec.name} cannot be captured by its log: {why[0]}", why[1])
    return why is None


def _note_logged(connection: Connection, spec: SourceSpec, new: Sequence[tuple[TableName, int]]) -> None:
    """The slot tells every transaction that a snapshot taken now does not show: it was there before, and those under
    way then have ended."""
    for table, oid in new:
        _note_table(connection, table, oid)
        owners.own(connection, spec, oid)
    log_setup.note_columns(connection, [oid for _, oid in new])


def _install(
    connection: Connection,
    spec: SourceSpec,
    wanted: Sequence[tuple[TableName, int]],
    waiting: Waiting,
    by_log: bool = False,
) -> None:
    found = meta(connection)  # another install may have been faster
    if found is not None and found.stale:
        log_setup.abandon(connection)
        connection.execute("DROP SCHEMA headwater CASCADE")
        found = None
    if found is None:
        for statement in layout.statements():
            connection.execute(statement)
        connection.execute(parts.CREATE)
    if by_log:
        log_setup.prepare(connection, layout.fault_with_log())
    owners.register(connection, spec)
    standing = {c.oid: c for c in inspect(connection, spec.owner)}
    for table, oid in wanted:
        waiting(str(table))
        if oid not in standing or standing[oid].fault is not None or not _watch(connection, oid):
            _capture_table(connection, table, oid, standing, by_log)
        if oid in standing or not by_log:
            owners.own(connection, spec, oid)


def _capture_table(
    connection: Connection, table: TableName, oid: int, standing: dict[int, Captured], by_log: bool
) -> None:
    if oid in standing or oid in log.logged(connection):  # the latter: a setup that was cut short
        _forget(connection, oid)
    for gone in (c for c in standing.values() if c.recorded == (table.schema, table.table) and c.oid != oid):
        if gone.current is None:
            _forget(connection, gone.oid)
            connection.execute("DELETE FROM headwater.owned WHERE oid = %s", [gone.oid])
    leaves = _leaves(connection, oid)
    names = None if leaves is None else [name for name, _, _ in leaves]
    identifier = sql.Identifier(table.schema, table.table)
    if by_log:
        log_setup.publish(connection, oid, identifier)
    for statement in capture_statements(oid, identifier, names, by_log):
        connection.execute(statement)
    if by_log:
        return  # noted when the slot is there
    # CREATE TRIGGER waited for every writer of the table and keeps new ones out until we commit. So a snapshot taken
    # now shows all that was written without capture, and whatever it does not show will be captured.
    _note_table(connection, table, oid)
    connection.execute(_NOTE_LEAVES, {"root": oid, "leaf": 0})


def _note_table(connection: Connection, table: TableName, oid: int) -> None:
    connection.execute(
        "INSERT INTO headwater.tables VALUES (%(oid)s, %(schema)s, %(table)s, pg_current_snapshot(), gen_random_uuid(),"
        " headwater.signature(%(oid)s, %(oid)s))",
        {"oid": oid, "schema": table.schema, "table": table.table},
    )


def _watch(connection: Connection, oid: int) -> bool:
    """Put TRUNCATE triggers on partitions that came since. Creating one keeps writers out, so if a partition is still
    the one whose first row was noted, nothing was missed."""
    for name, leaf, _ in _unwatched(connection, oid):
        for statement in truncate_trigger(oid, name):
            connection.execute(statement)
        moved = connection.execute(
            "SELECT FROM headwater.leaves AS l JOIN pg_class AS c ON c.oid = l.oid"
            " WHERE l.oid = %s AND l.filenode <> c.relfilenode",
            [leaf],
        )
        if moved.rowcount:
            return False
        connection.execute("DELETE FROM headwater.leaves WHERE oid = %s", [leaf])
        connection.execute(_NOTE_LEAVES, {"root": oid, "leaf": leaf})
    return True


def _leaves(connection: Connection, oid: int) -> list[tuple[sql.Identifier, int, bool]] | None:
    """The partitions that hold rows, and whether their TRUNCATE is watched; None of a table that has no partitions."""
    row = connection.execute("SELECT relkind::text FROM pg_class WHERE oid = %s", [oid]).fetchone()
    if row is None or row[0] != "p":
        return None
    found = connection.execute(_LEAVES, [oid])
    return [(sql.Identifier(schema, table), leaf, watched) for schema, table, leaf, watched in found]


def _unwatched(connection: Connection, oid: int) -> list[tuple[sql.Identifier, int, bool]]:
    return [leaf for leaf in _leaves(connection, oid) or () if not leaf[2]]


def _forget(connection: Connection, oid: int) -> None:
    """Cascading from our own function drops the triggers, too: dropping them by name would take the table's owner."""
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [f"headwater.changes_{oid}"]).fetchone()
    if row and row[0]:
        owners.remember_witnesses(connection, oid)
    connection.execute(sql.SQL("DROP FUNCTION IF EXISTS {}() CASCADE").format(function_of(oid)))
    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(changes_table(oid)))
    for place in ("tables", "gaps"):
        connection.execute(sql.SQL("DELETE FROM {} WHERE oid = %s").format(sql.Identifier("headwater", place)), [oid])
    connection.execute("DELETE FROM headwater.leaves WHERE root = %s", [oid])
    if oid in log.logged(connection):
        log_setup.forget(connection, oid)


def _check_name(connection: Connection) -> None:
    row = connection.execute("SELECT to_regnamespace('headwater') IS NOT NULL").fetchone()
    if row and row[0]:
        raise SourceRefused(
            "there is a schema headwater already, and it is not Headwater's capture",
            "rename or drop that schema; capture needs the name",
        )


# ── remove ───────────────────────────────────────────────────────────────────────────────────────────────────────


def release(connections: ConnectionPool, spec: SourceSpec, keep: Sequence[tuple[str, str]]) -> list[str]:
    """Table by table: short locks, and never two tables at once."""
    with connections.borrow() as connection:
        found = meta(connection)
        if found is None or found.stale:
            return []
        kept, lines = set(keep), list[str]()
        for captured in inspect(connection, spec.owner):
            if captured.owned and captured.current not in kept and captured.recorded not in kept:
                patiently(connection, lambda c, at, o=captured.oid: owners.disown(c, spec, o))  # type: ignore[misc]  # mypy cannot type defaults of lambdas
        for captured in inspect(connection, spec.owner):
            if captured.oid in _unowned(connection):
                patiently(connection, lambda c, at, o=captured: _drop(c, at, o))  # type: ignore[misc]  # as above
                lines.append(f"dropped capture of {'.'.join(captured.current or captured.recorded)}")
        return [*lines, *log_setup.end_slot(connection)]


def remove(connections: ConnectionPool, spec: SourceSpec) -> list[str]:
    with connections.borrow() as connection:
        found = meta(connection)
        if found is None:
            return []
        if found.stale:
            lines = [f"dropped capture of {schema}.{table}" for schema, table in noted(connection)]
            log_setup.abandon(connection)
            patiently(connection, lambda c, at: c.execute("DROP SCHEMA headwater CASCADE"))
            return [*lines, "dropped schema headwater"]
    lines = release(connections, spec, ())
    with connections.borrow() as connection:
        last: list[bool] = []
        patiently(connection, lambda c, at: last.append(_leave(c, spec)))
        return [*lines, "dropped schema headwater"] if last[-1] else lines


def _leave(connection: Connection, spec: SourceSpec) -> bool:
    """Whether nobody is left, and so the schema is gone, too."""
    connection.execute(
        "DELETE FROM headwater.consumers WHERE owner = %s OR (label = %s AND label <> '')",
        [spec.owner, spec.owner_label],
    )
    if connection.execute("SELECT FROM headwater.consumers LIMIT 1").rowcount:
        return False
    connection.execute("DROP SCHEMA headwater CASCADE")
    return True


def _unowned(connection: Connection) -> set[int]:
    return {row[0] for row in connection.execute(owners.UNOWNED)}


def _drop(connection: Connection, waiting: Waiting, captured: Captured) -> None:
    waiting(".".join(captured.recorded))
    if captured.oid in _unowned(connection):
        _forget(connection, captured.oid)
