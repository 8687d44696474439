"""The journal: numbered transactions, durable before anything is computed from them.

A segment is one round of the integrator: an Arrow file per touched table (that table's changelog), one for the
transactions, and a manifest. The manifest is written last, in one atomic step, and only a segment with a manifest
exists: a crash before it leaves orphans that the next start removes, and the sources, asked again from the last
positions, give the same transactions anew.

A manifest is never replaced, and files are named for the lease they were written under. So where a maintainer that
lost its lease has a segment under way, it and its successor's do not mix: one of the two manifests is refused.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from headwater.integrator.numbering import Numbered, column_order
from headwater.model.changelog import SEQ
from headwater.model.errors import HistoryGone, WarehouseError
from headwater.model.names import FOREVER, Position, Seq, SourceName, TableName
from headwater.storage import Storage
from headwater.storage.records import decode, encode

FOLDER = "journal"
_MANIFEST = "manifest.json"
_TRANSACTIONS = "transactions.arrow"


@dataclass(frozen=True)
class Segment:
    """What a manifest says. `tables` maps a touched table to its file and number of rows."""

    number: int
    lo: Seq
    hi: Seq
    positions: Mapping[SourceName, Position]
    tables: Mapping[TableName, tuple[str, int]]
    warehouse: str = ""
    """The identity of the warehouse it belongs to."""
    fence: int = 0
    """The lease it was written under."""

    @property
    def folder(self) -> str:
        return f"{FOLDER}/{self.number:012d}"

    @property
    def transactions(self) -> str:
        """The file of its transactions."""
        return f"{self.folder}/{_named(_TRANSACTIONS, self.fence)}"

    @property
    def rows(self) -> int:
        """How many changes it holds."""
        return sum(rows for _, rows in self.tables.values())


class Journal:
    """The segments of one warehouse, in order. One writer, which knows the warehouse's identity, and any
    number of readers."""

    def __init__(self, storage: Storage, warehouse: str = "") -> None:
        self._storage, self._warehouse = storage, warehouse
        self._segments: list[Segment] = []
        self.refresh()

    def refresh(self) -> None:
        """Learn of segments written or trimmed by others."""
        known = {s.number: s for s in self._segments}
        found = []
        for name in self._storage.names(FOLDER):
            segment = known.get(int(name)) or self._load(int(name))
            if segment is not None:
                found.append(segment)
        self._segments = found

    def remove_orphans(self) -> int:
        """Delete folders without a manifest. Only for the writer, before it writes. In an object store the next
        folder stays: an earlier writer may be about to complete it, and then it must be whole."""
        whole = {s.number for s in self._segments}
        if not self._storage.local:
            whole.add(max(whole, default=0) + 1)
        gone = [name for name in self._storage.names(FOLDER) if int(name) not in whole]
        for name in gone:
            self._storage.delete_folder(f"{FOLDER}/{name}")
        return len(gone)

    @property
    def segments(self) -> Sequence[Segment]:
        return tuple(self._segments)

    @property
    def newest(self) -> Segment | None:
        return self._segments[-1] if self._segments else None

    def append(self, numbered: Numbered) -> Segment:
        """Write a segment; durable when this returns."""
        last = self.newest
        assert last is None or last.hi == numbered.lo, "numbers must follow each other"
        number, fence = last.number + 1 if last else 1, self._storage.fence()
        folder = f"{FOLDER}/{number:012d}"
        tables = {}
        for position, (table, rows) in enumerate(sorted(numbered.changes.items())):
            file = _named(f"{position:04d}-{quote(str(table), safe='')[:80]}.arrow", fence)
            self._storage.write_arrow(f"{folder}/{file}", rows.select(column_order(rows)).combine_chunks())
            tables[table] = (file, rows.num_rows)
        segment = Segment(number, numbered.lo, numbered.hi, dict(numbered.positions), tables, self._warehouse, fence)
        self._storage.write_arrow(segment.transactions, numbered.transactions.combine_chunks())
        if not self._storage.put_new(f"{folder}/{_MANIFEST}", encode(_manifest(segment))):
            raise WarehouseError(
                f"another process writes to the journal at {self._storage.url}: segment {number} is there already",
                "only one may maintain a warehouse at a time: see that one has ended, then start again",
            )
        self._segments.append(segment)
        return segment

    def between(self, lo: int, hi: int) -> list[Segment]:
        """The segments that hold transactions of (lo, hi]."""
        return [s for s in self._segments if s.hi > lo and s.lo < hi]

    def at(self, seq: int) -> Segment | None:
        """The last segment that ends at or before `seq`."""
        return next((s for s in reversed(self._segments) if s.hi <= seq), None)

    def reaching(self, seq: int) -> Segment | None:
        """The first segment that ends at or after `seq`; of several that end there, the one that knows best where the
        sources are."""
        first = next((s for s in self._segments if s.hi >= seq), None)
        return first and next(s for s in reversed(self._segments) if s.hi == first.hi)

    def transactions(self, lo: int, hi: int) -> Iterator[pa.Table]:
        """The transactions of (lo, hi], segment by segment."""
        for segment in self.between(lo, hi):
            yield within(self._storage.read_arrow(segment.transactions), lo, hi)

    def trim(self, below: int) -> int:
        """Forget segments that end at or before `below`, but never the newest one; returns how many."""
        gone = [s for s in self._segments[:-1] if s.hi <= below]
        for segment in gone:
            # the manifest goes first: a crash half-way leaves an orphan, never a segment with holes
            self._storage.delete(f"{segment.folder}/{_MANIFEST}")
            self._storage.delete_folder(segment.folder)
        self._segments = self._segments[len(gone) :]
        return len(gone)

    def _load(self, number: int) -> Segment | None:
        return _load(self._storage, number)


def _load(storage: Storage, number: int) -> Segment | None:
    name = f"{FOLDER}/{number:012d}/{_MANIFEST}"
    text = storage.get(name)
    return None if text is None else _segment(decode(text, _Manifest, storage.uri(name)))


def segments_between(storage: Storage, lo: int, hi: int) -> Iterator[Segment]:
    """The segments that hold transactions of (lo, hi], for a reader that wants few of many: the first is found by
    halving, so no other manifest is read."""
    numbers = [int(name) for name in storage.names(FOLDER)]
    first = bisect_right(numbers, lo, key=lambda number: _reaches(storage, number))
    for number in numbers[first:]:
        segment = _load(storage, number)
        if segment is None:
            continue
        if segment.lo >= hi:
            return
        yield segment


def _reaches(storage: Storage, number: int) -> int:
    """Where a segment ends. One without a manifest is half written, after all others, or half forgotten, before them;
    where others follow it, it is the latter."""
    segment = _load(storage, number)
    if segment is not None:
        return segment.hi
    return FOREVER if _load(storage, number + 1) is None else -1


def transactions_between(storage: Storage, lo: int, hi: int) -> Iterator[pa.Table]:
    """The transactions of (lo, hi], segment by segment."""
    for segment in segments_between(storage, lo, hi):
        yield within(storage.read_arrow(segment.transactions), lo, hi)


def read_changes(
    storage: Storage, segments: Sequence[Segment], table: TableName, lo: int, hi: int, columns: Sequence[str] = ()
) -> pa.Table | None:
    """The changes of one table in (lo, hi]: its columns, COUNT, SEQ; None if there are none. An error if one of
    `columns` was not taken in with some of them, because no view that ran used it then."""
    parts = []
    for segment in segments:
        if table in segment.tables:
            rows = storage.read_arrow(f"{segment.folder}/{segment.tables[table][0]}")
            if missing := [name for name in columns if name not in rows.schema.names]:
                raise HistoryGone(
                    f"changes of {table} after state {segment.lo} were taken in without its column {missing[0]}, which "
                    "no view that ran used then",
                    "'headwater apply' loads the view again",
                )
            parts.append(rows if segment.lo >= lo and segment.hi <= hi else within(rows, lo, hi))
    return pa.concat_tables(parts, promote_options="permissive") if parts else None


def within(rows: pa.Table, lo: int, hi: int) -> pa.Table:
    """The rows of transactions (lo, hi]."""
    seq = rows.column(SEQ)
    return rows.filter(pc.and_(pc.greater(seq, lo), pc.less_equal(seq, hi)))


@dataclass(frozen=True)
class _Manifest:
    """A segment as its manifest has it."""

    segment: int
    lo: Seq
    hi: Seq
    positions: Mapping[SourceName, Position]
    tables: list[tuple[SourceName, str, str, str, int]]
    """(source, schema, table, file, rows) each."""
    warehouse: str = ""
    fence: int = 0


def _manifest(s: Segment) -> _Manifest:
    tables = [(t.source, t.schema, t.table, file, rows) for t, (file, rows) in s.tables.items()]
    return _Manifest(s.number, s.lo, s.hi, s.positions, tables, s.warehouse, s.fence)


def _segment(m: _Manifest) -> Segment:
    tables = {TableName(source, table, schema): (file, rows) for source, schema, table, file, rows in m.tables}
    return Segment(m.segment, m.lo, m.hi, m.positions, tables, m.warehouse, m.fence)


def _named(file: str, fence: int) -> str:
    return f"{fence}-{file}" if fence else file
