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

import contextlib
import datetime as dt
import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from psycopg import sql

from headwater.model.errors import SourceUnavailable
from headwater.sources.postgres import life
from headwater.sources.postgres.connection import Connection, ConnectionPool
from headwater.sources.postgres.partitions import Partitions
from headwater.sources.postgres.pgoutput import Relation, Transaction, transactions
from headwater.sources.postgres.triggers import changes_table

PUBLICATION = "headwater"
FETCH = 5_000
QUIET_BYTES = 4 << 20
"""So much of the log that says nothing of our tables is passed over before that is noted, and the slot let go of it."""
AT_ONCE = 50_000
"""So many changes are written at a time; a transaction of more is held as long as it takes to tell it."""

COLUMNS_NOW = """
SELECT g.oid::bigint, json_agg(json_build_array(a.attnum, a.attname, a.xmin::text) ORDER BY a.attnum)::text
FROM headwater.logged AS g JOIN pg_catalog.pg_attribute AS a ON a.attrelid = g.oid
WHERE a.attnum > 0 AND NOT a.attisdropped GROUP BY g.oid
"""

STATE = """
SELECT l.slot, l.moved::text, s.slot_name IS NOT NULL AND coalesce(s.wal_status, '') <> 'lost',
       s.confirmed_flush_lsn > l.moved,
       EXISTS (SELECT FROM pg_catalog.pg_publication AS p WHERE p.pubname = 'headwater' AND p.xmin = l.publication)
FROM headwater.log AS l LEFT JOIN pg_catalog.pg_replication_slots AS s
    ON s.slot_name = l.slot AND s.database = current_database()
"""

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
class _Columns:
    """Of one table: number and name of each column, and which transaction last altered it."""

    known: tuple[tuple[int, str, str], ...]

    @classmethod
    def read(cls, text: str) -> _Columns:
        return cls(tuple((number, name, by) for number, name, by in json.loads(text)))

    def layout(self, relation: Relation, now: _Columns) -> str | None:
        """The numbers behind the names that the log tells; None if somebody altered them meanwhile."""
        before = {name: (number, name, by) for number, name, by in self.known}
        after = {name: (number, name, by) for number, name, by in now.known}
        taken, left = {number for number, _, _ in self.known}, {number for number, _, _ in now.known}
        numbers = []
        for name in relation.columns:
            one = after.get(name)
            if one is None and name in before and before[name][0] not in left:  # it was dropped since
                numbers.append(before[name][0])
                continue
            if one is None or (one != before.get(name) and (name in before or one[0] in taken)):
                return None
            numbers.append(one[0])
        return " ".join(map(str, numbers))


class Log:
    """The log of one source, moved when somebody needs to know."""

    def __init__(self, connections: ConnectionPool) -> None:
        self._connections = connections
        self._known = 0
        """Up to where everything is moved, or there was nothing to move."""
        self._asked = 0

    def knows(self, upto: str | None) -> bool:
        """Whether everything up to there is moved already."""
        return upto is not None and self._asked <= int_of(upto) <= self._known

    def move(self, upto: str | None, idle: Connection | None = None) -> bool:
        """Have every transaction that ended before this place of the log in the change tables. Whether that wrote
        anything: an idle source stays as it is. `idle`: a connection without a transaction, to do it with."""
        if upto is None:
            raise SourceUnavailable(
                "a server in recovery cannot be read by its log", 'connect to the primary, or capture = "triggers"'
            )
        if int_of(upto) < self._asked:  # the log went back: this is another life of the server
            self._known = 0
        self._asked = int_of(upto)
        if self._asked <= self._known:
            return False
        with contextlib.nullcontext(idle) if idle is not None else self._connections.borrow() as connection:
            if not life.flushed(connection, upto):
                raise SourceUnavailable("the server does not write its log to disk", "look at the server's log")
            with connection.transaction():
                known, wrote = self._move(connection)
        self._known = max(self._known, known)
        return wrote

    def move_in(self, connection: Connection) -> None:
        """In a transaction that keeps writers of a table out: have all that they wrote in the change tables."""
        row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        if row is None or not life.flushed(connection, row[0]):
            raise SourceUnavailable("the server does not write its log to disk", "look at the server's log")
        self._move(connection)

    def _move(self, connection: Connection) -> tuple[int, bool]:
        """Up to where it is sure that everything is moved, and whether something was written."""
        connection.execute(LOCK)
        state = connection.execute(STATE).fetchone()
        if state is None:
            return 0, False
        slot, moved, there, stolen, published = state
        gap = None if there else f"was captured by slot {slot}, which is gone"
        gap = gap or ("was captured by a slot that somebody else has read from" if stolen else None)
        gap = gap or (None if published else "was captured by publication headwater, which was altered")
        if gap is not None:
            return 0, note_gap(connection, logged(connection), gap)
        connection.execute(  # of what was moved and committed earlier
            "SELECT pg_replication_slot_advance(slot_name, %s::pg_lsn) FROM pg_replication_slots"
            " WHERE slot_name = %s AND confirmed_flush_lsn < %s::pg_lsn",
            [moved, slot, moved],
        )
        was = connection.execute("SELECT oid::bigint, columns FROM headwater.logged").fetchall()
        before: dict[int, str] = dict(was)
        noted: dict[int, str] = dict(connection.execute(COLUMNS_NOW).fetchall())
        row = connection.execute("SELECT pg_current_wal_flush_lsn()::text, pg_current_snapshot()::text").fetchone()
        assert row is not None
        end, xmax = row[0], int(row[1].split(":")[1])
        moving = _Moving(connection, before, int_of(moved), xmax)
        for transaction in transactions(_messages(connection, slot, end)):
            moving.take(transaction)
        moving.write()
        altered = [(oid, columns) for oid, columns in noted.items() if before.get(oid) != columns]
        if moving.end == int_of(moved) and not altered and int_of(end) - int_of(moved) < QUIET_BYTES:
            return int_of(end), False
        connection.execute(
            "UPDATE headwater.log SET moved = greatest(moved, %s::pg_lsn, %s::pg_lsn)", [end, lsn_of(moving.end)]
        )
        for oid, columns in altered:
            connection.execute("UPDATE headwater.logged SET columns = %s WHERE oid = %s", [columns, oid])
        for oid, reason in moving.gaps.items():
            note_gap(connection, [oid], reason)
        return int_of(end), True


class _Moving:
    """What a move has read and not written yet."""

    def __init__(self, connection: Connection, before: dict[int, str], moved: int, xmax: int) -> None:
        self._connection, self._moved, self._xmax = connection, moved, xmax
        self._before = {oid: _Columns.read(text) for oid, text in before.items()}
        self._partitions = Partitions.read(connection, before)
        self._layouts: dict[Relation, str | None] = {}
        self._lines: dict[int, list[bytes]] = {}
        self._commits: list[bytes] = []
        self._waiting = 0
        self.end = moved
        self.gaps: dict[int, str] = {}

    def take(self, one: Transaction) -> None:
        if one.end <= self._moved:
            return
        self.end = max(self.end, one.end)
        xid = self._whole(one.xid)
        for oid in one.partial:
            for root in self._concerned(one, oid):
                self.gaps[root] = "was written without its old rows in the log (REPLICA IDENTITY was not FULL)"
        for oid in self._partitions.untold(one.truncated, one.end):
            self.gaps[oid] = "has a partition that was truncated before 'headwater setup' had put a trigger on it"
        at = _timestamp(one.at)
        for change in one.changes:
            table = change.relation.oid
            if table not in self._before:
                table = self._partitions.root(table) or 0
            if not table:
                for root in self._concerned(one, change.relation.oid):
                    self.gaps[root] = "had a partition, perhaps, that was written and is gone"
                continue
            layout = self._layout(change.relation, table)
            if layout is None:
                self.gaps[table] = "was altered while its changes were read from the log"
                continue
            row = change.row
            if b"\\" in row or b"\n" in row or b"\t" in row or b"\r" in row:
                row = row.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\t", b"\\t").replace(b"\r", b"\\r")
            self._lines.setdefault(table, []).append(
                b"%d\t%s\t%d\t%s\t%s\n" % (xid, at, change.count, layout.encode(), row)
            )
        if one.changes or one.truncated:
            self._commits.append(b"%d\t%s\n" % (xid, lsn_of(one.end).encode()))
        self._waiting += len(one.changes)
        if self._waiting >= AT_ONCE:
            self.write()

    def write(self) -> None:
        cursor = self._connection.cursor()
        for oid, lines in self._lines.items():
            if lines:
                into = sql.SQL('COPY {} (xid, at, count, layout, "row") FROM STDIN').format(changes_table(oid))
                with cursor.copy(into) as copy:
                    copy.write(b"".join(lines))
        if self._commits:
            with cursor.copy("COPY headwater.commits (xid, lsn) FROM STDIN") as copy:
                copy.write(b"".join(self._commits))
        self._lines, self._commits, self._waiting = {}, [], 0

    def _concerned(self, one: Transaction, oid: int) -> Collection[int]:
        """The captured tables that miss something if it is not told of this one: itself, or what it is a partition of;
        if it is neither, all that it may have been a partition of. What came before their capture began is no loss."""
        if oid in self._before:
            return [oid]
        root = self._partitions.root(oid)
        if root is None and oid == self._partitions.apart:  # what tells parts of global transactions
            return []
        roots = self._partitions.roots if root is None else [root]
        return [one_root for one_root in roots if self._partitions.begun(one_root) < one.end]

    def _layout(self, relation: Relation, table: int) -> str | None:
        if relation not in self._layouts:
            if not self._layouts:
                found = self._connection.execute(COLUMNS_NOW).fetchall()
                self._now = {oid: _Columns.read(text) for oid, text in found}
            before, now = self._before.get(table), self._now.get(table)
            self._layouts[relation] = None if before is None or now is None else before.layout(relation, now)
        return self._layouts[relation]

    def _whole(self, xid: int) -> int:
        """A transaction's id of 64 bits: the newest with these 32 that was begun by now."""
        found = (self._xmax & ~0xFFFFFFFF) | xid
        return found if found < self._xmax + (1 << 31) else found - (1 << 32)


def _messages(connection: Connection, slot: str, end: str) -> Iterator[bytes]:
    with connection.cursor(name="headwater_log") as cursor:
        cursor.itersize = FETCH
        cursor.execute(
            "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, NULL,"
            " 'proto_version', '1', 'publication_names', %s)",
            [slot, end, PUBLICATION],
            binary=True,
        )
        for row in cursor:
            yield bytes(row[0])


def int_of(lsn: str) -> int:
    high, low = lsn.split("/")
    return (int(high, 16) << 32) | int(low, 16)


def lsn_of(place: int) -> str:
    return f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"


def _timestamp(microseconds: int) -> bytes:
    return (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=microseconds)).isoformat().encode()
