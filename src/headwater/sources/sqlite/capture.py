"""Installing capture in a SQLite file, seeing whether it still catches everything, taking it away.

Each captured table has a **life** of its own, new whenever it is captured anew: whatever happened between two lives is
unknown, and concerns the views over that table alone. A column has one too, from the moment its capture began. Numbers
are never used twice, so the changes of two lives are never mixed up in the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.model.errors import SourceRefused, UnknownName
from headwater.model.schema import Identity
from headwater.sources.sqlite import layout, owners
from headwater.sources.sqlite.connection import Connection
from headwater.sources.sqlite.entangled import Entanglement, entanglement
from headwater.sources.sqlite.files import literal, quote
from headwater.sources.sqlite.owners import Owner, Registered
from headwater.sources.sqlite.pool import pool, pool_table, pool_triggers
from headwater.sources.sqlite.tables import PREFIX, LiveTable, live_tables
from headwater.sources.sqlite.triggers import triggers


@dataclass(frozen=True)
class CapturedColumn:
    name: str
    declared: str
    since: int
    """The id after which the log holds this column's values."""
    life: str


@dataclass(frozen=True)
class CapturedTable:
    number: int
    name: str
    life: str
    entangled: bool
    columns: tuple[CapturedColumn, ...]
    triggers: Mapping[str, str]
    uniques: tuple[str, ...]

    def identity(self, column: str) -> Identity | None:
        found = next((c for c in self.columns if c.name == column), None)
        return Identity(f"{self.life}.{found.life}", found.declared) if found else None


def captured_tables(connection: Connection) -> dict[str, CapturedTable]:
    return {
        name: CapturedTable(
            number,
            name,
            life,
            bool(entangled),
            tuple(CapturedColumn(*column) for column in json.loads(columns)),
            json.loads(triggers),
            tuple(json.loads(uniques)),
        )
        for number, name, life, entangled, columns, triggers, uniques in connection.rows(
            "SELECT number, name, life, entangled, columns, triggers, uniques FROM _headwater_tables ORDER BY number"
        )
    }


@dataclass(frozen=True)
class Present:
    """The file's schema as it is now: everything that decides whether a table is captured without a gap."""

    tables: Mapping[str, LiveTable]
    triggers: Mapping[str, tuple[str, str, int]]
    """Ours: name → the table it is on, its text, its age."""
    ways: Entanglement


def present(connection: Connection) -> Present:
    return Present(
        live_tables(connection),
        {
            name: (table, sql, age)
            for name, table, sql, age in connection.rows(
                f"SELECT name, tbl_name, sql, rowid FROM sqlite_master WHERE type = 'trigger' AND name GLOB '{PREFIX}*'"
            )
        },
        entanglement(connection),
    )


def what_broke(table: CapturedTable, now: Present) -> str | None:
    """Why this table is no longer captured without a gap; None if it is."""
    live = now.tables.get(table.name)
    if live is None:
        return f"the table {table.name} was dropped or renamed"
    there = {column.name: column.declared for column in live.columns}
    for column in table.columns:
        if column.name not in there:
            return f"its column {column.name} was dropped or renamed"
        if there[column.name] != column.declared:
            return f"its column {column.name} was {column.declared}, and is {there[column.name]} now"
    ages = []
    for name, sql in table.triggers.items():
        on, written, age = now.triggers.get(name, ("", "", 0))
        if on != table.name:
            return f"trigger {name} was dropped"
        if written != sql:
            return f"trigger {name} was changed"
        ages.append(age)
    if not set(live.uniques) <= set(table.uniques):
        return "it got a unique key that its triggers do not know"
    for other in now.ways.triggers.get(table.name.lower(), ()):
        if other.after and other.age > min(ages):
            return f"trigger {other.name} was made after capture, and fires before capture sees a change"
    if not table.entangled and (way := now.ways.ways_back(table.name)):
        return f"{way} may now write it while it is being written, which its triggers do not expect"
    return None


def plan(connection: Connection, names: Sequence[str], source: str, owner: Owner) -> list[str]:
    """What install will do, in readable lines; raises what keeps it from doing so."""
    now, wrong = present(connection), layout.what_is_wrong(connection)
    lines: list[str] = []
    captured: dict[str, CapturedTable] = {}
    mine = Registered(owner, 0, frozenset())
    if wrong:
        lines.append(f"take away the capture that {wrong.partition(';')[0]}")
    if wrong != "":
        lines.append("create _headwater_changes, the log of changes, and its bookkeeping")
    else:
        captured = captured_tables(connection)
        mine = owners.registered(connection).get(owner.id, mine)
        lines += [f"take the place of {old.shown}" for old in owners.replaced_by(connection, owner)]
        if not layout.marks_current(connection):
            lines.append("let transactions be tagged as parts of a global one: _headwater_transaction(tag, parts)")
        lines += [f"stop capturing {name}, which is gone" for name in captured if name not in now.tables]
    for name in dict.fromkeys(names):
        live = now.tables.get(name)
        if live is None:
            raise UnknownName("table", name, now.tables, f"in source {source}")
        _check_capturable(live)
        old = captured.get(name)
        if old is None:
            entangled = bool(now.ways.ways_back(name))
            lines.append(
                f"capture {name}: {len(_triggers(live, 0, [c.name for c in live.columns], entangled))} triggers"
            )
        elif broken := what_broke(old, now):
            lines.append(f"capture {name} anew, because {broken}")
        elif added := _added(live, old):
            lines.append(f"capture {', '.join(added)} of {name} too")
        elif name not in mine.tables:
            lines.append(f"use the capture of {name} that is there")
    return lines


def install(connection: Connection, names: Sequence[str], source: str, owner: Owner) -> list[str]:
    """Inside one write transaction. A table whose capture had a gap begins a new life; others live on."""
    lines = plan(connection, names, source, owner)
    wrong = layout.what_is_wrong(connection)
    if wrong:
        layout.drop_all(connection)
    if wrong != "":
        layout.create(connection)
    layout.put_up_marks(connection)
    now = present(connection)
    for old in captured_tables(connection).values():
        if old.name not in now.tables or (old.name in names and what_broke(old, now)):
            _uncapture(connection, old.number)
    for name in dict.fromkeys(names):
        live, known = now.tables[name], captured_tables(connection).get(name)
        if known is None or _added(live, known):
            _capture(connection, live, known, bool(now.ways.ways_back(name)))
    owners.join(connection, owner, frozenset(names))
    _drop_unneeded(connection)
    return lines


def release(connection: Connection, keep: Sequence[str], owner: Owner) -> list[str]:
    if layout.what_is_wrong(connection) != "":
        return []
    mine = owners.registered(connection).get(owner.id)
    if mine is None or mine.tables <= set(keep):
        return []
    owners.write(connection, Registered(mine.owner, mine.trimmed, mine.tables & set(keep)))
    return _drop_unneeded(connection)


def remove(connection: Connection, owner: Owner) -> list[str]:
    """With the last project goes everything, and so does what nobody can use any longer."""
    if layout.what_is_wrong(connection) == "":
        owners.leave(connection, owner)
        if owners.registered(connection):
            return _drop_unneeded(connection)
    return layout.drop_all(connection)


def _drop_unneeded(connection: Connection) -> list[str]:
    needed = owners.needed(connection)
    gone = [t for t in captured_tables(connection).values() if t.name not in needed]
    for table in gone:
        _uncapture(connection, table.number)
    return [f"stop capturing {table.name}" for table in gone]


def _added(live: LiveTable, old: CapturedTable) -> list[str]:
    known = {c.name for c in old.columns}
    return [c.name for c in live.columns if c.name not in known]


def _triggers(live: LiveTable, number: int, columns: Sequence[str], entangled: bool) -> dict[str, str]:
    return (pool_triggers if entangled else triggers)(live, number, columns)


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


def _capture(connection: Connection, live: LiveTable, old: CapturedTable | None, entangled: bool) -> None:
    """Capture a table, or more of its columns: then it keeps its number and its life, for nothing is missed."""
    since = connection.rows("SELECT coalesce(max(id), 0) FROM _headwater_changes")[0][0]
    kept = old.columns if old else ()
    known = {c.name for c in kept}
    if old:
        number, life = old.number, old.life
        _uncapture(connection, number)
    else:
        connection.execute("UPDATE _headwater_meta SET numbers = numbers + 1")
        number, life = connection.rows("SELECT numbers, lower(hex(randomblob(8))) FROM _headwater_meta")[0]
    columns = [
        *kept,
        *(CapturedColumn(c.name, c.declared, since, _life(connection)) for c in live.columns if c.name not in known),
    ]
    names = [c.name for c in columns]
    for log in ("_headwater_changes", "_headwater_stash"):
        there = {name for (name,) in connection.rows(f"SELECT name FROM pragma_table_info('{log}')")}
        for n in range(len(columns)):
            if f"c{n}" not in there:
                connection.execute(f"ALTER TABLE {log} ADD COLUMN c{n}")
    for sql in pool_table(live, number, names) if entangled else ():
        connection.execute(sql)
    wanted = _triggers(live, number, names, entangled)
    for sql in wanted.values():
        connection.execute(sql)
    written = dict(connection.rows("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
    facts = [
        live.name,
        life,
        str(int(entangled)),
        json.dumps([[c.name, c.declared, c.since, c.life] for c in columns]),
        json.dumps({name: written[name] for name in wanted}),
        json.dumps(live.uniques),
    ]
    connection.execute(f"INSERT INTO _headwater_tables VALUES ({number}, {', '.join(map(literal, facts))})")


def _life(connection: Connection) -> str:
    return str(connection.rows("SELECT lower(hex(randomblob(4)))")[0][0])


def _uncapture(connection: Connection, number: int) -> None:
    """Wherever its triggers are: a table may have been renamed."""
    mine = f"{PREFIX}{number}_"
    for (name,) in connection.rows(
        f"SELECT name FROM sqlite_master WHERE type = 'trigger' AND substr(name, 1, {len(mine)}) = '{mine}'"
    ):
        connection.execute(f"DROP TRIGGER {quote(name)}")
    connection.execute(f"DROP TABLE IF EXISTS {pool(number)}")
    connection.execute(f"DELETE FROM _headwater_tables WHERE number = {number}")
    connection.execute(f"DELETE FROM _headwater_stash WHERE tbl = {number}")
