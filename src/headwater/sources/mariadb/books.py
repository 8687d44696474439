"""What capture notes, in tables of its own beside the user's: there is nothing else to install.

    _headwater_meta      the generation of this capture
    _headwater_owners    the projects that use it, and the place up to which each has let go of the log
    _headwater_tables    which tables each of them has, and since when
    _headwater_altered   columns that became others: the newest place of a statement that did it
    _headwater_parts     tags of global transactions: an application inserts one within its transaction

The log is the server's and nobody trims it; the place of an owner (`floor`) is where its questions begin. Statements
that alter columns are noted by whoever reads them in the log first. Everything up to an owner's floor has been read
and noted, so whoever comes new looks at the log from there.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pymysql

from headwater.model.source import SourceSpec
from headwater.sources.mariadb.connection import Connection, rows
from headwater.sources.mariadb.places import Head, LogPosition, Place
from headwater.sources.mariadb.statements import EVERY, Altered

_NAME = "varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
_OWNER = "varchar(190) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
_PLACE = "bigint unsigned NOT NULL"

META, OWNERS, TABLES, ALTERED, PARTS = (
    "_headwater_meta",
    "_headwater_owners",
    "_headwater_tables",
    "_headwater_altered",
    "_headwater_parts",
)
CREATE = {
    META: "generation char(32) NOT NULL",
    OWNERS: f"owner {_OWNER} PRIMARY KEY, label varchar(500) NOT NULL, floor {_PLACE}, log {_OWNER},"
    " server bigint NOT NULL, begun bigint NOT NULL",
    TABLES: f"owner {_OWNER}, name {_NAME}, since {_PLACE}, PRIMARY KEY (owner, name)",
    ALTERED: f"name {_NAME}, col {_NAME}, place {_PLACE}, PRIMARY KEY (name, col)",
    PARTS: "id bigint PRIMARY KEY AUTO_INCREMENT, global_id varchar(500) NOT NULL, parts int NOT NULL,"
    " CONSTRAINT `the id of a global transaction must not be empty` CHECK (global_id <> ''),"
    " CONSTRAINT `a global transaction has 2 parts or more` CHECK (parts >= 2)",
}
_END = " ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_NO_SUCH_TABLE = 1146
_READ = f"""
SELECT 0, generation, '', 0, '', 0, 0 FROM {META}
UNION ALL SELECT 1, owner, label, floor, log, server, begun FROM {OWNERS}
UNION ALL SELECT 2, name, '', since, '', 0, 0 FROM {TABLES} WHERE owner = %s
UNION ALL SELECT 3, name, col, place, '', 0, 0 FROM {ALTERED}
"""


@dataclass(frozen=True)
class Books:
    """What is noted, for one owner. `floor` is its own; None if it is not known here."""

    generation: str
    floor: LogPosition | None
    tables: Mapping[str, Place]
    """Captured table → since when."""
    altered: Mapping[tuple[str, str], int]
    """Table and column (or EVERY) → the place of the newest statement that made it another."""
    others: tuple[tuple[str, str], ...] = ()
    """Other owners, with their labels."""
    has_parts: bool = True

    @property
    def life(self) -> str:
        return self.generation[:8]


def read(connection: Connection, spec: SourceSpec) -> Books | None:
    """None if there is no capture."""
    try:
        found = rows(connection, _READ, [spec.owner])
    except pymysql.ProgrammingError as error:
        if error.args[0] == _NO_SUCH_TABLE:
            return None
        raise
    generations, owners, captured, altered = ([row[1:] for row in found if row[0] == n] for n in range(4))
    if not generations:  # being installed right now
        return None
    generation, floor = generations[0][0], None
    for owner, _, place, log, server, begun in owners:
        if owner == spec.owner:
            floor = LogPosition(Place.of(int(place)), Head(log, int(server), int(begun)), generation[:8])
    return Books(
        generation,
        floor,
        {name: Place.of(int(since)) for name, _, since, *_ in captured},
        {(name, column): int(place) for name, column, place, *_ in altered},
        tuple((owner, label) for owner, label, *_ in owners if owner != spec.owner),
    )


def missing(connection: Connection) -> list[str]:
    """Those of capture's own tables that are not there."""
    found = {
        row[0]
        for row in rows(
            connection,
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"
            " AND LEFT(TABLE_NAME, 11) = '_headwater_'",
        )
    }
    return [table for table in CREATE if table not in found]


def create(connection: Connection, tables: Iterable[str]) -> None:
    """Those of them; a new `_headwater_meta` is a new life."""
    for table in tables:
        rows(connection, f"CREATE TABLE {table} ({CREATE[table]}){_END}")
        if table == META:
            rows(connection, f"INSERT INTO {META} VALUES (%s)", [uuid.uuid4().hex])


def drop(connection: Connection) -> None:
    """The table of tags stays where a capture by triggers needs it."""
    shared = rows(connection, "SHOW TABLES LIKE '\\_headwater\\_capture'")
    rows(connection, f"DROP TABLE IF EXISTS {', '.join(t for t in CREATE if t != PARTS or not shared)}")


def own(connection: Connection, spec: SourceSpec, tables: Sequence[str], now: LogPosition) -> None:
    """This owner needs these tables from now on. A project that was there under the same label has moved: it takes its
    place, and what it had."""
    connection.begin()
    if spec.owner_label:
        old = rows(
            connection,
            f"SELECT owner FROM {OWNERS} WHERE label = %s AND owner <> %s",
            [spec.owner_label, spec.owner],
        )
        for (owner,) in old:
            rows(connection, f"UPDATE IGNORE {OWNERS} SET owner = %s WHERE owner = %s", [spec.owner, owner])
            rows(connection, f"UPDATE IGNORE {TABLES} SET owner = %s WHERE owner = %s", [spec.owner, owner])
            rows(connection, f"DELETE FROM {OWNERS} WHERE owner = %s", [owner])
            rows(connection, f"DELETE FROM {TABLES} WHERE owner = %s", [owner])
    head = now.head
    rows(
        connection,
        f"INSERT INTO {OWNERS} VALUES (%s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE label = VALUES(label)",
        [spec.owner, spec.owner_label, int(now.place), head.log, head.server, head.begun],
    )
    for table in tables:
        rows(connection, f"INSERT IGNORE INTO {TABLES} VALUES (%s, %s, %s)", [spec.owner, table, int(now.place)])
    connection.commit()


def disown(connection: Connection, spec: SourceSpec, tables: Iterable[str]) -> None:
    connection.begin()
    for table in tables:
        rows(connection, f"DELETE FROM {TABLES} WHERE owner = %s AND name = %s", [spec.owner, table])
    connection.commit()


def leave(connection: Connection, spec: SourceSpec) -> None:
    connection.begin()
    rows(connection, f"DELETE FROM {TABLES} WHERE owner = %s", [spec.owner])
    rows(connection, f"DELETE FROM {OWNERS} WHERE owner = %s", [spec.owner])
    connection.commit()


def let_go(connection: Connection, spec: SourceSpec, floor: LogPosition) -> None:
    """The owner's floor moves up; tags that were committed are in the log and need no row any longer."""
    head = floor.head
    rows(
        connection,
        f"UPDATE {OWNERS} SET floor = %s, log = %s, server = %s, begun = %s WHERE owner = %s AND floor < %s",
        [int(floor.place), head.log, head.server, head.begun, spec.owner, int(floor.place)],
    )
    connection.begin()
    tags = rows(connection, f"SELECT id FROM {PARTS} LIMIT 10000 FOR UPDATE SKIP LOCKED")
    if tags:
        rows(connection, f"DELETE FROM {PARTS} WHERE id IN ({', '.join(str(tag) for (tag,) in tags)})")
    connection.commit()


def note(connection: Connection, found: Iterable[tuple[Place, Altered]], known: Books) -> bool:
    """Note columns that became others, as far as they are not noted yet and anyone captures their tables. Whether any
    were new."""
    captured = [row[0] for row in rows(connection, f"SELECT DISTINCT name FROM {TABLES}")]
    new: dict[tuple[str, str], int] = {}
    for place, altered in found:
        for table in captured:
            if altered.table == EVERY or altered.table.lower() == table.lower():
                key = table, altered.column.lower()
                if int(place) > max(known.altered.get(key, 0), new.get(key, 0)):
                    new[key] = int(place)
    for (table, column), where in new.items():
        rows(
            connection,
            f"INSERT INTO {ALTERED} VALUES (%s, %s, %s) ON DUPLICATE KEY UPDATE place = GREATEST(place, VALUES(place))",
            [table, column, where],
        )
    return bool(new)


def became(books: Books, table: str, columns: Iterable[str]) -> dict[str, int]:
    """Per column the place at which it last became another; 0 if it never did."""
    whole = books.altered.get((table, EVERY), 0)
    return {column: max(whole, books.altered.get((table, column.lower()), 0)) for column in columns}
