"""The triggers that log every change of a table, also those SQLite makes without saying so.

INSERT and DELETE log one row, UPDATE logs −old and +new.

**Replaced rows.** INSERT OR REPLACE and UPDATE OR REPLACE delete the rows in their way without firing delete triggers,
unless recursive_triggers is on. So BEFORE triggers stash the rows that collide with NEW on any unique key, and AFTER
triggers log −1 for those that are really gone: no longer there, or overwritten by NEW itself. A stashed row that
survives (INSERT OR IGNORE, an upsert) means nothing. A delete trigger that does fire takes its row out of the stash,
so nothing is counted twice. No statement here can conflict: a trigger inherits the OR clause of its statement.

This holds where between BEFORE and AFTER nobody else writes the table. Where an application's trigger or a foreign
key may, the table is captured as `pool.py` says.

**Order.** SQLite fires the youngest trigger first (measured; also after VACUUM and in new connections). Ours are made
last, so nothing comes between a change and its log entry. An AFTER trigger that the application makes later would come
first, could change the row again, or end the statement (RAISE(IGNORE), OR FAIL) before the change is logged: capture
of that table then counts as broken until setup has made our triggers anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.sources.sqlite.files import quote
from headwater.sources.sqlite.tables import PREFIX, LiveTable
from headwater.sources.sqlite.words import Words


def triggers(table: LiveTable, number: int, columns: Sequence[str]) -> dict[str, str]:
    """Name → CREATE TRIGGER. Column n of `columns` goes to c<n>."""
    w = Words(table, number, columns)
    this = f"tbl = {number}"
    clear = f"DELETE FROM _headwater_stash WHERE {this};"
    into = f"INSERT INTO _headwater_stash (tbl, rid, {w.slots}) SELECT {number}, {w.rid(w.name)}, {w.values(w.name)}"
    back = " AND ".join(f"{w.name}.{quote(c)} = s.{w.kept(c)} COLLATE {quote(k)}" for c, k in w.identity)
    replaced = w.log(
        -1,
        w.slots,
        f" FROM _headwater_stash s WHERE s.{this} AND (({w.same_stashed('s', 'NEW')})"
        f" OR NOT EXISTS (SELECT 1 FROM {w.name} WHERE {back}))",
    )
    forget = f"DELETE FROM _headwater_stash WHERE {this} AND {w.same_stashed('_headwater_stash', 'OLD')};"
    removed, added = w.log(-1, w.values("OLD")), w.log(1, w.values("NEW"))
    stash = " ".join(f"{into} FROM {w.name} WHERE {found};" for found in w.colliding())
    others = f"NOT ({w.same(w.name, 'OLD')})"
    stash_others = " ".join(f"{into} FROM {w.name} WHERE ({found}) AND {others};" for found in w.colliding())
    bodies = {
        "stash": ("BEFORE INSERT", "", f"{clear} {stash}"),
        "insert": ("AFTER INSERT", "", f"{replaced} {added}"),
        "delete": ("AFTER DELETE", "", f"{removed} {forget}"),
        "update": ("AFTER UPDATE", "", f"{removed} {added}"),
        "moving": ("BEFORE UPDATE", w.moved(), f"{clear} {stash_others}"),
        "moved": ("AFTER UPDATE", w.moved(), replaced),
    }
    return {
        f"{PREFIX}{number}_{verb}": (
            f"CREATE TRIGGER {PREFIX}{number}_{verb} {event} ON {w.name} FOR EACH ROW {guard}BEGIN {body} END"
        )
        for verb, (event, guard, body) in bodies.items()
    }
