"""Capture by the server's own log: what is committed is read from a replication slot, and moved to the change tables.

    publication headwater      the tables that are captured this way
    slot headwater_<database>
    headwater.log              one row: the slot, and up to where it was moved
    headwater.logged           a table captured this way: its replica identity before, how its columns were called
    headwater.commits          of what was moved: each transaction's place in the log

Triggers write a change within the writer's own transaction. Here the writer does nothing, and whoever polls or asks
**moves** first: reads the slot up to the end of the log, and puts the changes where the triggers would have put them.
From there on everything is as it is with triggers (positions, as-of, trimming, owners, lives), with one difference:
a transaction's changes come after it, not with it. So whoever relies on them looks twice:

    S, rows      what the base table holds, in one snapshot S
    move         up to where the log ended when S had been taken
    changes      those of transactions that S shows and the position does not, in a later snapshot

**Invariant.** After a move up to an end of the log that was taken after S, the change tables hold every change of every
transaction that S shows. Moving is idempotent: a transaction is skipped that ends at or before `moved`, which is
written together with the changes; the slot is let go only after that.

**Order** is the log's own: `commits` says it.

**Names.** The log tells columns by the names they had. Which numbers they stand for is sure only if nobody has altered
them meanwhile: `A` was noted when the last move had not yet taken its end, `B` is what is there now; what is in both is
what was in between. A column that is not is a gap, and the table is captured anew.

TRUNCATE is not told with its rows: a trigger on the table tells them, as with trigger capture. It costs other writers
nothing.

How it is set up and taken down again is in `log_setup.py`, what it asks of the server in `log_needs.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headwater.model.errors import SourceUnavailable
from headwater.sources.postgres import life
from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.log_marks import Marks
from headwater.sources.postgres.lsn import int_of, lsn_of
from headwater.sources.postgres.moving import COLUMNS_NOW, Moving
from headwater.sources.postgres.recent import AT_MOST, Moved
from headwater.sources.postgres.snapshot import Snapshot

PUBLICATION = "headwater"
FETCH_FIRST, FETCH, FETCH_BYTES = 1_000, 30_000, 4 << 20
"""Of the log's messages: a thousand at first, then as many as these bytes hold if they go on as they are, within
reason."""
QUIET_BYTES = 4 << 20
"""So much of the log that says nothing of our tables is passed over before that is noted, and the slot let go of it."""
HELD_BYTES = 1 << 20
"""So much that was moved may stay in the slot: to let go of it makes the server read that part of its log, and to be
told of it again, and pass it over, costs no more while it is little."""

STATE = """
SELECT l.slot, l.moved::text, s.slot_name IS NOT NULL AND coalesce(s.wal_status, '') <> 'lost',
       s.confirmed_flush_lsn > l.moved,
       EXISTS (SELECT FROM pg_catalog.pg_publication AS p WHERE p.pubname = 'headwater' AND p.xmin = l.publication),
       s.restart_lsn::text, s.confirmed_flush_lsn::text
FROM headwater.log AS l LEFT JOIN pg_catalog.pg_replication_slots AS s
    ON s.slot_name = l.slot AND s.database = current_database()
"""

_ON_DISK = """
SELECT pg_current_xact_id()::text::bigint, CASE WHEN current_setting('synchronous_commit') = 'off'
    THEN set_config('synchronous_commit', 'local', true) END
"""
"""The transaction that moves, which positions will name: it must not be taken back by a crash when it is committed."""

LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('headwater log', 0))"


def is_used(connection: Connection) -> bool:
    """Whether some table here is captured by the log."""
    row = connection.execute("SELECT to_regclass('headwater.logged') IS NOT NULL").fetchone()
    return bool(row and row[0]) and bool(connection.execute("SELECT FROM headwater.logged LIMIT 1").rowcount)


def logged(connection: Connection) -> set[int]:
    """The tables that are captured by the log."""
    if not is_used(connection):
        return set()
    return {row[0] for row in connection.execute("SELECT oid::bigint FROM headwater.logged")}


def note_gap(connection: Connection, oids: Iterable[int], reason: str) -> bool:
    """These tables' changes were not all told; whether that was news."""
    noted = 0
    for oid in oids:
        noted += connection.execute(
            "INSERT INTO headwater.gaps SELECT %(oid)s, clock_timestamp(), %(reason)s WHERE NOT EXISTS"
            " (SELECT FROM headwater.gaps WHERE oid = %(oid)s AND reason = %(reason)s)",
            {"oid": oid, "reason": reason},
        ).rowcount
    return noted > 0


@dataclass(frozen=True)
class _Done:
    """A move: up to where it is sure that everything is moved, whether something was written, and what was told."""

    upto: int = 0
    wrote: bool = False
    told: Moved = field(default_factory=lambda: Moved.joined(()))


class Log:
    """The log of one source, moved when somebody needs to know."""

    def __init__(self) -> None:
        self._known = 0
        """Up to where everything is moved, or there was nothing to move."""
        self._asked = 0
        self._marks = Marks()
        self._recent: list[Moved] | None = None
        """What was moved here and may not have been told yet, if somebody wants to know."""
        self._much = False
        """Whether much was told the last time, and would be again."""

    def knows(self, upto: str | None) -> bool:
        """Whether everything up to there is moved already."""
        return upto is not None and self._asked <= int_of(upto) <= self._known

    def move(self, upto: str | None, idle: Connection, held: int) -> int | None:
        """Have every transaction that ended before this place of the log in the change tables. The transaction that
        wrote them, if there was anything to write: an idle source stays as it is. `idle`: a connection without a
        transaction, to do it with; `held`: how much of the log the server keeps for the slot."""
        if upto is None:
            raise SourceUnavailable(
                "a server in recovery cannot be read by its log", 'connect to the primary, or capture = "triggers"'
            )
        if int_of(upto) < self._asked:  # the log went back: this is another life of the server
            self._known = 0
        self._asked = int_of(upto)
        if self._asked <= self._known:
            return None
        if not life.flushed(idle, self._marks.make(idle, upto, held)):
            raise SourceUnavailable("the server does not write its log to disk", "look at the server's log")
        with idle.transaction():
            done = self._move(idle)
            row = idle.execute(_ON_DISK).fetchone() if done.wrote else None
        self._remember(done.told)
        self._known = max(self._known, done.upto)
        return row[0] if row else None

    def move_in(self, connection: Connection) -> None:
        """In a transaction that keeps writers of a table out: have all that they wrote in the change tables."""
        row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        if row is None or not life.flushed(connection, row[0]):
            raise SourceUnavailable("the server does not write its log to disk", "look at the server's log")
        self._move(connection)

    def recent(self, position: Snapshot) -> Moved:
        """What was moved here that the position does not show; and remember what is moved from here on."""
        found = Moved.joined(self._recent or ()).after(position)
        self._recent = [found]
        return found

    def _remember(self, told: Moved) -> None:
        if self._recent is not None:
            known = sum(len(part.xids) for part in self._recent)
            self._recent = [*self._recent, told] if known + len(told.xids) <= AT_MOST else []

    def _move(self, connection: Connection) -> _Done:
        connection.execute(LOCK)
        state = connection.execute(STATE).fetchone()
        if state is None:
            return _Done()
        slot, moved, there, stolen, published, begins, let_go = state
        gap = None if there else f"was captured by slot {slot}, which is gone"
        gap = gap or ("was captured by a slot that somebody else has read from" if stolen else None)
        gap = gap or (None if published else "was captured by publication headwater, which was altered")
        if gap is not None:
            return _Done(wrote=note_gap(connection, logged(connection), gap))
        all_of_it = self._much or self._marks.lets_go(int_of(begins), int_of(moved))
        if int_of(let_go) < int_of(moved) - (0 if all_of_it else HELD_BYTES):  # of what was committed earlier
            connection.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [slot, moved])
        was = connection.execute("SELECT oid::bigint, columns FROM headwater.logged").fetchall()
        before: dict[int, str] = dict(was)
        noted: dict[int, str] = dict(connection.execute(COLUMNS_NOW).fetchall())
        row = connection.execute("SELECT pg_current_wal_flush_lsn()::text, pg_current_snapshot()::text").fetchone()
        assert row is not None
        end, xmax = row[0], int(row[1].split(":")[1])
        moving = Moving(connection, before, int_of(moved), xmax)
        size = 0
        for messages in _messages(connection, slot, end):
            moving.take(messages)
            size += sum(map(len, messages))
        moving.write()
        self._much = size > HELD_BYTES
        altered = [(oid, columns) for oid, columns in noted.items() if before.get(oid) != columns]
        told = moving.end != int_of(moved) or bool(altered) or int_of(end) - int_of(moved) >= QUIET_BYTES
        if not told and not self._marks.note(int_of(begins), int_of(moved), int_of(end)):
            return _Done(int_of(end))
        connection.execute(
            "UPDATE headwater.log SET moved = greatest(moved, %s::pg_lsn, %s::pg_lsn)", [end, lsn_of(moving.end)]
        )
        for oid, columns in altered:
            connection.execute("UPDATE headwater.logged SET columns = %s WHERE oid = %s", [columns, oid])
        for oid, reason in moving.gaps.items():
            note_gap(connection, [oid], reason)
        return _Done(int_of(end), True, moving.told)


def _messages(connection: Connection, slot: str, end: str) -> Iterator[list[bytes]]:
    """So many at a time as are worth the trip, and no more than fit into memory."""
    with connection.cursor(name="headwater_log") as cursor:
        cursor.execute(
            "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, NULL,"
            " 'proto_version', '1', 'publication_names', %s)",
            [slot, end, PUBLICATION],
            binary=True,
        )
        fetch = FETCH_FIRST
        while found := [row[0] for row in cursor.fetchmany(fetch)]:
            yield found
            fetch = max(1, min(FETCH, FETCH_BYTES * len(found) // sum(map(len, found))))
