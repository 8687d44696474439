"""A position, and the witness that says which past it belongs to.

A position is the id of the last change it contains, the generation of the capture, and of that change what makes it
this one: when it was made, and its salt. Whoever reads as of a position compares, in the same read transaction, whether
the log still has that very change at that id. A file that was restored from a backup does not, also when it has been
written past the old id since. Trimming keeps the witness of the position it trims to.

    17:9f3c…:2461363.5187:-8417503     the change numbered 17
    0:9f3c…                            before the first change: no witness, nothing to tell apart
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from headwater.model.errors import ConfigError, LifeChanged, PositionTrimmed
from headwater.model.names import Position
from headwater.sources.sqlite.connection import Connection
from headwater.sources.sqlite.files import literal

LOAD_AGAIN = "'headwater apply' loads the views over it again"


def _witness(at: float, salt: int) -> str:
    return f"{at!r}:{salt}"


@dataclass(frozen=True)
class LifeMoment:
    """A position, read."""

    id: int
    generation: str
    witness: str

    @staticmethod
    def at(number: int, generation: str, at: float, salt: int) -> Position:
        """The position of a change."""
        return LifeMoment(number, generation, _witness(at, salt)).position

    @property
    def position(self) -> Position:
        return Position(":".join(filter(None, [str(self.id), self.generation, self.witness])))


@dataclass(frozen=True)
class Log:
    """The log as one read transaction sees it, and what this project has to do with it."""

    generation: str
    trimmed: int
    """Everything up to this id is forgotten, by all or by this project, but for the change that witnesses it."""
    last: int
    at_asked: str
    """The witness found at the id that was asked about."""
    tables: frozenset[str]
    """This project's."""


def read_log(connection: Connection, owner: str, asked: int | None = None) -> Log:
    """One statement. `asked` is the id of a position that will be compared; None: the last one."""
    which = "(SELECT max(id) FROM _headwater_changes)" if asked is None else str(asked)
    generation, trimmed, last, own, tables, at, salt = connection.rows(
        "SELECT m.generation, m.trimmed, coalesce((SELECT max(id) FROM _headwater_changes), 0), o.trimmed, o.tables,"
        f" c.at, c.salt FROM _headwater_meta m LEFT JOIN _headwater_owners o ON o.owner = {literal(owner)}"
        f" LEFT JOIN _headwater_changes c ON c.id = {which}"
    )[0]
    witness = "" if at is None else _witness(at, salt)
    return Log(generation, max(trimmed, own or 0), last, witness, frozenset(json.loads(tables or "[]")))


def parse(position: Position) -> LifeMoment:
    number, _, rest = position.partition(":")
    generation, _, witness = rest.partition(":")
    if not number.isdecimal():
        raise ConfigError(f"{position!r} is not a position of a SQLite source")
    return LifeMoment(int(number), generation, witness)


def held(log: Log, position: Position, what: str) -> LifeMoment:
    """The moment a position names, if it is one of this past and the log, read for it, still reaches back to it."""
    asked = parse(position)
    if asked.generation != log.generation:
        raise LifeChanged(
            f"{what}: capture was installed anew (or the file is another one) since position {asked.id} was noted",
            LOAD_AGAIN,
        )
    if asked.id > log.last:
        raise LifeChanged(
            f"{what} is at change {log.last}, before change {asked.id} that was already read: it was restored from a"
            " backup, or replaced",
            LOAD_AGAIN,
        )
    if asked.id < log.trimmed:
        raise PositionTrimmed(
            f"{what}: what came before change {log.trimmed} is forgotten, asked for {asked.id}", "use a newer position"
        )
    if asked.id and log.at_asked != asked.witness:
        raise LifeChanged(
            f"{what}: change {asked.id} is not the one that was read: the file was restored from a backup or replaced,"
            " and went on from there",
            LOAD_AGAIN,
        )
    return asked
