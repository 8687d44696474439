"""What tables answer: what a snapshot shows of them, and what lies between it and the position that is asked about.

    R(P) = R(S) ± changes between P and S

Both ways of capture answer like this, and differ in where the changes are: `past.py` has them from the server's log,
`triggers/past.py` from tables beside those that are asked.

Equality is exact: an index finds what is equal by the column's own rules (case, accents, trailing spaces), which is
never less than what is asked for; what is equal by code points is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.conditions import Condition, meets
from headwater.model.errors import ValueUnfit
from headwater.model.names import TableName
from headwater.model.source import COUNT, ORDINAL, UNFIT, Chunk, Question
from headwater.sources.mariadb.catalog import MariaTable
from headwater.sources.mariadb.changes import answered, concatenated
from headwater.sources.mariadb.connection import Connection, quoted, rows, stream
from headwater.sources.mariadb.moments import Doubts
from headwater.sources.mariadb.types import MariaColumn, compared, fitted, from_texts, literal, may_be_unfit, selected

_KEYS = 1000
"""Per statement."""
_ROWS = 20_000
"""Per batch."""
_COMPARED = 50_000
"""Rows that are compared with the keys at a time."""

Changed = Callable[[MariaTable, Sequence[MariaColumn], Sequence[str]], Iterator[pa.Table]]
"""Of a table's columns: what is to be added to what the snapshot shows, with COUNT. Rows that do not meet the given
conditions, in SQL, may be left out."""


@dataclass(frozen=True)
class Answering:
    """A transaction that reads, and what it asks about."""

    connection: Connection
    tables: Mapping[TableName, MariaTable]
    changed: Changed
    doubts: Mapping[TableName, Doubts] = field(default_factory=dict)
    """Of tables whose rows are, here and there, not known to be in the snapshot: those come with the changes."""

    def ask(self, question: Question) -> Iterator[pa.RecordBatch]:
        table = self.tables[question.table]
        columns = [table.columns[name] for name in _read(question)]
        keys = [fitted(values, table.columns[c]) for c, values in zip(question.key, question.keys.columns, strict=True)]
        told = [ORDINAL, *question.columns, COUNT]
        sought = list(_sought(table, question.key, keys))
        if not sought:
            return
        for found in self.changed(table, columns, sought if len(sought) == 1 else ()):
            yield from self._told(_numbered(found, question, keys), question.conditions, told, table)
        pushed = _pushed(table, question.conditions)
        answers = (found for where in sought for found in self._selected(table, columns, [where, *pushed]))
        for found in _together(answers):
            yield from self._told(_numbered(found, question, keys), question.conditions, told, table)

    def scan(self, chunk: Chunk, names: Sequence[str], conditions: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
        table = self.tables[chunk.table]
        by = chunk.bounds[:1]
        every = dict.fromkeys([*names, *(c.column for c in conditions), *by])
        columns = [table.columns[name] for name in every]
        where = [_bounded(chunk), *_pushed(table, conditions)]
        for found in self.changed(table, columns, where):
            yield from self._told(_within(found, chunk), conditions, [*names, COUNT], table)
        for found in self._selected(table, columns, where):
            yield from self._told(found, conditions, [*names, COUNT], table)

    def _selected(self, table: MariaTable, columns: Sequence[MariaColumn], where: Sequence[str]) -> Iterator[pa.Table]:
        doubts = self.doubts.get(table.name)
        named = doubts is not None or any(map(may_be_unfit, columns))
        key = [table.columns[c] for c in table.key] if named else []
        every = [*columns, *(c for c in key if c.type is not None and c not in columns)]
        read = ", ".join(selected(quoted(c.name), c) for c in every) or "1"
        said = " AND ".join(w for w in where if w) or "TRUE"
        statement = f"SELECT {read} FROM {table.sql} WHERE {said}"
        for values in stream(self.connection, statement, len(every) or 1, _ROWS):
            found = answered(values[: len(every)], every, len(columns), table.key)
            found = found.append_column(COUNT, pa.array(np.ones(len(values[0]), np.int64)))
            if doubts is not None:
                keys = [from_texts(values[every.index(table.columns[c])], table.columns[c])[0] for c in doubts.key]
                found = found.filter(doubts.untouched(keys))
            yield found

    def _told(
        self, found: pa.Table, conditions: Sequence[Condition], names: Sequence[str], table: MariaTable
    ) -> Iterator[pa.RecordBatch]:
        found = meets(found, conditions)
        if UNFIT in found.column_names and found.num_rows:
            wrong = found.column(UNFIT).drop_null()
            if len(wrong):
                raise ValueUnfit(
                    f"{table.name} holds a value that its type here cannot: {wrong[0].as_py()}",
                    "correct it at the source (dates are of the years 1 to 9999, decimals have 38 digits at most), or"
                    " leave the column out of the view",
                )
        if found.num_rows:
            yield from found.select(names).combine_chunks().to_batches()


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read(question: Question) -> list[str]:
    return list(dict.fromkeys([*question.columns, *question.key, *(c.column for c in question.conditions)]))


def _together(answers: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The answers of some statements as one: each is compared with all keys of its question."""
    held: list[pa.Table] = []
    for answer in answers:
        held.append(answer)
        if sum(one.num_rows for one in held) >= _COMPARED:
            yield concatenated(held)
            held = []
    if held:
        yield concatenated(held)


def _sought(table: MariaTable, key: tuple[str, ...], keys: Sequence[pa.Array]) -> Iterator[str]:
    """What finds the keys, statement by statement; nothing if there is none."""
    if not key:
        yield ""
        return
    columns = [table.columns[c] for c in key]
    names = [compared(quoted(c.name), c) for c in columns]
    possible = [row for row in zip(*(k.to_pylist() for k in keys), strict=True) if None not in row]
    for begin in range(0, len(possible), _KEYS):
        part = possible[begin : begin + _KEYS]
        if len(key) == 1:
            yield f"{names[0]} IN ({', '.join(literal(value) for (value,) in part)})"
        else:
            pairs = (" AND ".join(f"{n} = {literal(v)}" for n, v in zip(names, row, strict=True)) for row in part)
            yield f"(({') OR ('.join(pairs)}))"


def _numbered(found: pa.Table, question: Question, keys: Sequence[pa.Array]) -> pa.Table:
    """The rows that have one of the keys, exactly, with the number of it."""
    if not question.key:
        return found.append_column(ORDINAL, pa.array(np.zeros(found.num_rows, np.int64)))
    mine, theirs = np.zeros(found.num_rows, np.int64), np.zeros(question.keys.num_rows, np.int64)
    valid, possible = np.ones(found.num_rows, np.bool_), np.ones(question.keys.num_rows, np.bool_)
    for name, values in zip(question.key, keys, strict=True):
        distinct = values.unique().drop_null()
        for codes, array, good in ((mine, found.column(name), valid), (theirs, values, possible)):
            code = pc.fill_null(pc.index_in(array, value_set=distinct), -1).to_numpy(zero_copy_only=False)
            good &= code >= 0
            codes *= len(distinct) + 1
            codes += code
    order = np.argsort(np.where(possible, theirs, np.iinfo(np.int64).max), kind="stable")
    ranked = np.where(possible, theirs, np.iinfo(np.int64).max)[order]
    place = np.searchsorted(ranked, mine)
    inside = valid & (place < len(ranked))
    inside[inside] &= ranked[place[inside]] == mine[inside]
    kept = np.flatnonzero(inside)
    return found.take(pa.array(kept)).append_column(ORDINAL, pa.array(order[place[kept]], pa.int64()))


# ── conditions and chunks ────────────────────────────────────────────────────────────────────────────────────────


def _pushed(table: MariaTable, conditions: Sequence[Condition]) -> list[str]:
    """What the server may leave out already. It keeps what it compares otherwise than we do; that is left out here."""
    return [text for c in conditions if (text := _condition(table.columns[c.column], c))]


def _condition(column: MariaColumn, condition: Condition) -> str:
    kind, name, value = column.type, quoted(column.name), condition.value
    if kind is None or pa.types.is_floating(kind) or column.base in ("time", "json"):
        return ""
    if value is None:
        return "" if pa.types.is_temporal(kind) else f"{name} {condition.operator}"
    if (pa.types.is_string(kind) or pa.types.is_binary(kind)) and condition.operator not in ("=", "in"):
        return ""
    if isinstance(value, tuple):
        return f"{name} IN ({', '.join(map(literal, value))})" if value else "FALSE"
    return f"{name} {condition.operator} {literal(value)}"


def _bounded(chunk: Chunk) -> str:
    if not chunk.bounds:
        return ""
    name, low, high = quoted(chunk.bounds[0]), *chunk.bounds[1:]
    if not low:
        return f"({name} < {high} OR {name} IS NULL)"
    return f"{name} >= {low}" + (f" AND {name} < {high}" if high else "")


def _within(found: pa.Table, chunk: Chunk) -> pa.Table:
    """The same of rows that are here. Rows without a value belong to the first chunk."""
    if not chunk.bounds:
        return found
    name, low, high = chunk.bounds
    values = found.column(name).cast(pa.int64())
    if low:
        found = found.filter(pc.greater_equal(values, int(low)))
        values = found.column(name).cast(pa.int64())
    if high:
        inside = pc.less(values, int(high))
        found = found.filter(pc.if_else(pc.is_null(inside), not low, inside))
    return found


def chunk_bounds(connection: Connection, table: MariaTable, parts: int) -> list[tuple[str, ...]]:
    """Parts of a table by a whole number that an index has first; evenly where numbers lie close, else by counting."""
    by = [index[0] for index in (table.key, *table.indexes) if index]
    column = next((c for c in by if pa.types.is_integer(table.columns[c].type or pa.null())), None)
    if column is None or parts < 2:
        return [()]
    name = quoted(column)
    ((low, high, count),) = rows(connection, f"SELECT MIN({name}), MAX({name}), COUNT({name}) FROM {table.sql}")
    if low is None or high == low:
        return [()]
    if high - low <= 4 * count:
        step = max(1, (high - low + 1) // parts)
        cuts = [low + step * n for n in range(1, parts) if low + step * n <= high]
    else:
        size, cuts = max(1, count // parts), []
        after = f"{name} >= {low}"
        while len(cuts) < parts - 1:
            found = rows(
                connection, f"SELECT {name} FROM {table.sql} WHERE {after} ORDER BY {name} LIMIT 1 OFFSET {size}"
            )
            if not found or (cuts and found[0][0] == cuts[-1]):
                break
            cuts.append(found[0][0])
            after = f"{name} >= {cuts[-1]}"
    ends = ["", *map(str, cuts), ""]
    return [(column, low, high) for low, high in itertools.pairwise(ends)] if cuts else [()]
