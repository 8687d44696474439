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

from psycopg import sql

from headwater.model.errors import SourceRefused
from headwater.model.names import TableName
from headwater.model.source import SourceSpec
from headwater.sources.postgres import grants, log, log_needs, log_setup, owners
from headwater.sources.postgres import schema as layout
from headwater.sources.postgres.connection import Connection, ConnectionPool
from headwater.sources.postgres.making import forget_table, make_schema, make_table, note_logged, to_log, to_triggers
from headwater.sources.postgres.patience import Waiting, patiently
from headwater.sources.postgres.script import doing
from headwater.sources.postgres.standing import (
    Captured,
    inspect,
    leaves_of,
    meta,
    new_tables,
    noted,
    standing,
    unwatched,
)
from headwater.sources.postgres.triggers import PARTITION_TRIGGERS, TRIGGERS

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
    bare = {oid: unwatched(connection, oid) for _, oid in watched}
    grants.check(
        connection,
        [*new, *(one for one in watched if bare[one[1]])],
        new_schema=found is None or bool(found.stale),
    )
    by_log = _by_log(connection, spec, new)
    if by_log and not log.is_used(connection):
        lines.append(f"create publication {log.PUBLICATION} and a replication slot")
    for table, oid in new:
        again = f" anew, because {standing[oid].fault}" if oid in standing else ""
        if by_log:
            on = "" if leaves_of(connection, oid) is None else " on each partition"
            lines.append(f"capture {table}{again}: by the log, REPLICA IDENTITY FULL, trigger headwater_truncate{on}")
            continue
        triggers = PARTITION_TRIGGERS if leaves_of(connection, oid) is not None else TRIGGERS
        lines.append(f"capture {table}{again}: change table headwater.changes_{oid}, triggers {', '.join(triggers)}")
    for table, _ in _switched(connection, spec, watched):
        how = "the log" if spec.capture == "log" else "triggers"
        lines.append(f"capture {table} by {how} from now on, without a gap")
    for table, oid in watched:
        if bare[oid]:
            lines.append(f"capture {table}: trigger headwater_truncate on {len(bare[oid])} new partitions")
        elif not standing[oid].owned or not owners.registered(connection, spec):
            lines.append(f"share the capture of {table} that is here")
    return lines


def install(connections: ConnectionPool, spec: SourceSpec, wanted: Sequence[tuple[TableName, int]]) -> list[str]:
    with connections.borrow() as connection:
        lines = plan(connection, spec, wanted)
        if lines:
            found = standing(connection, spec.owner)
            new = new_tables(found, wanted)
            by_log = bool(_by_log(connection, spec, new))
            switched = _switched(connection, spec, [one for one in wanted if one not in new])
            patiently(connection, lambda c, at: _install(c, spec, wanted, at, by_log))
            _switch(connections, connection, spec, switched)
            if by_log:
                log_setup.begin_slot(connection, doing(connection))
                patiently(connection, lambda c, at: _note_logged(c, spec, new))
    return lines


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
    if not tables:
        return
    do = doing(connection)
    if spec.capture == "log":
        patiently(connection, lambda c, at: log_setup.prepare(do, layout.fault_with_log()))
        log_setup.create_publication(do, connection.info.server_version)
        log_setup.begin_slot(connection, do)
    for table, oid in tables:
        patiently(connection, lambda c, at, t=table, o=oid: _switch_table(connections, c, t, o))  # type: ignore[misc]  # mypy cannot type defaults of lambdas
    if spec.capture != "log":
        log_setup.end_slot(connection)


def _switch_table(connections: ConnectionPool, connection: Connection, table: TableName, oid: int) -> None:
    name, do = sql.Identifier(table.schema, table.table), doing(connection)
    do(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(name))
    if oid in log.logged(connection):
        log.Log().move_in(connection)
        to_triggers(connection, do, table, oid)
    else:
        to_log(connection, do, table, oid)


def _by_log(connection: Connection, spec: SourceSpec, new: Sequence[tuple[TableName, int]]) -> bool:
    """Whether tables that are to be captured are so by the log."""
    if spec.capture == "triggers" or not new:
        return False
    why = log_needs.unable(connection, [oid for _, oid in new])
    if why is not None and spec.capture == "log":
        raise SourceRefused(f"source {spec.name} cannot be captured by its log: {why[0]}", why[1])
    return why is None


def _install(
    connection: Connection, spec: SourceSpec, wanted: Sequence[tuple[TableName, int]], waiting: Waiting, by_log: bool
) -> None:
    found, do = standing(connection, spec.owner), doing(connection)  # another install may have been faster
    make_schema(do, found, by_log, connection.info.server_version)
    owners.register(connection, spec)
    for table, oid in wanted:
        waiting(str(table))
        make_table(connection, do, found, (table, oid), by_log)
        if oid in found.tables or not by_log:
            owners.own(connection, spec, oid)


def _note_logged(connection: Connection, spec: SourceSpec, new: Sequence[tuple[TableName, int]]) -> None:
    note_logged(doing(connection), new)
    for _, oid in new:
        owners.own(connection, spec, oid)


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
            log_setup.abandon(doing(connection))
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
        forget_table(connection, doing(connection), captured.oid)
