"""Rows to files of a changelog table, from within Spark tasks; what comes back describes the files.

Nothing refers to a file before its batch is committed: a task that runs twice leaves files that nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.kept.files import SMALL_ROWS, FilesKept
from headwater.kept.runs import Index
from headwater.model.written import DataFile, Tally, Written
from headwater.runtime.commit.folding import FULL_ROWS
from headwater.runtime.compute.failures import carries_errors
from headwater.storage import Storage
from headwater.storage.records import decode, encode
from headwater.warehouse.table import write_file

Batches = Iterator[pa.RecordBatch]

FILE = "__file"
FILES = pa.schema([pa.field(FILE, pa.string())])


@dataclass(frozen=True)
class Target:
    """Where rows of a changelog table go, before anything refers to them. `kind` tells tables apart afterwards. By
    `indexes` they will be looked up: who writes a large file makes them, so that nobody waits for them later."""

    storage: Storage
    folder: str
    label: str
    schema: pa.Schema
    kind: str = "log"
    indexes: tuple[Index, ...] = ()


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
        if rows >= FULL_ROWS:
            yield _write(target, waiting)
            waiting, rows = [], 0
    if rows:
        yield _write(target, waiting)


def _write(target: Target, batches: Sequence[pa.RecordBatch]) -> str:
    rows = pa.Table.from_batches(batches).select(target.schema.names).cast(target.schema)
    made = write_file(target.storage, target.folder, rows, target.label)
    if target.indexes and target.storage.local and rows.num_rows >= SMALL_ROWS:
        path = target.storage.path(f"{target.folder}/{made.name}")
        FilesKept(target.storage, target.schema, [path]).index(target.indexes)
    return described(target.kind, made)


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
