"""The log itself, event by event, as the server sends it to a replica. Any number of readers may read it.

We ask as `mysqlbinlog` does: with server id 0, so that nobody is mistaken for us and sent away, and without waiting:
at its end the server says so. What is sent is committed; a transaction is sent whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import pymysql

from headwater.model.errors import HeadwaterError, PositionTrimmed
from headwater.sources.mariadb import events
from headwater.sources.mariadb.connection import LOG_TROUBLE, Connection, ConnectionPool, another_life, cut_off
from headwater.sources.mariadb.events import HEADER, Event
from headwater.sources.mariadb.places import Head, Place, file_name, place_of
from headwater.sources.mariadb.runs import Stretch, heads, stretches
from headwater.sources.mariadb.wire import Block, Reading, blocks

_DUMP = 0x12
_DO_NOT_WAIT = 1
_CRC32 = 1
"""A file's first event says whether those that follow end with a checksum."""


class Dump:
    """The log from a place to its end. `place` is where the last event that was given ended, `heads` are the beginnings
    of the files that were met."""

    def __init__(self, pool: ConnectionPool, source: str, log: str, start: Place) -> None:
        self._pool, self._source = pool, source
        self.log, self.place = log, start
        self.heads: dict[int, Head] = {}
        self._connection: Connection | None = None

    def __enter__(self) -> Dump:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            cut_off(self._connection)

    def events(self) -> Iterator[Event | Stretch]:
        """All of them, but those that say how a file begins; those of many transactions alike together."""
        with self._pool.explained():
            self._connection = self._pool.connect()
            file = file_name(self.log, self.place.number)
            request = struct.pack("<IHI", self.place.offset, _DO_NOT_WAIT, 0) + file.encode()
            wire: Any = self._connection  # the driver has no words for it
            wire._execute_command(_DUMP, request)
            try:
                yield from self._told(wire._rfile.read1)
            except pymysql.MySQLError as error:
                if error.args[0] == LOG_TROUBLE:
                    raise self._refused(str(error.args[1])) from None
                raise

    def head(self) -> Head:
        """How the file begins that the log is read from; nothing else is read."""
        for _ in self.events():
            break
        return self.heads[self.place.number] if self.place.number in self.heads else next(iter(self.heads.values()))

    def _told(self, read: Reading) -> Iterator[Event | Stretch]:
        self._number, self._tail = self.place.number, 0
        for whole in blocks(read):
            begun = heads(whole)  # which say how the events behind them end
            yield from self._one_by_one(whole, 0, begun)
            block = whole.after(begun)
            for first, last, stretch in stretches(block, self._tail):
                if stretch is None:
                    yield from self._one_by_one(block, first, last)
                else:
                    self._is_at(block.data, block.begins[last - 1])
                    yield stretch

    def _one_by_one(self, block: Block, first: int, last: int) -> Iterator[Event]:
        data = block.data
        for begin, end in zip(block.begins[first:last], block.ends[first:last], strict=True):
            when, kind, server, _, offset, _ = HEADER.unpack_from(data, begin + 1)
            body = data[begin + 20 : end - self._tail]
            if kind == events.ROTATE:
                name, at = events.rotated(body)
                _, place = place_of(name, at)
                if place.number != self._number:
                    self._number, self.place = place.number, place
            elif kind == events.FORMAT:
                self.heads[self._number] = Head(self.log, server, when)
                self._tail = 4 if data[end - 5] == _CRC32 else 0
                if offset:
                    self.place = Place(self._number, offset)
            elif offset:
                self._is_at(data, begin)
                yield Event(kind, when, self.place, body)

    def _is_at(self, data: bytes, begin: int) -> None:
        """Behind an event."""
        _, _, self.server, _, offset, _ = HEADER.unpack_from(data, begin + 1)
        self.place = Place(self._number, offset)

    def _refused(self, said: str) -> HeadwaterError:
        """The server does not have this place: it is behind what is kept, or was never there."""
        with self._pool.borrow() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW BINARY LOGS")
            kept = [place_of(row[0], 4)[1].number for row in cursor.fetchall()]
        if kept and self.place.number < kept[0]:
            return PositionTrimmed(
                f"source {self._source} has purged its log up to {file_name(self.log, kept[0])}, and what is asked for"
                f" is in {file_name(self.log, self.place.number)}",
                "'headwater apply' loads the views again; let the server keep its log for longer",
            )
        return another_life(self._source, f"its log does not have {file_name(self.log, self.place.number)}:"
                            f"{self.place.offset} ({said})")  # fmt: skip
