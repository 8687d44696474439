"""What capture by triggers notes of itself: who uses it, what is captured and since when (`layout.py`).

Notes are read in the snapshot they are to be relied on in. Whoever writes them holds the lock of `_headwater_capture`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pymysql

from headwater.model.errors import CaptureMissing, LifeChanged, PositionTrimmed
from headwater.model.names import TableName
from headwater.model.source import SourceSpec
from headwater.sources.mariadb.connection import Connection, another_life, rows
from headwater.sources.mariadb.triggers.facts import Facts
from headwater.sources.mariadb.triggers.layout import (
    CAPTURE,
    CAPTURED,
    COUNTER,
    CREATE,
    END,
    GAPS,
    PARTS,
    PROJECTS,
    ROUNDS,
    TAG_TRIGGER,
    TAGGED,
    USES,
)
from headwater.sources.mariadb.triggers.rounds import RoundPosition

SETUP = "run 'headwater setup', then 'headwater apply' loads the views over it again"
_NOT_THERE = (1146, 1142)
"""Who may not read a table is not told whether it is there; `needs.py` says which right is missing."""
_READ = f"""
SELECT 0, generation, '', 0, '' FROM {CAPTURE}
UNION ALL SELECT 1, owner, label, floor, '' FROM {PROJECTS}
UNION ALL SELECT 2, c.name, c.facts, c.since, CONCAT(c.number, '') FROM {CAPTURED} AS c
UNION ALL SELECT 3, c.name, '', 0, '' FROM {CAPTURED} AS c JOIN {USES} AS u ON u.number = c.number WHERE u.owner = %s
UNION ALL (SELECT 4, g.why, '', g.number, '' FROM {GAPS} AS g
    WHERE g.id IN (SELECT MIN(id) FROM {GAPS} GROUP BY number))
"""


@dataclass(frozen=True)
class CapturedTable:
    number: int
    name: str
    since: int
    facts: Facts
    gap: str = ""
    """What a trigger could not write down; empty if there was nothing."""

    def broken(self, now: Facts) -> str:
        """Why its changes are not all here; empty if they are."""
        return self.facts.broken(now) or (self.gap and f"its triggers could not write down a change: {self.gap}")


@dataclass(frozen=True)
class Notes:
    """For one project. `floor` is the round up to which it has let go; None if it is not known here."""

    generation: str
    floor: int | None
    tables: Mapping[str, CapturedTable]
    """All that are captured, by name."""
    mine: frozenset[str]
    others: tuple[tuple[str, str], ...] = ()
    let_go: int = 0
    """The round up to which all projects have let go."""

    def captured(self, name: TableName) -> CapturedTable:
        if name.table not in self.mine:
            raise CaptureMissing(f"{name} is not captured", "run 'headwater setup'")
        return self.tables[name.table]


def read(connection: Connection, spec: SourceSpec) -> Notes | None:
    """None if there is no capture."""
    try:
        found = rows(connection, _READ, [spec.owner])
    except (pymysql.ProgrammingError, pymysql.OperationalError) as error:
        if error.args[0] in _NOT_THERE:
            return None
        raise
    generations, owners, captured, mine, gaps = ([row[1:] for row in found if row[0] == n] for n in range(5))
    if not generations:  # being installed right now
        return None
    missed = {int(number): str(why or "") for why, _, number, _ in gaps}
    tables = {
        name: CapturedTable(int(n), name, int(since), Facts.parse(facts), missed.get(int(n), ""))
        for name, facts, since, n in captured
    }
    floors = {owner: int(floor) for owner, _, floor, _ in owners}
    return Notes(
        generations[0][0],
        floors.get(spec.owner),
        tables,
        frozenset(name for name, *_ in mine),
        tuple((owner, label) for owner, label, *_ in owners if owner != spec.owner),
        min(floors.values(), default=0),
    )


def installed(notes: Notes | None, spec: SourceSpec) -> Notes:
    if notes is None or notes.floor is None:
        raise CaptureMissing(f"capture is not installed at source {spec.name}", "run 'headwater setup'")
    return notes


def position(connection: Connection, notes: Notes, number: int) -> RoundPosition:
    """Of a round, which must be there."""
    ((salt,),) = rows(connection, f"SELECT salt FROM {ROUNDS} WHERE round = %s", [number])
    return RoundPosition(number, notes.generation[:8], int(salt))


def held(connection: Connection, spec: SourceSpec, at: RoundPosition) -> Notes:
    """The notes of a snapshot, if they are those of a position that can be asked about."""
    notes = installed(read(connection, spec), spec)
    assert notes.floor is not None
    if at.generation != notes.generation[:8]:
        raise another_life(spec.name, "capture was installed anew")
    if at.round < notes.floor:
        raise PositionTrimmed(
            f"source {spec.name} keeps nothing before round {notes.floor}, asked for {at.round}",
            "ask as of a newer position",
        )
    found = rows(connection, f"SELECT salt FROM {ROUNDS} WHERE round = %s", [at.round])
    if not found or int(found[0][0]) != at.salt:
        raise LifeChanged(
            f"source {spec.name} is not the database that the views were loaded from: its round {at.round} is"
            f" {'another one' if found else 'not there'}. Was it restored from a backup, or is it a copy?",
            "'headwater apply' loads the views over it again",
        )
    return notes


def old_enough(table: CapturedTable, at: int) -> None:
    if at < table.since:
        raise PositionTrimmed(f"{table.name} is captured since round {table.since}", "ask as of a newer position")


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def missing(connection: Connection) -> list[str]:
    """Those of capture's own tables, and the trigger of the tags, that are not there."""
    tables = {row[0] for row in rows(connection, "SHOW TABLES LIKE '\\_headwater\\_%%'")}
    absent = [table for table in CREATE if table not in tables]
    tagged = rows(
        connection,
        "SELECT 1 FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE() AND TRIGGER_NAME = %s",
        [TAGGED],
    )
    return absent if tagged else [*absent, TAGGED]


def create(connection: Connection, absent: Iterable[str]) -> None:
    """Those of them. The generation comes last: whoever sees it sees everything."""
    absent = list(absent)
    for table in absent:
        if table != TAGGED:
            rows(connection, f"CREATE TABLE {table} ({CREATE[table]}){END}")
    if COUNTER in absent:
        rows(connection, f"INSERT INTO {COUNTER} VALUES (0)")
    if TAGGED in absent or PARTS in absent:
        rows(connection, f"DROP TRIGGER IF EXISTS {TAGGED}")
        rows(connection, TAG_TRIGGER)
    if CAPTURE in absent:
        rows(connection, f"INSERT INTO {CAPTURE} VALUES (%s, 0)", [uuid.uuid4().hex])


def own(connection: Connection, spec: SourceSpec, tables: Sequence[str], now: int) -> None:
    """This project needs these tables from now on. One that was there under the same label has moved: it takes its
    place, and what it had."""
    old = rows(
        connection,
        f"SELECT owner FROM {PROJECTS} WHERE label = %s AND label <> '' AND owner <> %s",
        [spec.owner_label, spec.owner],
    )
    for (owner,) in old:
        for table in (PROJECTS, USES):
            rows(connection, f"UPDATE IGNORE {table} SET owner = %s WHERE owner = %s", [spec.owner, owner])
            rows(connection, f"DELETE FROM {table} WHERE owner = %s", [owner])
    rows(
        connection,
        f"INSERT INTO {PROJECTS} VALUES (%s, %s, %s) ON DUPLICATE KEY UPDATE label = VALUES(label)",
        [spec.owner, spec.owner_label, now],
    )
    for table in tables:
        rows(
            connection,
            f"INSERT IGNORE INTO {USES} SELECT %s, number FROM {CAPTURED} WHERE name = %s",
            [spec.owner, table],
        )


def disown(connection: Connection, spec: SourceSpec, keep: Sequence[str] | None) -> None:
    """It needs only these any longer; None: it goes."""
    kept = ", ".join(["''", *(connection.escape(name) for name in keep or ())])
    rows(
        connection,
        f"DELETE FROM {USES} WHERE owner = %s"
        f" AND number NOT IN (SELECT number FROM {CAPTURED} WHERE name IN ({kept.replace('%', '%%')}))",
        [spec.owner],
    )
    if keep is None:
        rows(connection, f"DELETE FROM {PROJECTS} WHERE owner = %s", [spec.owner])


def registered(connection: Connection, spec: SourceSpec) -> bool:
    found = rows(connection, f"SELECT owner, label FROM {PROJECTS}")
    label = spec.owner_label
    same = [row for row in found if row[0] == spec.owner or (label and row[1] == label)]
    return same == [(spec.owner, label)]
