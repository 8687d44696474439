"""What happened at a PostgreSQL source: where it is now, what came after a position, and how much of that there is.

One snapshot tells the transactions, where to cut them (`poll.py`), and their changes. What is told is on disk: a server
that crashes must not come back without it. Where the log tells changes, they are moved first (`log.py`), and what is
told is what a snapshot shows that was taken before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from headwater.model.errors import SourceUnavailable
from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import COUNT, ORDINAL, TRANSACTIONS, UNFIT, Poll
from headwater.sources.postgres import life, log, owners, parts
from headwater.sources.postgres.catalog import PgTable
from headwater.sources.postgres.connection import Connection, ConnectionPool
from headwater.sources.postgres.csv import Misfit
from headwater.sources.postgres.poll import Span, Told, poll_statement, tell, told_of
from headwater.sources.postgres.reading import PROBING, READ_ONE_SNAPSHOT, Reader, shown_now
from headwater.sources.postgres.recent import Moved
from headwater.sources.postgres.snapshot import Snapshot
from headwater.sources.postgres.sql import alive, fresh, holds
from headwater.sources.postgres.triggers import changes_table
from headwater.sources.postgres.types import fields_of

_COUNT_AT_MOST = 10_000
_NAMED_AT_MOST = 100
_KEY = "__key"
_COUNTED = [(COUNT, pa.int64()), (ORDINAL, pa.int64())]


class Polling:
    def __init__(self, name: SourceName, connections: ConnectionPool, reader: Reader) -> None:
        self.name, self._connections, self._reader = name, connections, reader
        self._last: tuple[Snapshot, int] | None = None

    def position(self) -> Position:
        with self._connections.borrow() as connection:
            moved = self._moved(connection)
            if moved is not None:
                return self._end(connection, moved)
            for _ in range(10):
                now, mark, lsn = life.now(connection)
                if life.flushed(connection, lsn):
                    return now.position(mark)
        raise SourceUnavailable(
            f"source {self.name} does not write its log to disk", "look at the server's log and its disk"
        )

    def waiting(self, after: Position) -> int:
        """Counted up to ten thousand; beyond that, told from the distance of change ids."""
        Snapshot.parse(after)
        with self._connections.borrow() as connection:
            oids = owners.oids(connection)
            if not oids:
                return 0
            selects = [sql.SQL("SELECT id FROM {} AS c WHERE {}").format(changes_table(o), fresh(after)) for o in oids]
            statement = sql.SQL(
                "SELECT count(*), (SELECT last_value FROM headwater.ids) - min(id) + 1"
                " FROM (SELECT id FROM ({}) AS f LIMIT {}) AS counted"
            ).format(sql.SQL(" UNION ALL ").join(selects), sql.Literal(_COUNT_AT_MOST))
            row = connection.execute(statement).fetchone()
        assert row is not None
        return int(row[0] if row[0] < _COUNT_AT_MOST else max(row))

    def poll(self, after: Position, tables: Mapping[TableName, Sequence[str]], limit: int) -> Poll:
        """One snapshot tells the transactions, where to cut them (see `poll.py`), and their changes. If they
        are not on disk yet, nothing is told this time."""
        Snapshot.parse(after)

        def work(connection: Connection) -> Poll:
            known = {name: self._reader.known.captured(connection, name, columns) for name, columns in tables.items()}
            told = self._moved(connection)
            recent = self._reader.log.recent(Snapshot.parse(after)) if told is not None else None
            self._reader.begin(connection, READ_ONE_SNAPSHOT + PROBING, list(known.values()))
            span, moment, lsn = self._span(connection, after, list(known.values()))
            if told is not None:
                span = replace(span, now=told, logged=True)
            if span.now.position() == after.partition("@")[0] != after:  # nothing at all was committed since
                self._last = (span.now, moment)
                return _nothing(after, known, tables)
            poll = self._polled(connection, after, span, tables, limit, recent) if known else None
            if poll is None:
                poll = Poll(self._end(connection, span.now), TRANSACTIONS.empty_table(), {})
            connection.execute("COMMIT")
            if not life.flushed(connection, lsn):
                return _nothing(after, known, tables)
            self._last = (span.now, moment)
            return poll

        return self._reader.anew(list(tables), work)

    def _moved(self, connection: Connection) -> Snapshot | None:
        """What a poll may tell, where some tables are captured by the log: a snapshot all of whose transactions are in
        the change tables. None: whatever it sees."""
        if not log.is_used(connection):
            return None
        life.flushed(connection, shown_now(connection)[1])  # which may take a transaction: before the snapshot is taken
        shown, lsn = shown_now(connection)
        wrote = self._reader.move(lsn, connection)
        return shown if wrote is None else _with(shown, wrote)

    def _span(self, connection: Connection, after: Position, tables: Sequence[PgTable]) -> tuple[Span, int, str | None]:
        """What there is to poll; an error if `after` cannot be gone on from."""
        columns = [life.NOW, sql.SQL("current_setting('track_commit_timestamp')::bool"), alive(after)]
        columns += [holds(after, table) for table in tables]
        row = connection.execute(sql.SQL("SELECT {}").format(sql.SQL(", ").join(columns))).fetchone()
        assert row is not None
        logs = [*(changes_table(table.oid) for table in tables), parts.PARTS]
        return Span(Snapshot.parse(after), Snapshot.parse(row[0]), logs, row[3], self._last), row[1], row[2]

    def _end(self, connection: Connection, now: Snapshot) -> Position:
        """The position of a snapshot taken now."""
        row = connection.execute("SELECT headwater.newest()").fetchone()
        assert row is not None
        return now.position(row[0])

    def _polled(
        self,
        connection: Connection,
        after: Position,
        span: Span,
        tables: Mapping[TableName, Sequence[str]],
        limit: int,
        recent: Moved | None,
    ) -> Poll:
        known = {name: self._reader.known.table(connection, name) for name in tables}

        def rows(upto: Snapshot, at_most: Mapping[TableName, int]) -> dict[TableName, pa.Table]:
            return {
                name: self._rows(connection, known[name], of, (span.after, upto), at_most.get(name))
                for name, of in tables.items()
            }

        told, found = None, dict[TableName, pa.Table]()
        if recent is not None:
            mine = recent.shown(span.now).of([table.oid for table in known.values()])
            counts = {name: mine.count(table.oid) for name, table in known.items()}
            if 0 < sum(counts.values()) <= limit and not parts.tagged(connection, fresh(after)):
                found = rows(span.now, {name: count + 1 for name, count in counts.items()})
                if all(found[name].num_rows == count for name, count in counts.items()):  # so they are all there is
                    told = told_of(mine, span)
        if told is None:
            told = tell(connection, lambda s, schema: self._reader.copied(connection, s, schema), span, limit)
            found = rows(told.end, {})
        tags = parts.tags(connection, told, fresh(after))
        changes = {name: _numbered(table, told) for name, table in found.items()}
        if told.end == span.now:
            end = self._end(connection, span.now)
        else:
            logs = [
                (self._reader.known.table(connection, name).oid, log)
                for name, log in zip(tables, span.logs, strict=False)
            ]
            newest = told.newest()
            end = told.end.position(life.witnesses(connection, [*logs, (0, parts.PARTS)], newest))
        labels = told.labels()
        committed = np.zeros(0, np.int64) if not told.groups else np.maximum.reduceat(told.at, told.starts[:-1])
        at = pa.array(committed, pa.int64()).cast(pa.timestamp("us", "UTC"))
        transactions = pa.table([labels, at, tags.global_id, tags.parts], schema=TRANSACTIONS)
        before = parts.Before(after, told, {labels[n].as_py(): n for n in tags.tagged})
        return Poll(end, transactions, changes, told.more, before)

    def _rows(
        self,
        connection: Connection,
        table: PgTable,
        names: Sequence[str],
        span: tuple[Snapshot, Snapshot],
        at_most: int | None,
    ) -> pa.Table:
        """One table's rows, with the ids of their transactions in place of ordinals."""
        columns = [table.columns[name] for name in names]
        counted = [(COUNT, pa.int64()), (ORDINAL, pa.int64())]
        try:
            statement = poll_statement(table, columns, span, at_most)
            return self._reader.copied(connection, statement, pa.schema([*fields_of(columns), *counted]))
        except Misfit:
            schema = pa.schema([*fields_of(columns), *counted, (_KEY, pa.string()), (UNFIT, pa.string())])
            statement = poll_statement(table, columns, span, at_most, keyed=True)
            return self._reader.copied(connection, statement, schema).drop_columns([_KEY])


def _numbered(rows: pa.Table, told: Told) -> pa.Table:
    """With the ordinals of their transactions."""
    places = pc.index_in(rows.column(ORDINAL), value_set=pa.array(told.xids))
    assert not places.null_count, "a change of a transaction that was not told"
    ordinals = pa.array(told.group[places.to_numpy()] if len(told.group) else [], pa.int64())
    return rows.set_column(rows.column_names.index(ORDINAL), ORDINAL, ordinals)


def _with(shown: Snapshot, moved: int) -> Snapshot:
    """The snapshot, and the transaction that moved what it shows: that wrote nothing that is captured, and the next
    snapshot of a source that stays idle will show it, too. Where many others have begun between the two, the source is
    not idle, and they are not worth naming."""
    if moved >= shown.xmax + _NAMED_AT_MOST:
        return shown
    hidden = (*shown.xip, *range(shown.xmax, moved))
    return Snapshot(min(hidden, default=moved + 1), moved + 1, hidden)


def _nothing(at: Position, known: Mapping[TableName, PgTable], tables: Mapping[TableName, Sequence[str]]) -> Poll:
    """A poll that tells nothing, and ends where it began."""
    columns = {name: [known[name].columns[c] for c in tables[name]] for name in known}
    changes = {name: pa.schema([*fields_of(found), *_COUNTED]).empty_table() for name, found in columns.items()}
    return Poll(at, TRANSACTIONS.empty_table(), changes)
