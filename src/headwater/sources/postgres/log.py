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
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from psycopg import sql

from headwater.model.errors import SourceUnavailable
from headwater.sources.postgres import life
from headwater.sources.postgres.connection import Connection, ConnectionPool
from headwater.sources.postgres.pgoutput import Relation, Transaction, transactions
from headwater.sources.postgres.triggers import changes_table

PUBLICATION = "headwater"
FETCH = 5_000
QUIET_BYTES = 4 << 20
"""So much of the log that says nothing of our tables is passed over before that is noted, and the slot let go of it."""
AT_ONCE = 50_000
"""So many changes are written at a time; a transaction of more is held as long as it takes to tell it."""

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
        WHEN s.slot_name IS NULL THEN format('the replication slot %s is gone', l.slot)
        WHEN s.wal_status = 'lost' THEN format('the server has thrown away what slot %s needs of its log', l.slot)
        WHEN c.relreplident <> 'f' THEN 'its REPLICA IDENTITY is no longer FULL'
        WHEN p.oid IS NULL THEN 'it is no longer in publication headwater, or was taken out of it for a while' END
    FROM headwater.logged AS g CROSS JOIN headwater.log AS l JOIN pg_catalog.pg_class AS c ON c.oid = g.oid
    LEFT JOIN pg_catalog.pg_replication_slots AS s ON s.slot_name = l.slot AND s.database = current_database()
    LEFT JOIN pg_catalog.pg_publication_rel AS p ON p.oid = g.publication AND p.prrelid = g.oid
    WHERE g.oid = captured $$
"""

_COLUMNS = """
SELECT g.oid::bigint, json_agg(json_build_array(a.attnum, a.attname, a.xmin::text) ORDER BY a.attnum)::text
FROM headwater.logged AS g JOIN pg_catalog.pg_attribute AS a ON a.attrelid = g.oid
WHERE a.attnum > 0 AND NOT a.attisdropped GROUP BY g.oid
"""

_STATE = """
SELECT l.slot, l.moved::text, s.slot_name IS NOT NULL AND coalesce(s.wal_status, '') <> 'lost',
       s.confirmed_flush_lsn > l.moved,
       EXISTS (SELECT FROM pg_catalog.pg_publication AS p WHERE p.pubname = 'headwater' AND p.xmin = l.publication)
FROM headwater.log AS l LEFT JOIN pg_catalog.pg_replication_slots AS s
    ON s.slot_name = l.slot AND s.database = current_database()
"""

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('headwater log', 0))"


def is_used(connection: Connection) -> bool:
    """Whether some table here is captured by the log."""
    row = connection.execute("SELECT to_regclass('headwater.logged') IS NOT NULL").fetchone()
    return bool(row and row[0]) and bool(connection.execute("SELECT FROM headwater.logged LIMIT 1").rowcount)


def logged(connection: Connection) -> set[int]:
    """The tables that are captured by the log."""
    if not is_used(connection):
        return set()
    return {row[0] for row in connection.execute("SELECT oid::bigint FROM headwater.logged")}


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
        connection.execute(_LOCK)
        state = connection.execute(_STATE).fetchone()
        if state is None:
            return 0, False
        slot, moved, there, stolen, published = state
        gap = None if there else f"was captured by slot {slot}, which is gone"
        gap = gap or ("was captured by a slot that somebody else has read from" if stolen else None)
        gap = gap or (None if published else "was captured by publication headwater, which was altered")
        if gap is not None:
            return 0, self._gap(connection, logged(connection), gap)
        connection.execute(  # of what was moved and committed earlier
            "SELECT pg_replication_slot_advance(slot_name, %s::pg_lsn) FROM pg_replication_slots"
            " WHERE slot_name = %s AND confirmed_flush_lsn < %s::pg_lsn",
            [moved, slot, moved],
        )
        was = connection.execute("SELECT oid::bigint, columns FROM headwater.logged").fetchall()
        before: dict[int, str] = dict(was)
        noted: dict[int, str] = dict(connection.execute(_COLUMNS).fetchall())
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
            self._gap(connection, [oid], reason)
        return int_of(end), True

    @staticmethod
    def _gap(connection: Connection, oids: Iterable[int], reason: str) -> bool:
        noted = 0
        for oid in oids:
            noted += connection.execute(
                "INSERT INTO headwater.gaps SELECT %(oid)s, clock_timestamp(), %(reason)s WHERE NOT EXISTS"
                " (SELECT FROM headwater.gaps WHERE oid = %(oid)s AND reason = %(reason)s)",
                {"oid": oid, "reason": reason},
            ).rowcount
        return noted > 0


class _Moving:
    """What a move has read and not written yet."""

    def __init__(self, connection: Connection, before: dict[int, str], moved: int, xmax: int) -> None:
        self._connection, self._moved, self._xmax = connection, moved, xmax
        self._before = {oid: _Columns.read(text) for oid, text in before.items()}
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
        for oid in one.partial & self._before.keys():
            self.gaps[oid] = "was written without its old rows in the log (its REPLICA IDENTITY was not FULL)"
        at = _timestamp(one.at)
        for change in one.changes:
            if change.relation.oid not in self._before:  # what tells parts of global transactions
                continue
            layout = self._layout(change.relation)
            if layout is None:
                self.gaps[change.relation.oid] = "was altered while its changes were read from the log"
                continue
            row = change.row
            if b"\\" in row or b"\n" in row or b"\t" in row or b"\r" in row:
                row = row.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\t", b"\\t").replace(b"\r", b"\\r")
            self._lines.setdefault(change.relation.oid, []).append(
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

    def _layout(self, relation: Relation) -> str | None:
        if relation not in self._layouts:
            if not self._layouts:
                found = self._connection.execute(_COLUMNS).fetchall()
                self._now = {oid: _Columns.read(text) for oid, text in found}
            before, now = self._before.get(relation.oid), self._now.get(relation.oid)
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


# ── install ──────────────────────────────────────────────────────────────────────────────────────────────────────


def prepare(connection: Connection, fault: str) -> None:
    """What capture by the log notes, and functions that know of it."""
    connection.execute(TABLES)
    connection.execute(FAULT)
    connection.execute(fault)


def create_publication(connection: Connection) -> None:
    """Before the slot, which decodes nothing of a publication that came after it. Transactions that only say that they
    are parts of a global one have a place in the log as well."""
    server = connection.info.server_version
    options = "publish_via_partition_root = true" + (", publish_generated_columns = stored" if server >= 180000 else "")
    name = sql.Identifier(PUBLICATION)
    if not connection.execute("SELECT FROM pg_publication WHERE pubname = %s", [PUBLICATION]).rowcount:
        create = "CREATE PUBLICATION {} FOR TABLE headwater.parts WITH (" + options + ")"
        connection.execute(sql.SQL(create).format(name))
    told = "SELECT FROM pg_publication_tables WHERE pubname = %s AND schemaname = 'headwater' AND tablename = 'parts'"
    if not connection.execute(told, [PUBLICATION]).rowcount:
        connection.execute(sql.SQL("ALTER PUBLICATION {} ADD TABLE headwater.parts").format(name))


def publish(connection: Connection, oid: int, table: sql.Composable) -> None:
    """In the transaction that keeps writers of the table out: from its commit on, the log tells whole old rows."""
    create_publication(connection)
    connection.execute(
        "INSERT INTO headwater.logged SELECT oid, relreplident, '[]', 0 FROM pg_class WHERE oid = %s", [oid]
    )
    _unpublish(connection, oid, table)
    connection.execute(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(table))
    add = sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(sql.Identifier(PUBLICATION), table)
    connection.execute(add)
    connection.execute(
        "UPDATE headwater.logged AS g SET publication = p.oid FROM pg_publication_rel AS p JOIN pg_publication AS b"
        " ON b.oid = p.prpubid WHERE b.pubname = %s AND p.prrelid = g.oid AND g.oid = %s",
        [PUBLICATION, oid],
    )


def begin_slot(connection: Connection) -> None:
    """After the publication is there, and before a position is. Waits for transactions that are under way."""
    state = connection.execute(_STATE).fetchone()
    if state is not None and state[2] and not state[3] and state[4]:
        return
    connection.execute("DELETE FROM headwater.log")  # what it was is of no use: tables that relied on it have a gap
    connection.execute(
        sql.SQL("ALTER PUBLICATION {} SET (publish = 'insert, update, delete, truncate')").format(
            sql.Identifier(PUBLICATION)
        )
    )
    row = connection.execute("SELECT oid::bigint FROM pg_database WHERE datname = current_database()").fetchone()
    assert row is not None
    slot = f"headwater_{row[0]}"
    connection.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", [slot]
    )
    connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    connection.execute(
        "INSERT INTO headwater.log SELECT s.slot_name, s.confirmed_flush_lsn, p.xmin FROM pg_replication_slots AS s,"
        " pg_publication AS p WHERE s.slot_name = %s AND p.pubname = %s",
        [slot, PUBLICATION],
    )


def note_columns(connection: Connection, oids: Sequence[int]) -> None:
    for oid, columns in connection.execute(_COLUMNS).fetchall():
        if oid in oids:
            connection.execute("UPDATE headwater.logged SET columns = %s WHERE oid = %s", [columns, oid])


def forget(connection: Connection, oid: int) -> None:
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
    connection.execute("DELETE FROM headwater.logged WHERE oid = %s", [oid])
    if table is None:
        return
    name = sql.Identifier(schema, table)
    _unpublish(connection, oid, name)
    before = {"d": "DEFAULT", "n": "NOTHING"}.get(was)
    if before is not None:  # an index that was its identity may be gone; FULL serves who relied on it as well
        connection.execute(sql.SQL("ALTER TABLE {} REPLICA IDENTITY " + before).format(name))


def _unpublish(connection: Connection, oid: int, table: sql.Composable) -> None:
    published = connection.execute(
        "SELECT FROM pg_publication_rel AS p JOIN pg_publication AS b ON b.oid = p.prpubid"
        " WHERE b.pubname = %s AND p.prrelid = %s",
        [PUBLICATION, oid],
    ).rowcount
    if published:
        connection.execute(sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(sql.Identifier(PUBLICATION), table))


def abandon(connection: Connection) -> None:
    """What a capture that must not be used left beside its schema."""
    connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(PUBLICATION)))
    connection.execute(
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


# ── whether it can be ────────────────────────────────────────────────────────────────────────────────────────────

_ABLE = """
SELECT current_setting('wal_level'), r.rolsuper OR r.rolreplication
       OR EXISTS (SELECT FROM pg_roles AS m WHERE m.rolname IN ('rds_replication', 'azure_replication')
            AND pg_has_role(m.oid, 'MEMBER')),
       current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots),
       has_database_privilege(current_database(), 'CREATE'), pg_is_in_recovery()
FROM pg_roles AS r WHERE r.rolname = current_user
"""


def unable(connection: Connection, oids: Sequence[int]) -> tuple[str, str] | None:
    """Why the log cannot be used here for these tables, and what to do; None if it can."""
    row = connection.execute(_ABLE).fetchone()
    assert row is not None
    level, may, free, create, recovering = row
    role = connection.info.user
    if recovering:
        return "the server is a standby", "connect to the primary"
    if level != "logical":
        return f"wal_level is {level}", "ALTER SYSTEM SET wal_level = logical, and a restart of the server"
    if not may:
        return f"the role {role} may not use replication slots", f'ALTER ROLE "{role}" REPLICATION'
    if free < 1 and not is_used(connection):
        return "all replication slots are taken", "raise max_replication_slots, and restart the server"
    if not create:
        return f"the role {role} may not create a publication", f'GRANT CREATE ON DATABASE … TO "{role}"'
    return _unfit(connection, oids)


def _unfit(connection: Connection, oids: Sequence[int]) -> tuple[str, str] | None:
    generated = "" if connection.info.server_version >= 180000 else (
        " WHEN EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attgenerated = 's' AND NOT"
        " a.attisdropped) THEN 'has generated columns, which the log of this version does not tell'"
    )  # fmt: skip
    found = connection.execute(
        "SELECT c.oid::regclass::text, CASE WHEN c.relkind = 'p' THEN 'is partitioned'"
        " WHEN NOT pg_has_role(c.relowner, 'USAGE') THEN 'is not owned by the role ' || current_user" + generated +
        " END FROM pg_class AS c WHERE c.oid = ANY (%s::oid[]) ORDER BY 1",
        [list(oids)],
    )  # fmt: skip
    for name, why in found:
        if why is not None:
            return f"{name} {why}", 'capture = "triggers" for this source, or make the role an owner of the table'
    return None


def keeps_without_limit(connection: Connection) -> bool:
    row = connection.execute("SELECT current_setting('max_slot_wal_keep_size') = '-1'").fetchone()
    return bool(row and row[0])


def held_bytes(connection: Connection) -> int | None:
    """How much of its log the server keeps for us; None where nothing is captured this way."""
    if not is_used(connection):
        return None
    row = connection.execute(
        "SELECT (pg_current_wal_lsn() - s.restart_lsn)::bigint FROM headwater.log AS l"
        " JOIN pg_replication_slots AS s ON s.slot_name = l.slot"
    ).fetchone()
    return None if row is None else row[0]
