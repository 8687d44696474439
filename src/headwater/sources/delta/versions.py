"""The versions of a Delta table: which there are, what each changed, what the table held.

A version is a file of the table's own log, and never changes. What it changed are the rows of the files that it added,
less those of the files that it removed: a row that was only rewritten is in both, and cancels.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from headwater.model.changelog import COUNT, consolidate, one_zero
from headwater.model.errors import ConfigError, PositionTrimmed, SourceRefused, SourceUnavailable, WarehouseError
from headwater.storage import Storage

Mark = tuple[int | str, ...]

OPEN = 4
"""Versions that are kept open."""
_UNREADABLE = {
    "deletionVectors": "deletion vectors (delta.enableDeletionVectors)",
    "columnMapping": "column mapping (delta.columnMapping.mode)",
    "typeWidening": "type widening (delta.enableTypeWidening)",
}


@dataclass(frozen=True)
class Version:
    """One version: when it was made, and the files that it added and removed, as its log has them."""

    number: int
    at: dt.datetime
    added: tuple[dict[str, Any], ...]
    removed: tuple[dict[str, Any], ...]


class Versions:
    """A Delta table in a folder, or in an object store.

    The table as it is now is kept open, and only what its log says since is read. That is the same table still if the
    log's file of the version we knew is the same file still, looked at after what follows it was read: a table that was
    made anew has written that one anew, or has none."""

    def __init__(self, storage: Storage, where: str) -> None:
        self.storage, self._where = storage, where
        self._open: OrderedDict[int, DeltaTable] = OrderedDict()
        self._newest: DeltaTable | None = None
        self._mark: Mark | None = None

    def newest(self) -> DeltaTable:
        """The table as it is now."""
        try:
            if self._newest is None or not self._caught_up(self._newest):
                self._reopen()
        except TableNotFoundError:
            self._newest = None
            raise ConfigError(
                f"{self._where}: there is no Delta table in {self.storage.url}", "correct the url"
            ) from None
        except (DeltaError, OSError, WarehouseError) as error:
            self._newest = None
            raise SourceUnavailable(f"{self._where} cannot be read: {error}", "look at the folder") from error
        assert self._newest is not None
        return self._newest

    def _caught_up(self, table: DeltaTable) -> bool:
        """Whether it is the table that we knew, brought up to date."""
        known = table.version()
        table.update_incremental()
        moved = table.version() != known
        now = self._mark_of(table.version()) if moved else self._mark
        if self._mark is None or self._mark_of(known) != self._mark:
            return False
        if moved:
            self._check_readable(table)
        self._mark = now
        return True

    def _reopen(self) -> None:
        self._open.clear()  # of another table, perhaps
        table = DeltaTable(self.storage.url, storage_options=self.storage.delta_options)
        self._check_readable(table)
        self._newest, self._mark = table, self._mark_of(table.version())

    def _mark_of(self, number: int) -> Mark | None:
        """What tells a version's file from another one in its place; None if there is no such file."""
        name = self._log_file(number)
        if not self.storage.local:
            found = self.storage.objects.get(name)
            return None if found is None else (found.tag,)
        try:
            seen = os.stat(self.storage.path(name))
        except FileNotFoundError:
            return None
        return (seen.st_ino, seen.st_mtime_ns, seen.st_size)

    @staticmethod
    def _log_file(number: int) -> str:
        return f"_delta_log/{number:020d}.json"

    def _check_readable(self, table: DeltaTable) -> None:
        features = [f for f in table.protocol().reader_features or () if f in _UNREADABLE]
        configured = table.metadata().configuration
        if configured.get("delta.columnMapping.mode", "none") != "none":
            features.append("columnMapping")
        if features:
            raise SourceRefused(
                f"{self._where} uses {' and '.join(_UNREADABLE[f] for f in dict.fromkeys(features))}, which Headwater"
                " does not read",
                "switch it off for this table, and rewrite it once",
            )

    def at(self, number: int) -> DeltaTable:
        """The table as of a version, of the table that `newest` has found."""
        if self._newest is not None and self._newest.version() == number:
            return self._newest
        if number not in self._open:
            try:
                options = self.storage.delta_options
                self._open[number] = DeltaTable(self.storage.url, version=number, storage_options=options)
            except (DeltaError, OSError) as error:
                raise self._gone(number) from error
            while len(self._open) > OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(number)
        return self._open[number]

    def read(self, number: int) -> Version:
        data = self.storage.get(self._log_file(number))
        if data is None:
            raise self._gone(number)
        actions = [json.loads(line) for line in data.decode().splitlines() if line.strip()]
        info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
        made = info.get("inCommitTimestamp", info.get("timestamp"))
        if made is None:
            seen = self.storage.filesystem.get_file_info(self.storage.path(self._log_file(number)))
            made = seen.mtime.timestamp() * 1000
        found: dict[str, list[dict[str, Any]]] = {"add": [], "remove": []}
        for action in actions:
            for kind, files in found.items():
                if kind in action and action[kind].get("dataChange", True):
                    files.append(action[kind])
        at = dt.datetime.fromtimestamp(made / 1000, dt.UTC)
        return Version(number, at, tuple(found["add"]), tuple(found["remove"]))

    def changes(self, version: Version, schema: pa.Schema) -> pa.Table:
        """The rows that a version brought and took: these columns, COUNT."""
        parts = [self._rows(file, schema, version.number, 1) for file in version.added]
        parts += [self._rows(file, schema, version.number, -1) for file in version.removed]
        empty = pa.schema([*schema, pa.field(COUNT, pa.int64())]).empty_table()
        return consolidate(pa.concat_tables([empty, *parts]))

    def state(self, number: int, schema: pa.Schema, where: pc.Expression | None, part: tuple[int, int]) -> pa.Table:
        """What the table held in a version, of the files that fall into this part of them: these columns, COUNT."""
        try:
            table = self.at(number)
            dataset = table.to_pyarrow_dataset()
            fragments = [f for f in dataset.get_fragments(filter=where) if _part(f.path, part[1]) == part[0]]
            chosen = pads.FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)
            rows = one_zero(chosen.to_table(columns=schema.names, filter=where).cast(schema))
        except FileNotFoundError as error:
            raise self._gone(number) from error
        return rows.append_column(COUNT, pa.array([1] * rows.num_rows, pa.int64()))

    def _rows(self, file: dict[str, Any], schema: pa.Schema, number: int, count: int) -> pa.Table:
        path = self.storage.path(unquote(file["path"]))
        fixed = file.get("partitionValues") or {}
        try:
            there = pq.ParquetFile(path, filesystem=self.storage.filesystem)
        except FileNotFoundError:
            raise self._gone(number) from None
        names = [n for n in schema.names if n in there.schema_arrow.names]
        rows = there.read(columns=names)
        columns = []
        for field in schema:
            if field.name in fixed:
                value = pa.scalar(fixed[field.name], pa.string()).cast(field.type)
                columns.append(pa.repeat(value, rows.num_rows))
            elif field.name in names:
                columns.append(rows.column(field.name).cast(field.type))
            else:  # the file is older than the column
                columns.append(pa.nulls(rows.num_rows, field.type))
        counts = pa.array([count] * rows.num_rows, pa.int64())
        return one_zero(pa.table([*columns, counts], schema=pa.schema([*schema, pa.field(COUNT, pa.int64())])))

    def _gone(self, number: int) -> PositionTrimmed:
        return PositionTrimmed(
            f"{self._where}: version {number} is not there any more (VACUUM, or its log was cleaned up)",
            "keep versions for longer than Headwater may be away (delta.logRetentionDuration,"
            " delta.deletedFileRetentionDuration)",
        )


def _part(path: str, parts: int) -> int:
    """The same file falls into the same part, whoever asks and as of whatever version."""
    return sum(path.rpartition("/")[2].encode()) % parts
