"""What a version of a changelog holds, as readers that come again and again want it: large files where they are, small
ones in memory, and what was ever taken back by itself.

Files never change, so what is known of one (its rows if it is small, whether it takes anything back) is known for good;
the next version of a table is the same files and a few new ones.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from headwater.model.changelog import COUNT, SEQ
from headwater.storage import Storage
from headwater.warehouse.delta_log import version_of

if TYPE_CHECKING:
    from headwater.kept.files import FilesKept

SMALL_ROWS = 20_000
"""A file with fewer rows is read once and kept in memory."""
MOST_ROWS = 2_000_000
"""So many rows of small files are kept, and of versions made of them; what was asked for longest ago goes first."""
MOST_BACK = 200_000
"""With more rows taken back than that, a state is folded and not read past them."""
VERSIONS = 256


@dataclass(frozen=True)
class File:
    """One file: its rows if there are few. `back` are those that take something back. `through` is its last
    transaction, if it is known that each of its rows counts once."""

    path: str
    rows: int
    small: pa.Table | None
    back: pa.Table
    through: int | None = None


@dataclass(frozen=True)
class Contents:
    """One version of a changelog: `ones` are large files in which each row counts once, up to transaction `through`;
    `rest` are the other large ones."""

    storage: Storage
    schema: pa.Schema
    files: tuple[File, ...]
    ones: ds.Dataset
    through: int
    rest: ds.Dataset
    small: pa.Table
    back: pa.Table

    @property
    def many_back(self) -> bool:
        return bool(self.back.num_rows > MOST_BACK)

    @cached_property
    def kept(self) -> FilesKept:
        """The large files, as who looks rows up has them."""
        from headwater.kept.files import FilesKept  # brings an engine along: a view may be read without one

        return FilesKept(self.storage, self.schema, self.large_paths())

    def large_paths(self) -> list[str]:
        return [file.path for file in self.files if file.small is None]

    def large(self, ones: bool) -> Iterator[ds.Dataset]:
        """Large files in which each row counts once, or the others. Who looks rows up makes copies of files that need
        no decoding: where there is one, it is read instead."""
        paths = [file.path for file in self.files if file.small is None and (file.through is not None) == ones]
        copies = {path: copy for path in paths if (copy := self.kept.copied(path)) is not None}
        if not copies:
            yield self.ones if ones else self.rest
            return
        for copy in copies.values():
            yield ds.InMemoryDataset(copy.select(self.schema.names))
        left = [path for path in paths if path not in copies]
        whole = self.ones if ones else self.rest
        yield ds.dataset(left, schema=self.schema, format="parquet", filesystem=whole.filesystem)


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
            while len(self._versions) > 1 and (len(self._versions) > VERSIONS or self._together() > MOST_ROWS):
                self._versions.popitem(last=False)
        return made

    def _together(self) -> int:
        return sum(made.small.num_rows + made.back.num_rows for made in self._versions.values())

    def _read(self, folder: str, version: int) -> Contents:
        table = version_of(self._storage, folder, version)
        schema = table.schema
        paths = [self._storage.path(f"{folder}/{name}") for name in table.files]
        files = tuple(self._file(path, schema) for path in paths)
        large = [file for file in files if file.small is None]
        return Contents(
            self._storage,
            schema,
            files,
            self._dataset(schema, [file.path for file in large if file.through is not None]),
            max((file.through for file in large if file.through is not None), default=0),
            self._dataset(schema, [file.path for file in large if file.through is None]),
            _together(schema, [file.small for file in files if file.small is not None]),
            _together(schema, [file.back for file in files]),
        )

    def _dataset(self, schema: pa.Schema, paths: Sequence[str]) -> ds.Dataset:
        return ds.dataset(list(paths), schema=schema, format="parquet", filesystem=self._storage.filesystem)

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
        counts, seqs = _range(file.metadata, COUNT), _range(file.metadata, SEQ)
        if counts is not None and counts[0] > 0:
            through = seqs[1] if seqs is not None and counts == (1, 1) else None
            return File(path, rows, None, schema.empty_table(), through)
        back = self._dataset(schema, [path]).head(MOST_BACK + 1, filter=pc.field(COUNT) < 0)
        return File(path, rows, None, back)


def _range(metadata: pq.FileMetaData, name: str) -> tuple[int, int] | None:
    """The least and the greatest value of a column, if a file's statistics say it."""
    column = metadata.schema.names.index(name)
    known = [metadata.row_group(n).column(column).statistics for n in range(metadata.num_row_groups)]
    if not known or any(k is None or not k.has_min_max or k.null_count for k in known):
        return None
    return min(k.min for k in known), max(k.max for k in known)


def _weight(file: File) -> int:
    return int((file.small.num_rows if file.small is not None else 0) + file.back.num_rows)


def _together(schema: pa.Schema, tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()
