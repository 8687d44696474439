"""What capture leaves in a SQLite file.

    _headwater_changes      one log for the whole file: id, tx, tbl, at, salt, count, the row's values verbatim in c0, …
    _headwater_tables       number, life and columns of every captured table, and the triggers as they were written
    _headwater_owners       the projects that use it: where they are, their tables, and what each has let go
    _headwater_meta         one row: format, generation, how far the log is trimmed, transaction number, table numbers
    _headwater_stash        rows that the statement at work may be about to replace
    _headwater_<n>_pool     the same for an entangled table
    _headwater_transaction  a view; `INSERT INTO _headwater_transaction(tag) VALUES (NULL)` begins a new number, and
                            `(tag, parts) VALUES ('transfer-17', 2)` also says what it is a part of

SQLite has one writer at a time, so ids are commit order. They are never reused although there is no AUTOINCREMENT
(whose own table would stay behind): trimming keeps the newest row of the log.

A tag is a row of the log, of table 0, which is nobody's: `c0` has the global id, `count` the number of parts. So a part
has an id and a position of its own though it may change nothing, and goes when the log is trimmed.
"""

from __future__ import annotations

from headwater.sources.sqlite.connection import Connection
from headwater.sources.sqlite.files import literal, quote
from headwater.sources.sqlite.tables import PREFIX

FORMAT = 2
TAGS = 0
"""In place of a table's number: this row of the log is a tag."""
OLDER = "was installed by an older Headwater; run 'headwater setup'"

_TABLES = {
    "_headwater_meta": "(format INTEGER, generation TEXT, trimmed INTEGER, tx INTEGER, numbers INTEGER)",
    "_headwater_owners": "(owner TEXT, label TEXT, trimmed INTEGER, tables TEXT)",
    "_headwater_tables": (
        "(number INTEGER PRIMARY KEY, name TEXT, life TEXT, entangled INTEGER, columns TEXT, triggers TEXT,"
        " uniques TEXT)"
    ),
    "_headwater_changes": "(id INTEGER PRIMARY KEY, tx INTEGER, tbl INTEGER, at, salt INTEGER, count INTEGER, c0)",
    "_headwater_stash": "(tbl INTEGER, rid, c0)",
}
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
        " INSERT INTO _headwater_changes (tx, tbl, at, salt, count, c0)"
        f" SELECT tx, {TAGS}, julianday('now'), random(), NEW.parts, CAST(NEW.tag AS TEXT) FROM _headwater_meta"
        " WHERE NEW.tag IS NOT NULL; END"
    ),
}
"""What applications mark their transactions with. Holds no data: an older one is put up anew."""


def ours(connection: Connection) -> list[tuple[str, str]]:
    """Everything of ours, in an order in which it can be dropped."""
    return [
        (kind, name)
        for kind, name in connection.rows(
            f"SELECT type, name FROM sqlite_master WHERE name GLOB '{PREFIX}*' AND type IN ('table', 'view', 'trigger')"
            " ORDER BY type = 'table', type = 'view', name"
        )
    ]


def what_is_wrong(connection: Connection) -> str | None:
    """Why the capture that is here cannot be used; empty if it can, None if there is none."""
    found = {name for _, name in ours(connection)}
    if not found:
        return None
    missing = sorted(set(_TABLES) - found)
    columns = {name for (name,) in connection.rows("SELECT name FROM pragma_table_info('_headwater_meta')")}
    if "_headwater_meta" in missing:
        return "is damaged, _headwater_meta was dropped; run 'headwater setup'"
    if "format" not in columns or connection.rows("SELECT format FROM _headwater_meta") != [(FORMAT,)]:
        return OLDER
    return f"is damaged, {missing[0]} was dropped; run 'headwater setup'" if missing else ""


def tables_named(connection: Connection) -> list[str]:
    """The captured tables, also of an older format."""
    if not connection.rows("SELECT 1 FROM sqlite_master WHERE name = '_headwater_tables'"):
        return []
    return [name for (name,) in connection.rows("SELECT name FROM _headwater_tables ORDER BY name")]


def create(connection: Connection) -> None:
    for name, columns in _TABLES.items():
        connection.execute(f"CREATE TABLE {name} {columns}")
    connection.execute(f"INSERT INTO _headwater_meta VALUES ({FORMAT}, lower(hex(randomblob(16))), 0, 0, 0)")


def drop_all(connection: Connection) -> list[str]:
    found = ours(connection)
    for kind, name in found:
        connection.execute(f"DROP {kind} IF EXISTS {quote(name)}")
    return [f"drop {kind} {name}" for kind, name in found]


def marks_current(connection: Connection) -> bool:
    names = ", ".join(map(literal, _MARKS))
    return dict(connection.rows(f"SELECT name, sql FROM sqlite_master WHERE name IN ({names})")) == _MARKS


def put_up_marks(connection: Connection) -> None:
    if not marks_current(connection):
        connection.execute("DROP VIEW IF EXISTS _headwater_transaction")  # and with it its trigger
        for statement in _MARKS.values():
            connection.execute(statement)
