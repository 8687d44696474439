"""A folder of files that only grows, as a source: `files:///exports/orders/*.csv`, or `*.parquet`; relative to
headwater.toml, four slashes for an absolute path. The table is called as its folder.

A file is a transaction: its rows came, and none ever goes. **Positions** are places in the order of the files and
**as-of** is the files up to there (`listing.py`). Nothing is installed, and nothing is written there.

It proves what it must (decision 11, decision 22): the order is that in which the files appeared; a file that changes,
vanishes or slips in among those that were told is another life. Files whose names begin with `.` or `_`, or end as
unfinished ones do, are not meant; Parquet without its footer is waited for, and everything behind it with it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.model.conditions import Condition, meets
from headwater.model.errors import ConfigError, SchemaChanged, SourceUnavailable, UnknownName, ValueUnfit
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
from headwater.sources.files.listing import File, Listing, Place
from headwater.sources.files.reading import held, is_whole, rows_of, schema_of, unfit_of

KINDS = (".parquet", ".csv")


class FilesSource:
    def __init__(self, spec: SourceSpec) -> None:
        path = Path(spec.url.removeprefix("files:///"))
        if path.suffix not in KINDS or any(c in str(path.parent) for c in "*?["):
            raise ConfigError(
                f"source {spec.name} must name files of one folder, of one kind",
                'write url = "files:///folder/*.parquet", or *.csv',
            )
        self._name = spec.name
        self._listing = Listing(path.parent, path.name, f"source {spec.name}")
        self._table = TableName(spec.name, path.parent.absolute().name)
        self._expected: Mapping[TableName, Identities] = {}
        self._first: tuple[File, pa.Schema] | None = None
        self._whole: set[File] = set()

    @property
    def name(self) -> SourceName:
        return self._name

    # ── what is there ────────────────────────────────────────────────────────────────────────────────────────────

    def describe(self) -> Mapping[TableName, TableSchema]:
        files = self._files()
        schema = self._schema(files)
        columns = tuple(Column(f.name, held_type(f.type), str(f.type), True) for f in schema)
        return {self._table: TableSchema(self._table, columns, rows=self._about(files, schema), indexable=False)}

    def resolve(self, schema: str, table: str) -> TableName | None:
        return self._table if not schema and table.lower() == self._table.table.lower() else None

    def capture(self) -> Capture | None:
        return Capture("files", frozenset([self._table]), {})

    def advice(self, tables: Sequence[TableName]) -> list[str]:
        return [
            "files must stay as they are once they are there: one that is changed, removed, or put among older ones"
            " halts the views. Write them aside and rename them, so that none is seen half"
        ]

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        for table in tables:
            if table != self._table:
                raise UnknownName("table", str(table), [str(self._table)], f"at source {self.name}")
        self._schema(self._files())
        return []

    def install(self, tables: Sequence[TableName]) -> list[str]:
        return self.plan_install(tables)

    def release(self, keep: Sequence[TableName]) -> list[str]:
        return []

    def remove(self) -> list[str]:
        return []

    # ── what is expected ─────────────────────────────────────────────────────────────────────────────────────────

    def identities(self, tables: Mapping[TableName, Sequence[str]]) -> Mapping[TableName, Identities]:
        files = self._files()
        return {table: self._identities(files, columns) for table, columns in tables.items()}

    def expect(self, tables: Mapping[TableName, Identities]) -> None:
        self._expected = dict(tables)

    def check(self, at: Position, tables: Sequence[TableName]) -> None:
        self._listing.upto(at, self._files())

    def commit_times(self, transactions: Sequence[str]) -> Sequence[CommitTimes | None]:
        times = {file.name: _moment(file) for file in self._files()}
        return [(times[name], times[name]) if name in times else None for name in transactions]

    # ── what happened ────────────────────────────────────────────────────────────────────────────────────────────

    def position(self) -> Position:
        return Place.of(self._files()).position

    def waiting(self, after: Position) -> int:
        files = self._files()
        return len(files) - len(self._listing.upto(after, files))

    def poll(self, after: Position, tables: Mapping[TableName, Sequence[str]], limit: int) -> Poll:
        files = self._files()
        told = self._listing.upto(after, files)
        schemas = {name: self._columns(files, columns) for name, columns in tables.items()}
        counted = [pa.field(COUNT, pa.int64()), pa.field(ORDINAL, pa.int64())]
        found = {name: [pa.schema([*schema, *counted]).empty_table()] for name, schema in schemas.items()}
        new, some, rows = list[File](), list[File](), 0
        for file in files[len(told) :]:
            if new and rows >= limit:
                break
            parts = {name: self._rows(file, schema) for name, schema in schemas.items()}
            for name, part in parts.items():
                counts, ordinals = _repeated(1, part), _repeated(len(some), part)
                found[name].append(part.append_column(COUNT, counts).append_column(ORDINAL, ordinals))
                rows += part.num_rows
            new.append(file)
            some += [file] if any(part.num_rows for part in parts.values()) else []
        if self._files()[: len(told) + len(new)] != [*told, *new]:  # one was written to while it was read
            raise SourceUnavailable(f"source {self.name}: files changed while they were read", "it is tried again")
        nothing = pa.nulls(len(some))
        transactions = pa.table(
            [[f.name for f in some], [_moment(f) for f in some], nothing, nothing.cast(pa.int32())],
            schema=TRANSACTIONS,
        )
        changes = {name: pa.concat_tables(parts, promote_options="default") for name, parts in found.items()}
        end = Place.of([*told, *new])
        return Poll(end.position, transactions, changes, end.count < len(files))

    def trim(self, below: Position) -> int:
        """What is kept is for the folder's owner to say."""
        return 0

    # ── as of a position ─────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, question: Question, at: Position) -> Iterator[pa.RecordBatch]:
        names = list(dict.fromkeys([*question.columns, *question.key, *(c.column for c in question.conditions)]))
        yield from matching(self._state(at, names, (0, 1)), question).to_batches()

    def ask_join(self, question: JoinQuestion, at: Position) -> Iterator[pa.RecordBatch]:
        schema = self._schema(self._files())
        yield from one_by_one(question, lambda one: self.ask(one, at), lambda _, n: held_type(schema.field(n).type))

    def chunks(self, table: TableName, target_rows: int) -> list[Chunk]:
        parts = max(1, min(64, len(self._files())))
        return [Chunk(table, n, (str(parts),)) for n in range(parts)]

    def scan(
        self, chunk: Chunk, columns: Sequence[str], at: Position, conditions: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        names = list(dict.fromkeys([*columns, *(c.column for c in conditions)]))
        rows = meets(self._state(at, names, (chunk.number, int(chunk.bounds[0]))), conditions)
        yield from rows.select([*columns, COUNT]).to_batches()

    def close(self) -> None:
        pass

    # ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _files(self) -> list[File]:
        """Those that can be told: up to the first that is not complete."""
        files = self._listing.files()
        for number, file in enumerate(files):
            if file not in self._whole:
                try:
                    if not is_whole(self._listing.folder / file.name):
                        return files[:number]
                except FileNotFoundError:
                    return files[:number]
                self._whole.add(file)
        return files

    def _schema(self, files: Sequence[File]) -> pa.Schema:
        """The columns of the first file."""
        if not files:
            where = self._listing.folder / self._listing.pattern
            raise ConfigError(f"source {self.name}: no file is there yet: {where}", "its first file says the columns")
        if self._first is None or self._first[0] != files[0]:
            try:
                self._first = (files[0], schema_of(self._listing.folder / files[0].name))
            except (pa.ArrowInvalid, OSError) as error:
                raise SourceUnavailable(f"source {self.name}: {files[0].name}: {error}", "look at the file") from error
        return self._first[1]

    def _about(self, files: Sequence[File], schema: pa.Schema) -> int:
        """How many rows, if the others are as large as those of the first file."""
        first = self._rows(files[0], pa.schema([schema.field(0)])).num_rows
        return int(first * sum(file.size for file in files) // max(files[0].size, 1))

    def _identities(self, files: Sequence[File], names: Sequence[str]) -> Identities:
        schema = self._schema(files)
        for name in names:
            if name not in schema.names:
                what = f"{files[0].name}, the first file of {self._table}, has no column {name!r}"
                raise SchemaChanged(what, "change the views that use it")
        return {name: Identity(f"{files[0].name}.{files[0].at}.{name}.{schema.field(name).type}") for name in names}

    def _columns(self, files: Sequence[File], names: Sequence[str]) -> pa.Schema:
        """These columns; an error if one is not what was expected."""
        now, expected = self._identities(files, names), self._expected.get(self._table, {})
        for name in names:
            if name in expected and (became := expected[name].became(now[name])):
                fix = "'headwater apply' loads the views that use it again"
                raise SchemaChanged(f"{self._table}.{name} {became}", fix)
        return held(self._schema(files), names)

    def _rows(self, file: File, schema: pa.Schema) -> pa.Table:
        try:
            return rows_of(self._listing.folder / file.name, schema)
        except (pa.ArrowInvalid, OSError) as error:
            raise SourceUnavailable(f"source {self.name}: {file.name}: {error}", "look at the file") from error

    def _state(self, at: Position, names: Sequence[str], part: tuple[int, int]) -> pa.Table:
        """What the files up to a position hold, of those that fall into this part: these columns, COUNT."""
        files = self._files()
        told, schema = self._listing.upto(at, files), self._columns(files, names)
        parts = [schema.empty_table()]
        for file in told:
            if file.digest % part[1] == part[0]:
                rows = self._rows(file, schema)
                if (odd := unfit_of(rows)) is not None:
                    raise self._unfit(odd)
                parts.append(rows)
        if self._files()[: len(told)] != told:
            raise SourceUnavailable(f"source {self.name}: files changed while they were read", "it is tried again")
        rows = pa.concat_tables(parts)
        return rows.append_column(COUNT, _repeated(1, rows))

    def _unfit(self, mark: str) -> ValueUnfit:
        said = json.loads(mark)
        ((column, value), *_) = said["values"].items()
        kind = self._schema(self._files()).field(column).type
        return ValueUnfit(
            f"{self._table}.{column}: the value {value[:80]!r} of {said['key']} does not fit {kind}",
            "the first file says the types of all: correct the file, then 'headwater apply' loads the views again",
        )


def _repeated(value: int, rows: pa.Table) -> pa.Array:
    return pa.array(np.full(rows.num_rows, value), pa.int64())


def _moment(file: File) -> dt.datetime:
    return dt.datetime.fromtimestamp(file.at / 1e9, dt.UTC)
