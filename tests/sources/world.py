"""The oracle of the contract suite: a rig, and a plain fold of everything that was written to it."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headwater.model.conditions import Condition
from headwater.model.names import Position, TableName
from headwater.model.source import COUNT, ORDINAL, Poll, Question, Source

from .rigs import Change, Delete, Insert, Rig, Row

Bag = Counter[tuple[Any, ...]]


def comparable(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.time) else value


def fold(batches: Iterable[pa.RecordBatch | pa.Table], columns: Sequence[str]) -> Bag:
    """Group by the columns, sum the counts, drop zeros; nothing may be negative."""
    bag: Bag = Counter()
    for batch in batches:
        assert batch.schema.field(COUNT).type == pa.int64()
        for row in batch.to_pylist():
            bag[tuple(comparable(row[c]) for c in columns)] += row[COUNT]
    return Counter({row: n for row, n in bag.items() if n})


def signed(changes: Iterable[Change], table: TableName) -> Bag:
    bag: Bag = Counter()
    for change in changes:
        if change.table == table:
            if isinstance(change, Insert):
                bag[tuple(change.row.values())] += 1
            elif isinstance(change, Delete):
                bag[tuple(change.row.values())] -= 1
            else:
                bag[tuple(change.old.values())] -= 1
                bag[tuple(change.new.values())] += 1
    return Counter({row: n for row, n in bag.items() if n})


def added(*bags: Bag) -> Bag:
    total: Bag = Counter()
    for bag in bags:
        for row, n in bag.items():
            total[row] += n
    return Counter({row: n for row, n in total.items() if n})


class World:
    """Tables under capture, their states after every transaction, and the positions of those states."""

    def __init__(self, rig: Rig, tables: Mapping[TableName, Sequence[str]]) -> None:
        self.rig = rig
        self.tables = {table: list(columns) for table, columns in tables.items()}
        self.source: Source = rig.source()
        self.source.install(list(tables))
        self.states: list[dict[TableName, Bag]] = [{table: Counter() for table in tables}]
        self.positions: list[Position] = [self.source.position()]
        self.transactions: list[tuple[Change, ...]] = []

    def commit(self, *changes: Change, part_of: tuple[str, int] | None = None) -> Position:
        self.rig.transaction(*changes, part_of=part_of)
        self.states.append({t: added(bag, signed(changes, t)) for t, bag in self.states[-1].items()})
        self.positions.append(self.source.position())
        self.transactions.append(changes)
        return self.positions[-1]

    def state(self, table: TableName, at: Position) -> Bag:
        return self.states[self.positions.index(at)][table]

    def scan(
        self,
        table: TableName,
        at: Position,
        columns: Sequence[str] = (),
        conditions: Sequence[Condition] = (),
        target_rows: int = 1_000_000,
    ) -> Bag:
        columns = columns or self.tables[table]
        return added(
            *(
                fold(self.source.scan(chunk, columns, at, conditions), columns)
                for chunk in self.source.chunks(table, target_rows)
            )
        )

    def ask(
        self,
        table: TableName,
        key: Sequence[str],
        keys: Sequence[tuple[Any, ...]],
        at: Position,
        conditions: Sequence[Condition] = (),
    ) -> dict[tuple[Any, ...], Bag]:
        """Per key, the rows that answered it."""
        types = {c.name: c.type for c in self.source.describe()[table].columns}
        asked = pa.table(
            [pa.array([k[n] for k in keys], types[c]) for n, c in enumerate(key)],
            names=list(key),
        )
        columns = self.tables[table]
        question = Question(table, tuple(key), asked, tuple(columns), tuple(conditions))
        found = fold(self.source.ask(question, at), [ORDINAL, *columns])
        answer: dict[tuple[Any, ...], Bag] = {k: Counter() for k in keys}
        for (ordinal, *row), n in found.items():
            answer[keys[ordinal]][tuple(row)] += n
        return answer

    def expected(self, table: TableName, key: Sequence[str], keys: Sequence[tuple[Any, ...]], at: Position) -> Any:
        places = [self.tables[table].index(c) for c in key]
        state = self.state(table, at)
        return {k: Counter({row: n for row, n in state.items() if tuple(row[p] for p in places) == k}) for k in keys}

    def check(self, at: Position, ask_by: Mapping[TableName, Sequence[Sequence[str]]], target_rows: int = 7) -> None:
        """Every table as of `at`: whole, in chunks, and asked by every key it ever had and one it never had."""
        for table, columns in self.tables.items():
            assert self.scan(table, at) == self.state(table, at), f"scan of {table} at {at}"
            assert self.scan(table, at, target_rows=target_rows) == self.state(table, at), f"chunks of {table} at {at}"
            for key in ask_by.get(table, ()):
                places = [columns.index(c) for c in key]
                ever = {tuple(row[p] for p in places) for state in self.states for row in state[table]}
                keys = [k for k in ever if None not in k]
                if keys:
                    asked = self.ask(table, key, keys, at)
                    assert asked == self.expected(table, key, keys, at), f"ask of {table} by {key} at {at}"

    def poll(self, after: Position, limit: int = 1_000_000) -> Poll:
        return self.source.poll(after, self.tables, limit)

    def polled(self, poll: Poll) -> list[dict[TableName, Bag]]:
        """Per transaction, the signed rows of every table it touched. What undid itself is not worth telling."""
        found: list[dict[TableName, Bag]] = [{} for _ in range(poll.transactions.num_rows)]
        for table, rows in poll.changes.items():
            assert rows.schema.field(ORDINAL).type == pa.int64()
            for (ordinal, *row), n in fold([rows], [ORDINAL, *self.tables[table]]).items():
                found[ordinal].setdefault(table, Counter())[tuple(row)] += n
        return [one for one in found if one]

    def committed(self, first: int = 0, last: int | None = None) -> list[dict[TableName, Bag]]:
        """What a poll over these transactions should tell: each of them, or their sum where the source cannot."""
        told = [
            {table: bag for table in self.tables if (bag := signed(changes, table))}
            for changes in self.transactions[first:last]
        ]
        if not self.rig.exact_transactions and told:
            told = [{t: bag for t in self.tables if (bag := added(*(one.get(t, Counter()) for one in told)))}]
        return [one for one in told if one]


def rows_of(columns: Sequence[str], *rows: Sequence[Any]) -> list[Row]:
    return [dict(zip(columns, row, strict=True)) for row in rows]
