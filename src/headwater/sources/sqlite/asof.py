"""The as-of questions over one read transaction: `R(p) = R(now) − changes after p` (TID rules, eq. 2).

A scan is one statement. An ask goes through the table's own index, one bound execution per key in key order; the
changes after `p` are read once and matched with the keys in Arrow, whose equality is exact by nature. Key types with
too many spellings to look up (a timestamp with any offset) are matched in Arrow for the base rows as well.

A join is asked table by table inside one read transaction: the library is in this process, so a question costs what it
reads and not a way there and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from headwater.model.conditions import Condition, meets
from headwater.model.joins import one_by_one
from headwater.model.names import TableName
from headwater.model.source import COUNT, ORDINAL, Chunk, JoinQuestion, Question
from headwater.sources.sqlite.connection import Connection
from headwater.sources.sqlite.files import quote
from headwater.sources.sqlite.read import Part, Shape, Table, pushed
from headwater.sources.sqlite.unfit import OddRows

_LOG = "_headwater_changes"
_INDEX = "__index"
_ROW = "__row"


Named = Callable[[], AbstractContextManager[Connection]]
"""Opens a read in which an odd row is looked for, to name it."""


@dataclass(frozen=True)
class Scan:
    """One statement (`read`), and what its rows mean (`rows`), which may wait until the read has ended."""

    table: Table
    chunk: Chunk
    columns: Sequence[str]
    conditions: Sequence[Condition] = ()

    @property
    def shape(self) -> Shape:
        return Shape(self.table, _needed(self.columns, self.conditions))

    def read(self, connection: Connection, at: int) -> Iterator[pa.RecordBatch]:
        table, chunk, conditions = self.table, self.chunk, self.conditions
        table.check_since([*self.shape.columns, *chunk.bounds[:1]], at)
        here, log = table.columns(), table.slots()
        parts = [
            Part(here, quote(table.name.table), [*_within(chunk, here), *_where(table, conditions, here)], ["1"]),
            Part(log, _LOG, [*_after(table, at), *_within(chunk, log), *_where(table, conditions, log)], ["-count"]),
        ]
        return self.shape.raw(connection, parts)

    def rows(self, read: Iterable[pa.RecordBatch], named: Named) -> Iterator[pa.RecordBatch]:
        odd = OddRows(self.table, self.shape.columns, self.conditions)
        for batch, misfits in self.shape.decoded(read):
            whole = odd.take_out(batch, misfits)
            yield from _meeting(self.table, whole, self.conditions).select([*self.columns, COUNT]).to_batches()
        odd.check(named)


def answer(connection: Connection, table: Table, question: Question, at: int, named: Named) -> Iterator[pa.RecordBatch]:
    key, conditions = question.key, question.conditions
    codecs = [table.codec(c) for c in key]
    keys = pa.table([question.keys.column(n).cast(c.type) for n, c in enumerate(codecs)], names=list(key))
    shape = Shape(table, _needed([*question.columns, *key], conditions))
    table.check_since(shape.columns, at)
    wanted = [ORDINAL, *question.columns, COUNT]

    here, log = table.columns(), table.slots()
    base = Part(here, quote(table.name.table), _where(table, conditions, here), ["1"])
    since = Part(log, _LOG, [*_after(table, at), *_where(table, conditions, log)], ["-count"])

    found = Shape(table, _needed(question.columns, conditions), (ORDINAL, COUNT))
    odd = OddRows(table, found.columns, conditions)

    def is_asked_for(row: pa.Table, values: Mapping[str, str]) -> bool:
        """A key that its type cannot hold equals none."""
        return not set(key) & set(values) and bool(_match(row, keys).num_rows)

    def matched(part: Part) -> Iterator[pa.RecordBatch]:
        for batch, misfits in shape.read(connection, [part]):
            whole = odd.take_out(batch, misfits, is_asked_for)
            yield from _match(_meeting(table, whole, conditions), keys).select(wanted).to_batches()

    yield from matched(since)
    if any(c.spell is None for c in codecs):
        yield from matched(base)
        odd.check(named)
        return

    equal = [_equals(table, c, here[c], f"?{n}") for n, c in enumerate(key, 2)]
    asked = Part(here, base.source, [*equal, *base.terms], ["?1", "1"])
    for ordinals, bound in _spelled(table, keys):
        for batch, misfits in found.read(connection, [asked], bound):
            rows = _meeting(table, odd.take_out(batch, misfits), conditions)
            place = rows.schema.get_field_index(ORDINAL)
            rows = rows.set_column(place, ORDINAL, ordinals.take(rows.column(ORDINAL)))
            yield from rows.select(wanted).to_batches()
    odd.check(named)


def answer_join(
    connection: Connection, tables: Mapping[TableName, Table], question: JoinQuestion, at: int, named: Named
) -> Iterator[pa.RecordBatch]:
    def ask(asked: Question) -> Iterator[pa.RecordBatch]:
        return answer(connection, tables[asked.table], asked, at, named)

    yield from one_by_one(question, ask, lambda table, column: tables[table].codec(column).type)


def _needed(columns: Sequence[str], conditions: Sequence[Condition]) -> tuple[str, ...]:
    """Condition columns are read too: whether a value fits its type is decided before what it is compared with."""
    return tuple(dict.fromkeys([*columns, *(c.column for c in conditions)]))


def _after(table: Table, at: int) -> list[str]:
    return [f"id > {at}", f"tbl = {table.captured.number}"]


def _within(chunk: Chunk, where: Mapping[str, str]) -> list[str]:
    """SQLite orders NULL < numbers < text < blobs, so the open last range has every odd value, NULL goes first."""
    if not chunk.bounds:
        return []
    column, collation, low, high = chunk.bounds
    name = where[column]
    if low and high:
        return [f"{name} >= {low} COLLATE {quote(collation)}", f"{name} < {high} COLLATE {quote(collation)}"]
    if high:
        return [f"({name} < {high} COLLATE {quote(collation)} OR {name} IS NULL)"]
    return [f"{name} >= {low} COLLATE {quote(collation)}"] if low else []


def _where(table: Table, conditions: Sequence[Condition], where: Mapping[str, str]) -> list[str]:
    return [sql for c in conditions if (sql := pushed(table, c, where[c.column]))]


def _meeting(table: Table, batch: pa.RecordBatch, conditions: Sequence[Condition]) -> pa.Table:
    """What SQL did not decide."""
    left = [c for c in conditions if pushed(table, c, "") is None]
    return meets(pa.Table.from_batches([batch]), left)


def _equals(table: Table, column: str, name: str, parameter: str) -> str:
    """Text through the column's own collation, which its index has, and then exactly."""
    kind = table.codec(column).type
    if kinds.is_string(kind) or kinds.is_temporal(kind):
        return f"{name} = {parameter} AND {name} = {parameter} COLLATE BINARY"
    return f"{name} = {parameter}"


def _spelled(table: Table, keys: pa.Table) -> Iterator[tuple[pa.ChunkedArray, pa.RecordBatch]]:
    """The keys as SQLite may hold them, sorted for the index: the ordinal of each row, and (row number, values…)."""
    names = keys.column_names
    groups = [_groups(table, c, keys.column(c).combine_chunks()) for c in names]
    for combination in product(*groups):
        spelled, *rest = combination
        for other in rest:
            spelled = spelled.join(other, _INDEX, join_type="inner")
        spelled = spelled.sort_by([(c, "ascending") for c in names]).combine_chunks()
        if spelled.num_rows:
            rows = pa.array(np.arange(spelled.num_rows))
            bound = pa.table([rows, *(spelled.column(c) for c in names)], names=[_ROW, *names])
            yield spelled.column(_INDEX), bound.combine_chunks().to_batches()[0]


def _groups(table: Table, column: str, keys: pa.Array) -> list[pa.Table]:
    spell = table.codec(column).spell
    assert spell is not None
    return [pa.table([indices, values], names=[_INDEX, column]) for indices, values in spell(keys)]


def _match(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """The rows whose key columns equal a row of `keys`, with that row's number as ORDINAL."""
    names = [f"__key{n}" for n in range(keys.num_columns)]
    left = pa.table([rows.column(c) for c in keys.column_names], names=names)
    left = left.append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
    right = keys.rename_columns(names).append_column(ORDINAL, pa.array(range(keys.num_rows), pa.int64()))
    pairs = left.join(right, names, join_type="inner").combine_chunks()
    return rows.take(pairs.column(_ROW)).append_column(ORDINAL, pairs.column(ORDINAL))
