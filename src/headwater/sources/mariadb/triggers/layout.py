"""What capture by triggers leaves in a database, and the triggers themselves.

    _headwater_capture     one row: the generation. Whoever numbers rounds or alters the notes holds its lock
    _headwater_projects    the projects that use it, and the round up to which each has let go
    _headwater_captured    the captured tables: a number, since which round, and what there was to be seen (`facts.py`)
    _headwater_uses        which project needs which of them
    _headwater_of_<table>  the changes of one table, as its triggers write them: id, tx, count, the row
    _headwater_tags        parts of global transactions; like a table of changes, number 0
    _headwater_rounds      the states that have a number (`rounds.py`), each with what makes it this one
    _headwater_ranges      which changes each of them has: ids from low to high
    _headwater_gaps        changes that triggers could not write down
    _headwater_counter     the number of the tagged transaction at work; its lock puts those in a row
    _headwater_parts       an application tags its transaction here

**Writers never fail for capture's sake.** A trigger that names a column which is gone, or meets a value that the table
of changes cannot hold, writes a gap instead: the table counts as broken from then on. A change and its gap are seen by
the same snapshots.

**Parts.** A tag takes the counter's lock until its transaction ends, so tagged transactions come one after the other,
and their numbers are the order of their commits. The session remembers the number (`@headwater_part`); each change of
such a session looks, by the same lock, whether that number is still the newest. Then it belongs to the tagged
transaction, or came after it and before any other one: either way with it. If not, it is nobody's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from headwater.sources.mariadb import books
from headwater.sources.mariadb.catalog import MariaTable
from headwater.sources.mariadb.connection import quoted

CAPTURE, PROJECTS, CAPTURED, USES = (
    "_headwater_capture",
    "_headwater_projects",
    "_headwater_captured",
    "_headwater_uses",
)
ROUNDS, RANGES, GAPS, COUNTER, TAGS = (
    "_headwater_rounds",
    "_headwater_ranges",
    "_headwater_gaps",
    "_headwater_counter",
    "_headwater_tags",
)
PARTS = books.PARTS
TAGGED = "_headwater_tag"
"""The trigger on `_headwater_parts`."""
TAG_NUMBER = 0

ID, TX, SIGN = "_headwater_id", "_headwater_tx", "_headwater_count"

_OWNER = "varchar(190) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
_NAME = "varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
_OF = f"{ID} bigint unsigned PRIMARY KEY AUTO_INCREMENT, {TX} bigint"

CREATE = {
    CAPTURE: "generation char(32) NOT NULL, numbers int NOT NULL",
    PROJECTS: f"owner {_OWNER} PRIMARY KEY, label varchar(500) NOT NULL, floor bigint NOT NULL",
    CAPTURED: f"number int PRIMARY KEY, name {_NAME} UNIQUE, since bigint NOT NULL, facts longtext NOT NULL",
    USES: f"owner {_OWNER}, number int NOT NULL, PRIMARY KEY (owner, number)",
    ROUNDS: "round bigint PRIMARY KEY, at datetime(6) NOT NULL, salt bigint NOT NULL, global_id varchar(500),"
    " parts int",
    RANGES: "number int NOT NULL, low bigint unsigned NOT NULL, high bigint unsigned NOT NULL, round bigint NOT NULL,"
    " PRIMARY KEY (number, low), KEY (round)",
    GAPS: "id bigint PRIMARY KEY AUTO_INCREMENT, number int NOT NULL, why text",
    COUNTER: "n bigint NOT NULL",
    TAGS: f"{_OF}, global_id varchar(500), parts int",
    PARTS: books.CREATE[PARTS],
}
END = " ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

SQL_MODE = "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"
"""The triggers' own, whatever a writer's is: what does not fit is an error, and so a gap; nothing is cut off."""


def own_name(kind: str, table: str) -> str:
    """Of a table of changes (`of`) or a trigger; names have 64 characters at most."""
    name = f"_headwater_{kind}_{table}"
    return name if len(name) <= 64 else f"{name[:55]}_{hashlib.sha256(table.encode()).hexdigest()[:8]}"


def changes_of(table: str) -> str:
    return own_name("of", table)


def kept_columns(table: MariaTable) -> list[str]:
    """Those that are written down: all that can be read."""
    return [name for name, column in table.columns.items() if column.type is not None]


def change_table(table: MariaTable) -> str:
    columns = "".join(
        f", {quoted(c.name)} {c.declared}{f' CHARACTER SET {c.charset}' if c.charset else ''} NULL"
        for c in (table.columns[name] for name in kept_columns(table))
    )
    return f"CREATE TABLE {quoted(changes_of(table.name.table))} ({_OF}, {SIGN} tinyint NOT NULL{columns}){END}"


def triggers(table: MariaTable, number: int) -> dict[str, str]:
    """Name → CREATE TRIGGER. All are AFTER triggers: what they see is what was written, whoever else changed it."""
    columns = kept_columns(table)
    bodies = {"insert": [(1, "NEW")], "update": [(-1, "OLD"), (1, "NEW")], "delete": [(-1, "OLD")]}
    return {
        own_name(verb, table.name.table): (
            f"CREATE TRIGGER {quoted(own_name(verb, table.name.table))} AFTER {verb.upper()} ON {table.sql}"
            f" FOR EACH ROW BEGIN {_GAP.format(gaps=GAPS, number=number)}{_PART}"
            f"{_written(table.name.table, columns, rows)} END"
        )
        for verb, rows in bodies.items()
    }


_GAP = (
    "DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN DECLARE said text; GET DIAGNOSTICS CONDITION 1 said = MESSAGE_TEXT;"
    " INSERT INTO {gaps} (number, why) VALUES ({number}, said); END; "
)
_PART = (
    "IF @headwater_part IS NOT NULL THEN SELECT IF(n = @headwater_part, n, NULL) INTO @headwater_part"
    f" FROM {COUNTER} FOR UPDATE; END IF; "
)


def _written(table: str, columns: Sequence[str], rows: Sequence[tuple[int, str]]) -> str:
    into = ", ".join([TX, SIGN, *map(quoted, columns)])
    values = ", ".join(
        f"({', '.join(['@headwater_part', str(sign), *(f'{row}.{quoted(c)}' for c in columns)])})" for sign, row in rows
    )
    return f"INSERT INTO {quoted(changes_of(table))} ({into}) VALUES {values};"


TAG_TRIGGER = (
    f"CREATE TRIGGER {TAGGED} AFTER INSERT ON {PARTS} FOR EACH ROW BEGIN UPDATE {COUNTER} SET n = n + 1;"
    f" SELECT n INTO @headwater_part FROM {COUNTER} FOR UPDATE;"
    f" INSERT INTO {TAGS} ({TX}, global_id, parts) VALUES (@headwater_part, NEW.global_id, NEW.parts); END"
)
