"""PostgreSQL as a source (13 or newer).

**Positions** are snapshots (`pg_current_snapshot`): sets of transactions. A change belongs to the transaction `xid`
that wrote it; it came after position p exactly when `NOT pg_visible_in_snapshot(xid, p)`. So transactions may commit
in any order of their ids, and none is lost or seen twice.

**As-of**: R(p) = R(now) − changes not shown by p (TID rules, eq. 2). Both are read by one statement, hence in one
snapshot; whether p is still answerable is checked in that snapshot, too (`headwater.holds`). The base table is locked
in ACCESS SHARE mode *before* the statement takes its snapshot: TRUNCATE and rewriting ALTERs are not MVCC-safe, and a
reader that waited for one of them with an older snapshot would find the table empty and the changes not there yet.

**Order**: transactions are told in the order of their largest change id. That is equivalent to commit order: all ids
come from one sequence, and a transaction that overwrites a row of another must wait until the other has committed,
i.e. until all its ids are drawn; the overwriting change then draws a larger one. (The order of transaction ids would be
wrong: an old transaction may overwrite what a younger one has committed.)

Capture itself is described in `postgres_capture.py`, parts of global transactions in `postgres_parts.py`.

Known limits:

- rows written directly into a partition (not through the captured parent), and partitions attached or detached, are not
  seen; tables with plain inheritance are refused;
- triggers do not fire under `session_replication_role = replica`, so rows applied by a logical replication
  subscription are not seen;
- virtual generated columns are not captured (type None);
- a deferred foreign key may be satisfied later in our order than at commit;
- TRUNCATE in a REPEATABLE READ transaction marks the table's capture as broken: its old snapshot cannot list the rows;
- while another session holds an ACCESS EXCLUSIVE lock (an open TRUNCATE or ALTER TABLE), reading that table waits,
  30 s at most;
- a changed database under the same url (restored from a dump) is noticed by its tables' new oids only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from headwater.model.conditions import Condition
from headwater.model.errors import HeadwaterError, SchemaChanged, UnknownName
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Identities, Identity, TableSchema
from headwater.model.source import (
    COUNT,
    ORDINAL,
    TRANSACTIONS,
    Capture,
    Chunk,
    CommitTimes,
    Poll,
    Question,
    SourceSpec,
)
from headwater.sources import postgres_capture, postgres_catalog, postgres_parts
from headwater.sources.postgres_capture import changes_table
from headwater.sources.postgres_catalog import PgTable
from headwater.sources.postgres_connection import Connection, Connections
from headwater.sources.postgres_poll import cut, poll_statement
from headwater.sources.postgres_snapshot import Snapshot
from headwater.sources.postgres_sql import answer_statement, chunk_bounds, fresh, scan_statement
from headwater.sources.postgres_types import PgColumn, read_csv

_KEYS_PER_STATEMENT = 20_000
_COUNT_AT_MOST = 10_000

_READ = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"
_READ_ONE_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresSource:
    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._connections = Connections(spec)
        self._tables: dict[TableName, PgTable] = {}

    @property
    def name(self) -> SourceName:
        return self._spec.name

    def close(self) -> None:
        self._connections.close()

    # ── what is there ────────────────────────────────────────────────────────────────────────────────────────────

    def describe(self) -> Mapping[TableName, TableSchema]:
        with self._connections.borrow() as connection:
            self._tables = postgres_catalog.tables(connection, self.name)
        return {name: table.schema() for name, table in self._tables.items()}

    def resolve(self, schema: str, table: str) -> TableName | None:
        with self._connections.borrow() as connection:
            return postgres_catalog.resolve(connection, self.name, schema, table)

    # ── capture ──────────────────────────────────────────────────────────────────────────────────────────────────

    def capture(self) -> Capture | None:
        with self._connections.borrow() as connection:
            generation = postgres_capture.generation(connection)
            if generation is None:
                return None
            good, broken = set(), {}
            for found in postgres_capture.inspect(connection):
                recorded = TableName(self.name, found.recorded[1], found.recorded[0])
                current = TableName(self.name, found.current[1], found.current[0]) if found.current else recorded
                if found.fault is not None:
                    broken[current] = found.fault
                else:
                    good.add(current)
                    if current != recorded:
                        broken[recorded] = f"the table is called {current} now"
            return Capture(generation, frozenset(good), {t: why for t, why in broken.items() if t not in good})

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        with self._connections.borrow() as connection:
            return postgres_capture.plan(connection, self._oids(connection, tables))

    def install(self, tables: Sequence[TableName]) -> list[str]:
        with self._connections.borrow() as connection:
            wanted = self._oids(connection, tables)
        return postgres_capture.install(self._connections, wanted)

    def remove(self) -> list[str]:
        return postgres_capture.remove(self._connections)

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
                known = (f"{t.schema}.{t.table}" for t in postgres_catalog.tables(connection, self.name))
                raise UnknownName("table", f"{table.schema}.{table.table}", known, f"at source {self.name}")
            found.append((table, row[0]))
        return found

    # ── what is expected ─────────────────────────────────────────────────────────────────────────────────────────

    def advice(self, tables: Sequence[TableName]) -> list[str]:
        return []

    def identities(self, tables: Mapping[TableName, Sequence[str]]) -> Mapping[TableName, Identities]:
        return {table: {c: Identity(f"{table}.{c}") for c in columns} for table, columns in tables.items()}

    def expect(self, tables: Mapping[TableName, Identities]) -> None:
        self._expected = dict(tables)

    def check(self, at: Position, tables: Sequence[TableName]) -> None:
        pass

    def commit_times(self, transactions: Sequence[str]) -> Sequence[CommitTimes | None]:
        return [None] * len(transactions)

    def release(self, keep: Sequence[TableName]) -> list[str]:
        return []

    # ── what happened ────────────────────────────────────────────────────────────────────────────────────────────

    def position(self) -> Position:
        with self._connections.borrow() as connection:
            return _now(connection)

    def waiting(self, after: Position) -> int:
        """Counted up to ten thousand; beyond that, told from the distance of change ids."""
        Snapshot.parse(after)
        with self._connections.borrow() as connection:
            oids = [row[0] for row in connection.execute("SELECT oid::bigint FROM headwater.tables ORDER BY oid")]
            if not oids:
                return 0
            parts = [sql.SQL("SELECT id FROM {} AS c WHERE {}").format(changes_table(o), fresh(after)) for o in oids]
            statement = sql.SQL(
                "SELECT count(*), (SELECT last_value FROM headwater.ids) - min(id) + 1"
                " FROM (SELECT id FROM ({}) AS f LIMIT {}) AS counted"
            ).format(sql.SQL(" UNION ALL ").join(parts), sql.Literal(_COUNT_AT_MOST))
            row = connection.execute(statement).fetchone()
        assert row is not None
        return int(row[0] if row[0] < _COUNT_AT_MOST else max(row))

    def poll(self, after: Position, tables: Mapping[TableName, Sequence[str]], limit: int) -> Poll:
        """One snapshot tells the transactions, where to cut them (see `postgres_poll.py`), and their changes."""
        Snapshot.parse(after)
        with self._connections.borrow() as connection:
            known = {name: self._table(connection, name, columns) for name, columns in tables.items()}
            for name, columns in tables.items():
                self._columns(known[name], columns)
            self._begin(connection, f"{_READ_ONE_SNAPSHOT}; SET LOCAL enable_seqscan = off", list(known.values()))
            now, has_parts = _now_holding(connection, after, list(known.values()))
            if not known:
                return Poll(now.position(), TRANSACTIONS.empty_table(), {})
            logs = [changes_table(table.oid) for table in known.values()]
            if has_parts:
                logs.append(postgres_parts.PARTS)

            def read(statement: sql.Composable, schema: pa.Schema) -> pa.Table:
                return self._copied(connection, statement, schema, next(iter(known)))

            found = cut(connection, read, (after, now), logs, limit)
            xids = found.kept.column("xid").to_pylist()
            tags = postgres_parts.tags(connection, xids, fresh(after) if has_parts else None)
            changes = {}
            for name, table in known.items():
                wanted = self._columns(table, tables[name])
                rows = self._copied(
                    connection,
                    poll_statement(table, wanted, after, found.end.position()),
                    pa.schema([*_fields(wanted), (COUNT, pa.int64()), (ORDINAL, pa.int64())]),
                    name,
                )
                ordinals = pc.index_in(rows.column(ORDINAL), value_set=found.kept.column("xid")).cast(pa.int64())
                assert not ordinals.null_count, "a change of a transaction that was not told"
                changes[name] = rows.set_column(rows.num_columns - 1, ORDINAL, ordinals)
            connection.execute("COMMIT")
        labels = found.kept.column("xid").cast(pa.string())
        transactions = pa.table([labels, found.kept.column("at"), tags.global_id, tags.parts], schema=TRANSACTIONS)
        before = postgres_parts.Before(Snapshot.parse(after), found.end, xids, tags.ordinals)
        return Poll(found.end.position(), transactions, changes, found.more, before)

    def trim(self, below: Position) -> int:
        """Forgetting nothing writes nothing: no transaction id is drawn, and positions of an idle source stay put."""
        Snapshot.parse(below)
        place = sql.SQL("{}::pg_snapshot").format(sql.Literal(below))
        shown = "DELETE FROM {} WHERE xid < pg_snapshot_xmax({below}) AND pg_visible_in_snapshot(xid, {below})"
        with self._connections.borrow() as connection, connection.transaction():
            oids = [row[0] for row in connection.execute("SELECT oid::bigint FROM headwater.tables ORDER BY oid")]
            statements = [sql.SQL(shown).format(changes_table(oid), below=place) for oid in oids]
            gone = sum(connection.execute(statement).rowcount for statement in statements)
            tags = 0
            if postgres_parts.exist(connection):
                tags = connection.execute(sql.SQL(shown).format(postgres_parts.PARTS, below=place)).rowcount
            if gone or tags:  # readers see both or neither; the mark only ever moves forward
                forward = "headwater.contains({below}, trimmed) IS NOT FALSE"
                moved = sql.SQL("UPDATE headwater.meta SET trimmed = {below} WHERE " + forward).format(below=place)
                connection.execute(moved)
            return gone

    # ── as of a position ─────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, question: Question, at: Position) -> Iterator[pa.RecordBatch]:
        """Many keys are asked in several statements: each is exact as of `at`, so together they are."""
        Snapshot.parse(at)
        for start in range(0, max(question.keys.num_rows, 1), _KEYS_PER_STATEMENT):
            with self._connections.borrow() as connection:
                table = self._table(connection, question.table, (*question.columns, *question.key))
                columns = self._columns(table, question.columns)
                self._columns(table, (*question.key, *(c.column for c in question.conditions)))
                schema = pa.schema([(ORDINAL, pa.int64()), *_fields(columns), (COUNT, pa.int64())])
                statement = answer_statement(table, question, columns, at, (start, _KEYS_PER_STATEMENT))
                self._begin(connection, f"{_READ}; SET LOCAL enable_seqscan = off", [table])
                yield from self._streamed(connection, statement, schema, table.name)
                connection.execute("COMMIT")

    def chunks(self, table: TableName, target_rows: int) -> list[Chunk]:
        with self._connections.borrow() as connection:
            known = self._table(connection, table)
            rows = postgres_catalog.estimated_rows(connection, known)
            bounds = chunk_bounds(connection, known, rows, max(1, -(-rows // max(target_rows, 1))))
        return [Chunk(table, i, b, rows // len(bounds)) for i, b in enumerate(bounds)]

    def scan(
        self, chunk: Chunk, columns: Sequence[str], at: Position, conditions: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        Snapshot.parse(at)
        with self._connections.borrow() as connection:
            table = self._table(connection, chunk.table, columns)
            wanted = self._columns(table, columns)
            self._columns(table, [c.column for c in conditions])
            schema = pa.schema([*_fields(wanted), (COUNT, pa.int64())])
            self._begin(connection, _READ, [table])
            yield from self._streamed(
                connection, scan_statement(table, chunk, wanted, at, conditions), schema, table.name
            )
            connection.execute("COMMIT")

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _table(self, connection: Connection, name: TableName, columns: Iterable[str] = ()) -> PgTable:
        """What is remembered of a table; asked anew if it lacks one of these columns, which may have come since."""
        known = self._tables.get(name)
        if known is None or any(column not in known.columns for column in columns):
            found = postgres_catalog.tables(connection, self.name, only=name)
            if name not in found:
                raise SchemaChanged(
                    f"{name} does not exist (or may not be read)", "create it again, or change the views"
                )
            self._tables[name] = found[name]
        return self._tables[name]

    def _columns(self, table: PgTable, names: Sequence[str]) -> list[PgColumn]:
        for name in names:
            if name not in table.columns:
                raise SchemaChanged(f"{table.name} has no column {name!r}", "change the views that use it")
            if table.columns[name].type is None:
                declared = table.columns[name].declared
                raise SchemaChanged(
                    f"{table.name}.{name} is of type {declared}, which Headwater cannot hold", "leave it out"
                )
        return [table.columns[name] for name in names]

    def _begin(self, connection: Connection, how: str, tables: Sequence[PgTable]) -> None:
        """Begin, and lock before the first snapshot (see above)."""
        begin: sql.SQL | sql.Composed = sql.SQL(how)
        if tables:
            names = sql.SQL(", ").join(t.identifier for t in tables)
            begin = sql.SQL("{}; LOCK TABLE {} IN ACCESS SHARE MODE").format(begin, names)
        connection.execute(begin)

    def _streamed(
        self, connection: Connection, statement: sql.Composable, schema: pa.Schema, table: TableName
    ) -> Iterator[pa.RecordBatch]:
        try:
            with connection.cursor().copy(sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(statement)) as copy:
                yield from read_csv(copy, schema, table)
        except Exception:
            self._raise_if_changed(table)
            raise

    def _copied(
        self, connection: Connection, statement: sql.Composable, schema: pa.Schema, table: TableName
    ) -> pa.Table:
        return pa.Table.from_batches(self._streamed(connection, statement, schema, table), schema)

    def _raise_if_changed(self, name: TableName) -> None:
        """After any failure: was it that the table is no longer what we took it for?"""
        remembered = self._tables.pop(name, None)
        try:
            with self._connections.borrow() as connection:
                found = postgres_catalog.tables(connection, self.name, only=name).get(name)
        except HeadwaterError:
            return
        if remembered is None or found is None:
            return
        for column in remembered.columns.values():
            now = found.columns.get(column.name)
            if now is None or (now.base, now.type) != (column.base, column.type):
                became = "was dropped or renamed" if now is None else f"is {now.declared} now, it was {column.declared}"
                raise SchemaChanged(f"{name}.{column.name} {became}", "change the views that use it")


def _now(connection: Connection) -> Position:
    row = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
    assert row is not None
    return Position(row[0])


def _now_holding(connection: Connection, after: Position, tables: Sequence[PgTable]) -> tuple[Snapshot, bool]:
    """Now, and whether transactions can be tagged here; an error if `after` is older than what these tables keep."""
    holds = [sql.SQL("headwater.holds({}, {}::regclass)").format(after, _regclass(t)) for t in tables]
    columns = [sql.SQL("pg_current_snapshot()::text"), postgres_parts.EXISTS, *holds]
    row = connection.execute(sql.SQL("SELECT {}").format(sql.SQL(", ").join(columns))).fetchone()
    assert row is not None
    return Snapshot.parse(row[0]), row[1]


def _regclass(table: PgTable) -> sql.Literal:
    return sql.Literal(table.identifier.as_string(None))


def _fields(columns: Sequence[PgColumn]) -> list[tuple[str, pa.DataType]]:
    return [(c.name, c.type) for c in columns]
