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
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.model.errors import PositionTrimmed
from headwater.sources.mariadb import books as bookkeeping
from headwater.sources.mariadb.books import Books
from headwater.sources.mariadb.catalog import OWN
from headwater.sources.mariadb.changes import Changes, concatenated
from headwater.sources.mariadb.connection import ConnectionPool, another_life
from headwater.sources.mariadb.events import Rows
from headwater.sources.mariadb.images import Wanted
from headwater.sources.mariadb.places import Head, LogPosition, Place
from headwater.sources.mariadb.statements import EVERY, Altered, altered
from headwater.sources.mariadb.transactions import Log, Transaction
from headwater.sources.mariadb.types import MariaColumn

PLACE = "__place"
_MOST_BYTES = 64 << 20
"""A window that has grown beyond this begins anew at the next question."""

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
        self._rows: dict[str, list[tuple[int, Rows]]] = {}
        self._decoded: dict[tuple[str, tuple[MariaColumn, ...]], _Decoded] = {}
        self._size = 0

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def cover(self, log: Log, books: Books, at: LogPosition) -> None:
        """Have everything from a position to the present end of the log."""
        new = self._start is None or at.place < self._start or self._size > _MOST_BYTES
        if new:
            self._begin(log, books, at)
        try:
            self._extend(log)
        except PositionTrimmed:
            if new:
                raise
            self._begin(log, books, at)  # what lies between is gone; whether anything was altered there `look` says
            self._extend(log)
        if self._heads.get(at.place.number) != at.head:
            raise another_life(log.source, "its log was begun anew")
        self.noted = max(self.noted or self._end, self._end)

    def _begin(self, log: Log, books: Books, at: LogPosition) -> None:
        self.look(log, books)
        self._start = self._end = at.place
        self._heads = {at.place.number: at.head}
        self._rows, self._decoded, self._size = {}, {}, 0

    def _extend(self, log: Log) -> None:
        with log.dump(self._end) as dump:
            for transaction in log.transactions(dump):
                self._keep(transaction)
            self._same(log, dump.heads, self._end.number)
            self._heads |= dump.heads
            self._end = dump.place

    def look(self, log: Log, books: Books) -> Place:
        """Read the alterations since the last look, and nothing else; returns where the log ends."""
        self.know(books)
        assert self.noted is not None
        try:
            with log.dump(self.noted) as dump:
                for transaction in log.transactions(dump):
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

    def _keep(self, transaction: Transaction) -> None:
        self.meet(transaction)
        for part in transaction.rows:
            if part.whole and part.layout.columns and not part.layout.table.startswith(OWN):
                self._rows.setdefault(part.layout.table, []).append((int(transaction.place), part))
                self._size += len(part.images) + 200

    def _same(self, log: Log, heads: dict[int, Head], number: int) -> None:
        if number in heads and self._heads.get(number, heads[number]) != heads[number]:
            self._start = None
            raise another_life(log.source, "its log was begun anew")

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
