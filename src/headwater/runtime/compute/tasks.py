"""What runs inside Spark tasks: asking the sources, the wave, aggregation, writing files.

Everything here works on Arrow and is called by `mapInArrow`; the values that describe the work are pickled into the
closures. Connections to sources are kept per worker process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import headwater.chain  # noqa: F401 # chains are sources, too
from headwater.algebra.view import Aggregation, ViewDefinition, plain
from headwater.integrator.journal import Segment, read_changes, within
from headwater.kept.files import FilesKept
from headwater.maintenance.aggregate import GroupedDelta, aggregate, result_schema
from headwater.maintenance.block_wave import AskJoin, ContractedWave, contracted_wave
from headwater.maintenance.blocks import Contracted, contracted
from headwater.maintenance.groups import auxiliary_schema
from headwater.maintenance.keys import key_set
from headwater.maintenance.slices import WHOLE, Slices
from headwater.maintenance.wave import Ask, Wave, wave
from headwater.model.changelog import COUNT, SEQ, UNFIT, consolidate, fold
from headwater.model.conditions import Condition, meets
from headwater.model.errors import ConfigError, SourceUnavailable
from headwater.model.joins import table_by_table
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Identities
from headwater.model.source import ORDINAL, Question, Source, SourceSpec
from headwater.model.written import DataFile, Tally, Written
from headwater.runtime.compute.answers import ANSWERS, Signature, Wider
from headwater.runtime.compute.failures import TooMuch, carries_errors
from headwater.runtime.compute.promises import check_promises
from headwater.runtime.compute.unfit import represented
from headwater.sources import connect
from headwater.storage import Storage
from headwater.storage.records import decode, encode
from headwater.warehouse.table import write_file

Batches = Iterator[pa.RecordBatch]

FILE = "__file"
FILES = pa.schema([pa.field(FILE, pa.string())])
ROWS_PER_FILE = 1_000_000
ASK_COST = 7
"""Asking for one key costs about as much as scanning this many rows (SQLite, 1M rows: 2.2 µs a key, 0.34 µs a row)."""
QUESTION_COST = 20_000
"""A question more costs about as much as scanning this many rows: some milliseconds, if its source is near."""

DESK = 64
"""Lanes of one who asks: as many questions may be under way side by side, each over a connection of its own."""

_connected: dict[tuple[SourceSpec, int], Source] = {}


@contextmanager
def reachable() -> Iterator[None]:
    """In a task, a source that is not there is one that has gone away: the driver has seen it. Trying again helps."""
    try:
        yield
    except ConfigError as error:
        raise SourceUnavailable(error.what, error.fix) from error


def connected(spec: SourceSpec, lane: int = 0) -> Source:
    """This process's connection to a source; one for each of the lanes in which it is asked side by side."""
    if (spec, lane) not in _connected:
        _connected[spec, lane] = connect(spec)
    return _connected[spec, lane]


def disconnect(lanes: Iterable[int]) -> None:
    """Close this process's connections in these lanes; they are made anew when they are needed."""
    ended = frozenset(lanes)
    for spec, lane in [key for key in _connected if key[1] in ended]:
        with suppress(Exception):  # what breaks in closing is of no use to anyone
            _connected.pop((spec, lane)).close()


@dataclass(frozen=True)
class ParentFiles:
    """A view that another one reads, at a batch's end: the files of its changelog that hold rows of the batch, and all
    those that make up its state. `unwritten`: a copy's batches that are not in its files yet; `ahead` are their rows,
    once somebody has read them (`read_ahead`)."""

    changes: tuple[str, ...]
    state: tuple[str, ...]
    unwritten: WaveWork | None = None
    ahead: pa.Table | None = None


@dataclass(frozen=True)
class WaveWork:
    """One batch of one view: the transactions (lo, hi]. `positions` are the sources' after the last of `segments`,
    which may lie beyond `hi`."""

    view: ViewDefinition
    storage: Storage
    segments: tuple[Segment, ...]
    lo: int
    hi: int
    positions: Mapping[SourceName, Position]
    specs: Mapping[SourceName, SourceSpec]
    schemas: Mapping[TableName, pa.Schema]
    sizes: Mapping[TableName, int]
    leading: Mapping[TableName, frozenset[str]] = field(default_factory=dict)
    """Per table, the columns some index begins with; a table not mentioned is taken to have what is needed."""
    parents: Mapping[TableName, ParentFiles] = field(default_factory=dict)
    identities: Mapping[TableName, Identities] = field(default_factory=dict)
    """The columns the view was loaded from: answers about others are refused."""
    parts: int = 1
    """In how many threads its rows are matched, and in how many tasks they are grouped."""
    changed: int = 0
    """About how many changes of its tables the batch holds."""
    every: int = 1
    """Every N-th transaction is a state of the view; 0 makes the whole batch one state."""
    join_at_sources: bool = False
    """Whether tables of one source that are joined with each other are asked together."""
    small: int = 0
    """A batch of no more changes may be computed without a job."""
    most: int | None = None
    """It is given up when it meets more rows than this."""
    lane: int = 0
    """The first of the lanes in which it asks."""
    own: tuple[str, ...] = ()
    """The files of the view itself before the batch, where rows are taken out of it by a key that it shows."""
    wider: Mapping[tuple[TableName, tuple[Condition, ...]], Wider] = field(default_factory=dict)
    """What other views need of the same rows: they are asked for it together (`answers`)."""

    def bears(self, rows: int) -> None:
        """Raise TooMuch where so many rows are more than was thought."""
        if self.most is not None and rows > self.most:
            raise TooMuch

    def labels(self, seqs: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The state that first shows each transaction. What lies beyond the batch keeps its number."""
        shown = np.full(len(seqs), self.hi) if not self.every else -(-seqs // self.every) * self.every
        return np.where(seqs <= self.hi, np.minimum(shown, self.hi), seqs)


def scans(question: Question, rows: int, leading: frozenset[str] | None = None) -> bool:
    """Whether reading the whole table is cheaper than asking for the keys: there are many, or no index finds them."""
    if not question.key or question.keys.num_rows * ASK_COST > rows:
        return True
    return leading is not None and leading.isdisjoint(question.key)


def read_ahead(work: WaveWork) -> WaveWork:
    """The same with what copies have not written yet. A copy's changes are its table's, so they are computed as the
    copy computes them, from the journal, and nobody waits for its files."""

    def told(name: TableName, parent: ParentFiles) -> ParentFiles:
        if parent.unwritten is None:
            return parent
        core, _ = core_changes(parent.unwritten)
        columns = plain(parent.unwritten.view)
        assert columns is not None
        schema = pa.schema([*work.schemas[name], *_COUNTED])
        rows = [core.column(columns.get(f.name, f.name)).cast(f.type) for f in schema]
        return replace(parent, unwritten=None, ahead=pa.table(rows, schema=schema))

    if all(parent.unwritten is None for parent in work.parents.values()):
        return work
    return replace(work, parents={name: told(name, parent) for name, parent in work.parents.items()})


def core_changes(work: WaveWork) -> tuple[pa.Table, Tally]:
    """Run the wave for a batch: every question is asked once, and rows are matched in as many threads as it has
    parts."""
    if work.parts == 1:
        return _waved(work, WHOLE)
    with ThreadPoolExecutor(work.parts) as threads:
        return _waved(work, Slices(work.parts, each=threads.map))


def _waved(work: WaveWork, slices: Slices) -> tuple[pa.Table, Tally]:
    started, tally = time.perf_counter(), Tally()
    work = read_ahead(work)
    journal = {t: batch_changes(work, t) for t in work.view.tables}
    mine = {t: within(rows, work.lo, work.hi) for t, rows in journal.items()}
    tally.changes = sum(rows.num_rows for rows in mine.values())
    running: ContractedWave | Wave = wave(work.view, journal, mine, slices)
    if made := contraction(work):
        running = contracted_wave(made, journal, lambda rows: within(rows, work.lo, work.hi), slices)
    try:
        ask = next(running)
        while True:
            ask = running.send(answer(work, ask, tally))
    except StopIteration as stop:
        tally.seconds = time.perf_counter() - started
        return stop.value, tally


def contraction(work: WaveWork) -> Contracted | None:
    """The view over its blocks, if it has any and they may be used. Tables that are counted on are met one by one."""
    if work.view.met_after:
        return None
    return contracted(work.view, work.schemas, work.leading) if work.join_at_sources else None


def batch_changes(work: WaveWork, table: TableName) -> pa.Table:
    """The changes of a table after `lo`, as far as the questions' positions reach."""
    wanted = pa.schema([*work.schemas[table], pa.field(COUNT, pa.int64()), pa.field(SEQ, pa.int64())])
    if table.is_view:
        known = work.parents[table]
        rows = within(_read_files(work, known.changes, wanted, known.ahead), work.lo, work.hi)
    else:
        found = read_changes(work.storage, work.segments, table, work.lo, work.segments[-1].hi)
        if found is not None and UNFIT in found.column_names:
            wanted = wanted.append(pa.field(UNFIT, pa.string()))
        rows = wanted.empty_table() if found is None else found.select(wanted.names).cast(wanted)
    if work.every != 1:
        seqs = work.labels(rows.column(SEQ).to_numpy())
        rows = rows.set_column(rows.schema.get_field_index(SEQ), SEQ, pa.array(seqs))
    if work.every != 1 or _updates(rows):
        rows = consolidate(rows)  # an update of columns that the view does not use is no change
    check_promises(work.view, table, within(rows, work.lo, work.hi))
    return represented(rows, table, work.view) if UNFIT in rows.column_names else rows


def _updates(rows: pa.Table) -> bool:
    """Whether a transaction takes rows away and adds some; those of one transaction stand together."""
    seqs, counts = rows.column(SEQ).to_numpy(), rows.column(COUNT).to_numpy()
    return bool(((seqs[1:] == seqs[:-1]) & ((counts[1:] < 0) != (counts[:-1] < 0))).any())


def _read_files(work: WaveWork, paths: Sequence[str], schema: pa.Schema, more: pa.Table | None = None) -> pa.Table:
    """Files of a changelog, these columns, and more rows that are in no file yet."""
    parts = [
        pq.read_table(path, columns=schema.names, filesystem=work.storage.filesystem, partitioning=None)
        for path in paths
    ] + ([] if more is None else [more])
    return pa.concat_tables([p.select(schema.names).cast(schema) for p in parts]) if parts else schema.empty_table()


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
    rows = _read_files(work, known.state, pa.schema([*fields, *_COUNTED]), known.ahead)
    return fold(meets(within(rows, -1, work.hi), question.conditions).drop_columns([SEQ]))


_COUNTED = (pa.field(COUNT, pa.int64()), pa.field(SEQ, pa.int64()))


def parent(work: WaveWork, table: TableName) -> FilesKept:
    """A view that this one reads, as it is at the batch's end."""
    schema = pa.schema([*work.schemas[table], *_COUNTED])
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


@dataclass(frozen=True)
class Target:
    """Where rows of a changelog table go, before anything refers to them. `kind` tells tables apart afterwards."""

    storage: Storage
    folder: str
    label: str
    schema: pa.Schema
    kind: str = "log"


def described(kind: str, file: DataFile) -> str:
    return encode((kind, file)).decode()


def read_description(text: str) -> tuple[str, DataFile]:
    return decode(text, tuple[str, DataFile], "a task's answer")


def written(descriptions: Sequence[str], cost: dict[str, Any] | None = None) -> Written:
    """Sort descriptions of files by the table they belong to."""
    files = [read_description(text) for text in descriptions]
    return Written(
        tuple(f for kind, f in files if kind == "log"),
        tuple(f for kind, f in files if kind == "auxiliary"),
        Tally(**cost) if cost else Tally(),
    )


def write_rows(target: Target, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """Write rows as files of the target's table, a million rows each; yields a description of every file."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_PER_FILE:
            yield _write(target, waiting)
            waiting, rows = [], 0
    if rows:
        yield _write(target, waiting)


def _write(target: Target, batches: Sequence[pa.RecordBatch]) -> str:
    rows = pa.Table.from_batches(batches).select(target.schema.names).cast(target.schema)
    return described(target.kind, write_file(target.storage, target.folder, rows, target.label))


def writing(target: Target) -> Callable[[Batches], Batches]:
    """For mapInArrow: rows in, descriptions of files out. Descriptions made earlier (in column FILE) pass through."""

    @carries_errors
    def write(batches: Batches) -> Batches:
        passed: list[str] = []

        def rows() -> Batches:
            for batch in batches:
                if FILE not in batch.schema.names:
                    yield batch
                    continue
                passed.extend(batch.column(FILE).drop_null().to_pylist())
                yield batch.filter(pc.is_null(batch.column(FILE))).drop_columns([FILE])

        files = list(write_rows(target, rows()))
        yield pa.record_batch([pa.array([*passed, *files], pa.string())], schema=FILES)

    return write


@dataclass(frozen=True)
class AggregateWork:
    """The aggregation of one batch, over the auxiliary view's files so far."""

    aggregation: Aggregation
    types: Mapping[str, pa.DataType]
    state_files: tuple[str, ...]
    """Paths of the auxiliary changelog's files, as its file system wants them."""
    target: Target
    hi: int
    first: bool = False


def aggregating(work: AggregateWork) -> Callable[[Batches], Batches]:
    """For mapInArrow: the core's keys and arguments in, changes of groups out; all rows of a group in one partition.
    The auxiliary view's files are written here, and described in column FILE."""
    out = pa.schema([*result_schema(work.aggregation, work.types), pa.field(FILE, pa.string())])
    names = [o.name for o in (*work.aggregation.keys, *work.aggregation.arguments)]
    schema = pa.schema([pa.field(n, work.types[n]) for n in names] + [pa.field(n, pa.int64()) for n in (COUNT, SEQ)])

    @carries_errors
    def run(batches: Batches) -> Batches:
        parts = [pa.Table.from_batches([b]).select(schema.names).cast(schema) for b in batches]
        delta = consolidate(pa.concat_tables(parts)) if parts else schema.empty_table()
        if not delta.num_rows and not (work.first and not work.aggregation.keys):
            return
        kept = FilesKept(work.target.storage, auxiliary_schema(work.aggregation, work.types), work.state_files)
        rows, auxiliary = aggregate(work.aggregation, work.types, GroupedDelta(delta, kept, work.hi, work.first))
        files = list(write_rows(work.target, auxiliary.to_batches()))
        table = rows.append_column(FILE, pa.nulls(rows.num_rows, pa.string()))
        yield from table.cast(out).to_batches(max_chunksize=65536)
        if files:
            empty = [pa.nulls(len(files), f.type) for f in out if f.name != FILE]
            yield pa.record_batch([*empty, pa.array(files, pa.string())], schema=out)

    return run
