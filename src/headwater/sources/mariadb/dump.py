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
from headwater.sources.mariadb.wire import Reading, packets

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

    def events(self) -> Iterator[Event]:
        """All of them, but those that say how a file begins."""
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

    def _told(self, read: Reading) -> Iterator[Event]:
        number, checked = self.place.number, False
        for packet in packets(read):
            when, kind, server, _, end, _ = HEADER.unpack_from(packet, 1)
            body = packet[20:-4] if checked else packet[20:]
            if kind == events.ROTATE:
                name, offset = events.rotated(body)
                _, place = place_of(name, offset)
                if place.number != number:
                    number, self.place = place.number, place
            elif kind == events.FORMAT:
                self.heads[number] = Head(self.log, server, when)
                checked = packet[-5] == _CRC32
                if end:
                    self.place = Place(number, end)
            elif end:
                self.place = Place(number, end)
                self.server = server
                yield Event(kind, when, self.place, body)

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
