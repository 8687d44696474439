"""A changelog as a Delta table: Spark tasks (or anyone) write Parquet files, one commit makes them part of it.

A table's version is not what readers trust; the cut record names the version they read. So a commit here is invisible
until a cut record mentions it, and `rewind` undoes whatever no cut record mentions.

A commit follows the version that its writer knows, or is refused. Who takes a warehouse over in an object store makes a
version of its own in every table first, so what an earlier maintainer still has under way finds no place.

A table that is committed to all the time is not read again each time: the version that was last seen or made is known,
and so are its files.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction, RemoveAction

from headwater.model.changelog import SEQ
from headwater.model.errors import WarehouseError
from headwater.model.written import DataFile
from headwater.storage import Storage
from headwater.storage.files import explained, flush_folder
from headwater.warehouse import delta_commit
from headwater.warehouse.delta import committed, is_table, mark, only_next, open_table
from headwater.warehouse.encoding import encodings

_TRIES = 5
_LOW, _HIGH = f"min.{SEQ}", f"max.{SEQ}"


@dataclass(frozen=True)
class LogFile:
    """A file of a changelog: how many rows, from which transaction to which."""

    name: str
    rows: int
    low: int
    high: int

    @property
    def one_state(self) -> bool:
        """All of one transaction: a first load, or history folded before."""
        return self.low == self.high

    def foldable(self, horizon: int) -> float:
        """About how many of its rows lie at or before the horizon."""
        share = (min(horizon, self.high) - self.low + 1) / (self.high - self.low + 1)
        return self.rows * max(0.0, share)


@dataclass
class _Known:
    """A version, and its files by their names."""

    version: int
    files: dict[str, LogFile]

    def follow(self, added: Sequence[DataFile], removed: Sequence[str]) -> None:
        """Be the next version."""
        self.version += 1
        self.files |= {file.name: LogFile(file.name, file.rows, file.low, file.high) for file in added}
        for name in removed:
            self.files.pop(name, None)


def _action(file: DataFile) -> delta_commit.Action:
    return delta_commit.add(file.name, file.size, file.rows, {SEQ: file.low}, {SEQ: file.high})


def _add(file: DataFile) -> AddAction:
    """What Delta wants to know about a file."""
    stats = {"numRecords": file.rows, "minValues": {SEQ: file.low}, "maxValues": {SEQ: file.high}, "nullCount": {}}
    return AddAction(file.name, file.size, {}, int(time.time() * 1000), True, json.dumps(stats))


def write_file(storage: Storage, folder: str, rows: pa.Table, label: str) -> DataFile:
    """Write rows as one Parquet file in a table's folder; nothing refers to it yet. `label` starts its name."""
    name = f"{label}-{uuid.uuid4().hex}.parquet"
    path = storage.path(f"{folder}/{name}")
    with explained(storage.url):
        chosen = {"compression": "zstd", "compression_level": 1, **encodings(rows)}
        pq.write_table(rows, path, filesystem=storage.filesystem, **chosen)
        if storage.local:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        size = storage.filesystem.get_file_info(path).size
    seqs = rows.column(SEQ).to_numpy() if SEQ in rows.column_names and rows.num_rows else [0]
    return DataFile(name, size, rows.num_rows, int(min(seqs)), int(max(seqs)))


class ChangelogTable:
    """One Delta table at `folder` of the warehouse. Used by one committer at a time."""

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage, self.folder = storage, folder
        self._delta: DeltaTable | None = None
        self._known: _Known | None = None

    @property
    def delta(self) -> DeltaTable:
        if self._delta is None:
            self._delta = open_table(self._storage, self.folder)
        elif self._known is not None and self._known.version > self._delta.version():
            self._delta.update_incremental()
        return self._delta

    @property
    def version(self) -> int:
        self._known = None
        self.delta.update_incremental()
        return int(self.delta.version())

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(self.delta.schema().to_arrow())

    def exists(self) -> bool:
        return is_table(self._storage, self.folder)

    def create(self, schema: pa.Schema) -> None:
        settings = {
            "delta.checkpointInterval": "50",
            "delta.logRetentionDuration": "interval 1 days",
            "delta.dataSkippingStatsColumns": SEQ,  # else those of the first 32 columns are kept, and SEQ is the last
        }
        self._storage.fence()
        uri, options = self._storage.uri(self.folder), self._storage.delta_options
        with explained(self._storage.url):
            self._delta = DeltaTable.create(uri, schema, configuration=settings, storage_options=options)

    def commit(self, added: Sequence[DataFile], removed: Sequence[str] = ()) -> int:
        """Add files (and remove others) in one step; returns the new version. Without files nothing happens."""
        follows = self._now().version
        if not added and not removed:
            return follows
        if not self._storage.local or not delta_commit.can_name([*(file.name for file in added), *removed]):
            self._commit_by_deltalake(added, removed, follows)
        else:
            actions = [_action(file) for file in added] + [delta_commit.remove(name) for name in removed]
            with explained(self._storage.url):
                flush_folder(self._storage.path(self.folder))
                if not delta_commit.commit_next(self._storage, self.folder, follows + 1, actions):
                    raise self._overtaken()
        self._now().follow(added, removed)
        if self._storage.local and delta_commit.checkpoint_due(follows + 1):
            delta_commit.checkpoint(self._storage, self.folder, self.delta)
        return follows + 1

    def _commit_by_deltalake(self, added: Sequence[DataFile], removed: Sequence[str], follows: int) -> None:
        now, table = int(time.time() * 1000), self.delta
        actions: list[AddAction | RemoveAction] = [_add(file) for file in added]
        actions += [RemoveAction(name, True, now) for name in removed]
        options = only_next(self._storage.fence())
        write = partial(table.create_write_transaction, actions, "append", table.schema(), commit_properties=options)
        with explained(self._storage.url):
            if not committed(table, write) or table.version() != follows + 1:
                raise self._overtaken()

    def replace(self, rows: pa.Table) -> None:
        """Other rows, of other columns, in place of all that it holds."""
        options = only_next(self._storage.fence())
        with explained(self._storage.url):
            write_deltalake(self.delta, rows, mode="overwrite", schema_mode="overwrite", commit_properties=options)
        self._delta = self._known = None

    def at(self, version: int) -> DeltaTable:
        return open_table(self._storage, self.folder, version)

    def files(self, version: int | None = None) -> list[str]:
        """Names of the data files of a version, relative to the table's folder."""
        return (
            list(self._now().files) if version is None else [u.rsplit("/", 1)[1] for u in self.at(version).file_uris()]
        )

    def log_files(self) -> list[LogFile]:
        """The files of the newest version, with their statistics."""
        return list(self._now().files.values())

    def _now(self) -> _Known:
        """The version that this one last saw or made."""
        if self._known is None:
            table = self.delta
            rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
            files = (LogFile(unquote(r["path"]), r["num_records"], r.get(_LOW), r.get(_HIGH)) for r in rows)
            self._known = _Known(int(table.version()), {file.name: file for file in files})
        return self._known

    def rewind(self, version: int) -> int:
        """Back to what `version` held, if anything was committed since; returns the version that now holds it."""
        for _ in range(_TRIES):
            newest, fence = self.version, self._storage.fence()
            same = newest <= version or set(self.files()) == set(self.files(version))
            if same and (self._storage.local or not fence):
                return newest
            with explained(self._storage.url):
                if mark(self.delta, fence) if same else self._restore(version, fence):
                    return self.version
        raise self._overtaken()

    def _restore(self, version: int, fence: int) -> bool:
        table = self.delta
        return committed(table, lambda: table.restore(version, commit_properties=only_next(fence)))

    def _overtaken(self) -> WarehouseError:
        return WarehouseError(
            f"another process writes to {self._storage.uri(self.folder)}: what was computed here was not added to it",
            "only one may maintain a warehouse at a time: see that one has ended, then start again; nothing is lost",
        )

    def remove_orphans(self, keep: Sequence[int]) -> int:
        """Delete data files that neither the newest version nor any of `keep` refers to; returns how many."""
        needed = set(self.files())
        for version in keep:
            needed |= set(self.files(version))
        gone = [n for n in self._storage.names(self.folder) if n.endswith(".parquet") and n not in needed]
        for name in gone:
            self._storage.delete(f"{self.folder}/{name}")
        return len(gone)
