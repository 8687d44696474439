"""Where a poll ends: whole transactions from the front of their order, about `limit` changes.

Transactions are ordered by their last change id (see `postgres.py`). Let c be the id of the change after the first
`limit` new ones. Transactions whose last id lies below c are a prefix of the order, and have at most `limit` changes;
to find them, about `limit` changes are looked at, however long the backlog is. If there are none, the first
transaction is larger than the limit and comes alone.

The end is the snapshot of now, less the transactions that were cut. Those have an id from c on, so they are found by
looking; and `xmax` is lowered to the newest transaction kept, so that only the few below it must be named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from headwater.model.names import Position
from headwater.sources.postgres_catalog import PgTable
from headwater.sources.postgres_connection import Connection
from headwater.sources.postgres_snapshot import Snapshot
from headwater.sources.postgres_sql import decoded, fresh, later_column, outputs_of, snapshot
from headwater.sources.postgres_types import PgColumn

_TOLD = pa.schema([("xid", pa.int64()), ("at", pa.timestamp("us", "UTC"))])

Read = Callable[[sql.Composable, pa.Schema], pa.Table]


@dataclass(frozen=True)
class Cut:
    """`kept` has the columns xid and at, one row per transaction, in order."""

    kept: pa.Table
    end: Snapshot
    more: bool


def cut(
    connection: Connection, read: Read, span: tuple[Position, Snapshot], logs: Sequence[sql.Composable], limit: int
) -> Cut:
    """`span` is (after, now), `logs` are the change tables to look at. Everything is read in the one snapshot of the
    connection's transaction."""
    after, now = span
    changes = _changes(after, logs)

    def one(statement: str, **parts: sql.Composable) -> int | None:
        row = connection.execute(sql.SQL(statement).format(changes=changes, **parts)).fetchone()
        return None if row is None else row[0]

    beyond = one("SELECT id FROM {changes} AS c ORDER BY id OFFSET {n} LIMIT 1", n=sql.Literal(max(limit, 1)))
    if beyond is None:
        return Cut(read(_told(after, logs, None), _TOLD), now, more=False)
    kept = read(_told(after, logs, beyond), _TOLD)
    if not kept:
        beyond = one("SELECT min(last) + 1 FROM (SELECT max(id) AS last FROM {changes} AS c GROUP BY xid) AS lasts")
        assert beyond is not None
        kept = read(_told(after, logs, beyond), _TOLD)
        if not one("SELECT 1 FROM {changes} AS c WHERE id >= {id} LIMIT 1", id=sql.Literal(beyond)):
            return Cut(kept, now, more=False)
    newest = max(pc.max(kept.column("xid")).as_py(), Snapshot.parse(after).xmax - 1)
    below = sql.SQL("SELECT DISTINCT xid::text::bigint FROM {} AS c WHERE id >= {} AND xid < {}::text::xid8").format(
        changes, sql.Literal(beyond), sql.Literal(str(newest + 1))
    )
    return Cut(kept, now.without([row[0] for row in connection.execute(below)], newest), more=True)


def _changes(after: Position, logs: Sequence[sql.Composable]) -> sql.Composable:
    parts = [sql.SQL("SELECT id, xid, at FROM {} AS c WHERE {}").format(log, fresh(after)) for log in logs]
    return sql.SQL("({})").format(sql.SQL(" UNION ALL ").join(parts))


def _told(after: Position, logs: Sequence[sql.Composable], beyond: int | None) -> sql.Composable:
    """The transactions all of whose changes lie below the id `beyond`, in the order of their last one."""
    whole: list[sql.Composable] = []
    if beyond is not None:
        later = "NOT EXISTS (SELECT FROM {} AS o WHERE o.xid = t.xid AND o.id >= {})"
        whole = [sql.SQL(later).format(log, sql.Literal(beyond)) for log in logs]
    return sql.SQL(
        """
        SELECT xid::text::bigint, coalesce(
            CASE WHEN current_setting('track_commit_timestamp')::bool THEN pg_xact_commit_timestamp(xid::xid) END, at)
        FROM (SELECT xid, max(id) AS last, max(at) AS at FROM {} AS c WHERE {} GROUP BY xid) AS t WHERE {} ORDER BY last
        """
    ).format(
        _changes(after, logs),
        sql.SQL("true") if beyond is None else sql.SQL("id < {}").format(sql.Literal(beyond)),
        sql.SQL(" AND ").join(whole) if whole else sql.SQL("true"),
    )


def poll_statement(table: PgTable, columns: Sequence[PgColumn], after: Position, end: Position) -> sql.Composable:
    """One table's changes in (after, end]; the columns, the count, the transaction."""
    where = sql.SQL("{} AND c.xid < pg_snapshot_xmax({end}) AND pg_visible_in_snapshot(c.xid, {end})").format(
        fresh(after), end=snapshot(end)
    )
    return sql.SQL("SELECT {} l.count, l.xid::text::bigint FROM ({}) AS l").format(
        outputs_of(columns, later_column), decoded(table, where)
    )
