"""From events to transactions, each whole, in the order of their commits.

A transaction begins with its GTID and ends with a commit; its place is where that ends. A statement that changes tables
is a transaction of its own. What is prepared (XA) has its rows in the log where it was prepared, and is told where it
was committed; until then it is held back. If it was prepared before the place that reading began at, the log before
that place is searched for it: rare, and as long as the log is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from headwater.model.errors import PositionTrimmed
from headwater.sources.mariadb import events, gtids, runs
from headwater.sources.mariadb.connection import ConnectionPool, dialect, log_end
from headwater.sources.mariadb.connection import rows as read
from headwater.sources.mariadb.dump import Dump
from headwater.sources.mariadb.events import Event, Layout, Rows, Statement
from headwater.sources.mariadb.gtids import Gtids
from headwater.sources.mariadb.places import NOWHERE, Place, place_of
from headwater.sources.mariadb.runs import Run, Stretch

_XA = re.compile(r"XA (COMMIT|ROLLBACK) X'([0-9a-f]*)',X'([0-9a-f]*)',(\d+)", re.IGNORECASE)
_OPENS = re.compile(r"\s*(BEGIN\b|XA START)", re.IGNORECASE)
_SILENT = re.compile(r"\s*(BEGIN|COMMIT|SAVEPOINT|ROLLBACK TO|RELEASE SAVEPOINT|XA START|XA END|#)", re.IGNORECASE)


@dataclass
class Transaction:
    """Its place is where it ends. `rows` and `statements` are of one database only."""

    name: str
    place: Place = NOWHERE
    when: int = 0
    """Seconds since 1970: when its last statement began."""
    rows: list[Rows] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)

    def counted(self, tables: Collection[str], upto: Place | None = None) -> int:
        """How many events of rows it has of these tables, if it ends by then."""
        if upto is not None and self.place > upto:
            return 0
        return sum(part.layout.table in tables for part in self.rows)


class Log:
    """The log of a server, as transactions of one of its databases. Transactions that hold nothing of it are told, too:
    they are where time passes."""

    def __init__(self, pool: ConnectionPool, source: str, log: str) -> None:
        self._pool, self.source, self.name = pool, source, log

    @property
    def database(self) -> str:
        return self._pool.database

    def now(self) -> Place:
        """Where it ends."""
        with self._pool.borrow() as connection:
            file, offset, *_ = log_end(connection)
        return place_of(file, int(offset))[1]

    def settled(self) -> Gtids | None:
        """Everything the log holds now is committed in the tables, and among these transactions; None where snapshots
        say their place."""
        with self._pool.borrow() as connection:
            return None if dialect(connection).knows_its_place else gtids.settled(connection, self.source)

    def dump(self, after: Place) -> Dump:
        return Dump(self._pool, self.source, self.name, after)

    def transactions(self, dump: Dump) -> Iterator[Transaction | Run]:
        """Those of a dump that was not read yet, one by one or many together."""
        begun = dump.place
        held: dict[bytes, Transaction] = {}
        for transaction, prepared in self._grouped(dump, dump.events()):
            if isinstance(transaction, Run):
                yield transaction
                continue
            if prepared is not None:
                held[prepared] = transaction
                continue
            for statement in transaction.statements:
                if (match := _XA.match(statement.text)) is not None:
                    name = events.xid(int(match[4]), bytes.fromhex(match[2]), bytes.fromhex(match[3]))
                    before = held.pop(name, None)
                    if match[1].upper() == "COMMIT":
                        before = before or self._prepared_before(name, begun)
                        transaction.rows, transaction.statements = before.rows, before.statements
                    break
            yield transaction

    def _grouped(
        self, dump: Dump, found: Iterable[Event | Stretch]
    ) -> Iterator[tuple[Transaction | Run, bytes | None]]:
        """Transactions as they stand in the log; those that are only prepared with their XA name."""
        layouts: dict[int, Layout] = {}
        database, now, alone = self._pool.database, Transaction(""), False
        for event in self._apart(found, dump):
            if isinstance(event, Run):
                yield event, None
                continue
            kind, body = event.kind, event.body
            if kind == events.GTID:
                name, flags = events.gtid(body, dump.server)
                now, alone = Transaction(name), bool(flags & events.STANDALONE)
            elif kind in events.MYSQL_GTIDS:  # they do not say whether a transaction follows, but it says so itself
                now, alone = Transaction(events.mysql_gtid(kind, body)), True
            elif kind == events.TABLE_MAP:
                layouts[events.table_number(body)] = events.layout(body)
            elif kind in events.ROWS:
                layout = layouts.get(events.table_number(body))
                if layout is not None and layout.database == database:
                    now.rows.append(events.rows(kind, body, layout))
            elif kind in (events.QUERY, events.QUERY_COMPRESSED):
                said = events.statement(kind, body)
                alone = alone and not _OPENS.match(said.text)
                if not _SILENT.match(said.text):
                    now.statements.append(said)
                if alone or said.text == "COMMIT":
                    now.place, now.when = event.end, event.when
                    yield now, None
                    now, alone = Transaction(""), False
            elif kind == events.XID:
                now.place, now.when = event.end, event.when
                yield now, None
                now = Transaction("")
            elif kind == events.XA_PREPARE:
                now.place, now.when = event.end, event.when
                yield now, None if events.in_one_phase(body) else events.prepared(body)
                now = Transaction("")

    def _apart(self, found: Iterable[Event | Stretch], dump: Dump) -> Iterator[Event | Run]:
        """Stretches as runs, where they can be read as such."""
        for one in found:
            if isinstance(one, Event):
                yield from events.unpacked((one,))
            elif (run := runs.read(one, dump.place.number, self._pool.database)) is not None:
                yield run
            else:
                for server, event in one.events(dump.place.number):
                    dump.server = server
                    yield event

    def _prepared_before(self, name: bytes, begun: Place) -> Transaction:
        """The newest of this name that was prepared before a place, from file to file backwards."""
        with self._pool.borrow() as connection:
            files = [place_of(row[0], 4)[1] for row in read(connection, "SHOW BINARY LOGS")]
        for first in sorted((f for f in files if f < begun), reverse=True):
            last, found = Place(first.number + 1, 0), None
            with self.dump(first) as dump:
                for transaction, prepared in self._grouped(dump, dump.events()):
                    if transaction.place > min(begun, last):
                        break
                    if isinstance(transaction, Transaction) and prepared == name:
                        found = transaction
            if found is not None:
                return found
        raise PositionTrimmed(
            f"source {self.source}: a transaction was committed (XA) that was prepared before the log begins",
            "'headwater apply' loads the views again",
        )
