"""Joins at a source: which columns may be joined there, and the join asked table by table where it cannot be at once.

Invariant of `table_by_table`: after table i its rows are, with counts multiplied, the join of the keys with tables 0 …
i as of the position that every answer is of. Answers are bags with signed counts and the join is linear in each of
them, so it does not matter that only their folds are promised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from headwater.model.arrow import pc
from headwater.model.changelog import COUNT, consolidate
from headwater.model.names import TableName
from headwater.model.source import ORDINAL, JoinQuestion, Question

Ints = npt.NDArray[np.int64]


def joinable(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether every engine finds values of these types equal exactly when Spark does. Whole numbers are, of any width;
    texts, compared by code points; days; truth values. Not floats (NaN, −0.0, rounding), not points in time (one has
    many spellings), not decimals (a NUMERIC holds what its type here does not), not bytes."""
    if kinds.is_integer(left) and kinds.is_integer(right):
        return True
    return bool(left == right and (kinds.is_string(left) or kinds.is_date32(left) or kinds.is_boolean(left)))


def table_by_table(question: JoinQuestion, ask: Callable[[Question], pa.Table]) -> pa.Table | None:
    """The answer to a join question, from answers about each of its tables. None if nothing was found, and then nothing
    is known of its columns."""
    names = [_name(-1, str(n)) for n in range(len(question.key))]
    size = question.keys.num_rows if question.key else 1  # without a key everything is wanted, as ordinal 0
    rows = pa.table({ORDINAL: np.arange(size), COUNT: np.ones(size, np.int64)})
    for name, column in zip(names, question.keys.columns, strict=True):
        rows = rows.append_column(name, column)
    for number, joined in enumerate(question.tables):
        pairs = [(c, names[n]) for n, (table, c) in enumerate(question.key) if table == number]
        pairs += [(c, _name(table, other)) for c, table, other in joined.on]
        near = dict(reversed(pairs))  # a column that must equal two is asked for by the first
        near = {c: near[c] for c in question.reached_by(number)}
        rows, keys, numbers = _distinct(rows, list(near.values()))
        if not rows.num_rows:
            return None
        asked = keys.rename_columns(list(near)) if near else pa.table({})
        answer = ask(Question(joined.table, tuple(near), asked, _read(question, number), joined.conditions))
        answer = consolidate(answer)  # lest rows that changed often since, at two tables, meet in all their versions
        rows = _multiplied(rows, numbers, answer.rename_columns([_renamed(number, c) for c in answer.column_names]))
        for column, name in pairs:
            if near[column] != name:
                rows = rows.filter(_equal(rows.column(_name(number, column)), rows.column(name)))
    wanted = [ORDINAL, *(_name(n, c) for n, c in question.told), COUNT]
    return consolidate(rows.select(wanted)).rename_columns([ORDINAL, *question.columns, COUNT])


def one_by_one(
    question: JoinQuestion,
    answer: Callable[[Question], Iterable[pa.RecordBatch]],
    kind: Callable[[TableName, str], pa.DataType],
) -> Iterator[pa.RecordBatch]:
    """For an adapter: a join question answered from answers about each table. `kind` is a column's type."""

    def asked(one: Question) -> pa.Table:
        fields = [(column, kind(one.table, column)) for column in one.columns]
        schema = pa.schema([(ORDINAL, pa.int64()), *fields, (COUNT, pa.int64())])
        return pa.Table.from_batches([batch.cast(schema) for batch in answer(one)], schema)

    found = table_by_table(question, asked)
    if found is not None:
        yield from found.to_batches()


def _name(table: int, column: str) -> str:
    return f"{table}.{column}"


def _renamed(table: int, column: str) -> str:
    return column if column in (ORDINAL, COUNT) else _name(table, column)


def _read(question: JoinQuestion, number: int) -> tuple[str, ...]:
    """The columns of a table that are told, that later ones are joined by, or that must equal more than one."""
    later = [other for joined in question.tables for _, table, other in joined.on if table == number]
    ends = [c for n, c in question.key if n == number] + [c for c, _, _ in question.tables[number].on]
    twice = [c for c in ends if ends.count(c) > 1]
    return tuple(dict.fromkeys([*question.tables[number].columns, *later, *twice]))


def _distinct(rows: pa.Table, columns: Sequence[str]) -> tuple[pa.Table, pa.Table, Ints]:
    """The rows without a NULL in these columns, their distinct values there, and the number of each row's."""
    for column in columns:
        rows = rows.filter(pc.is_valid(rows.column(column)))
    number = np.zeros(rows.num_rows, np.int64)
    for column in columns:
        encoded = rows.column(column).combine_chunks().dictionary_encode()
        codes = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
        _, number = np.unique(number * max(1, len(encoded.dictionary)) + codes, return_inverse=True)
    _, first = np.unique(number, return_index=True)
    return rows, rows.select(columns).take(pa.array(first)), np.asarray(number, np.int64)


def _multiplied(rows: pa.Table, numbers: Ints, answer: pa.Table) -> pa.Table:
    """Each row with each row of the answer that has its number as ordinal."""
    ordinals = answer.column(ORDINAL).to_numpy()
    order = np.argsort(ordinals, kind="stable")
    left = np.searchsorted(ordinals[order], numbers, "left")
    matches = np.searchsorted(ordinals[order], numbers, "right") - left
    which = np.repeat(np.arange(len(numbers)), matches)
    starts = np.repeat(left - np.concatenate([[0], np.cumsum(matches)[:-1]]).astype(np.int64), matches)
    found = order[starts + np.arange(len(which))]
    mine, theirs = rows.take(pa.array(which)), answer.take(pa.array(found))
    counts = mine.column(COUNT).to_numpy() * theirs.column(COUNT).to_numpy()
    mine = mine.set_column(mine.schema.get_field_index(COUNT), COUNT, pa.array(counts, pa.int64()))
    for name in theirs.column_names:
        if name not in (ORDINAL, COUNT):
            mine = mine.append_column(name, theirs.column(name))
    return mine


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    if left.type != right.type:  # whole numbers of two widths
        left, right = left.cast(pa.int64()), right.cast(pa.int64())
    return pc.equal(left, right)
