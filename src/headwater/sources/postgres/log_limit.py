"""How much of its log the server keeps for our slot, and when it is given up.

A slot that nobody reads holds the log until the disk is full, and then the database stops: worse than any stale view.
So there is a limit: `log_limit` of the source, or the server's own `max_slot_wal_keep_size` if that is smaller. Whoever
of the project looks at the source when more is held than that gives the slot up: tables that relied on it have a gap,
which says why, and their views halt until they are loaded again. A slot is never given up without a gap: it is noted
first, and a slot that is gone is noticed by itself.

Only somebody who looks can act. A project that nobody runs does not watch its slot; the server's own limit does.
"""

from __future__ import annotations

from headwater.model.sizes import byte_size
from headwater.model.source import Held
from headwater.sources.postgres import log
from headwater.sources.postgres.connection import Connection

GIVEN_UP = "was captured by a slot that was given up"

_HELD = """
SELECT (pg_current_wal_lsn() - s.restart_lsn)::bigint,
       pg_size_bytes(nullif(current_setting('max_slot_wal_keep_size'), '-1')), s.slot_name
FROM headwater.log AS l JOIN pg_catalog.pg_replication_slots AS s
    ON s.slot_name = l.slot AND s.database = current_database()
WHERE NOT pg_is_in_recovery() AND s.restart_lsn IS NOT NULL
"""


def held(connection: Connection, limit: int | None) -> Held | None:
    """What the server keeps for us; None where nothing is captured this way."""
    found = _look(connection, limit) if log.is_used(connection) else None
    return found[0] if found else None


def guard(connection: Connection, limit: int | None) -> Held | None:
    """The same, after giving up the slot if that is too much. The connection has no transaction."""
    return watch(connection, limit) if log.is_used(connection) else None


def watch(connection: Connection, limit: int | None) -> Held | None:
    """The same, where the log is known to be used."""
    found = _look(connection, limit)
    if found is None or not found[0].too_much:
        return found[0] if found else None
    with connection.transaction():
        connection.execute(log.LOCK)  # whoever moves has let go of some of it when we are next
        now = _look(connection, limit)
        if now is None or not now[0].too_much:
            return None if now is None else now[0]
        kept, slot = now
        why = f"{GIVEN_UP}: the server kept {byte_size(kept.bytes)} of its log for it, more than"
        most = f"{byte_size(kept.limit or 0)} (log_limit, max_slot_wal_keep_size)"
        log.note_gap(connection, log.logged(connection), f"{why} {most}")
        connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    return None


def _look(connection: Connection, limit: int | None) -> tuple[Held, str] | None:
    row = connection.execute(_HELD).fetchone()
    if row is None:
        return None
    size, own, slot = row
    limits = [one for one in (limit, own) if one is not None]
    return Held(size, min(limits, default=None)), slot


def keeps_without_limit(connection: Connection) -> bool:
    """Whether nothing but Headwater bounds what the server keeps."""
    row = connection.execute("SELECT current_setting('max_slot_wal_keep_size') = '-1'").fetchone()
    return bool(row and row[0])
