"""A Delta table as a source: `delta:///lake/orders`, relative to headwater.toml (four slashes for an absolute path), or
`delta+s3://bucket/lake/orders`, reached as the AWS_* variables say.

**Positions** are versions of the table, with its identity: `12@9f36ac24-…`. **As-of** is the table's own time travel.
One version is one transaction. Nothing is installed, and nothing is written there: the table's log is the capture.

It proves what it must (decision 11): versions are numbered by whoever writes the table, one after the other; another
table in the same place has another identity; a version that was cleaned up is said to be gone. A column that was
dropped, or whose type was changed, is another column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from headwater.model.conditions import Condition, meets
from headwater.model.errors import HeadwaterError, LifeChanged, PositionTrimmed, SchemaChanged, UnknownName
from headwater.model.joins import one_by_one
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
from headwater.sources.columnar import held_type, matching
from headwater.sources.delta.versions import Versions
from headwater.storage import Storage

FEW_KEYS = 10_000
"""Up to so many keys the files' own statistics are asked which of them may have one."""


class DeltaSource:
    def __init__(self, spec: SourceSpec) -> None:
        place = spec.url.removeprefix("delta:///").removeprefix("delta+").rstrip("/")
        self._name = spec.name
        self._versions = Versions(Storage(place), f"source {spec.name}")
        self._table = TableName(spec.name, place.rpartition("/")[2])
        self._expected: Mapping[TableName, Identities] = {}

    @property
    def name(self) -> SourceName:
        return self._name

    # ── what is there ────────────────────────────────────────────────────────────────────────────────────────────

    def describe(self) -> Mapping[TableName, TableSchema]:
        table = self._versions.newest()
        columns = tuple(Column(f.name, held_type(f.type), str(f.type), f.nullable) for f in _schema(table))
        sizes = pa.table(table.get_add_actions(flatten=True)).column("num_records")
        rows = None if sizes.null_count else int(pc.sum(sizes).as_py() or 0)
        return {self._table: TableSchema(self._table, columns, (), (), rows, indexable=False)}

    def resolve(self, schema: str, table: str) -> TableName | None:
        return self._table if not schema and table.lower() == self._table.table.lower() else None

    def capture(self) -> Capture | None:
        return Capture(_identity(self._versions.newest()), frozenset([self._table]), {})

    def advice(self, tables: Sequence[TableName]) -> list[str]:
        kept = self._versions.newest().metadata().configuration
        said = kept.get("delta.deletedFileRetentionDuration", "a week, unless VACUUM says otherwise")
        return [f"old versions are kept for {said}; Headwater must not be away for longer"]

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        for table in tables:
            if table != self._table:
                raise UnknownName("table", str(table), [str(self._table)], f"at source {self.name}")
        self._versions.newest()
        return []

    def install(self, tables: Sequence[TableName]) -> list[str]:
        return self.plan_install(tables)

    def release(self, keep: Sequence[TableName]) -> list[str]:
        return []

    def remove(self) -> list[str]:
        return []

    # ── what is expected ─────────────────────────────────────────────────────────────────────────────────────────

    def identities(self, tables: Mapping[TableName, Sequence[str]]) -> Mapping[TableName, Identities]:
        table = self._versions.newest()
        return {name: _identities(table, columns) for name, columns in tables.items()}

    def expect(self, tables: Mapping[TableName, Identities]) -> None:
        self._expected = dict(tables)

    def check(self, at: Position, tables: Sequence[TableName]) -> None:
        self._versions.at(self._number(at, self._versions.newest()))

    def commit_times(self, transactions: Sequence[str]) -> Sequence[CommitTimes | None]:
        found: list[CommitTimes | None] = []
        for number in transactions:
            try:
                made = self._versions.read(int(number)).at
                found.append((made, made))
            except PositionTrimmed:
                found.append(None)
        return found

    # ── what happened ────────────────────────────────────────────────────────────────────────────────────────────

    def position(self) -> Position:
        table = self._versions.newest()
        return Position(f"{table.version()}@{_identity(table)}")

    def waiting(self, after: Position) -> int:
        table = self._versions.newest()
        return max(0, table.version() - self._number(after, table))

    def poll(self, after: Position, tables: Mapping[TableName, Sequence[str]], limit: int) -> Poll:
        newest = self._versions.newest()
        begun, end = self._number(after, newest), newest.version()
        schemas = {name: self._columns(newest, columns) for name, columns in tables.items()}
        told: list[tuple[str, object]] = []
        changes = {name: [_counted(schema).empty_table()] for name, schema in schemas.items()}
        number, rows = begun, 0
        while number < end and (rows < limit or number == begun):
            number += 1
            version = self._versions.read(number)
            found = {name: self._versions.changes(version, schema) for name, schema in schemas.items()}
            if any(part.num_rows for part in found.values()):
                for name, part in found.items():
                    ordinal = pa.array(np.full(part.num_rows, len(told)), pa.int64())
                    changes[name].append(part.append_column(ORDINAL, ordinal))
                    rows += part.num_rows
                told.append((str(number), version.at))
        nothing = pa.nulls(len(told))
        transactions = pa.table(
            [[label for label, _ in told], [at for _, at in told], nothing, nothing.cast(pa.int32())],
            schema=TRANSACTIONS,
        )
        place = Position(f"{number}@{_identity(newest)}")
        return Poll(place, transactions, {name: pa.concat_tables(p) for name, p in changes.items()}, number < end)

    def trim(self, below: Position) -> int:
        """What is kept is for the table's owner to say."""
        return 0

    # ── as of a position ─────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, question: Question, at: Position) -> Iterator[pa.RecordBatch]:
        names = list(dict.fromkeys([*question.columns, *question.key, *(c.column for c in question.conditions)]))
        where = None
        if question.key and 0 < question.keys.num_rows <= FEW_KEYS:
            where = pc.field(question.key[0]).isin(pc.unique(question.keys.column(question.key[0])))
        yield from matching(self._state(at, names, where, (0, 1)), question).to_batches()

    def ask_join(self, question: JoinQuestion, at: Position) -> Iterator[pa.RecordBatch]:
        schema = _schema(self._versions.newest())
        yield from one_by_one(
            question, lambda one: self.ask(one, at), lambda _, name: held_type(schema.field(name).type)
        )

    def chunks(self, table: TableName, target_rows: int) -> list[Chunk]:
        rows = self.describe()[table].rows
        parts = 1 if rows is None else max(1, min(64, rows // max(target_rows, 1)))
        return [Chunk(table, n, (str(parts),), None if rows is None else rows // parts) for n in range(parts)]

    def scan(
        self, chunk: Chunk, columns: Sequence[str], at: Position, conditions: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        names = list(dict.fromkeys([*columns, *(c.column for c in conditions)]))
        rows = meets(self._state(at, names, None, (chunk.number, int(chunk.bounds[0]))), conditions)
        yield from rows.select([*columns, COUNT]).to_batches()

    def close(self) -> None:
        pass

    # ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _state(
        self, at: Position, names: Sequence[str], where: pc.Expression | None, part: tuple[int, int]
    ) -> pa.Table:
        newest = self._versions.newest()
        number, schema = self._number(at, newest), self._columns(newest, names)
        held = set(_schema(self._versions.at(number)).names)
        if missing := [name for name in names if name not in held]:
            raise PositionTrimmed(f"source {self.name}: version {number} has no column {missing[0]}", "ask later")
        return self._versions.state(number, schema, where, part)

    def _number(self, at: Position, table: DeltaTable) -> int:
        number, _, life = at.partition("@")
        try:
            found = int(number)
        except ValueError:
            raise HeadwaterError(f"{at[:80]!r} is not a position of a Delta source", "load its views anew") from None
        if life != _identity(table) or found > table.version():
            raise LifeChanged(
                f"source {self.name} is not the table that the views were loaded from: it was made anew, or restored",
                "'headwater apply' loads the views over it again",
            )
        return found

    def _columns(self, table: DeltaTable, names: Sequence[str]) -> pa.Schema:
        """These columns as they are now; an error if one is not what was expected."""
        now, expected = _identities(table, names), self._expected.get(self._table, {})
        for name in names:
            if name in expected and (became := expected[name].became(now[name])):
                raise SchemaChanged(
                    f"{self._table}.{name} {became}", "'headwater apply' loads the views that use it again"
                )
        schema = _schema(table)
        return pa.schema([pa.field(name, held_type(schema.field(name).type)) for name in names])


def _identity(table: DeltaTable) -> str:
    return str(table.metadata().id)


def _schema(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def _identities(table: DeltaTable, names: Sequence[str]) -> Identities:
    schema, life = _schema(table), _identity(table)
    for name in names:
        if name not in schema.names:
            raise SchemaChanged(f"the table has no column {name!r} any more", "change the views that use it")
    return {name: Identity(f"{life}.{name}.{schema.field(name).type}") for name in names}


def _counted(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*schema, pa.field(COUNT, pa.int64()), pa.field(ORDINAL, pa.int64())])
