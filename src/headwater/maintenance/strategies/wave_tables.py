"""Rows as the engine's wave has them, Arrow tables, and as the contract has them, bags: there and back.

The wave takes a journal, asks with tables of keys, and returns the changelog of the join of all occurrences. What the
engine has others do around it is done here row by row: sources check the conditions on their tables, Spark the rest of
the conditions, and computes the view's columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headwater.algebra.bag import Bag, Row
from headwater.algebra.expressions import compiled
from headwater.algebra.spj import Key, key_of
from headwater.maintenance.strategies.contract import StrategySetting, Update
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import TableName
from headwater.model.source import ORDINAL, Question

Matches = Sequence[tuple[int, Row, int]]
"""Rows that match the keys of a question: the key's number, the row, its count."""


class WaveTables:
    """The tables of one view's wave."""

    def __init__(self, setting: StrategySetting) -> None:
        self._view = setting.view
        self._types = _types(setting)

    def journal(self, updates: Sequence[Update]) -> dict[TableName, pa.Table]:
        """What a batch changed, table by table; its transactions are numbered from 1."""
        rows: dict[TableName, list[tuple[Row, int, int]]] = {t: [] for t in self._view.tables}
        for n, update in enumerate(updates, 1):
            for table, change in update.changes.items():
                if table in rows:
                    rows[table].extend((row, count, n) for row, count in change)
        return {
            table: pa.table(
                [
                    *_columns([row for row, _, _ in changed], self._types[table]),
                    pa.array([count for _, count, _ in changed], pa.int64()),
                    pa.array([n for _, _, n in changed], pa.int64()),
                ],
                [*self._types[table].names, COUNT, SEQ],
            )
            for table, changed in rows.items()
        }

    def keys(self, question: Question) -> tuple[tuple[int, ...], tuple[Key, ...]]:
        """At which positions of the table's rows a question has its key, and the keys; one empty key asks for all."""
        names = self._types[question.table].names
        positions = tuple(names.index(c) for c in question.key)
        if not positions:
            return (), ((),)
        keys = zip(*(question.keys.column(c).to_pylist() for c in question.key), strict=True)
        key_at = key_of(tuple(range(len(positions))))
        return positions, tuple(key_at(key) for key in keys)

    def answer(self, question: Question, matches: Matches) -> pa.Table:
        """As the engine's sources answer: conditions met, ORDINAL, the columns, COUNT."""
        types = self._types[question.table]
        view, table = self._view, question.table
        occurrence = next(
            i
            for i, o in enumerate(view.view.occurrences)
            if o.table == table and o.columns == question.columns and o.conditions == question.conditions
        )
        kept = [(n, view.reduced(occurrence, Bag({row: count}))) for n, row, count in matches]
        rows = [(n, row, count) for n, bag in kept for row, count in bag]
        schema = pa.schema([types.field(c) for c in question.columns])
        return pa.table(
            [
                pa.array([n for n, _, _ in rows], pa.int64()),
                *_columns([row for _, row, _ in rows], schema),
                pa.array([count for _, _, count in rows], pa.int64()),
            ],
            [ORDINAL, *question.columns, COUNT],
        )

    def outputs(self, core: pa.Table) -> dict[int, Bag]:
        """Rows of V by transaction number, from the core's changelog."""
        view = self._view.view
        names = [n for n in core.column_names if n not in (COUNT, SEQ)]
        holds = [compiled(text, names) for text in view.residual]
        outputs = [compiled(o.expression, names) for o in view.outputs]
        found: dict[int, list[tuple[Row, int]]] = {}
        columns = [core.column(n).to_pylist() for n in names]
        counts, numbers = core.column(COUNT).to_pylist(), core.column(SEQ).to_pylist()
        for i, (count, n) in enumerate(zip(counts, numbers, strict=True)):
            row = tuple(column[i] for column in columns)
            if all(h(row) is True for h in holds):
                found.setdefault(n, []).append((tuple(o(row) for o in outputs), count))
        return {n: Bag.summed(rows) for n, rows in found.items()}


def _columns(rows: Sequence[Row], schema: pa.Schema) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]


def _types(setting: StrategySetting) -> dict[TableName, pa.Schema]:
    """What the sources tell about the columns, else what the initial rows do; integers where nothing does."""
    found = {}
    for table, columns in setting.view.columns.items():
        if table in setting.types:
            found[table] = setting.types[table]
            continue
        rows = list(setting.tables[table].counts)
        types = [pa.array([row[i] for row in rows]).type for i in range(len(columns))]
        found[table] = pa.schema(
            [(c, pa.int64() if pa.types.is_null(t) else t) for c, t in zip(columns, types, strict=True)]
        )
    return found
