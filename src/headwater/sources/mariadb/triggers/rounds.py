"""Rounds: the states of a database that have a number.

Changes lie in tables beside those that are captured, so a snapshot shows a change if and only if it shows its effect.
Their ids are not the order of commits, and gaps in them need not mean anything. So whoever polls looks, in one
snapshot, which changes nobody has numbered yet, and gives exactly these the next number, in the same transaction:

    round n  =  the changes that its snapshot showed and no earlier round has

**Invariant.** The changes of rounds 1 to n are those that some snapshot showed: a state that existed. Rounds are made
one at a time, by whoever holds the lock of `_headwater_capture`, whose snapshot is taken after that; so their order is
one of time. A round that is not committed leaves nothing, whoever is killed.

A round is a few ranges of ids (`_headwater_ranges`). The changes themselves are not touched: no writer waits for a
poll, and no poll for a writer. Trimming takes ranges and changes away together, so whatever lies outside of all ranges
is new, however late it comes.

**Tagged transactions** are ordered among themselves (`layout.py`). Where all new changes are theirs, each gets a round
of its own. Otherwise nobody knows where among them the others belong, and all share one round; it can be a part of one
global transaction only, so of several tags it has the last, and the other parts are missed where they are waited for.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pymysql

from headwater.model.errors import CaptureMissing, HeadwaterError, LifeChanged
from headwater.model.names import Position
from headwater.sources.mariadb.connection import Connection, quoted, rows, stream
from headwater.sources.mariadb.triggers.layout import (
    CAPTURE,
    CAPTURED,
    ID,
    RANGES,
    ROUNDS,
    TAG_NUMBER,
    TAGS,
    TX,
    changes_of,
)

_POSITION = re.compile(r"(\d+)@([0-9a-f]{8})\.(\d+)")
_PIECES = 100
"""More pieces than this are not looked up one by one: all is read, and sorted out here."""
_NO_SUCH_TABLE = 1146
_BATCH = 1000
_ROWS = 50_000

Ids = npt.NDArray[np.int64]


# ── positions ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class RoundPosition:
    """A round, the life it belongs to, and what makes it this one: a database that was restored, and moved on from
    there, has another round of that number."""

    round: int
    generation: str
    salt: int

    def text(self) -> Position:
        return Position(f"{self.round}@{self.generation[:8]}.{self.salt}")

    @classmethod
    def parse(cls, position: Position) -> RoundPosition:
        match = _POSITION.fullmatch(position)
        if match is None and re.match(r".+\.\d+:\d+@", position):
            raise LifeChanged(
                "its changes were read from the server's log when the views were loaded, and are captured by triggers"
                " now",
                "'headwater apply' loads the views over it again",
            )
        if match is None:
            raise HeadwaterError(f"{position[:80]!r} is not a position of a MariaDB source", "load its views anew")
        return cls(int(match[1]), match[2], int(match[3]))


# ── sets of ids ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Ranges:
    """Ids, as pieces that do not touch, in order."""

    lows: Ids
    highs: Ids

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, int]]) -> Ranges:
        """Of ranges that do not overlap."""
        found = np.array(sorted(pairs), np.int64).reshape(-1, 2)
        lows, highs = found[:, 0], found[:, 1]
        begins = np.concatenate([[True], lows[1:] > highs[:-1] + 1])[: len(lows)]
        ends = np.concatenate([begins[1:], [True]])[: len(lows)]
        return cls(lows[begins], highs[ends])

    @classmethod
    def runs(cls, ids: Ids) -> Ranges:
        """Of single ids, in order."""
        begins = np.concatenate([[True], np.diff(ids) > 1])[: len(ids)]
        ends = np.concatenate([begins[1:], [True]])[: len(ids)]
        return cls(ids[begins], ids[ends])

    def pairs(self) -> list[tuple[int, int]]:
        return [(int(low), int(high)) for low, high in zip(self.lows, self.highs, strict=True)]

    def hold(self, ids: Ids) -> npt.NDArray[np.bool_]:
        if not len(self.lows):
            return np.zeros(len(ids), np.bool_)
        place = np.searchsorted(self.lows, ids, "right") - 1
        held: npt.NDArray[np.bool_] = (place >= 0) & (ids <= self.highs[place])
        return held

    def outside(self) -> str:
        """Keeps what is not in them, in SQL; if they are many also what is, which the caller leaves out."""
        if not len(self.lows) or len(self.lows) > _PIECES:
            return "TRUE"
        parts = [f"{ID} < {self.lows[0]}"] if self.lows[0] > 1 else []
        parts += [
            f"{ID} BETWEEN {high + 1} AND {low - 1}" for high, low in zip(self.highs[:-1], self.lows[1:], strict=True)
        ]
        return f"({' OR '.join([*parts, f'{ID} > {self.highs[-1]}'])})"


def ranges_up_to(connection: Connection, last: int | None = None) -> dict[int, Ranges]:
    """Per number of a captured table, the changes of all rounds up to one."""
    until = "" if last is None else f" WHERE round <= {int(last)}"
    found: dict[int, list[tuple[int, int]]] = {}
    for number, low, high in rows(connection, f"SELECT number, low, high FROM {RANGES}{until}"):
        found.setdefault(number, []).append((int(low), int(high)))
    return {number: Ranges.of(pairs) for number, pairs in found.items()}


NONE = Ranges.of([])


# ── making rounds ────────────────────────────────────────────────────────────────────────────────────────────────


def lock(connection: Connection) -> None:
    """Begin a transaction that alone may number rounds and alter notes. Its snapshot is taken by what it reads next."""
    connection.begin()
    rows(connection, f"SELECT generation FROM {CAPTURE} FOR UPDATE")


def number(connection: Connection) -> int:
    """Give what is new its rounds; returns the last one. Writes nothing where nothing is new."""
    rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    fresh, last = _fresh(connection), last_round(connection)
    connection.rollback()
    if fresh:
        lock(connection)
        last = number_within(connection)
        connection.commit()
    return last


def number_within(connection: Connection, always: bool = False) -> int:
    """The same, in a transaction that has the lock. `always`: a round more, though it may be empty."""
    fresh, last = _fresh(connection), last_round(connection)
    for one in _divided(fresh, _tags(connection, fresh), always):
        last += 1
        tag = one.tag or (None, None)
        rows(
            connection,
            f"INSERT INTO {ROUNDS} VALUES (%s, UTC_TIMESTAMP(6), %s, %s, %s)",
            [last, secrets.randbits(40), *tag],
        )
        written = [(n, *pair, last) for n, ids in one.ids.items() for pair in Ranges.runs(ids).pairs()]
        for begin in range(0, len(written), _BATCH):
            values = ", ".join(str(row) for row in written[begin : begin + _BATCH])
            rows(connection, f"INSERT INTO {RANGES} VALUES {values}")
    return last


def last_round(connection: Connection) -> int:
    ((last,),) = rows(connection, f"SELECT COALESCE(MAX(round), 0) FROM {ROUNDS}")
    return int(last)


Fresh = Mapping[int, tuple[Ids, Ids]]
"""Per number of a table: the ids of its new changes, in order, and their tagged transactions; 0 is none."""


def _fresh(connection: Connection) -> Fresh:
    named = {TAG_NUMBER: TAGS}
    named |= {n: changes_of(name) for n, name in rows(connection, f"SELECT number, name FROM {CAPTURED}")}
    known, found = ranges_up_to(connection), dict[int, tuple[Ids, Ids]]()
    parts = [
        f"(SELECT {n}, {ID}, COALESCE({TX}, 0) FROM {quoted(table)} WHERE {known.get(n, NONE).outside()})"
        for n, table in named.items()
    ]
    read = [np.zeros((3, 0), np.int64)]
    try:
        for columns in stream(connection, " UNION ALL ".join(parts), 3, _ROWS):
            read.append(np.array(columns, np.bytes_).astype(np.int64))
    except pymysql.ProgrammingError as error:
        if error.args[0] == _NO_SUCH_TABLE:
            raise CaptureMissing("a table of changes was dropped", "run 'headwater setup'") from None
        raise
    numbers, ids, tx = np.concatenate(read, axis=1)
    for n in named:
        mine = numbers == n
        mine[mine] = ~known.get(n, NONE).hold(ids[mine])
        if mine.any():
            order = np.argsort(ids[mine])
            found[n] = ids[mine][order], tx[mine][order]
    return found


Tag = tuple[str, int]


@dataclass(frozen=True)
class _Round:
    ids: Mapping[int, Ids]
    tag: Tag | None = None


def _tags(connection: Connection, fresh: Fresh) -> dict[int, Tag]:
    """The new tagged transactions, in order."""
    if TAG_NUMBER not in fresh:
        return {}
    ids = fresh[TAG_NUMBER][0]
    found = rows(
        connection,
        f"SELECT {ID}, {TX}, global_id, parts FROM {TAGS} WHERE {ID} BETWEEN {ids[0]} AND {ids[-1]} ORDER BY {TX}",
    )
    new = set(ids.tolist())
    return {int(tx): (global_id, int(parts)) for one, tx, global_id, parts in found if one in new}


def _divided(fresh: Fresh, tags: Mapping[int, Tag], always: bool) -> list[_Round]:
    if not fresh:
        return [_Round({})] if always else []
    everyone = np.unique(np.concatenate([tx for _, tx in fresh.values()]))
    if set(everyone.tolist()) <= set(tags):
        return [
            _Round({n: ids[of == tx] for n, (ids, of) in fresh.items() if (of == tx).any()}, tag)
            for tx, tag in tags.items()
        ]
    return [_Round({n: ids for n, (ids, _) in fresh.items()}, list(tags.values())[-1] if tags else None)]
