"""Capture of an entangled table: one whose rows may be written again while one of them is being written.

A **pool** beside the table holds rows in play, each with the values that the log has for it now:

    before a row is written     it, and the rows that it may replace, enter the pool, unless they are in it already
    after                       for these rows the log is brought from the pool's values to the table's: −pool +table,
                                and so is the pool

The pool always says what the log says (invariant), so it does not matter how often, in which order or by whom a row
was written in between: every step closes the distance between log and table for the rows it touches, and a row that a
statement inside has settled already is no longer different. OLD and NEW only say which rows to look at.

A pool is emptied when a new statement of the application begins: `NOW` is the same in all of a statement, its
triggers included. What is left there of a statement in the same millisecond is true, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.sources.sqlite.files import quote
from headwater.sources.sqlite.tables import PREFIX, LiveTable
from headwater.sources.sqlite.words import NOW, Words


def pool(number: int) -> str:
    return f"{PREFIX}{number}_pool"


def pool_table(table: LiveTable, number: int, columns: Sequence[str]) -> list[str]:
    """With an index for every way a row is looked for: a statement over many rows may leave many in the pool."""
    w, name = Words(table, number, columns), pool(number)
    statements = [
        f"CREATE TABLE {name} (at REAL, rid INTEGER, there INTEGER, {w.slots})",
        f"CREATE INDEX {name}_at ON {name} (at)",
    ]
    for n, key in enumerate(w.uniques):
        kept = [f"{w.kept(c)} COLLATE {quote(collation)}" for c, collation in key]
        statements.append(f"CREATE INDEX {name}_{n} ON {name} ({', '.join(kept)})")
    return statements


def pool_triggers(table: LiveTable, number: int, columns: Sequence[str]) -> dict[str, str]:
    """Name → CREATE TRIGGER, as `triggers.triggers` for a table that is not entangled."""
    w, p = Words(table, number, columns), pool(number)
    clear = f"DELETE FROM {p} WHERE at < {NOW} OR at > {NOW};"
    collide = " OR ".join(
        "(" + " AND ".join(f"{p}.{w.kept(c)} = +NEW.{quote(c)} COLLATE {quote(k)}" for c, k in key) + f" AND {p}.there)"
        for key in w.uniques
    )  # flat, so that each key is looked up in its index
    here = " AND ".join(f"{w.name}.{quote(c)} = {p}.{w.kept(c)} COLLATE {quote(k)}" for c, k in w.identity)
    unchanged = f"({_prefixed(p, w)}) IS ({w.values(w.name)})"
    enter_new = _enter_absent(w, p, [f"NEW.{quote(c)}" for c, _ in w.identity])

    def enter(condition: str) -> str:
        return (
            f"INSERT INTO {p} (at, rid, there, {w.slots}) SELECT {NOW}, {w.rid(w.name)}, 1, {w.values(w.name)}"
            f" FROM {w.name} WHERE ({condition})"
            f" AND NOT EXISTS (SELECT 1 FROM {p} WHERE {w.same_stashed(p, w.name)});"
        )

    def settle(touched: str) -> str:
        return " ".join(
            [
                w.log(
                    -1,
                    _prefixed(p, w),
                    f" FROM {p} WHERE ({touched}) AND {p}.there"
                    f" AND NOT EXISTS (SELECT 1 FROM {w.name} WHERE {here} AND {unchanged})",
                ),
                w.log(
                    1,
                    w.values(w.name),
                    f" FROM {p} JOIN {w.name} ON {here} WHERE ({touched}) AND NOT ({p}.there AND {unchanged})",
                ),
                f"UPDATE {p} SET there = 0 WHERE ({touched}) AND NOT EXISTS (SELECT 1 FROM {w.name} WHERE {here});",
                f"UPDATE {p} SET (there, {w.slots}) = (SELECT 1, {w.values(w.name)} FROM {w.name} WHERE {here})"
                f" WHERE ({touched}) AND EXISTS (SELECT 1 FROM {w.name} WHERE {here});",
            ]
        )

    replaceable = " ".join(enter(found) for found in w.colliding())
    itself = enter(w.same(w.name, "OLD"))
    new_place = _enter_absent(w, p, [w.substituted(c) for c, _ in w.identity])
    old, new = w.same_stashed(p, "OLD"), f"({w.same_stashed(p, 'NEW')}) OR {collide}"
    bodies = {
        "stash": ("BEFORE INSERT", f"{clear} {replaceable}"),
        "insert": ("AFTER INSERT", f"{enter_new} {settle(new)}"),
        "deleting": ("BEFORE DELETE", f"{clear} {itself}"),
        "delete": ("AFTER DELETE", settle(old)),
        "moving": ("BEFORE UPDATE", f"{clear} {itself} {replaceable} {new_place}"),
        "update": ("AFTER UPDATE", f"{enter_new} {settle(f'({old}) OR {new}')}"),
    }
    return {
        f"{PREFIX}{number}_{verb}": (
            f"CREATE TRIGGER {PREFIX}{number}_{verb} {event} ON {w.name} FOR EACH ROW BEGIN {body} END"
        )
        for verb, (event, body) in bodies.items()
    }


def _prefixed(name: str, w: Words) -> str:
    return ", ".join(f"{name}.{slot}" for slot in w.slot.values())


def _enter_absent(w: Words, p: str, identity: Sequence[str]) -> str:
    """A row that the log does not have, and that comes to be."""
    kept = [w.kept(c) for c, _ in w.identity]
    known = " AND ".join(
        f"{p}.{slot} = +{value} COLLATE {quote(k)}"
        for slot, value, (_, k) in zip(kept, identity, w.identity, strict=True)
    )
    return (
        f"INSERT INTO {p} (at, there, {', '.join(kept)}) SELECT {NOW}, 0, {', '.join(identity)}"
        f" WHERE NOT EXISTS (SELECT 1 FROM {p} WHERE {known});"
    )
