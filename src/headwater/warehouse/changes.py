"""A stretch (after, upto] of a changelog, read from the files that can hold it.

Delta's statistics tell from which transaction to which each file goes, so the work follows the stretch and not the
history. Compaction folds what lies at or before the horizon into one state: no stretch may begin before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.model.changelog import SEQ, consolidate
from headwater.storage import Storage
from headwater.warehouse.delta import open_table
from headwater.warehouse.table import LogFile


@dataclass(frozen=True)
class Changelog:
    """The files of one version of a changelog, and their columns."""

    folder: str
    schema: pa.Schema
    files: Sequence[LogFile]
    bytes: int

    def within(self, after: int, upto: int) -> list[LogFile]:
        """The files that may hold rows of (after, upto]."""
        return [file for file in self.files if file.high > after and file.low <= upto]


def open_changelog(storage: Storage, folder: str, version: int) -> Changelog:
    """What the table's log says of this version; no data is read."""
    table = open_table(storage, folder, version)
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    files = [LogFile(a["path"], a["num_records"], a[f"min.{SEQ}"], a[f"max.{SEQ}"]) for a in actions]
    return Changelog(folder, pa.schema(table.schema().to_arrow()), files, sum(a["size_bytes"] for a in actions))


def read_stretch(storage: Storage, log: Changelog, after: int, upto: int) -> pa.Table:
    """The rows of (after, upto], by transaction: what each adds and takes away, equal rows once."""
    seq = pc.field(SEQ)
    parts = [
        pq.read_table(
            storage.path(f"{log.folder}/{file.name}"),
            filesystem=storage.filesystem,
            schema=log.schema,
            filters=(seq > after) & (seq <= upto),
            partitioning=None,
        )
        for file in log.within(after, upto)
    ]
    if not parts:
        return log.schema.empty_table()
    rows = pa.concat_tables(parts)
    try:
        return consolidate(rows).sort_by(SEQ)
    except pa.ArrowNotImplementedError:  # lists and the like cannot be grouped by: equal rows may stand twice
        return rows.sort_by(SEQ)


def seqs_within(storage: Storage, log: Changelog, after: int, upto: int) -> list[int]:
    """The transactions of (after, upto] that the changelog has rows of, ascending; only that column is read."""
    found: set[int] = set()
    for file in log.within(after, upto):
        path = storage.path(f"{log.folder}/{file.name}")
        column = pq.read_table(path, filesystem=storage.filesystem, columns=[SEQ], partitioning=None).column(SEQ)
        found |= {s for s in pc.unique(column).to_pylist() if after < s <= upto}
    return sorted(found)
