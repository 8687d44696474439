"""Questions of a wave and their answers, as of the batch's positions.

A source is asked by key, or read whole where that is cheaper; a view that this one reads is looked up in its files. The
wave sees no difference: an answer is rows, each with the number of the key it belongs to.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headwater.integrator.journal import within
from headwater.kept.files import FilesKept
from headwater.maintenance.block_wave import AskJoin
from headwater.maintenance.keys import key_set
from headwater.maintenance.wave import Ask
from headwater.model.changelog import COUNT, SEQ, fold
from headwater.model.conditions import meets
from headwater.model.errors import ConfigError
from headwater.model.joins import table_by_table
from headwater.model.names import TableName
from headwater.model.source import ORDINAL, Question, Source
from headwater.model.written import Tally
from headwater.runtime.compute.answers import ANSWERS, Signature, Wider
from headwater.runtime.compute.batch_changes import COUNTED, read_files
from headwater.runtime.compute.connections import connected, reachable
from headwater.runtime.compute.wave_work import WaveWork

Batches = Iterator[pa.RecordBatch]

ASK_COST = 7
"""Asking for one key costs about as much as scanning this many rows (SQLite, 1M rows: 2.2 µs a key, 0.34 µs a row)."""
QUESTION_COST = 20_000
"""A question more costs about as much as scanning this many rows: some milliseconds, if its source is near."""


def scans(question: Question, rows: int, leading: frozenset[str] | None = None) -> bool:
    """Whether reading the whole table is cheaper than asking for the keys: there are many, or no index finds them."""
    if not question.key or question.keys.num_rows * ASK_COST > rows:
        return True
    return leading is not None and leading.isdisjoint(question.key)


def answer(work: WaveWork, ask: Ask | AskJoin, tally: Tally) -> pa.Table:
    return answer_join(work, ask, tally) if isinstance(ask, AskJoin) else answer_question(work, ask, tally)


def answer_question(work: WaveWork, ask: Ask, tally: Tally, lane: int = 0) -> pa.Table:
    question, started = ask.question, time.perf_counter()
    _check_asked(work, question.table)
    if not question.table.is_view and reads_all(work, question):
        work.bears(work.sizes.get(question.table, 0))
    wider = None if question.table.is_view else work.wider.get((question.table, question.conditions))
    if wider is not None and question.key:
        return _answer_shared(work, ask, wider, tally)
    if question.table.is_view:
        tally.saved += 1
    else:
        tally.questions += 1
    tally.keys += question.keys.num_rows
    columns = [work.schemas[question.table].field(c) for c in question.columns]
    schema = pa.schema([pa.field(ORDINAL, pa.int64()), *columns, pa.field(COUNT, pa.int64())])
    batches: Batches
    if question.table.is_view:
        batches = _find(question, _parent_state(work, question).to_batches())
    elif reads_all(work, question):
        tally.scans += 1
        batches = _find(question, _scanned(work, question, lane))
    else:
        source = _expecting(work, question.table, lane)
        batches = source.ask(question, work.positions[question.table.source])
    rows = _gathered(batches, schema, work)
    work.bears(_pairs(rows, ask.meeting))
    tally.answers += rows.num_rows
    tally.bytes += question.keys.nbytes + rows.nbytes
    tally.seconds_asking += time.perf_counter() - started
    return rows


def _answer_shared(work: WaveWork, ask: Ask, wider: Wider, tally: Tally) -> pa.Table:
    """As another view of the group was told; or asked with what the others need besides."""
    question, table = ask.question, ask.question.table
    at = work.positions[table.source]
    signature = Signature(work.specs[table.source], at, table, question.key, question.conditions, wider.meant)
    meant = {**work.identities, table: {**work.identities.get(table, {}), **wider.identities}}
    together = replace(work, wider={}, identities=meant, schemas={**work.schemas, table: wider.columns})
    wide = replace(question, columns=tuple(wider.columns.names))
    rows, shared = ANSWERS.answer(signature, question, wide, lambda one: answer_question(together, Ask(one), tally))
    work.bears(_pairs(rows, ask.meeting))
    tally.shared += shared
    return rows


def answer_join(work: WaveWork, ask: AskJoin, tally: Tally) -> pa.Table:
    """One question, where asking for its keys is cheaper than reading the first table whole and asking the others; else
    as many as it has tables."""
    question, started = ask.question, time.perf_counter()
    tables = [joined.table for joined in question.tables]
    columns = [work.schemas[tables[number]].field(name) for number, name in question.told]
    named = [field.with_name(name) for field, name in zip(columns, question.columns, strict=True)]
    schema = pa.schema([pa.field(ORDINAL, pa.int64()), *named, pa.field(COUNT, pa.int64())])
    if question.keys.num_rows * ASK_COST > work.sizes.get(tables[0], 0) + QUESTION_COST * (len(tables) - 1):
        joined = table_by_table(question, lambda one: answer_question(work, Ask(one), tally))
        return schema.empty_table() if joined is None else joined.cast(schema)
    _check_asked(work, tables[0])
    tally.questions += 1
    tally.keys += question.keys.num_rows
    source = _expecting(work, tables[0])
    found = _gathered(source.ask_join(question, work.positions[tables[0].source]), schema, work)
    work.bears(_pairs(found, ask.meeting))
    tally.answers += found.num_rows
    tally.bytes += question.keys.nbytes + found.nbytes
    tally.seconds_asking += time.perf_counter() - started
    return found


def _check_asked(work: WaveWork, table: TableName) -> None:
    if not table.is_view and not work.specs[table.source].asked:
        raise ConfigError(
            f"view {work.view.name} needs rows of {table}, and source {table.source} is not to be asked (ask = false)",
            "run 'headwater apply': it keeps what the view needs",
        )


def _gathered(batches: Batches, schema: pa.Schema, work: WaveWork) -> pa.Table:
    parts, rows = [schema.empty_table()], 0
    with reachable():
        for batch in batches:
            rows += batch.num_rows
            work.bears(rows)
            parts.append(pa.Table.from_batches([batch]).select(schema.names).cast(schema))
    return pa.concat_tables(parts[1:] or parts)


def _pairs(answer: pa.Table, meeting: int) -> int:
    """No more pairs than these come of an answer and so many rows that it is joined with."""
    most = int(np.bincount(answer.column(ORDINAL).to_numpy()).max()) if answer.num_rows else 0
    return int(answer.num_rows) + most * meeting


def reads_all(work: WaveWork, question: Question) -> bool:
    return scans(question, work.sizes.get(question.table, 0), work.leading.get(question.table))


def _expecting(work: WaveWork, table: TableName, lane: int = 0) -> Source:
    """The source of a table, told which columns the view means."""
    source = connected(work.specs[table.source], work.lane + lane)
    source.expect(work.identities)
    return source


def _scanned(work: WaveWork, question: Question, lane: int) -> Batches:
    """Every row of a table as of the batch's positions."""
    source = _expecting(work, question.table, lane)
    at = work.positions[question.table.source]
    read = tuple(dict.fromkeys((*question.columns, *question.key)))
    for chunk in source.chunks(question.table, 4_000_000):
        yield from source.scan(chunk, read, at, question.conditions)


def _parent_state(work: WaveWork, question: Question) -> pa.Table:
    """The rows of a view at the batch's end that the question may be about."""
    names = dict.fromkeys((*question.columns, *question.key))
    if question.key:
        found = parent(work, question.table).found(question.key, question.keys, tuple(names))
        return meets(found, question.conditions)
    fields = [work.schemas[question.table].field(n) for n in names]
    known = work.parents[question.table]
    rows = read_files(work, known.state, pa.schema([*fields, *COUNTED]), known.ahead)
    return fold(meets(within(rows, -1, work.hi), question.conditions).drop_columns([SEQ]))


def parent(work: WaveWork, table: TableName) -> FilesKept:
    """A view that this one reads, as it is at the batch's end."""
    schema = pa.schema([*work.schemas[table], *COUNTED])
    known = work.parents[table]
    return FilesKept(work.storage, schema, known.state, work.hi, known.ahead)


def _find(question: Question, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Answer a question by reading everything: every row finds the number of its key."""
    if question.key:
        keys, (numbers,) = key_set([[question.keys.column(k) for k in question.key]])
        ordinal_of = np.empty(len(keys), np.int64)
        ordinal_of[numbers] = np.arange(len(numbers))
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        if question.key:
            found = keys.numbers([rows.column(k) for k in question.key])
            known = found >= 0
            rows, ordinals = rows.filter(pa.array(known)), ordinal_of[found[known]]
        else:
            ordinals = np.zeros(rows.num_rows, np.int64)
        rows = rows.select([*question.columns, COUNT]).add_column(0, ORDINAL, pa.array(ordinals))
        yield from rows.to_batches()
