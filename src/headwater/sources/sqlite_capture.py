"""What capture leaves in a SQLite file, and how it catches every row.

    _headwater_changes      one log for the whole file: id, tx, tbl, at, count, the row's values verbatim in c0, c1, …
    _headwater_tables       number and columns of every captured table, and the triggers as they were written
    _headwater_meta         one row: generation, the position the log is trimmed to, the current transaction number
    _headwater_stash        rows that the statement at work may be about to replace
    _headwater_transaction  a view; `INSERT INTO _headwater_transaction(tag) VALUES (NULL)` begins a new number, and
                            `(tag, parts) VALUES ('transfer-17', 2)` also says what it is a part of

SQLite has one writer at a time, so ids are commit order. They are never reused although there is no AUTOINCREMENT
(whose own table would stay behind): trimming keeps the newest row of the log.

A tag is a row of the log, of table 0, which is nobody's: `c0` has the global id, `count` the number of parts. So a part
has an id and a position of its own though it may change nothing, and goes when the log is trimmed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.model.errors import SourceRefused, UnknownName
from headwater.sources.sqlite_files import Connection, literal, quote
from headwater.sources.sqlite_tables import PREFIX, LiveTable, live_tables
from headwater.sources.sqlite_triggers import triggers

_CREATE = (
    "CREATE TABLE _headwater_meta (generation TEXT, trimmed INTEGER, tx INTEGER)",
    "CREATE TABLE _headwater_tables (number INTEGER PRIMARY KEY, name TEXT, columns TEXT, triggers TEXT, uniques TEXT)",
    "CREATE TABLE _headwater_changes (id INTEGER PRIMARY KEY, tx INTEGER, tbl INTEGER, at, count INTEGER, c0)",
    "CREATE TABLE _headwater_stash (tbl INTEGER, rid, c0)",
    "INSERT INTO _headwater_meta VALUES (lower(hex(randomblob(16))), 0, 0)",
)
TAGS = 0
"""In place of a table's number: this row of the log is a tag."""
_MARKS = {
    "_headwater_transaction": (
        "CREATE VIEW _headwater_transaction AS SELECT tx, NULL AS tag, NULL AS parts FROM _headwater_meta"
    ),
    "_headwater_mark": (
        "CREATE TRIGGER _headwater_mark INSTEAD OF INSERT ON _headwater_transaction BEGIN"
        " SELECT RAISE(ABORT, 'headwater: the tag of a global transaction must not be empty')"
        " WHERE NEW.tag = '' OR (NEW.tag IS NULL AND NEW.parts IS NOT NULL);"
        " SELECT RAISE(ABORT, 'headwater: parts must be a whole number, 2 or more: at how many sources it has a part')"
        " WHERE NEW.tag IS NOT NULL AND NOT (typeof(NEW.parts) = 'integer' AND NEW.parts BETWEEN 2 AND 1000000);"
        " UPDATE _headwater_meta SET tx = tx + 1;"
        " INSERT INTO _headwater_changes (tx, tbl, at, count, c0)"
        f" SELECT tx, {TAGS}, julianday('now'), NEW.parts, CAST(NEW.tag AS TEXT) FROM _headwater_meta"
        " WHERE NEW.tag IS NOT NULL; END"
    ),
}
"""What applications mark their transactions with. Holds no data: an older one is put up anew."""


@dataclass(frozen=True)
class CapturedColumn:
    name: str
    declared: str
    since: int
    """The id after which the log holds this column's values."""


@dataclass(frozen=True)
class CapturedTable:
    number: int
    name: str
    columns: tuple[CapturedColumn, ...]
    triggers: Mapping[str, str]
    uniques: tuple[str, ...]


def captured_tables(connection: Connection) -> dict[str, CapturedTable]:
    return {
        name: CapturedTable(
            number,
            name,
            tuple(CapturedColumn(*column) for column in json.loads(columns)),
            json.loads(triggers),
            tuple(json.loads(uniques)),
        )
        for number, name, columns, triggers, uniques in connection.rows(
            "SELECT number, name, columns, triggers, uniques FROM _headwater_tables ORDER BY number"
        )
    }


def installed(connection: Connection) -> bool:
    return bool(connection.rows("SELECT 1 FROM sqlite_master WHERE name = '_headwater_tables'"))


def remains(connection: Connection) -> list[tuple[str, str]]:
    """Everything of ours, in an order in which it can be dropped."""
    return [
        (kind, name)
        for kind, name in connection.rows(
            f"SELECT type, name FROM sqlite_master WHERE name GLOB '{PREFIX}*' AND type IN ('table', 'view', 'trigger')"
            " ORDER BY type = 'table', type = 'view', name"
        )
    ]


def what_broke(connection: Connection, table: CapturedTable, live: LiveTable | None) -> str | None:
    """Why this table is no longer captured without a gap; None if it is."""
    if live is None:
        return f"the table {table.name} was dropped or renamed"
    there = {column.name: column.declared for column in live.columns}
    for column in table.columns:
        if column.name not in there:
            return f"its column {column.name} was dropped or renamed"
        if there[column.name] != column.declared:
            return f"its column {column.name} was {column.declared}, and is {there[column.name]} now"
    number = f"{PREFIX}{table.number}_"
    now = dict(
        connection.rows(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
            f" AND tbl_name = {literal(table.name)} AND substr(name, 1, {len(number)}) = '{number}'"
        )
    )
    for name, sql in table.triggers.items():
        if name not in now:
            return f"trigger {name} was dropped"
        if now[name] != sql:
            return f"trigger {name} was changed"
    if not set(live.uniques) <= set(table.uniques):
        return "it got a unique key that its triggers do not know"
    return None


def plan(connection: Connection, names: Sequence[str], source: str) -> list[str]:
    """What install will do, in readable lines; raises what keeps it from doing so."""
    live = live_tables(connection)
    captured = captured_tables(connection) if installed(connection) else {}
    lines = [] if installed(connection) else ["create _headwater_changes, the log of changes, and its bookkeeping"]
    if installed(connection) and not _marks_current(connection):
        lines.append("let transactions be tagged as parts of a global one: _headwater_transaction(tag, parts)")
    for name in names:
        if name not in live:
            raise UnknownName("table", name, live, f"in source {source}")
        _check_capturable(live[name])
        old = captured.get(name)
        if old is None:
            lines.append(f"capture {name}: {len(triggers(live[name], 0, []))} triggers")
        elif broken := what_broke(connection, old, live[name]):
            lines.append(f"capture {name} anew, as a new generation, because {broken}")
        elif added := [c.name for c in live[name].columns if c.name not in {o.name for o in old.columns}]:
            lines.append(f"capture {', '.join(added)} of {name} too")
    return lines


def install(connection: Connection, names: Sequence[str], source: str) -> list[str]:
    """Inside one write transaction. A table whose capture had a gap makes a new generation; added ones do not."""
    lines = plan(connection, names, source)
    if not installed(connection):
        for statement in _CREATE:
            connection.execute(statement)
    if not _marks_current(connection):
        connection.execute("DROP VIEW IF EXISTS _headwater_transaction")  # and with it its trigger
        for statement in _MARKS.values():
            connection.execute(statement)
    live = live_tables(connection)
    for name in dict.fromkeys(names):
        captured = captured_tables(connection)
        old = captured.get(name)
        broken = old and what_broke(connection, old, live[name])
        if broken:
            connection.execute("UPDATE _headwater_meta SET generation = lower(hex(randomblob(16)))")
        if old is None or broken or len(old.columns) < len(live[name].columns):
            number = old.number if old else 1 + max((t.number for t in captured.values()), default=0)
            _capture(connection, live[name], number, () if old is None or broken else old.columns)
    return lines


def _marks_current(connection: Connection) -> bool:
    names = ", ".join(map(literal, _MARKS))
    return dict(connection.rows(f"SELECT name, sql FROM sqlite_master WHERE name IN ({names})")) == _MARKS


def remove(connection: Connection) -> list[str]:
    found = remains(connection)
    for kind, name in found:
        connection.execute(f"DROP {kind} IF EXISTS {quote(name)}")
    return [f"drop {kind} {name}" for kind, name in found]


def _check_capturable(table: LiveTable) -> None:
    if table.rowid is None and not table.without_rowid:
        raise SourceRefused(
            f"table {table.name} has columns named rowid, _rowid_ and oid, so its rows cannot be told apart",
            "give it an INTEGER PRIMARY KEY, or rename one of them",
        )
    for index in table.indexes:
        if index.unique and any(column is None for column, _ in index.columns):
            raise SourceRefused(
                f"table {table.name} has a unique index on an expression ({index.name}):"
                " rows replaced because of it would go unseen",
                "put the index on a generated column instead",
            )


def _capture(connection: Connection, live: LiveTable, number: int, kept: Sequence[CapturedColumn]) -> None:
    since = connection.rows("SELECT coalesce(max(id), 0) FROM _headwater_changes")[0][0]
    known = {c.name for c in kept}
    columns = [*kept, *(CapturedColumn(c.name, c.declared, since) for c in live.columns if c.name not in known)]
    for log in ("_headwater_changes", "_headwater_stash"):
        there = {name for (name,) in connection.rows(f"SELECT name FROM pragma_table_info('{log}')")}
        for n in range(len(columns)):
            if f"c{n}" not in there:
                connection.execute(f"ALTER TABLE {log} ADD COLUMN c{n}")
    wanted = triggers(live, number, [c.name for c in columns])
    mine = f"{PREFIX}{number}_"
    for (name,) in connection.rows(
        f"SELECT name FROM sqlite_master WHERE type = 'trigger' AND substr(name, 1, {len(mine)}) = '{mine}'"
    ):
        connection.execute(f"DROP TRIGGER {quote(name)}")
    for sql in wanted.values():
        connection.execute(sql)
    written = dict(connection.rows("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
    connection.execute(f"DELETE FROM _headwater_tables WHERE number = {number}")
    facts = [
        live.name,
        json.dumps([[c.name, c.declared, c.since] for c in columns]),
        json.dumps({name: written[name] for name in wanted}),
        json.dumps(live.uniques),
    ]
    connection.execute(f"INSERT INTO _headwater_tables VALUES ({number}, {', '.join(map(literal, facts))})")
