"""Time as a source: a view that compares a column with now() reads the clock, and rows come and go as time passes.

    clock.now     one row: `at`, the last tick
    clock.today   one row: `day`, its date in UTC

A tick is a transaction that replaces the row, and a position is the moment of a tick, so any state of the clock is told
by its position alone: nothing is captured, kept or trimmed. Ticks nobody asked for did not happen: after a night in
which nothing ran there is one, from the evening to the morning.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from headwater.model.clock import COLUMN, NOW, TODAY
from headwater.model.conditions import Condition, meets
from headwater.model.errors import UnknownName
from headwater.model.names import CLOCK, Position, SourceName, TableName
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

_COLUMNS: Mapping[TableName, pa.Field] = {
    NOW: pa.field(COLUMN[NOW], pa.timestamp("us", "UTC")),
    TODAY: pa.field(COLUMN[TODAY], pa.date32()),
}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

present: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)  # noqa: E731 (tests let time pass as they like)


class ClockSource:
    """`clock://10` ticks every ten seconds, at whole multiples of them."""

    def __init__(self, spec: SourceSpec) -> None:
        self._name = spec.name
        self._every = dt.timedelta(seconds=float(spec.url.removeprefix("clock://")))

    @property
    def name(self) -> SourceName:
        return self._name

    def describe(self) -> Mapping[TableName, TableSchema]:
        return {
            t: TableSchema(t, (Column(f.name, f.type, str(f.type), False),), (), (), 1) for t, f in _COLUMNS.items()
        }

    def resolve(self, schema: str, table: str) -> TableName | None:
        found = TableName(CLOCK, table.lower())
        return found if not schema and found in _COLUMNS else None

    def capture(self) -> Capture | None:
        return Capture("time", frozenset(_COLUMNS), {})

    def advice(self, tables: Sequence[TableName]) -> list[str]:
        return []

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        for table in tables:
            if table not in _COLUMNS:
                raise UnknownName("table", table.table, [t.table for t in _COLUMNS], "of the clock")
        return []

    def install(self, tables: Sequence[TableName]) -> list[str]:
        return self.plan_install(tables)

    def release(self, keep: Sequence[TableName]) -> list[str]:
        return []

    def remove(self) -> list[str]:
        return []

    def identities(self, tables: Mapping[TableName, Sequence[str]]) -> Mapping[TableName, Identities]:
        return {table: {column: Identity(f"{table}.{column}") for column in names} for table, names in tables.items()}

    def expect(self, tables: Mapping[TableName, Identities]) -> None:
        """Time stays what it is."""

    def check(self, at: Position, tables: Sequence[TableName]) -> None:
        moment(at)

    def commit_times(self, transactions: Sequence[str]) -> Sequence[CommitTimes | None]:
        return [(moment(t), moment(t)) for t in transactions]

    def position(self) -> Position:
        """The last tick there could have been."""
        ticks = (present() - _EPOCH) // self._every
        return Position((_EPOCH + ticks * self._every).isoformat())

    def poll(self, after: Position, tables: Mapping[TableName, Sequence[str]], limit: int) -> Poll:
        end = max(self.position(), after, key=moment)
        changed = [t for t in tables if _value(t, after) != _value(t, end)]
        ticks = [end] if changed else []
        moments = [moment(tick) for tick in ticks]
        told = pa.table([ticks, moments, [None] * len(ticks), [None] * len(ticks)], schema=TRANSACTIONS)
        return Poll(end, told, {table: _replaced(table, after, end) for table in changed})

    def ask(self, question: Question, at: Position) -> Iterator[pa.RecordBatch]:
        rows = meets(_row(question.table, at), question.conditions)
        keys = list(zip(*(column.to_pylist() for column in question.keys.columns), strict=True))
        value = tuple(_value(question.table, at) for _ in question.key)
        if rows.num_rows and value in keys:
            ordinal = pa.array([keys.index(value)], pa.int64())
            yield from rows.select([*question.columns, COUNT]).add_column(0, ORDINAL, ordinal).to_batches()

    def ask_join(self, question: JoinQuestion, at: Position) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError("the tables of the clock are never joined with each other")

    def chunks(self, table: TableName, target_rows: int) -> list[Chunk]:
        return [Chunk(table, 0, (), 1)]

    def scan(
        self, chunk: Chunk, columns: Sequence[str], at: Position, conditions: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        yield from meets(_row(chunk.table, at), conditions).select([*columns, COUNT]).to_batches()

    def trim(self, below: Position) -> int:
        return 0

    def waiting(self, after: Position) -> int:
        """A tick that was not told yet is no change that anybody waits for: time is never caught up with."""
        return 0

    def close(self) -> None:
        pass


def moment(position: str) -> dt.datetime:
    return dt.datetime.fromisoformat(position)


def _value(table: TableName, at: Position) -> dt.datetime | dt.date:
    return moment(at) if table == NOW else moment(at).date()


def _row(table: TableName, at: Position) -> pa.Table:
    field = _COLUMNS[table]
    return pa.table([pa.array([_value(table, at)], field.type), pa.array([1], pa.int64())], names=[field.name, COUNT])


def _replaced(table: TableName, before: Position, after: Position) -> pa.Table:
    field = _COLUMNS[table]
    values = pa.array([_value(table, before), _value(table, after)], field.type)
    counts, ordinals = pa.array([-1, 1], pa.int64()), pa.array([0, 0], pa.int64())
    return pa.table([values, counts, ordinals], names=[field.name, COUNT, ORDINAL])
