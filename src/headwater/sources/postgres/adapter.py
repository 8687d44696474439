"""PostgreSQL as a source (14 or newer).

**Positions** are snapshots (`pg_current_snapshot`): sets of transactions. A change belongs to the transaction `xid`
that wrote it; it came after position p exactly when `NOT pg_visible_in_snapshot(xid, p)`. So transactions may commit
in any order of their ids, and none is lost or seen twice. A position also names the life it belongs to
(`life.py`).

**As-of**: R(p) = R(now) − changes not shown by p (TID rules, eq. 2). Both are read by one statement, hence in one
snapshot; whether p is still answerable, and whether the table is still what it was taken for, is looked at in that
snapshot, too (`headwater.alive`, `headwater.holds`). The base table is locked in ACCESS SHARE mode *before* the
statement takes its snapshot: TRUNCATE and rewriting ALTERs are not MVCC-safe, and a reader that waited for one of them
with an older snapshot would find the table empty and the changes not there yet.

**Order**: commit times where the server keeps them, else what the snapshots of the changes prove (`order.py`).

**Identity**: a reader remembers a table with the digest of its shape. `holds` compares it; if the table has another
one, its catalog is read again and every column that is read is held against the one expected.

Capture itself is described in `capture.py`, parts of global transactions in `parts.py`.

Known limits:

- tables with plain inheritance, unlogged ones and partitions that are foreign tables are refused; so is a table with a
  partition that was attached or detached since its capture: it is captured anew with `headwater setup`;
- a partition that is created, written and truncated within one transaction leaves no trace of the TRUNCATE, unless
  `headwater setup` has put its TRUNCATE trigger there;
- triggers do not fire under `session_replication_role = replica`, so rows applied by a logical replication
  subscription are not seen;
- commit times are taken a moment before a commit is visible: two transactions that commit within that moment may be
  told in the order of their times though readers saw the other one first;
- virtual generated columns are not captured (type None);
- a deferred foreign key may be satisfied later in our order than at commit;
- TRUNCATE in a REPEATABLE READ transaction marks the table's capture as broken: its old snapshot cannot list the rows;
- while another session holds an ACCESS EXCLUSIVE lock (an open TRUNCATE or ALTER TABLE), reading that table waits,
  30 s at most.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from headwater.model.conditions import Condition
from headwater.model.errors import CaptureMissing, SchemaChanged, UnknownName
from headwater.model.joins import one_by_one
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Identities, TableSchema
from headwater.model.source import (
    COUNT,
    ORDINAL,
    Capture,
    Chunk,
    CommitTimes,
    JoinQuestion,
    Poll,
    Question,
    SourceSpec,
)
from headwater.sources.postgres import capture, catalog, log, log_limit, owners, printing, standing
from headwater.sources.postgres.catalog import PgTable
from headwater.sources.postgres.connection import Connection, ConnectionPool
from headwater.sources.postgres.foreign_keys import foreign_keys
from headwater.sources.postgres.identity import KnownTables
from headwater.sources.postgres.joins import join_statement
from headwater.sources.postgres.poll import xids_of
from headwater.sources.postgres.polling import Polling
from headwater.sources.postgres.reading import PROBING, Asked, ByLog, Reader
from headwater.sources.postgres.snapshot import Snapshot
from headwater.sources.postgres.sql import alive, answer_statement, chunk_bounds, scan_statement
from headwater.sources.postgres.types import fields_of

_KEYS_PER_STATEMENT = 20_000

_UNTIMED = (
    "PostgreSQL does not record when transactions are committed here, so transactions that overlap and whose order"
    " nothing else proves share one state; ALTER SYSTEM SET track_commit_timestamp = on; and a restart of the server"
    " let each have its own."
)
_UNBOUNDED = (
    "the server keeps its log for Headwater until it is read. Headwater gives that up beyond log_limit, but only while"
    " something of this project looks; the server itself sets no limit (max_slot_wal_keep_size is -1), and while"
    " nothing runs its disk may fill: ALTER SYSTEM SET max_slot_wal_keep_size = '20GB'; and SELECT pg_reload_conf();"
    " bound it."
)
_PARTED = (
    "is partitioned: its capture is a trigger on each row, which slows down writing many rows at once more than the"
    " capture of other tables does; 'headwater setup' after creating partitions lets their TRUNCATE be captured, too."
)
_PARTED_LOG = (
    "is partitioned: run 'headwater setup' after creating partitions. What is inserted into a new one is told as it is,"
    " but an UPDATE, DELETE or TRUNCATE there halts the views, which are then loaded again."
)


class PostgresSource:
    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._connections = ConnectionPool(spec)
        self._known = KnownTables(spec.name)
        self._reader = Reader(self._connections, self._known, spec.log_limit)
        self._polling = Polling(spec.name, self._connections, self._reader)

    @property
    def name(self) -> SourceName:
        return self._spec.name

    def close(self) -> None:
        self._connections.close()

    # ── what is there ────────────────────────────────────────────────────────────────────────────────────────────

    def describe(self) -> Mapping[TableName, TableSchema]:
        with self._connections.borrow() as connection:
            found = catalog.tables(connection, self.name)
            refers = foreign_keys(connection, self.name)
        return {name: replace(table.schema(), foreign_keys=refers.get(name, ())) for name, table in found.items()}

    def resolve(self, schema: str, table: str) -> TableName | None:
        with self._connections.borrow() as connection:
            return catalog.resolve(connection, self.name, schema, table)

    # ── capture ──────────────────────────────────────────────────────────────────────────────────────────────────

    def capture(self) -> Capture | None:
        with self._connections.borrow() as connection:
            meta = standing.meta(connection)
            if meta is None:
                return None
            if meta.stale:
                why = f"its capture {meta.stale}; run 'headwater setup'"
                noted = standing.noted(connection)
                return Capture(meta.generation, frozenset(), {self._name(place): why for place in noted})
            log_limit.guard(connection, self._spec.log_limit)
            good, broken = set(), {}
            for found in standing.inspect(connection, self._spec.owner):
                if not found.owned:
                    continue
                recorded = self._name(found.recorded)
                current = self._name(found.current) if found.current else recorded
                if found.fault is not None:
                    broken[current] = found.fault
                else:
                    good.add(current)
                    if current != recorded:
                        broken[recorded] = f"the table is called {current} now"
            others = [c for c in owners.consumers(connection) if c.owner != self._spec.owner]
            held = log_limit.held(connection, self._spec.log_limit)
        return Capture(
            meta.generation,
            frozenset(good),
            {t: why for t, why in broken.items() if t not in good},
            tuple(c.label or c.owner or "a project without a name" for c in others),
            held,
        )

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        with self._connections.borrow() as connection:
            return capture.plan(connection, self._spec, self._oids(connection, tables))

    def install(self, tables: Sequence[TableName]) -> list[str]:
        with self._connections.borrow() as connection:
            wanted = self._oids(connection, tables)
        return capture.install(self._connections, self._spec, wanted)

    def script(self, tables: Sequence[TableName]) -> list[str]:
        """What `install` would do, as statements for somebody who may (`Scripted`)."""
        with self._connections.borrow() as connection:
            return printing.script(connection, self._spec, self._oids(connection, tables))

    def release(self, keep: Sequence[TableName]) -> list[str]:
        return capture.release(self._connections, self._spec, [(t.schema, t.table) for t in keep])

    def remove(self) -> list[str]:
        return capture.remove(self._connections, self._spec)

    def advice(self, tables: Sequence[TableName]) -> list[str]:
        with self._connections.borrow() as connection:
            row = connection.execute("SELECT current_setting('track_commit_timestamp')::bool").fetchone()
            found = catalog.tables(connection, self.name)
            logged, unbounded = log.logged(connection), log_limit.keeps_without_limit(connection)
        if logged or self._spec.capture != "triggers":
            said = [_UNBOUNDED] if unbounded else []
        else:
            said = [] if row and row[0] else [_UNTIMED]
        parted = [found[table] for table in tables if table in found and found[table].partitioned]
        return said + [f"{t.name} {_PARTED_LOG if t.oid in logged else _PARTED}" for t in parted]

    def _name(self, place: tuple[str, str]) -> TableName:
        return TableName(self.name, place[1], place[0])

    def _oids(self, connection: Connection, tables: Sequence[TableName]) -> list[tuple[TableName, int]]:
        """Asks for existence only: whether the role may read them is for `plan` to say, with the GRANT that helps."""
        found = []
        for table in dict.fromkeys(tables):
            row = connection.execute(
                "SELECT c.oid::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p') AND NOT c.relispartition",
                [table.schema, table.table],
            ).fetchone()
            if row is None:
                known = (f"{t.schema}.{t.table}" for t in catalog.tables(connection, self.name))
                raise UnknownName("table", f"{table.schema}.{table.table}", known, f"at source {self.name}")
            found.append((table, row[0]))
        return found

    # ── what is expected ─────────────────────────────────────────────────────────────────────────────────────────

    def identities(self, tables: Mapping[TableName, Sequence[str]]) -> Mapping[TableName, Identities]:
        with self._connections.borrow() as connection:
            return self._known.identities(connection, tables)

    def expect(self, tables: Mapping[TableName, Identities]) -> None:
        self._known.expected = dict(tables)

    def check(self, at: Position, tables: Sequence[TableName]) -> None:
        """Life first, in one statement with the rest."""
        Snapshot.parse(at)

        def work(connection: Connection) -> None:
            held = [
                sql.SQL("headwater.holds({}, {}::regclass, NULL)").format(
                    sql.Literal(Snapshot.parse(at).text),
                    sql.Literal(sql.Identifier(t.schema, t.table).as_string(connection)),
                )
                for t in tables
            ]
            connection.execute(sql.SQL("SELECT {}").format(sql.SQL(" AND ").join([alive(at), *held])))

        try:
            self._reader.anew((), work)
        except SchemaChanged as gone:
            raise CaptureMissing(gone.what, "run 'headwater setup'") from None

    def commit_times(self, transactions: Sequence[str]) -> Sequence[CommitTimes | None]:
        """Of a label that leaves some out: of those it names, the first and the last among them."""
        named = [xids_of(label) for label in transactions]
        wanted = sorted({xid for xids in named for xid in xids})
        with self._connections.borrow() as connection:
            row = connection.execute("SELECT current_setting('track_commit_timestamp')::bool").fetchone()
            if not wanted or row is None or not row[0]:
                return [None] * len(transactions)
            statement = (
                "SELECT x::text::bigint, pg_xact_commit_timestamp(x::xid) FROM unnest(%s::text[]::xid8[]) AS x"
                " WHERE x < pg_snapshot_xmax(pg_current_snapshot())"
            )
            times: dict[int, dt.datetime | None] = dict(
                connection.execute(statement, [list(map(str, wanted))]).fetchall()
            )
        found = [[t for x in xids if (t := times.get(x)) is not None] for xids in named]
        return [
            (min(ts), max(ts)) if ts and len(ts) == len(xids) else None for ts, xids in zip(found, named, strict=True)
        ]

    # ── what happened ────────────────────────────────────────────────────────────────────────────────────────────

    def position(self) -> Position:
        return self._polling.position()

    def waiting(self, after: Position) -> int:
        return self._polling.waiting(after)

    def poll(self, after: Position, tables: Mapping[TableName, Sequence[str]], limit: int) -> Poll:
        return self._polling.poll(after, tables, limit)

    def trim(self, below: Position) -> int:
        """Forgetting nothing writes nothing: no transaction id is drawn, and positions of an idle source stay put."""
        Snapshot.parse(below)
        with self._connections.borrow() as connection, connection.transaction():
            return owners.trim(connection, self._spec, below)

    # ── as of a position ─────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, question: Question, at: Position) -> Iterator[pa.RecordBatch]:
        """Many keys are asked in several statements: each is exact as of `at`, so together they are."""
        Snapshot.parse(at)
        named = (*question.columns, *question.key, *(c.column for c in question.conditions))
        for start in range(0, max(question.keys.num_rows, 1), _KEYS_PER_STATEMENT):

            def asked(tables: Mapping[TableName, PgTable], start: int = start) -> Asked:
                table = tables[question.table]
                columns = [table.columns[name] for name in question.columns]
                schema = pa.schema([(ORDINAL, pa.int64()), *fields_of(columns), (COUNT, pa.int64())])
                statement = answer_statement(table, question, columns, at, (start, _KEYS_PER_STATEMENT))
                return Asked(statement, schema, _of(question.table, question.columns))

            yield from self._reader.answers({question.table: named}, PROBING, asked)

    def ask_join(self, question: JoinQuestion, at: Position) -> Iterator[pa.RecordBatch]:
        """One statement for all tables; many keys in several, as in `ask`. Tables whose changes the log tells are asked
        one by one."""
        Snapshot.parse(at)
        for start in range(0, max(question.keys.num_rows, 1), _KEYS_PER_STATEMENT):

            def asked(tables: Mapping[TableName, PgTable], start: int = start) -> Asked:
                of = [(question.tables[number].table, column) for number, column in question.told]
                types = [tables[table].columns[column].type for table, column in of]
                told = zip(question.columns, types, strict=True)
                schema = pa.schema([(ORDINAL, pa.int64()), *told, (COUNT, pa.int64())])
                statement = join_statement(tables, question, at, (start, _KEYS_PER_STATEMENT))
                return Asked(statement, schema, dict(zip(question.columns, of, strict=True)))

            try:
                yield from self._reader.answers(question.named(), PROBING, asked)
            except ByLog:
                part = replace(question, keys=question.keys.slice(start, _KEYS_PER_STATEMENT))
                for batch in one_by_one(part, lambda one: self.ask(one, at), self._kind):
                    place = batch.schema.get_field_index(ORDINAL)
                    yield batch.set_column(place, ORDINAL, pc.add(batch.column(place), start))

    def _kind(self, table: TableName, column: str) -> pa.DataType:
        with self._connections.borrow() as connection:
            return self._known.table(connection, table).columns[column].type

    def chunks(self, table: TableName, target_rows: int) -> list[Chunk]:
        with self._connections.borrow() as connection:
            known = self._known.table(connection, table)
            rows = catalog.estimated_rows(connection, known)
            bounds = chunk_bounds(connection, known, rows, max(1, -(-rows // max(target_rows, 1))))
        return [Chunk(table, i, b, rows // len(bounds)) for i, b in enumerate(bounds)]

    def scan(
        self, chunk: Chunk, columns: Sequence[str], at: Position, conditions: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        Snapshot.parse(at)

        def asked(tables: Mapping[TableName, PgTable]) -> Asked:
            table = tables[chunk.table]
            wanted = [table.columns[name] for name in columns]
            schema = pa.schema([*fields_of(wanted), (COUNT, pa.int64())])
            return Asked(scan_statement(table, chunk, wanted, at, conditions), schema, _of(chunk.table, columns))

        named = (*columns, *(c.column for c in conditions))
        yield from self._reader.answers({chunk.table: named}, "", asked)


def _of(table: TableName, columns: Sequence[str]) -> dict[str, tuple[TableName, str]]:
    return {column: (table, column) for column in columns}
