"""Which past a position belongs to, and that it cannot be taken back.

The life part of a position is the capture's generation and **witnesses**: changes that the position contains, by log
(the table's oid, 0 for `headwater.parts`), number and time. `3f9a1c2b/16423.881.1736345000123456`. A database that was
restored to an earlier state does not have them, even if it has moved on and used their numbers again. The witness is
the newest change, by number; if there are transactions that its own did not see, they may have been committed after it,
so up to four of them are named as well. Which change is newest is the same for every table, so that positions of one
snapshot are one text.

Trimming, and dropping a change table, move witnesses to `headwater.witnesses` (`owners.py`).

**Flushed.** A commit may be visible before it is on disk (`synchronous_commit = off`), and a crash then takes it back,
and gives its transaction id to another. So a position is handed out only when the log is flushed up to where it was
when the snapshot had been taken. If nobody else has it flushed, we do: an idle transaction's last page would stay
in memory.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from psycopg import sql

from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.snapshot import Snapshot

_PATIENCE = 1.0
_SHORT, _LONG = 0.001, 0.005
"""Seconds between looks: whoever commits next has the log flushed, which is soon where much is committed."""
_ASK_AFTER = 0.006

NOW = sql.SQL(
    "pg_current_snapshot()::text, headwater.moment(statement_timestamp()),"
    " CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn()::text END"
)
"""The snapshot, a moment before it was taken, and where the log ends; in this order of evaluation it does not matter,
since a statement's snapshot is taken before its expressions are computed."""


def flushed(connection: Connection, lsn: str | None) -> bool:
    """Wait, a second at most, until the log is flushed up to here."""
    deadline = time.monotonic() + _PATIENCE
    asked, pause = False, _SHORT
    while lsn is not None:
        row = connection.execute("SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn", [lsn]).fetchone()
        if row is None or row[0]:
            return True
        if time.monotonic() > deadline:
            return False
        if not asked and time.monotonic() > deadline - _PATIENCE + _ASK_AFTER:
            _flush(connection)
            asked = True
        time.sleep(pause)
        pause = min(_LONG, 2 * pause)
    return True


def _flush(connection: Connection) -> None:
    """A message in the log that nobody reads, flushed with all that came before it. Before PostgreSQL 17 that takes a
    transaction."""
    if connection.info.server_version >= 170000:
        connection.execute("SELECT pg_logical_emit_message(false, 'headwater', '', true)")
        return
    with connection.transaction():
        connection.execute("SET LOCAL synchronous_commit = local")
        connection.execute("SELECT pg_logical_emit_message(true, 'headwater', '')")


def witnesses(connection: Connection, logs: Sequence[tuple[int, sql.Composable]], newest: Sequence[int]) -> str:
    """The life part of a position whose newest transactions have these as their last changes."""
    parts = [
        sql.SQL(
            "SELECT {}::bigint AS log, id, headwater.moment(at) AS moment FROM {} WHERE id = ANY ({}::bigint[])"
        ).format(sql.Literal(oid), log, sql.Literal(newest))
        for oid, log in logs
    ]
    statement = sql.SQL(
        "SELECT (SELECT left(generation::text, 8) FROM headwater.meta), log, id, moment FROM ({}) AS w"
    ).format(sql.SQL(" UNION ALL ").join(parts))
    found = sorted(connection.execute(statement), key=lambda row: -row[2])
    return f"{found[0][0]}/" + "+".join(f"{log}.{number}.{moment}" for _, log, number, moment in found)


def now(connection: Connection) -> tuple[Snapshot, str, str | None]:
    """The snapshot of everything committed, its life, and where the log ended."""
    row = connection.execute("SELECT to_regproc('headwater.newest') IS NOT NULL").fetchone()
    life = "headwater.newest()" if row and row[0] else "''"
    lsn = "CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn()::text END"
    found = connection.execute(sql.SQL("SELECT pg_current_snapshot()::text, " + life + ", " + lsn)).fetchone()
    assert found is not None
    return Snapshot.parse(found[0]), found[1], found[2]
