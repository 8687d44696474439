"""Where in the server's log something is, and of which log.

A **place** is a file of the log, by number, and an offset in it. Places grow with every commit, and what a position
contains are exactly the transactions that end at or before its place.

A **position** is a place and the life it belongs to: `bin.000012:4711@9f36ac24.1.1736345000`. The life is the capture's
generation, the server's id and the second in which that file of the log was begun. The server tells both at the head
of every file it sends, so whoever reads the log from a place sees whether it is the log that the position was taken
from. A log that was reset, a restored backup that moved on, and another server have begun their files at other times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from headwater.model.errors import HeadwaterError, LifeChanged
from headwater.model.names import Position

_POSITION = re.compile(r"(.+)\.(\d+):(\d+)@([0-9a-f]+)\.(\d+)\.(\d+)")
_ROUND = re.compile(r"\d+@[0-9a-f]+\.\d+")
"""A position of a capture by triggers."""
_BITS = 40


class Place(NamedTuple):
    """The `offset` is where the next event begins."""

    number: int
    offset: int

    def __int__(self) -> int:
        return self.number << _BITS | self.offset

    @classmethod
    def of(cls, whole: int) -> Place:
        return cls(whole >> _BITS, whole & (1 << _BITS) - 1)


NOWHERE = Place(0, 0)


@dataclass(frozen=True)
class Head:
    """How a file of the log begins: the log's name, the server that wrote it, and when, in seconds."""

    log: str
    server: int
    begun: int


@dataclass(frozen=True)
class LogPosition:
    place: Place
    head: Head
    generation: str
    """The first eight characters of the capture's."""

    def text(self) -> Position:
        file = file_name(self.head.log, self.place.number)
        return Position(f"{file}:{self.place.offset}@{self.generation}.{self.head.server}.{self.head.begun}")

    @classmethod
    def parse(cls, position: Position) -> LogPosition:
        match = _POSITION.fullmatch(position)
        if match is None and _ROUND.fullmatch(position):
            raise LifeChanged(
                "changes were captured by triggers when the views were loaded, and are read from the server's log now",
                "'headwater apply' loads the views over it again",
            )
        if match is None:
            raise HeadwaterError(f"{position[:80]!r} is not a position of a MariaDB source", "load its views anew")
        log, number, offset, generation, server, begun = match.groups()
        return cls(Place(int(number), int(offset)), Head(log, int(server), int(begun)), generation)


def file_name(log: str, number: int) -> str:
    return f"{log}.{number:06d}"


def place_of(file: str, offset: int) -> tuple[str, Place]:
    """The log's name, and the place."""
    log, _, number = file.rpartition(".")
    return log, Place(int(number), offset)
