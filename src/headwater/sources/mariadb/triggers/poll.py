"""What happened after a round: the rounds since, each one transaction, about `limit` changes. And letting go of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pymysql

from headwater.model.names import Position, TableName
from headwater.model.source import COUNT, ORDINAL, TRANSACTIONS, Poll, SourceSpec
from headwater.sources.mariadb.connection import Connection, quoted, rows
from headwater.sources.mariadb.triggers import notes as notes_of
from headwater.sources.mariadb.triggers.layout import (
    CAPTURED,
    ID,
    PARTS,
    PROJECTS,
    RANGES,
    ROUNDS,
    TAG_NUMBER,
    TAGS,
    changes_of,
)
from headwater.sources.mariadb.triggers.past import Seen, all_changes
from headwater.sources.mariadb.triggers.rounds import NONE, RoundPosition, lock, ranges_up_to

TRIM_SLICE = 10_000
"""Changes forgotten in one transaction."""


@dataclass(frozen=True)
class _Round:
    number: int
    at: dt.datetime
    salt: int
    tag: tuple[str, int] | None
    ranges: Mapping[int, Sequence[tuple[int, int]]]
    """Of the tables that are asked about."""

    @property
    def size(self) -> int:
        return sum(high - low + 1 for pairs in self.ranges.values() for low, high in pairs)


def poll(
    connection: Connection,
    after: RoundPosition,
    seen: Mapping[TableName, Seen],
    columns: Mapping[TableName, Sequence[str]],
    limit: int,
) -> Poll:
    """Within a snapshot that was taken after what is new was numbered."""
    rounds, more = _rounds(connection, after.round, {one.captured.number for one in seen.values()}, limit)
    told = [one for one in rounds if one.tag or any(_concerns(one, table) for table in seen.values())]
    salts = {after.round: after.salt} | {one.number: one.salt for one in rounds}

    def position(number: int) -> Position:
        return RoundPosition(number, after.generation, salts[number]).text()

    changes = {}
    for name, one in seen.items():
        found = _told(connection, one, columns[name], told)
        if found is not None:
            changes[name] = found
    transactions = pa.table(
        [
            pa.array([str(one.number) for one in told], pa.string()),
            pa.array([one.at.replace(tzinfo=dt.UTC) for one in told], pa.timestamp("us", "UTC")),
            pa.array([one.tag and one.tag[0] for one in told], pa.string()),
            pa.array([one.tag and one.tag[1] for one in told], pa.int32()),
        ],
        schema=TRANSACTIONS,
    )
    before = {str(one.number): position(one.number - 1) for one in told if one.tag}
    end = rounds[-1].number if rounds else after.round
    return Poll(position(end), transactions, changes, more, before)


def _concerns(one: _Round, table: Seen) -> bool:
    """Of a table's changes only those count that came when all its triggers were there."""
    return table.captured.number in one.ranges and one.number > table.captured.since


def _rounds(connection: Connection, after: int, numbers: set[int], limit: int) -> tuple[list[_Round], bool]:
    """Every round is there: they have no gaps."""
    found = {
        int(n): _Round(int(n), at, int(salt), None if tag is None else (tag, int(parts)), {})
        for n, at, salt, tag, parts in rows(
            connection,
            f"SELECT round, at, salt, global_id, parts FROM {ROUNDS} WHERE round > %s ORDER BY round",
            [after],
        )
    }
    for number, low, high, n in rows(
        connection, f"SELECT number, low, high, round FROM {RANGES} WHERE round > %s", [after]
    ):
        if number in numbers:
            ranges: dict[int, list[tuple[int, int]]] = found[int(n)].ranges  # type: ignore[assignment]  # still being filled
            ranges.setdefault(int(number), []).append((int(low), int(high)))
    taken, size = list[_Round](), 0
    for one in found.values():
        if taken and size and size + one.size > max(1, limit):
            return taken, True
        taken.append(one)
        size += one.size
    return taken, False


def _told(connection: Connection, table: Seen, columns: Sequence[str], told: Sequence[_Round]) -> pa.Table | None:
    """The changes of one table, with the ordinal of their rounds."""
    number = table.captured.number
    pairs = [
        (low, high, ordinal)
        for ordinal, one in enumerate(told)
        if _concerns(one, table)
        for low, high in one.ranges[number]
    ]
    if not pairs:
        return None
    lows, highs, ordinals = np.array(sorted(pairs), np.int64).T
    where = [f"{ID} BETWEEN {lows[0]} AND {highs[-1]}"]
    read = all_changes(connection, table.table, [table.table.columns[c] for c in columns], where)
    if read is None:
        return None
    found, ids = read
    place = np.searchsorted(lows, ids, "right") - 1
    inside = (place >= 0) & (ids <= highs[place])
    kept = found.filter(pa.array(inside))
    assert COUNT in kept.column_names
    return kept.append_column(ORDINAL, pa.array(ordinals[place[inside]], pa.int64()))


def waiting(connection: Connection, after: int) -> int:
    """How many changes lie after a round, numbered or not."""
    contained = ranges_up_to(connection, after)
    counted = [
        f"(SELECT COUNT(*) AS n FROM {quoted(changes_of(name))} WHERE {contained.get(number, NONE).outside()})"
        for number, name in rows(connection, f"SELECT number, name FROM {CAPTURED}")
    ]
    if not counted:
        return 0
    ((count,),) = rows(connection, f"SELECT SUM(n) FROM ({' UNION ALL '.join(counted)}) AS c")
    return int(count)


# ── letting go ───────────────────────────────────────────────────────────────────────────────────────────────────


def trim(connection: Connection, spec: SourceSpec, below: RoundPosition) -> int:
    """This project lets go what `below` contains; what all have let go is forgotten, in slices. The round that they
    have let go last stays: it is the witness of positions that name it."""
    lock(connection)
    notes = notes_of.installed(notes_of.read(connection, spec), spec)
    assert notes.floor is not None
    if below.round <= notes.floor or below.generation != notes.generation[:8]:
        connection.rollback()
        return 0
    notes_of.held(connection, spec, below)
    rows(connection, f"UPDATE {PROJECTS} SET floor = %s WHERE owner = %s", [below.round, spec.owner])
    connection.commit()
    forgotten = 0
    while True:
        gone, done = _forget(connection, spec)
        forgotten += gone
        if done:
            break
    _forget_parts(connection)
    return forgotten


def _forget(connection: Connection, spec: SourceSpec) -> tuple[int, bool]:
    """A slice: ranges with their changes. Every id of a range is there, so LIMIT ends the search before it meets the
    row of a writer that is still at work; and no gaps are locked."""
    rows(connection, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    lock(connection)
    notes = notes_of.installed(notes_of.read(connection, spec), spec)
    names = {t.number: changes_of(t.name) for t in notes.tables.values()} | {TAG_NUMBER: TAGS}
    found = rows(
        connection,
        f"SELECT number, low, high FROM {RANGES} WHERE round <= %s ORDER BY number, low LIMIT 1000",
        [notes.let_go],
    )
    gone, left = 0, TRIM_SLICE
    for number, low, high in found:
        if left <= 0:
            break
        count = min(left, int(high) - int(low) + 1)
        if number in names:
            rows(
                connection,
                f"DELETE FROM {quoted(names[number])} WHERE {ID} >= {low} AND {ID} < {int(low) + count}"
                f" ORDER BY {ID} LIMIT {count}",
            )
        rest = int(low) + count
        if rest > high:
            rows(connection, f"DELETE FROM {RANGES} WHERE number = %s AND low = %s", [number, low])
        else:
            rows(connection, f"UPDATE {RANGES} SET low = %s WHERE number = %s AND low = %s", [rest, number, low])
        gone, left = gone + count, left - count
    if not found:
        rows(connection, f"DELETE FROM {ROUNDS} WHERE round < %s", [notes.let_go])
    connection.commit()
    return gone, not found


def _forget_parts(connection: Connection) -> None:
    """What applications wrote to tag their transactions: the trigger has taken it down."""
    connection.begin()
    try:
        tags = rows(connection, f"SELECT id FROM {PARTS} LIMIT 10000 FOR UPDATE SKIP LOCKED")
    except pymysql.ProgrammingError:  # an application's own setup may have dropped it; setup makes it anew
        connection.rollback()
        return
    if tags:
        rows(connection, f"DELETE FROM {PARTS} WHERE id IN ({', '.join(str(tag) for (tag,) in tags)})")
    connection.commit()
