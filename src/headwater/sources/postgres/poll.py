"""What a poll tells and where it ends: whole transactions from the front of their order, about `limit` changes.

Without a backlog a poll ends now. With one it ends at a snapshot that was really taken: the one that some statement
just beyond the first `limit` new changes saw. What that shows is a prefix of the commit order, whatever the clocks say,
and to find it about `limit` changes are looked at, however long the backlog is. A snapshot of an old transaction may
show nothing new; then a statement twice as far is tried, and so on to now. What was found is put in order
(`order.py`) and cut at the last boundary within the limit; the first told transaction comes whole in any case.

The end is that snapshot, less the transactions that were cut; `xmax` is lowered to the newest transaction kept, so that
only the few below it must be named.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from psycopg import sql

from headwater.sources.postgres.catalog import PgTable
from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.order import Ints, Order, Seen, order
from headwater.sources.postgres.recent import Moved
from headwater.sources.postgres.snapshot import Snapshot
from headwater.sources.postgres.sql import fresh, key_of, later_text, snapshot, split
from headwater.sources.postgres.types import PgColumn, text_output

_CANDIDATES = 20
_MOMENT = pa.timestamp("us", "UTC")
_FOUND = pa.schema(
    [("xid", pa.int64()), ("last", pa.int64()), ("count", pa.int64()), ("at", _MOMENT), ("time", _MOMENT),
     ("xmax", pa.int64()), ("hidden", pa.string())]
)  # fmt: skip
_COMMITS = sql.SQL("headwater.commits")
_XIDS = pa.schema([("xid", pa.int64())])

Read = Callable[[sql.Composable, pa.Schema], pa.Table]
_LABELS_AT_MOST = 8


@dataclass(frozen=True)
class Told:
    """Transactions in order, one entry each: `group` is the told transaction it is of, `at` about when it was
    committed, in microseconds. `seen` and `last` are as found, `places` says where in them each transaction is."""

    xids: Ints
    group: Ints
    at: Ints
    last: Ints
    seen: Seen
    places: Ints
    end: Snapshot
    more: bool

    @property
    def groups(self) -> int:
        return int(self.group[-1]) + 1 if len(self.group) else 0

    @property
    def starts(self) -> Ints:
        return np.searchsorted(self.group, np.arange(self.groups + 1))

    def labels(self) -> pa.Array:
        """A told transaction's ids, those in the middle left out where there are many."""
        if self.groups == len(self.xids):
            return pa.array(self.xids, pa.int64()).cast(pa.string())
        starts, xids = self.starts, self.xids.tolist()
        return pa.array([_label(xids[low:high]) for low, high in itertools.pairwise(starts)], pa.string())

    def newest(self) -> list[int]:
        """The newest change, and the last changes of up to four transactions that its own did not see."""
        last = self.last[self.places]
        first = int(np.argmax(last))
        unseen = ~self.seen.shows(int(self.places[first]), self.xids)
        unseen[first] = False
        return [int(last[first]), *last[np.flatnonzero(unseen)[-4:]].tolist()]


def _label(xids: Sequence[int]) -> str:
    if len(xids) <= _LABELS_AT_MOST:
        return "+".join(map(str, xids))
    return f"{xids[0]}+{xids[1]}+…+{xids[-1]} ({len(xids)})"


def xids_of(label: str) -> list[int]:
    """The ids that a label names."""
    return [int(x) for x in label.partition(" ")[0].split("+") if x.isdigit()]


@dataclass(frozen=True)
class Span:
    """What a poll looks at: the changes in these logs after `after`. `timed` says whether the server keeps commit
    times. `known` are transactions that were not committed at a certain moment, in microseconds: (snapshot, moment)."""

    after: Snapshot
    now: Snapshot
    logs: Sequence[sql.Composable]
    timed: bool
    known: tuple[Snapshot, int] | None = None
    logged: bool = False
    """Whether the server's log tells the order of some of them (`log.py`)."""


def tell(connection: Connection, read: Read, span: Span, limit: int) -> Told:
    """Everything is read in the one snapshot of the connection's transaction."""
    limit = max(limit, 1)
    offset = limit if _more_than(connection, span, limit) else None
    while offset is not None:
        seen = _beyond(connection, span, offset)
        if seen is None:
            break
        base = seen.union(span.after)
        found = read(_transactions(span, base), _FOUND)
        if found.num_rows:
            return _told(found, _committed(read, span, base), span, base, limit)
        offset *= 2
    return _told(read(_transactions(span, span.now), _FOUND), _committed(read, span, span.now), span, span.now, limit)


def told_of(recent: Moved, span: Span) -> Told:
    """The transactions that were moved a moment ago (`recent.py`), told up to now."""
    places = np.arange(len(recent.xids))
    at = recent.at if span.timed else _at_least(recent.xids, recent.at, span.known)
    return Told(recent.xids, places, at, places, Seen.nothing(len(places)), places, span.now, more=False)


def _told(found: pa.Table, committed: Ints | None, span: Span, base: Snapshot, limit: int) -> Told:
    timed = span.timed and not found.column("time").null_count
    moments = found.column("time" if timed else "at").cast(pa.int64()).to_numpy()
    xids, last, count = (found.column(n).to_numpy() for n in range(3))
    seen = Seen.of(found.column("xmax").to_numpy(), found.column("hidden").combine_chunks())
    logged = _in_the_order(xids, committed) if committed is not None else None
    ordered = logged or order(xids, seen, last, moments if timed else None)
    places, starts = ordered.places, ordered.starts
    kept = len(places)
    if len(starts):
        done = np.cumsum(count[places])[np.append(starts[1:], kept) - 1]
        within = max(int(np.searchsorted(done, limit, "right")), 1)
        kept = int(np.append(starts, kept)[within])
    told, cut = places[:kept], xids[places[kept:]]
    group = np.searchsorted(starts, np.arange(kept), "right") - 1
    end = base
    if len(cut):
        end = base.without(cut.tolist(), max(int(xids[told].max()), span.after.xmax - 1))
    at = moments[told] if timed else _at_least(xids[told], moments[told], span.known)
    return Told(xids[told], group, at, last, seen, told, end, more=bool(len(cut)) or base != span.now)


def _committed(read: Read, span: Span, base: Snapshot) -> Ints | None:
    """The transactions that the log told, in its order."""
    if not span.logged:
        return None
    wanted = sql.SQL("{} AND {}").format(fresh(span.after.text), _shown(base))
    found = read(sql.SQL("SELECT xid FROM {} AS c WHERE {} ORDER BY lsn").format(_COMMITS, wanted), _XIDS)
    told: Ints = found.column(0).to_numpy()
    return told


def _in_the_order(xids: Ints, committed: Ints) -> Order | None:
    """The log's own order, in which each transaction is a state; None if it does not tell all of them."""
    by_id = np.argsort(committed, kind="stable")
    at = np.searchsorted(committed[by_id], xids)
    if not len(xids) or not len(committed) or (committed[by_id[np.minimum(at, len(by_id) - 1)]] != xids).any():
        return None
    return Order(np.argsort(by_id[at], kind="stable"), np.arange(len(xids)))


def _at_least(xids: Ints, at: Ints, known: tuple[Snapshot, int] | None) -> Ints:
    """No earlier than a transaction's last statement, than a moment at which it was not committed, and than what was
    committed before it."""
    if known is not None and len(xids):
        before, moment = known
        hidden = (xids >= before.xmax) | np.isin(xids, np.array(before.xip, np.int64))
        at = np.where(hidden, np.maximum(at, moment), at)
    return np.maximum.accumulate(at) if len(at) else at


def _changes(span: Span, columns: str, where: sql.Composable | None = None) -> sql.Composable:
    wanted = fresh(span.after.text) if where is None else sql.SQL("{} AND {}").format(fresh(span.after.text), where)
    parts = [sql.SQL("SELECT " + columns + " FROM {} AS c WHERE {}").format(log, wanted) for log in span.logs]
    return sql.SQL("({})").format(sql.SQL(" UNION ALL ").join(parts))


def _shown(base: Snapshot) -> sql.Composable:
    return sql.SQL("c.xid < pg_snapshot_xmax({p}) AND pg_visible_in_snapshot(c.xid, {p})").format(p=snapshot(base.text))


def _more_than(connection: Connection, span: Span, limit: int) -> bool:
    statement = sql.SQL("SELECT count(*) FROM (SELECT FROM {} AS f LIMIT {}) AS counted").format(
        _changes(span, "xid"), sql.Literal(limit + 1)
    )
    row = connection.execute(statement).fetchone()
    return row is not None and row[0] > limit


def _beyond(connection: Connection, span: Span, offset: int) -> Snapshot | None:
    """The widest snapshot that one of the first statements beyond so many changes saw; None if there is none. It does
    not show the transaction that took it, which it may not list."""
    changes = _changes(span, "id, xid, seen")
    statement = sql.SQL(
        "SELECT xid::text::bigint, seen::text FROM {changes} AS c WHERE seen IS NOT NULL AND id >="
        " (SELECT id FROM {changes} AS c ORDER BY id OFFSET {offset} LIMIT 1) ORDER BY id LIMIT {some}"
    ).format(changes=changes, offset=sql.Literal(offset), some=sql.Literal(_CANDIDATES))
    found = []
    for xid, seen in connection.execute(statement):
        taken = Snapshot.parse(seen)
        found.append(taken.without([xid], taken.xmax - 1))
    return max(found, key=lambda s: (s.xmax, -len(s.xip)), default=None)


def _transactions(span: Span, base: Snapshot) -> sql.Composable:
    """One row per transaction. A transaction's last change has the last snapshot that it saw."""
    time = "pg_xact_commit_timestamp(xid::xid)" if span.timed else "NULL"
    return sql.SQL(
        "SELECT xid, last, n, at, " + time + ","
        " coalesce(pg_snapshot_xmax(seen)::text::bigint, 0), nullif(split_part(seen::text, ':', 3), '')"
        " FROM ("
        " SELECT xid, max(id) AS last, count(*) AS n, max(at) AS at,"
        " (array_agg(seen ORDER BY id DESC))[1] AS seen FROM {} AS c GROUP BY xid) AS t"
    ).format(_changes(span, "xid, id, at, seen", _shown(base)))


def poll_statement(
    table: PgTable,
    columns: Sequence[PgColumn],
    span: tuple[Snapshot, Snapshot],
    at_most: int | None = None,
    keyed: bool = False,
) -> sql.Composable:
    """One table's changes in (after, end]; the columns, the count, the transaction, and if asked for what names the row
    to people; `at_most` so many of them. As texts, just as they were written, so that reading them cannot fail."""
    where = sql.SQL("{} AND {}").format(fresh(span[0].text), _shown(span[1]))
    text = later_text(table)
    outputs = [sql.SQL("{}, ").format(text_output(text(c.name), c)) for c in columns]
    key = sql.SQL(", {}").format(key_of(table, text, sql.SQL('l."row"'))) if keyed else sql.SQL("")
    return sql.SQL("SELECT {} l.count, l.xid::text::bigint{} FROM ({}) AS l LIMIT {}").format(
        sql.SQL("").join(outputs), key, split(table, where), sql.Literal(at_most)
    )
