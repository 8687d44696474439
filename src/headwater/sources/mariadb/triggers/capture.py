"""Installing capture by triggers, seeing whether it is whole, taking it away.

MariaDB commits each CREATE and DROP by itself. So a table is captured from the round on that is made when all its
triggers are there (`since`), in the transaction that also notes it; what its first triggers wrote before that is of no
account. CREATE TRIGGER waits for every transaction that has touched the table, so none is caught in half. What a
failure leaves behind (triggers and tables of changes that are noted nowhere) the next command takes away: triggers
first, for writers must not meet a trigger whose table is gone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

import pymysql

from headwater.model.errors import SourceUnavailable
from headwater.model.names import TableName
from headwater.model.source import SourceSpec
from headwater.sources.mariadb import books
from headwater.sources.mariadb.catalog import MariaTable
from headwater.sources.mariadb.connection import Connection, quoted, rows
from headwater.sources.mariadb.triggers import notes as notes_of
from headwater.sources.mariadb.triggers.facts import Facts, facts
from headwater.sources.mariadb.triggers.layout import (
    CAPTURE,
    CAPTURED,
    CREATE,
    GAPS,
    PARTS,
    RANGES,
    SQL_MODE,
    TAGGED,
    USES,
    change_table,
    changes_of,
    triggers,
)
from headwater.sources.mariadb.triggers.notes import Notes
from headwater.sources.mariadb.triggers.rounds import lock, number_within

_LOCKED = 1205
_PATIENCE, _WAIT = 30, 2
"""Seconds: how long a table may stay locked, and how long others are kept waiting behind us for it at a time."""


def steps(
    connection: Connection, spec: SourceSpec, wanted: Sequence[TableName], there: Mapping[TableName, MariaTable]
) -> list[str]:
    """What `install` would do."""
    notes, lines = notes_of.read(connection, spec), list[str]()
    if notes is None:
        lines.append(f"create {', '.join(CREATE)}: notes of what is captured")
    elif absent := notes_of.missing(connection):
        lines.append(f"create {', '.join(absent)}")
    for table in dict.fromkeys(wanted):
        captured = notes.tables.get(table.table) if notes else None
        if captured is None or notes is None:
            lines.append(f"capture {table} by triggers: table {changes_of(table.table)}, 3 triggers")
        elif why := captured.broken(facts(connection, table.table)):
            lines.append(f"capture {table} by triggers anew, because {why}")
        elif table.table not in notes.mine:
            lines.append(f"use the capture of {table} that is here")
    if not lines and notes is not None and not notes_of.registered(connection, spec):
        lines.append(f"note that this is the project at {spec.owner_label}")
    return lines


def install(
    connection: Connection, spec: SourceSpec, wanted: Sequence[TableName], there: Mapping[TableName, MariaTable]
) -> None:
    notes = notes_of.read(connection, spec)
    if notes is None:
        drop_all(connection)
    notes_of.create(connection, notes_of.missing(connection))
    tables = notes.tables if notes else {}
    names = dict.fromkeys(wanted)
    new = [t for t in names if t.table not in tables or tables[t.table].broken(facts(connection, t.table))]
    made: dict[str, tuple[int, Facts]] = {}
    try:
        needed = {table.table: _uncapture(connection, notes, table.table) for table in new}
        for table in new:
            made[table.table] = _capture(connection, there[table])
        lock(connection)
        now = number_within(connection, always=bool(new))
        for name, (number, found) in made.items():
            rows(connection, f"INSERT INTO {CAPTURED} VALUES (%s, %s, %s, %s)", [number, name, now, found.text()])
            for owner in needed[name]:
                rows(connection, f"INSERT IGNORE INTO {USES} VALUES (%s, %s)", [owner, number])
        notes_of.own(connection, spec, [t.table for t in names], now)
        connection.commit()
    finally:
        connection.rollback()
        sweep(connection)


def _uncapture(connection: Connection, notes: Notes | None, name: str) -> list[str]:
    """Forget the capture that is about to be replaced; the projects that used it."""
    if notes is None or name not in notes.tables:
        return []
    lock(connection)
    found = rows(connection, f"SELECT owner FROM {USES} WHERE number = %s", [notes.tables[name].number])
    rows(connection, f"DELETE FROM {CAPTURED} WHERE name = %s", [name])
    connection.commit()
    return [row[0] for row in found]


def _capture(connection: Connection, table: MariaTable) -> tuple[int, Facts]:
    """Table of changes and triggers, new ones; the number they write, and what is there to be seen."""
    lock(connection)
    rows(connection, f"UPDATE {CAPTURE} SET numbers = numbers + 1")
    ((number,),) = rows(connection, f"SELECT numbers FROM {CAPTURE}")
    connection.commit()
    wanted = triggers(table, int(number))
    _patiently(connection, [f"DROP TRIGGER IF EXISTS {quoted(name)}" for name in wanted])
    rows(connection, f"DROP TABLE IF EXISTS {quoted(changes_of(table.name.table))}")
    rows(connection, change_table(table))
    rows(connection, f"SET SESSION sql_mode = '{SQL_MODE}'")
    try:
        _patiently(connection, wanted.values())
    finally:
        rows(connection, "SET SESSION sql_mode = ''")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:  # an alteration is dated to the second, and the next one must show
        found = facts(connection, table.name.table)
        ((now,),) = rows(connection, "SELECT DATE_FORMAT(NOW(), '%Y-%m-%d %H:%i:%s')")
        if str(now) > found.made:
            break
        time.sleep(0.02)
    return int(number), found


def _patiently(connection: Connection, statements: Iterable[str]) -> None:
    """Each waits for the writers of its table, and whoever comes meanwhile waits behind it: so not for long at a
    time."""
    rows(connection, f"SET SESSION lock_wait_timeout = {_WAIT}")
    try:
        for statement in statements:
            deadline = time.monotonic() + _PATIENCE
            while True:
                try:
                    rows(connection, statement)
                    break
                except pymysql.OperationalError as error:
                    if error.args[0] != _LOCKED:
                        raise
                    if time.monotonic() > deadline:
                        raise SourceUnavailable(
                            "a table stayed locked by another session for too long",
                            "try again when that session's transaction has ended; SHOW PROCESSLIST shows which it is",
                        ) from None
                    time.sleep(_WAIT / 4)
    finally:
        rows(connection, "SET SESSION lock_wait_timeout = 30")


# ── taking away ──────────────────────────────────────────────────────────────────────────────────────────────────


def release(connection: Connection, spec: SourceSpec, keep: Sequence[str]) -> list[str]:
    lock(connection)
    notes = notes_of.read(connection, spec)
    gone = sorted(notes.mine - set(keep)) if notes else []
    if gone:
        notes_of.disown(connection, spec, keep)
        _forget_unneeded(connection)
    connection.commit()
    if gone:
        sweep(connection)
    return [f"stop capturing {name}" for name in gone]


def remove(connection: Connection, spec: SourceSpec) -> list[str]:
    """With the last project goes everything."""
    notes = notes_of.read(connection, spec)
    if notes is None:
        return [f"drop {name}" for name in drop_all(connection)]
    if notes.floor is None and notes.others:
        return []
    if not notes.others:
        return [f"drop {name}" for name in drop_all(connection)]
    lock(connection)
    notes_of.disown(connection, spec, None)
    _forget_unneeded(connection)
    connection.commit()
    sweep(connection)
    return ["forget this project; others use the capture, too"]


def _forget_unneeded(connection: Connection) -> None:
    rows(connection, f"DELETE FROM {CAPTURED} WHERE number NOT IN (SELECT number FROM {USES})")
    _forget_orphans(connection)


def _forget_orphans(connection: Connection) -> None:
    """Of numbers that stand for nothing any longer."""
    for table in (USES, RANGES, GAPS):
        zero = " AND number <> 0" if table == RANGES else ""
        rows(connection, f"DELETE FROM {table} WHERE number NOT IN (SELECT number FROM {CAPTURED}){zero}")


def sweep(connection: Connection) -> None:
    """Triggers and tables of changes that are noted nowhere."""
    lock(connection)
    _forget_orphans(connection)
    captured = rows(connection, f"SELECT name, facts FROM {CAPTURED}")
    connection.commit()
    kept = {name for _, noted in captured for name, _ in Facts.parse(noted).triggers} | {TAGGED}
    tables = {changes_of(name) for name, _ in captured}
    _patiently(connection, [f"DROP TRIGGER IF EXISTS {quoted(t)}" for t in _triggers(connection) if t not in kept])
    for table in _tables(connection):
        if table.startswith("_headwater_of_") and table not in tables:
            rows(connection, f"DROP TABLE IF EXISTS {quoted(table)}")


def drop_all(connection: Connection) -> list[str]:
    """Everything. The generation goes first: nobody relies on what is being taken away. The table of tags stays where
    a capture by the log needs it."""
    there = _tables(connection)
    ours = [t for t in there if t in CREATE or t.startswith("_headwater_of_")]
    if books.META in there:
        ours = [t for t in ours if t != PARTS]
    if CAPTURE in ours:
        rows(connection, f"DELETE FROM {CAPTURE}")
    found = _triggers(connection)
    _patiently(connection, [f"DROP TRIGGER IF EXISTS {quoted(trigger)}" for trigger in found])
    if ours:
        rows(connection, f"DROP TABLE IF EXISTS {', '.join(map(quoted, ours))}")
    return [*(f"trigger {name}" for name in found), *(f"table {name}" for name in ours)]


def _triggers(connection: Connection) -> list[str]:
    found = rows(
        connection,
        "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE()"
        " AND LEFT(TRIGGER_NAME, 11) = '_headwater_'",
    )
    return sorted(str(name) for (name,) in found)


def _tables(connection: Connection) -> list[str]:
    return sorted(str(row[0]) for row in rows(connection, "SHOW TABLES LIKE '\\_headwater\\_%'"))
