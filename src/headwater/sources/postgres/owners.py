"""Whose capture it is, and what may be forgotten.

Projects share the capture of a database. Each is a row of `headwater.consumers` (its owner's identity, where it is, up
to where it has let changes go) and names its tables in `headwater.owned`. A table's capture stays while one project
owns it, and a change is deleted when every project has let it go: the intersection of their snapshots is a snapshot.
A project with the label of another one (the same folder, its warehouse made anew) takes its place.

A project that is gone for good without a teardown holds changes back. It is got rid of with

    DELETE FROM headwater.consumers WHERE label = '/where/it/was';

and the next `headwater setup` or `teardown` of another project removes what served only it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from headwater.model.names import Position
from headwater.model.source import SourceSpec
from headwater.sources.postgres import log as server_log
from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.parts import PARTS
from headwater.sources.postgres.script import Do
from headwater.sources.postgres.snapshot import Snapshot, life_of
from headwater.sources.postgres.sql import alive, fresh, snapshot
from headwater.sources.postgres.triggers import changes_table

UNOWNED = "SELECT t.oid::bigint FROM headwater.tables AS t WHERE t.oid NOT IN (SELECT oid FROM headwater.owned)"


@dataclass(frozen=True)
class Consumer:
    owner: str
    label: str
    trimmed: Snapshot
    life: str


def consumers(connection: Connection) -> list[Consumer]:
    rows = connection.execute("SELECT owner, label, trimmed::text, life FROM headwater.consumers ORDER BY label, owner")
    return [Consumer(owner, label, Snapshot.parse(trimmed), life) for owner, label, trimmed, life in rows]


def register(connection: Connection, spec: SourceSpec) -> None:
    """This owner needs nothing from before now: its first position is yet to come."""
    connection.execute(
        "INSERT INTO headwater.consumers (owner, label, trimmed, life)"
        " VALUES (%s, %s, pg_current_snapshot(), headwater.newest())"
        " ON CONFLICT (owner) DO UPDATE SET label = excluded.label, seen_at = now()",
        [spec.owner, spec.owner_label],
    )
    if spec.owner_label:
        replaced = "owner IN (SELECT owner FROM headwater.consumers WHERE label = %(label)s AND owner <> %(owner)s)"
        names = {"owner": spec.owner, "label": spec.owner_label}
        connection.execute(
            f"INSERT INTO headwater.owned SELECT %(owner)s, oid FROM headwater.owned WHERE {replaced}"
            " ON CONFLICT DO NOTHING",
            names,
        )
        connection.execute(f"DELETE FROM headwater.consumers WHERE {replaced}", names)


def registered(connection: Connection, spec: SourceSpec) -> bool:
    """Under this identity and label, and nobody else under this label."""
    found = consumers(connection)
    same = [c for c in found if c.owner == spec.owner or (spec.owner_label and c.label == spec.owner_label)]
    return [(c.owner, c.label) for c in same] == [(spec.owner, spec.owner_label)]


def own(connection: Connection, spec: SourceSpec, oid: int) -> None:
    connection.execute("INSERT INTO headwater.owned VALUES (%s, %s) ON CONFLICT DO NOTHING", [spec.owner, oid])


def disown(connection: Connection, spec: SourceSpec, oid: int) -> None:
    connection.execute("DELETE FROM headwater.owned WHERE owner = %s AND oid = %s", [spec.owner, oid])


def trim(connection: Connection, spec: SourceSpec, below: Position) -> int:
    """Forgetting nothing writes nothing: no transaction id is drawn, and positions of an idle source stay put."""
    new = Snapshot.parse(below)
    everyone = consumers(connection)
    mine = next((c for c in everyone if c.owner == spec.owner), None)
    logs = [(0, PARTS), *((oid, changes_table(oid)) for oid in oids(connection))]
    if mine is None or mine.trimmed.contains(new):
        return 0
    connection.execute(sql.SQL("SELECT {}").format(alive(below)))  # numbers of another life mean other transactions
    if not any(_lets_go(connection, log, mine.trimmed, new) for _, log in logs):
        return 0
    if new.contains(mine.trimmed):  # it only ever moves forward
        mine = Consumer(mine.owner, mine.label, new, life_of(below))
        connection.execute(
            "UPDATE headwater.consumers SET trimmed = %s::pg_snapshot, life = %s, seen_at = now() WHERE owner = %s",
            [new.text, mine.life, mine.owner],
        )
    held = [mine, *(c for c in everyone if c.owner != mine.owner)]
    return _forget(connection, logs, held)


def _lets_go(connection: Connection, log: sql.Composable, old: Snapshot, new: Snapshot) -> bool:
    statement = sql.SQL("SELECT FROM {} AS c WHERE {} AND {} LIMIT 1").format(log, fresh(old.text), _shown(new))
    return connection.execute(statement).rowcount > 0


def _forget(connection: Connection, logs: Sequence[tuple[int, sql.Composable]], held: list[Consumer]) -> int:
    """Delete what everyone has let go, but remember the witnesses of where everyone is."""
    common = functools.reduce(Snapshot.intersection, (c.trimmed for c in held))
    kept = sql.Literal([int(w.split(".")[1]) for c in held for w in c.life.partition("/")[2].split("+") if w])
    gone = tags = 0
    connection.execute(
        sql.SQL("DELETE FROM headwater.witnesses AS c WHERE {} AND id <> ALL ({}::bigint[])").format(
            _shown(common), kept
        )
    )
    for oid, log in logs:
        statement = sql.SQL(
            "WITH gone AS (DELETE FROM {log} AS c WHERE {shown} RETURNING id, xid, at, seen), kept AS ("
            " INSERT INTO headwater.witnesses"
            " SELECT {oid}, id, xid, at, seen FROM gone WHERE id = ANY ({kept}::bigint[]))"
            " SELECT count(*) FROM gone"
        ).format(log=log, shown=_shown(common), oid=sql.Literal(oid), kept=kept)
        row = connection.execute(statement).fetchone()
        gone, tags = (gone + row[0], tags) if oid else (gone, row[0])  # type: ignore[index]  # count(*) has a row
    if gone and server_log.is_used(connection):
        connection.execute(sql.SQL("DELETE FROM headwater.commits AS c WHERE {}").format(_shown(common)))
    if gone or tags:  # readers see both or neither
        moved = "UPDATE headwater.meta SET trimmed = {} WHERE headwater.contains({}, trimmed) IS NOT FALSE"
        connection.execute(sql.SQL(moved).format(snapshot(common.text), snapshot(common.text)))
    return gone


def remember_witnesses(do: Do, oid: int) -> None:
    """Before a change table is dropped: any position not yet let go may have one of its changes as its witness."""
    do(
        sql.SQL(
            "INSERT INTO headwater.witnesses SELECT DISTINCT ON (xid) {}::oid, id, xid, at, seen FROM {}"
            " ORDER BY xid, id DESC"
        ).format(sql.Literal(oid), changes_table(oid))
    )


def oids(connection: Connection) -> list[int]:
    """Of all captured tables whose change table is there."""
    rows = connection.execute("SELECT log::bigint FROM headwater.logs() WHERE log <> 0 ORDER BY log")
    return [row[0] for row in rows]


def _shown(place: Snapshot) -> sql.Composable:
    return sql.SQL("c.xid < pg_snapshot_xmax({p}) AND pg_visible_in_snapshot(c.xid, {p})").format(
        p=snapshot(place.text)
    )
