"""What a process has read of a server's log: a window of row changes for questions, and the alterations that it met.

A question as of P is answered with the table at S and the changes between P and S (`past.py`). Reading those from
the server for each question would cost as much as the log is long, so what was read is kept, undecoded, and goes on
from where it ended. Decoded are only tables and columns that someone asks about, once.

**Invariant.** `noted` is a place up to which every alteration of a captured column is in the books or in `altered`.
A process that knows nothing begins at its owner's floor, where the books are complete.

One window for all adapter objects of a process that read the same capture; whoever uses it holds its lock.
"""

from __future__ import annotations

import bisect
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.model.errors import PositionTrimmed, SourceUnavailable
from headwater.sources.mariadb import books as bookkeeping
from headwater.sources.mariadb.books import Books
from headwater.sources.mariadb.catalog import OWN
from headwater.sources.mariadb.changes import Changes, concatenated
from headwater.sources.mariadb.connection import ConnectionPool, another_life
from headwater.sources.mariadb.events import Rows
from headwater.sources.mariadb.gtids import Gtids
from headwater.sources.mariadb.images import Wanted
from headwater.sources.mariadb.many_images import decoded
from headwater.sources.mariadb.places import Head, LogPosition, Place
from headwater.sources.mariadb.runs import Alike, Run
from headwater.sources.mariadb.statements import EVERY, Altered, altered
from headwater.sources.mariadb.transactions import Log, Transaction
from headwater.sources.mariadb.types import MariaColumn

PLACE = "__place"
_MOST_BYTES = 64 << 20
"""A window that has grown beyond this begins anew at the next question."""

_NEAR_BYTES = 16 << 20
"""So much of the log is rather kept for nothing than read twice."""

_PATIENCE = 5.0
"""Seconds to wait for a place that was told as the end of the log."""

_GAP = Altered(
    EVERY, EVERY, "has changes that the log does not tell: a part of it was purged before it was read"
)  # fmt: skip


def alterations(transaction: Transaction, database: str) -> list[Altered]:
    """Columns that a transaction makes others, by statements or by changes that cannot be read."""
    found = [one for statement in transaction.statements for one in altered(statement, database)]
    for part in transaction.rows:
        table = part.layout.table
        if not part.whole:
            found.append(Altered(table, EVERY, "was written with another binlog_row_image than FULL"))
        elif not part.layout.columns:
            found.append(Altered(table, EVERY, "was written while binlog_row_metadata was not FULL"))
    return [one for one in found if not one.table.startswith(OWN)]


@dataclass
class _Decoded:
    """The changes of a table's events from the first up to, but not including, number `events`."""

    first: int
    events: int
    parts: list[pa.Table] = field(default_factory=list)


class LogWindow:
    def __init__(self, pool: ConnectionPool) -> None:
        self.lock = threading.RLock()
        self._database = pool.database
        self.altered: list[tuple[Place, Altered]] = []
        self.noted: Place | None = None
        self._unwritten: list[tuple[Place, Altered]] = []
        self.told: list[tuple[Place, Place, int]] = []
        """What polls of this process told: from where, up to where, how many changes."""
        self._start: Place | None = None
        self._end = Place(0, 0)
        self._heads: dict[int, Head] = {}
        self._rows: dict[str, list[tuple[int, Rows | Alike]]] = {}
        """By table, and with where the last transaction of each ends."""
        self._decoded: dict[tuple[str, tuple[MariaColumn, ...]], _Decoded] = {}
        self._size = 0
        self._ends: list[Place] = []
        self._names: list[str] = []
        """Of the transactions that were read: where they end, what they are called."""
        self._altering: list[Place] = []
        """Where those with statements end."""
        self._settled: list[tuple[Place, Gtids]] = []
        """Places and transactions among which everything up to them is: where the window begins, and the last one."""

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def cover(self, log: Log, books: Books, at: LogPosition, also: Place | None = None) -> Place:
        """Have everything from a position to the present end of the log, with a place that is also needed. Returns
        where the log ends."""
        first = min(at.place, also or at.place)
        new = self._start is None or first < self._start or self._size > _MOST_BYTES
        if new:
            self._begin(log, books, first)
        try:
            self._extend(log)
        except PositionTrimmed:
            if new:
                raise
            self._begin(log, books, first)  # what lies between is gone; whether anything was altered there `look` says
            self._extend(log)
        if self._heads.get(at.place.number) != at.head:
            raise another_life(log.source, "its log was begun anew")
        deadline = time.monotonic() + _PATIENCE
        while self._end < max(
            at.place, also or at.place
        ):  # the server sends only what it has written to disk for certain
            if time.monotonic() > deadline:
                raise SourceUnavailable(
                    f"source {log.source}: its log has not come to {at.text()} yet, which it told as its end",
                    "it is tried again; does the server wait for its disk?",
                )
            time.sleep(0.005)
            self._extend(log)
        self.noted = max(self.noted or self._end, self._end)
        return self._end

    def settled(self, executed: Gtids | None) -> Place | None:
        """The last place up to which everything is among these transactions, so that a snapshot that was opened after
        they were executed holds it. None if this window cannot say; it can when it is asked with later ones."""
        known = [one for one in self._settled if executed is not None and executed.includes(one[1])]
        if executed is None or not known:
            return None
        place = known[-1][0]
        for number in range(bisect.bisect_right(self._ends, place), len(self._ends)):
            if self._names[number] not in executed:
                break
            place = self._ends[number]
        if known == self._settled:
            self._settled[1:] = [(place, executed)]
        return place

    def touches(self, table: str, after: Place, until: Place) -> bool:
        """Whether there are changes of a table after a place and up to another."""
        events = self._rows.get(table, [])
        at = bisect.bisect_right(events, int(after), key=lambda event: event[0])
        if at == len(events):
            return False
        place, part = events[at]
        return (part.next_after(int(after)) if isinstance(part, Alike) else place) <= int(until)

    def alters(self, after: Place, until: Place) -> bool:
        """Whether there are statements that alter anything, be it only an index, after a place and up to another."""
        at = bisect.bisect_right(self._altering, after)
        return at < len(self._altering) and self._altering[at] <= until

    def _begin(self, log: Log, books: Books, first: Place) -> None:
        """At a place, or a little before: what nobody has looked at yet is met by reading on from there."""
        self.know(books)
        assert self.noted is not None
        if self.noted < first and self.noted.number == first.number and first.offset - self.noted.offset < _NEAR_BYTES:
            first = self.noted
        if self.noted < first:
            self.look(log, books)
        proven = log.settled()
        self._settled = [(first, proven)] if proven is not None else []
        self._start = self._end = first
        self._heads = {}
        self._rows, self._decoded, self._size = {}, {}, 0
        self._ends, self._names, self._altering = [], [], []

    def _extend(self, log: Log) -> None:
        whole = False
        try:
            with log.dump(self._end) as dump:
                for transaction in log.transactions(dump):
                    self._keep(transaction)
                self._same(log, dump.heads, self._end.number)
                self._heads |= dump.heads
                self._end = dump.place
            whole = True
        finally:
            if not whole:  # what was kept already would be kept once more
                self._start = None

    def look(self, log: Log, books: Books) -> Place:
        """Read the alterations since the last look, and nothing else; returns where the log ends."""
        self.know(books)
        assert self.noted is not None
        try:
            with log.dump(self.noted) as dump:
                for transaction in log.transactions(dump):
                    if not isinstance(transaction, Run):  # in which nothing is altered
                        self.meet(transaction)
                self.noted = max(self.noted, dump.place)
        except PositionTrimmed:
            self.noted = log.now()
            self.altered.append((self.noted, _GAP))
            self._unwritten.append((self.noted, _GAP))
        return self.noted

    def know(self, books: Books) -> None:
        """Up to the owner's floor everything is in the books."""
        assert books.floor is not None
        self.noted = max(self.noted or books.floor.place, books.floor.place)

    def meet(self, transaction: Transaction) -> None:
        """Remember the alterations of a transaction that was read."""
        if self.noted is not None and transaction.place <= self.noted:
            return
        for one in alterations(transaction, self._database):
            self.altered.append((transaction.place, one))
            self._unwritten.append((transaction.place, one))

    def read_to(self, after: Place, end: Place) -> None:
        """Somebody has read this part of the log, and `meet` everything in it."""
        if self.noted is not None and after <= self.noted < end:
            self.noted = end

    def write(self, pool: ConnectionPool, books: Books) -> None:
        """Put what was met into the books."""
        if self._unwritten:
            with pool.borrow() as connection:
                bookkeeping.note(connection, self._unwritten, books)
            self._unwritten = []

    def _keep(self, transaction: Transaction | Run) -> None:
        if isinstance(transaction, Run):
            self._keep_run(transaction)
            return
        self.meet(transaction)
        if self._settled:
            self._ends.append(transaction.place)
            self._names.append(transaction.name)
            self._size += 200
        if transaction.statements:
            self._altering.append(transaction.place)
        for part in transaction.rows:
            if part.whole and part.layout.columns and not part.layout.table.startswith(OWN):
                self._rows.setdefault(part.layout.table, []).append((int(transaction.place), part))
                self._size += len(part.images) + 200

    def _same(self, log: Log, heads: dict[int, Head], number: int) -> None:
        if number in heads and self._heads.get(number, heads[number]) != heads[number]:
            self._start = None
            raise another_life(log.source, "its log was begun anew")

    def _keep_run(self, run: Run) -> None:
        if self._settled:
            self._ends += [Place.of(place) for place in run.places.tolist()]
            self._names += run.names.to_pylist()
        self._size += run.size
        for part in run.rows:
            self._rows.setdefault(part.layout.table, []).append((int(part.places[-1]), part))

    # ── what is in it ────────────────────────────────────────────────────────────────────────────────────────────

    def became(self, books: Books, table: str, columns: tuple[str, ...]) -> dict[str, int]:
        """Per column the place at which it last became another, as far as is known."""
        found = bookkeeping.became(books, table, columns)
        for place, one in self.altered:
            for column in columns:
                if int(place) > found[column] and one.concerns(table, [column]):
                    found[column] = int(place)
        return found

    def changes(self, table: str, wanted: Wanted, since: int, span: tuple[Place, Place]) -> pa.Table:
        """Those of a table that were committed after the first place and up to the second: columns, COUNT, PLACE. What
        was written up to `since`, when its columns were others, is not read."""
        events = self._rows.get(table, [])
        first = bisect.bisect_right(events, max(since, int(span[0])), key=lambda event: event[0])
        held = self._decoded.get((table, wanted.columns))
        if held is None or first < held.first:  # what lies before is decoded when someone asks for it
            held = self._decoded[table, wanted.columns] = _Decoded(first, first)
        if held.events < len(events) or not held.parts:
            new = Changes(wanted, len(wanted.columns), ())
            for place, part in events[held.events :]:
                if isinstance(part, Alike):
                    found = decoded(part, wanted)
                    new.add_all(part.places[found.of], found)
                else:
                    new.add(place, part)
            held.parts.append(new.table(PLACE))
            held.parts, held.events = [concatenated(held.parts)], len(events)
        (whole,) = held.parts
        places = whole.column(PLACE).to_numpy()
        first, last = np.searchsorted(places, [int(span[0]), int(span[1])], "right")
        return whole.slice(first, last - first)


_windows: dict[tuple[str, str, str], LogWindow] = {}
_guard = threading.Lock()


def window_of(pool: ConnectionPool, books: Books, owner: str) -> LogWindow:
    """The one of this process."""
    with _guard:
        return _windows.setdefault((pool.place, books.generation, owner), LogWindow(pool))
