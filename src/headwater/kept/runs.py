"""A run: rows on a local disk, memory-mapped, and indexes of them.

    NAME.rows               the rows, as one Arrow file
    NAME.INDEX.index        (h, row) sorted by the hash of the key, then by the order that rows of one key have
    NAME.INDEX.ranks        the same with (code, sum) of the value that orders them (`ranks`)

A lookup is a binary search of hashes; what is found is compared with the key itself. Both files are made aside and get
their name when they are complete, and they are only copies: who finds one torn or of another version makes it again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.kept.contract import Ints
from headwater.kept.engine import hashes, speaking, version
from headwater.kept.ranks import Ranks, codes
from headwater.model.arrow import pc
from headwater.model.changelog import COUNT

log = logging.getLogger(__name__)

_HASH, _ROW, _CODE, _SUM, _SPEC, _SHARED = "h", "row", "code", "sum", "index", "shared"


@dataclass(frozen=True)
class Index:
    """Rows are found by some columns; those of one key stand in the `order` of a column, without the NULLs. `ranked`:
    with what they count together up to each place."""

    by: tuple[str, ...]
    order: str = ""
    ranked: bool = False

    @property
    def name(self) -> str:
        text = "\0".join([version() if self.by else "", self.order, *self.by])  # without columns there are no hashes
        return f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.{'ranks' if self.ranked else 'index'}"


@dataclass(frozen=True)
class Ranges:
    """Of every key asked for, where its rows stand in an index: from `low` up to `high`."""

    low: Ints
    high: Ints


@dataclass(frozen=True)
class Indexed:
    """One index of a run. `shared` are hashes that several keys have."""

    rows: pa.Table
    hashes: Ints
    places: Ints
    ranks: Ranks | None = None
    shared: frozenset[int] = frozenset()

    def ranges(self, wanted: Ints) -> Ranges:
        return Ranges(np.searchsorted(self.hashes, wanted, "left"), np.searchsorted(self.hashes, wanted, "right"))

    def take(self, at: Ints, columns: Sequence[str]) -> pa.Table:
        """The rows at these places of the index."""
        return self.rows.select(columns).take(pa.array(self.places[at]))


def places_of(ranges: Ranges) -> Ints:
    """All places of the ranges, one range after the other."""
    lengths = ranges.high - ranges.low
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(ranges.low - (ends - lengths), lengths), np.int64)


def opened(folder: Path, name: str, index: Index, read: Callable[[], pa.Table]) -> Indexed:
    """An index of the rows that `read` returns, made if it is not there."""
    rows = copied(folder, name, read)
    path = folder / f"{name}.{index.name}"
    entries = mapped(path)
    if entries is None:
        entries = _entries(rows, index)
        _write(path, entries)
    return _indexed(rows, entries)


def copied(folder: Path, name: str, read: Callable[[], pa.Table]) -> pa.Table:
    """The rows that `read` returns, as a copy, made if it is not there."""
    rows = mapped(folder / f"{name}.rows")
    if rows is None:
        rows = read().combine_chunks()
        _write(folder / f"{name}.rows", rows)
        rows = mapped(folder / f"{name}.rows") or rows
    return rows


def indexes(folder: Path, name: str) -> list[Index]:
    """Those that there are of some rows."""
    found = []
    for path in (*folder.glob(f"{name}.*.index"), *folder.glob(f"{name}.*.ranks")):
        entries = mapped(path)
        if entries is not None:
            by, order = json.loads((entries.schema.metadata or {})[_SPEC.encode()])
            found.append(Index(tuple(by), order, path.suffix == ".ranks"))
    return found


def indexed(rows: pa.Table, index: Index) -> Indexed:
    """The same in memory."""
    rows = rows.combine_chunks()
    return _indexed(rows, _entries(rows, index))


def _indexed(rows: pa.Table, entries: pa.Table) -> Indexed:
    found, places = (_numbers(entries.column(name)) for name in (_HASH, _ROW))
    if _CODE not in entries.column_names:
        return Indexed(rows, found, places)
    shared = frozenset(json.loads((entries.schema.metadata or {})[_SHARED.encode()]))
    return Indexed(rows, found, places, Ranks(*(_numbers(entries.column(name)) for name in (_CODE, _SUM))), shared)


def _entries(rows: pa.Table, index: Index) -> pa.Table:
    found = hashes(rows.select(index.by))
    if index.order and not index.by:
        there = len(rows) - rows.column(index.order).null_count  # NULLs stand last
        places = pc.sort_indices(rows.column(index.order)).to_numpy()[:there]
    elif index.order:
        order = pa.table({_HASH: found, _ROW: rows.column(index.order)})
        places = pc.sort_indices(order, sort_keys=[(_HASH, "ascending"), (_ROW, "ascending")]).to_numpy()
        there = pc.is_valid(rows.column(index.order)).to_numpy()
        places = places[there[places]]
    else:
        places = np.argsort(found, kind="stable")
    said = {_SPEC: json.dumps([index.by, index.order])}
    entries = {_HASH: found[places], _ROW: places.astype(np.int64)}
    if index.ranked:
        ordered = rows.select([index.order, COUNT]).take(pa.array(places)).combine_chunks()
        entries[_CODE] = np.concatenate([_NONE, *(codes(chunk) for chunk in ordered.column(index.order).chunks)])
        entries[_SUM] = np.cumsum(_numbers(ordered.column(COUNT)))
        said[_SHARED] = json.dumps(_shared(rows.select(index.by), found))
    return pa.table(entries).replace_schema_metadata(said)


_NONE = np.zeros(0, np.int64)


def _shared(keys: pa.Table, found: Ints) -> list[int]:
    """The hashes that different keys have."""
    names = [f"c{i}" for i in range(keys.num_columns)]
    if not names:
        return []
    with speaking(k_=keys.rename_columns(names).append_column("h", pa.array(found))) as here:
        twice = f"SELECT h FROM (SELECT DISTINCT h, {', '.join(names)} FROM k_) GROUP BY h HAVING COUNT(*) > 1"
        return [int(h) for h in here.sql(twice).to_arrow_table().column("h").to_pylist()]


def _numbers(column: pa.ChunkedArray) -> Ints:
    if column.num_chunks == 1:
        return np.asarray(column.chunk(0).to_numpy(), np.int64)
    return np.asarray(column.to_numpy(), np.int64)


def _write(path: Path, table: pa.Table) -> None:
    """A copy that cannot be made (a reader without the right to, a full disk) is done without."""
    aside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        with aside.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(aside, path)
    except OSError as error:
        log.info("no copy at %s: %s", path, error)
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


def mapped(path: Path) -> pa.Table | None:
    """None if it is not there, or not whole: an Arrow file ends with what was written last."""
    try:
        with pa.memory_map(str(path)) as source:
            return pa.ipc.open_file(source).read_all()
    except (FileNotFoundError, pa.ArrowInvalid):
        return None
