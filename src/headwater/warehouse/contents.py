"""What a version of a changelog holds, as readers that come again and again want it: large files where they are, small
ones in memory, and what was ever taken back by itself.

Files never change, so what is known of one (its rows if it is small, whether it takes anything back) is known for good;
the next version of a table is the same files and a few new ones.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from headwater.model.changelog import COUNT
from headwater.storage import Storage
from headwater.warehouse.delta import open_table

SMALL_ROWS = 20_000
"""A file with fewer rows is read once and kept in memory."""
MOST_ROWS = 2_000_000
"""So many rows of small files are kept; what was asked for longest ago goes first."""
MOST_BACK = 20_000
"""With more rows taken back than that, a state is folded and not read past them."""
VERSIONS = 256


@dataclass(frozen=True)
class File:
    """One file: its rows if there are few. `back` are those that take something back."""

    path: str
    rows: int
    small: pa.Table | None
    back: pa.Table


@dataclass(frozen=True)
class Contents:
    """One version of a changelog."""

    schema: pa.Schema
    files: tuple[File, ...]
    large: ds.Dataset
    small: pa.Table
    back: pa.Table

    @property
    def many_back(self) -> bool:
        return bool(self.back.num_rows > MOST_BACK)

    def large_paths(self) -> list[str]:
        return [file.path for file in self.files if file.small is None]


class Shelf:
    """The contents of tables of one warehouse, for any number of threads."""

    def __init__(self, storage: Storage) -> None:
        self._storage, self._lock = storage, threading.Lock()
        self._files: OrderedDict[str, File] = OrderedDict()
        self._versions: OrderedDict[tuple[str, int], Contents] = OrderedDict()
        self._kept = 0

    def contents(self, folder: str, version: int) -> Contents:
        with self._lock:
            found = self._versions.get((folder, version))
            if found is not None:
                self._versions.move_to_end((folder, version))
                return found
        made = self._read(folder, version)
        with self._lock:
            self._versions[folder, version] = made
            while len(self._versions) > VERSIONS:
                self._versions.popitem(last=False)
        return made

    def _read(self, folder: str, version: int) -> Contents:
        table = open_table(self._storage, folder, version)
        schema = pa.schema(table.schema().to_arrow())
        paths = [self._storage.path(f"{folder}/{uri.rsplit('/', 1)[1]}") for uri in table.file_uris()]
        files = tuple(self._file(path, schema) for path in paths)
        large = [file.path for file in files if file.small is None]
        return Contents(
            schema,
            files,
            ds.dataset(large, schema=schema, format="parquet", filesystem=self._storage.filesystem),
            _together(schema, [file.small for file in files if file.small is not None]),
            _together(schema, [file.back for file in files]),
        )

    def _file(self, path: str, schema: pa.Schema) -> File:
        with self._lock:
            found = self._files.get(path)
            if found is not None:
                self._files.move_to_end(path)
                return found
        made = self._opened(path, schema)
        with self._lock:
            if path not in self._files:
                self._files[path] = made
                self._kept += _weight(made)
            while self._kept > MOST_ROWS and len(self._files) > 1:
                self._kept -= _weight(self._files.popitem(last=False)[1])
        return made

    def _opened(self, path: str, schema: pa.Schema) -> File:
        file = pq.ParquetFile(path, filesystem=self._storage.filesystem)
        rows = file.metadata.num_rows
        if rows < SMALL_ROWS:
            small = file.read().select(schema.names).cast(schema)
            return File(path, rows, small, small.filter(pc.less(small.column(COUNT), 0)))
        if not _takes_back(file.metadata):
            return File(path, rows, None, schema.empty_table())
        whole = ds.dataset([path], schema=schema, format="parquet", filesystem=self._storage.filesystem)
        return File(path, rows, None, whole.head(MOST_BACK + 1, filter=pc.field(COUNT) < 0))


def _takes_back(metadata: pq.FileMetaData) -> bool:
    """Whether a file may hold counts below zero, as far as its statistics say."""
    column = metadata.schema.names.index(COUNT)
    for group in range(metadata.num_row_groups):
        known = metadata.row_group(group).column(column).statistics
        if known is None or not known.has_min_max or known.min < 0:
            return True
    return False


def _weight(file: File) -> int:
    return int((file.small.num_rows if file.small is not None else 0) + file.back.num_rows)


def _together(schema: pa.Schema, tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()
