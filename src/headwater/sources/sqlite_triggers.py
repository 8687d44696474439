"""The triggers that log every change of a table, also those SQLite makes without saying so.

INSERT and DELETE log one row, UPDATE logs −old and +new.

**Replaced rows.** INSERT OR REPLACE and UPDATE OR REPLACE delete the rows in their way without firing delete triggers,
unless recursive_triggers is on. So BEFORE triggers stash the rows that collide with NEW on any unique key, and AFTER
triggers log −1 for those that are really gone: no longer there, or overwritten by NEW itself. A stashed row that
survives (INSERT OR IGNORE, an upsert) means nothing. A delete trigger that does fire takes its row out of the stash,
so nothing is counted twice. No statement here can conflict: a trigger inherits the OR clause of its statement.

Not seen, because SQLite fires nothing: rows behind a user's own `RAISE(IGNORE)` in an AFTER trigger, and a captured
table written by a user's BEFORE trigger on that same table while one of its rows is being replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.sources.sqlite_files import quote
from headwater.sources.sqlite_tables import PREFIX, LiveTable


def triggers(table: LiveTable, number: int, columns: Sequence[str]) -> dict[str, str]:
    """Name → CREATE TRIGGER. Column n of `columns` goes to c<n>."""
    name, this = quote(table.name), f"tbl = {number}"
    slots = ", ".join(f"c{n}" for n in range(len(columns)))
    where = {c: f"c{n}" for n, c in enumerate(columns)}

    def values(row: str) -> str:
        return ", ".join(f"{row}.{quote(c)}" for c in columns)

    def log(count: int, row: str) -> str:
        return (
            f"INSERT INTO _headwater_changes (tx, tbl, at, count, {slots}) VALUES"
            f" ((SELECT tx FROM _headwater_meta), {number}, julianday('now'), {count}, {values(row)});"
        )

    if table.rowid:
        identity = [(table.rowid, "BINARY")]
        stashed = {table.rowid: "rid"}
        rid = f"{name}.{quote(table.rowid)}"
    else:
        primary = next(i for i in table.indexes if i.covers(table.key))
        identity = [(c or "", collation) for c, collation in primary.columns]
        stashed = {c: where.get(c, "") for c, _ in identity}
        rid = "NULL"

    def same(left: str, right: str, keys: Sequence[tuple[str, str]], slot: bool = False) -> str:
        return " AND ".join(
            f"{left}.{stashed[c] if slot else quote(c)} = {right}.{quote(c)} COLLATE {quote(collation)}"
            for c, collation in keys
        )

    uniques = [identity]
    for index in table.indexes:
        if index.unique and [*index.columns] != identity:
            uniques.append([(c or "", collation) for c, collation in index.columns])
    collides = " OR ".join(f"({same(name, 'NEW', keys)})" for keys in uniques)
    clear = f"DELETE FROM _headwater_stash WHERE {this};"
    stash = f"INSERT INTO _headwater_stash (tbl, rid, {slots}) SELECT {number}, {rid}, {values(name)} FROM {name} WHERE"
    back = " AND ".join(f"{name}.{quote(c)} = s.{stashed[c]} COLLATE {quote(collation)}" for c, collation in identity)
    replaced = (
        f"INSERT INTO _headwater_changes (tx, tbl, at, count, {slots})"
        f" SELECT (SELECT tx FROM _headwater_meta), {number}, julianday('now'), -1, {slots} FROM _headwater_stash s"
        f" WHERE s.{this} AND (({same('s', 'NEW', identity, slot=True)})"
        f" OR NOT EXISTS (SELECT 1 FROM {name} WHERE {back}));"
    )
    moved = " OR ".join(
        f"OLD.{quote(c)} IS NOT NEW.{quote(c)}" for c in dict.fromkeys(c for keys in uniques for c, _ in keys)
    )
    # a partial index may also be entered by a change of a column that only its WHERE names
    when = "" if any(index.unique and index.partial for index in table.indexes) else f"WHEN {moved} "
    forget = f"DELETE FROM _headwater_stash WHERE {this} AND {same('_headwater_stash', 'OLD', identity, slot=True)};"
    others = f"NOT ({same(name, 'OLD', identity)})"

    bodies = {
        "stash": ("BEFORE INSERT", "", f"{clear} {stash} {collides};"),
        "insert": ("AFTER INSERT", "", f"{replaced} {log(1, 'NEW')}"),
        "delete": ("AFTER DELETE", "", f"{log(-1, 'OLD')} {forget}"),
        "update": ("AFTER UPDATE", "", f"{log(-1, 'OLD')} {log(1, 'NEW')}"),
        "moving": ("BEFORE UPDATE", when, f"{clear} {stash} ({collides}) AND {others};"),
        "moved": ("AFTER UPDATE", when, replaced),
    }
    return {
        f"{PREFIX}{number}_{verb}": (
            f"CREATE TRIGGER {PREFIX}{number}_{verb} {event} ON {name} FOR EACH ROW {guard}BEGIN {body} END"
        )
        for verb, (event, guard, body) in bodies.items()
    }
