"""A source in plain Python, for tests and for the lab: the contract, obviously kept.

A database is its log: numbered transactions of signed rows, kept for ever. The state at position `p` is the fold of
the transactions numbered up to `p`, so the as-of promise needs no argument. Everything else (capture, trimming) is
bookkeeping that forgets on purpose what a real source would have forgotten. A part of a global transaction is
committed with `commit(changes, part_of=("transfer-17", 2))`.

Databases live in this process under the name in `memory://name`; every adapter object with that URL shares one.
"""

from __future__ import annotations

import datetime as dt
import threading
import uuid
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headwater.model.conditions import Condition, meets
from headwater.model.errors import CaptureMissing, PositionTrimmed, UnknownName
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Column, Identities, Identity, TableSchema
from headwater.model.source import (
    COUNT,
    ORDINAL,
    TRANSACTIONS,
    Capture,
    Chunk,
    CommitTimes,
    JoinQuestion,
    Poll,
    Question,
    SourceSpec,
)

Row = tuple[Any, ...]
BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Transaction:
    number: int
    committed_at: dt.datetime
    changes: tuple[tuple[str, Row, int], ...]
    part_of: tuple[str, int] | None = None
    """The global transaction and its number of parts."""


@dataclass(frozen=True)
class MemoryTable:
    columns: Mapping[str, pa.DataType]
    key: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()


@dataclass
class MemoryDatabase:
    """Tables, the whole log, and what capture pretends to remember of it."""

    tables: dict[str, MemoryTable] = field(default_factory=dict)
    log: list[Transaction] = field(default_factory=list)
    now: dict[str, Counter[Row]] = field(default_factory=dict)
    generation: str = ""
    captured: dict[str, int] = field(default_factory=dict)
    """Captured table → the position its capture starts at."""
    trimmed: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)

    def create(
        self,
        table: str,
        columns: Mapping[str, pa.DataType],
        key: Sequence[str] = (),
        indexes: Sequence[Sequence[str]] = (),
    ) -> None:
        with self.lock:
            self.tables[table] = MemoryTable(dict(columns), tuple(key), tuple(map(tuple, indexes)))
            self.now[table] = Counter()

    def commit(
        self, changes: Sequence[tuple[str, Mapping[str, Any], int]], part_of: tuple[str, int] | None = None
    ) -> int:
        """One transaction of `(table, row, signed count)`; returns its number. A row that is not there cannot go."""
        if part_of is not None and not part_of[0]:
            raise ValueError("the id of a global transaction must not be empty")
        if part_of is not None and part_of[1] < 2:
            raise ValueError(f"a global transaction has two parts or more, not {part_of[1]}")
        with self.lock:
            signed = tuple((t, tuple(row[c] for c in self.tables[t].columns), n) for t, row, n in changes)
            after = {t: Counter(self.now[t]) for t, _, _ in signed}
            for table, row, count in signed:
                after[table][row] += count
                if after[table][row] < 0:
                    raise ValueError(f"{table} does not hold {row}")
            self.now.update(after)
            self.log.append(Transaction(len(self.log) + 1, dt.datetime.now(dt.UTC), signed, part_of))
            return len(self.log)

    def state(self, table: str, at: int) -> Counter[Row]:
        """The fold: every change up to `at`, summed."""
        rows: Counter[Row] = Counter()
        for transaction in self.log[:at]:
            for name, row, count in transaction.changes:
                if name == table:
                    rows[row] += count
        return +rows

    def objects(self) -> list[str]:
        return [*self.tables, *(f"capture of {t}" for t in self.captured)]

    def reset(self) -> None:
        with self.lock:
            self.tables, self.log, self.now = {}, [], {}
            self.generation, self.captured, self.trimmed = "", {}, 0


_databases: dict[str, MemoryDatabase] = {}


def database(url: str) -> MemoryDatabase:
    """The database behind `memory://name`, made on first use."""
    return _databases.setdefault(url, MemoryDatabase())


class MemorySource:
    def __init__(self, spec: SourceSpec) -> None:
        self._name = spec.name
        self._database = database(spec.url)

    @property
    def name(self) -> SourceName:
        return self._name

    def describe(self) -> Mapping[TableName, TableSchema]:
        return {TableName(self.name, table): self._schema(table) for table in self._database.tables}

    def resolve(self, schema: str, table: str) -> TableName | None:
        if schema:
            return None
        known = self._database.tables
        near = [table] if table in known else [t for t in known if t.lower() == table.lower()]
        return TableName(self.name, near[0]) if near else None

    def capture(self) -> Capture | None:
        found = self._database
        if not found.generation:
            return None
        return Capture(found.generation, frozenset(TableName(self.name, t) for t in found.captured), {})

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        for table in tables:
            self._known(table)
        return [f"capture {table}" for table in tables if table.table not in self._database.captured]

    def install(self, tables: Sequence[TableName]) -> list[str]:
        with self._database.lock:
            done = self.plan_install(tables)
            self._database.generation = self._database.generation or uuid.uuid4().hex
            for table in tables:
                self._database.captured.setdefault(table.table, len(self._database.log))
            return done

    def advice(self, tables: Sequence[TableName]) -> list[str]:
        return []

    def identities(self, tables: Mapping[TableName, Sequence[str]]) -> Mapping[TableName, Identities]:
        return {
            table: {c: Identity(f"{self._database.generation}.{self._known(table)}.{c}") for c in columns}
            for table, columns in tables.items()
        }

    def expect(self, tables: Mapping[TableName, Identities]) -> None:
        """Columns of a database in memory never change."""

    def check(self, at: Position, tables: Sequence[TableName]) -> None:
        self._held(at, tables)

    def commit_times(self, transactions: Sequence[str]) -> Sequence[CommitTimes | None]:
        times = [self._database.log[int(number) - 1].committed_at for number in transactions]
        return [(time, time) for time in times]

    def release(self, keep: Sequence[TableName]) -> list[str]:
        kept = {table.table for table in keep}
        with self._database.lock:
            gone = [table for table in self._database.captured if table not in kept]
            for table in gone:
                del self._database.captured[table]
        return [f"forget {table}" for table in gone]

    def remove(self) -> list[str]:
        with self._database.lock:
            done = [f"forget {table}" for table in self._database.captured]
            self._database.generation, self._database.captured, self._database.trimmed = "", {}, 0
            return done

    def position(self) -> Position:
        return Position(str(len(self._database.log)))

    def poll(self, after: Position, tables: Mapping[TableName, Sequence[str]], limit: int) -> Poll:
        with self._database.lock:
            start = self._held(after, ())
            log = self._database.log[start:]
        for table in tables:
            self._captured(table)
        taken = end = 0
        kept: list[Transaction] = []
        rows: dict[TableName, list[tuple[Row, int, int]]] = {table: [] for table in tables}
        for end, transaction in enumerate(log, 1):  # noqa: B007 — `end` is how many were looked at
            touched = transaction.part_of is not None
            for table, found in rows.items():
                since = self._captured(table)
                for name, row, count in transaction.changes:
                    if name == table.table and transaction.number > since:
                        found.append((row, count, len(kept)))
                        touched = True
                        taken += 1
            if touched:
                kept.append(transaction)
            if taken >= limit:
                break
        return Poll(
            end=Position(str(start + end)),
            transactions=pa.table(
                [
                    [str(t.number) for t in kept],
                    [t.committed_at for t in kept],
                    [t.part_of[0] if t.part_of else None for t in kept],
                    [t.part_of[1] if t.part_of else None for t in kept],
                ],
                schema=TRANSACTIONS,
            ),
            changes={
                table: self._table(table, [row for row, _, _ in found])
                .select(list(tables[table]))
                .append_column(COUNT, pa.array([count for _, count, _ in found], pa.int64()))
                .append_column(ORDINAL, pa.array([ordinal for _, _, ordinal in found], pa.int64()))
                for table, found in rows.items()
                if found
            },
            more=end < len(log),
            before={str(t.number): Position(str(t.number - 1)) for t in kept if t.part_of},
        )

    def ask(self, question: Question, at: Position) -> Iterator[pa.RecordBatch]:
        state = meets(self._state(question.table, at), question.conditions)
        asked_for = zip(*(column.to_pylist() for column in question.keys.columns), strict=True)
        ordinals: dict[Row, int] = {key: n for n, key in enumerate(asked_for)}
        asked = zip(*(state.column(c).to_pylist() for c in question.key), strict=True)
        found = [(n, ordinals[key]) for n, key in enumerate(asked) if key in ordinals]
        answer = (
            state.take(pa.array([n for n, _ in found], pa.int64()))
            .select([*question.columns, COUNT])
            .add_column(0, ORDINAL, pa.array([ordinal for _, ordinal in found], pa.int64()))
        )
        yield from answer.to_batches(BATCH_ROWS)

    def ask_join(self, question: JoinQuestion, at: Position) -> Iterator[pa.RecordBatch]:
        """By definition: every row of every table beside every other, and those kept that are equal where they must."""
        states = [meets(self._state(joined.table, at), joined.conditions) for joined in question.tables]
        found: list[tuple[int, int, tuple[dict[str, Any], ...]]] = [(n, 1, ()) for n in range(question.keys.num_rows)]
        keys = [tuple(key.values()) for key in question.keys.to_pylist()]
        for number, (joined, state) in enumerate(zip(question.tables, states, strict=True)):
            asked = [(place, column) for place, (table, column) in enumerate(question.key) if table == number]
            found = [
                (ordinal, count * row[COUNT], (*before, row))
                for ordinal, count, before in found
                for row in state.to_pylist()
                if all(row[column] == keys[ordinal][place] for place, column in asked)
                and all(row[c] is not None and row[c] == before[table][other] for c, table, other in joined.on)
            ]
        types = [states[n].schema.field(column).type for n, column in question.told]
        told = [
            pa.array([rows[n][column] for _, _, rows in found], kind)
            for (n, column), kind in zip(question.told, types, strict=True)
        ]
        ordinals, counts = (pa.array([row[place] for row in found], pa.int64()) for place in (0, 1))
        names = [ORDINAL, *question.columns, COUNT]
        yield from pa.table([ordinals, *told, counts], names=names).to_batches(BATCH_ROWS)

    def chunks(self, table: TableName, target_rows: int) -> list[Chunk]:
        """A row belongs to the chunk its checksum says, whenever it exists."""
        rows = self._database.now[self._known(table)].total()
        parts = max(1, -(-rows // max(1, target_rows)))
        return [Chunk(table, n, (str(n), str(parts)), rows // parts) for n in range(parts)]

    def scan(
        self, chunk: Chunk, columns: Sequence[str], at: Position, conditions: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        number, parts = map(int, chunk.bounds)
        state = self._state(chunk.table, at, lambda row: zlib.crc32(repr(row).encode()) % parts == number)
        yield from meets(state, conditions).select([*columns, COUNT]).to_batches(BATCH_ROWS)

    def trim(self, below: Position) -> int:
        with self._database.lock:
            old, new = self._database.trimmed, self._number(below)
            if new <= old:
                return 0
            self._database.trimmed = new
            return sum(name in self._database.captured for t in self._database.log[old:new] for name, _, _ in t.changes)

    def waiting(self, after: Position) -> int:
        return sum(len(t.changes) for t in self._database.log[self._number(after) :])

    def close(self) -> None:
        pass

    def _schema(self, table: str) -> TableSchema:
        found = self._database.tables[table]
        columns = tuple(Column(c, t, str(t), c not in found.key) for c, t in found.columns.items())
        indexes = (found.key, *found.indexes) if found.key else found.indexes
        name = TableName(self.name, table)
        return TableSchema(name, columns, found.key, indexes, self._database.now[table].total())

    def _known(self, table: TableName) -> str:
        if table.table not in self._database.tables:
            raise UnknownName("table", table.table, self._database.tables, f"in source {self.name}")
        return table.table

    def _captured(self, table: TableName) -> int:
        since = self._database.captured.get(self._known(table))
        if since is None:
            raise CaptureMissing(f"{table} is not captured", "run 'headwater setup'")
        return since

    def _number(self, position: Position) -> int:
        number = int(position)
        if number > len(self._database.log):
            raise CaptureMissing(f"position {position} of source {self.name} lies in its future")
        return number

    def _held(self, position: Position, tables: Sequence[TableName]) -> int:
        """The number of a position that can still be answered for."""
        if not self._database.generation:
            raise CaptureMissing(f"capture is not installed at source {self.name}", "run 'headwater setup'")
        number = self._number(position)
        oldest = max([self._database.trimmed, *(self._captured(t) for t in tables)])
        if number < oldest:
            raise PositionTrimmed(f"source {self.name} keeps nothing before position {oldest}, asked for {position}")
        return number

    def _state(self, table: TableName, at: Position, belongs: Any = lambda row: True) -> pa.Table:
        """The table at a position, with COUNT."""
        with self._database.lock:
            rows = self._database.state(self._known(table), self._held(at, [table]))
        kept = [(row, count) for row, count in rows.items() if belongs(row)]
        counts = pa.array([count for _, count in kept], pa.int64())
        return self._table(table, [row for row, _ in kept]).append_column(COUNT, counts)

    def _table(self, table: TableName, rows: Sequence[Row]) -> pa.Table:
        schema = pa.schema(list(self._database.tables[table.table].columns.items()))
        columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
        return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
