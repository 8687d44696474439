"""What was read from the log, put into the change tables: the middle of a move (`log.py`).

A change's row in its table is what a trigger would have written, told to the server as a binary COPY that is put
together for many rows at once: all of a row but its text has the same length for all rows of one layout.

**What names stand for** is sure if it was the same before the window of the log that is read and after it; else there
is a gap (see `log.py`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.partitions import Partitions
from headwater.sources.postgres.pgoutput import Batch, Decoder, Ints, Relation, Rows
from headwater.sources.postgres.recent import AT_MOST, Moved
from headwater.sources.postgres.triggers import changes_table

AT_ONCE = 50_000
AT_ONCE_BYTES = 16 << 20
"""So many changes are written at a time, or so large ones."""

COLUMNS_NOW = """
SELECT g.oid::bigint, json_agg(json_build_array(a.attnum, a.attname, a.xmin::text) ORDER BY a.attnum)::text
FROM headwater.logged AS g JOIN pg_catalog.pg_attribute AS a ON a.attrelid = g.oid
WHERE a.attnum > 0 AND NOT a.attisdropped GROUP BY g.oid
"""

_MICROSECONDS_TO_2000 = 946_684_800_000_000

_COPY_BEGINS, _COPY_ENDS = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"


@dataclass(frozen=True)
class Columns:
    """Of one table: number and name of each column, and which transaction last altered it."""

    known: tuple[tuple[int, str, str], ...]

    @classmethod
    def read(cls, text: str) -> Columns:
        return cls(tuple((number, name, by) for number, name, by in json.loads(text)))

    def layout(self, relation: Relation, now: Columns) -> str | None:
        """The numbers behind the names that the log tells; None if somebody altered them meanwhile."""
        before = {name: (number, name, by) for number, name, by in self.known}
        after = {name: (number, name, by) for number, name, by in now.known}
        taken, left = {number for number, _, _ in self.known}, {number for number, _, _ in now.known}
        numbers = []
        for name in relation.columns:
            one = after.get(name)
            if one is None and name in before and before[name][0] not in left:  # it was dropped since
                numbers.append(before[name][0])
                continue
            if one is None or (one != before.get(name) and (name in before or one[0] in taken)):
                return None
            numbers.append(one[0])
        return " ".join(map(str, numbers))


class Moving:
    """What a move has read and not written yet."""

    def __init__(self, connection: Connection, before: dict[int, str], moved: int, xmax: int) -> None:
        self._connection, self._xmax = connection, xmax
        self._decoder = Decoder(moved)
        self._before = {oid: Columns.read(text) for oid, text in before.items()}
        self._partitions = Partitions.read(connection, before)
        self._layouts: dict[Relation, str | None] = {}
        self._rows: dict[int, list[bytes]] = {}
        self._commits: list[bytes] = []
        self._waiting = self._bytes = 0
        self._told: list[Moved] = []
        self._transactions = 0
        self.end = moved
        self.gaps: dict[int, str] = {}

    def take(self, messages: Sequence[bytes]) -> None:
        batch = self._decoder.decode(messages)
        if not len(batch.xids):
            return
        self.end = max(self.end, int(batch.ends.max()))
        for oid, upto in batch.partial.items():
            for root in self._concerned(upto, oid):
                self.gaps[root] = "was written without its old rows in the log (REPLICA IDENTITY was not FULL)"
        for n, oids in batch.truncated:
            for oid in self._partitions.untold(oids, int(batch.upto[n])):
                self.gaps[oid] = "has a partition that was truncated before 'headwater setup' had put a trigger on it"
        xids = self._whole(batch.xids)
        rows_of = dict[int, list[Ints]]()
        for rows in batch.rows:
            table = self._take_rows(rows, batch, xids)
            if table is not None:
                rows_of.setdefault(table, []).append(rows.transaction)
        self._remember(batch, xids, rows_of)
        done = batch.told & (batch.ends > 0)
        if done.any():
            self._commits.append(_commits(xids[done], batch.ends[done]))
        if self._waiting >= AT_ONCE or self._bytes >= AT_ONCE_BYTES:
            self.write()

    @property
    def told(self) -> Moved:
        """What was moved; nothing if it is too much to remember."""
        return Moved.joined(self._told)

    def _remember(self, batch: Batch, xids: Ints, rows_of: Mapping[int, Sequence[Ints]]) -> None:
        self._transactions += int(batch.told.sum())
        if self._transactions > AT_MOST:
            self._told = []
            return
        counted = {oid: np.unique(np.concatenate(of), return_counts=True) for oid, of in rows_of.items()}
        self._told.append(Moved(xids, batch.at + _MICROSECONDS_TO_2000, counted).where(batch.told))

    def _take_rows(self, rows: Rows, batch: Batch, xids: Ints) -> int | None:
        """Of which table they are; None if they are not taken."""
        of = rows.relation.oid
        table = of if of in self._before else self._partitions.root(of)
        if table is None:
            for root in self._concerned(int(batch.upto[rows.transaction].max()), of):
                self.gaps[root] = "had a partition, perhaps, that was written and is gone"
            return None
        layout = self._layout(rows.relation, table)
        if layout is None:
            self.gaps[table] = "was altered while its changes were read from the log"
            return None
        made = _changes(rows, xids[rows.transaction], batch.at[rows.transaction], layout)
        self._rows.setdefault(table, []).append(made)
        self._waiting += len(rows.texts)
        self._bytes += len(made)
        return table

    def write(self) -> None:
        for oid, parts in self._rows.items():
            into = sql.SQL('COPY {} (xid, at, count, layout, "row") FROM STDIN (FORMAT binary)')
            self._copy(into.format(changes_table(oid)), parts)
        if self._commits:
            self._copy(sql.SQL("COPY headwater.commits (xid, lsn) FROM STDIN (FORMAT binary)"), self._commits)
        self._rows, self._commits, self._waiting, self._bytes = {}, [], 0, 0

    def _copy(self, into: sql.SQL | sql.Composed, parts: Sequence[bytes]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(into) as copy:
            copy.write(b"".join([_COPY_BEGINS, *parts, _COPY_ENDS]))

    def _concerned(self, upto: int, oid: int) -> Collection[int]:
        """The captured tables that miss something if they are not told of what was committed up to there: itself, or
        what it is a partition of; if it is neither, all that it may have been a partition of. What came before their
        capture began is no loss."""
        if oid in self._before:
            return [oid]
        root = self._partitions.root(oid)
        if root is None and oid == self._partitions.apart:  # what tells parts of global transactions
            return []
        roots = self._partitions.roots if root is None else [root]
        return [one_root for one_root in roots if self._partitions.begun(one_root) < upto]

    def _layout(self, relation: Relation, table: int) -> str | None:
        if relation not in self._layouts:
            if not self._layouts:
                found = self._connection.execute(COLUMNS_NOW).fetchall()
                self._now = {oid: Columns.read(text) for oid, text in found}
            before, now = self._before.get(table), self._now.get(table)
            self._layouts[relation] = None if before is None or now is None else before.layout(relation, now)
        return self._layouts[relation]

    def _whole(self, xids: Ints) -> Ints:
        """Transactions' ids of 64 bits: of each the newest with these 32 that was begun by now."""
        found = (self._xmax & ~0xFFFFFFFF) | xids
        return np.where(found < self._xmax + (1 << 31), found, found - (1 << 32))


def _changes(rows: Rows, xids: Ints, at: Ints, layout: str) -> bytes:
    """These rows as a binary COPY has them: each field's length, then the field, most significant byte first."""
    said = layout.encode()
    fields = [
        ("fields", ">i2"), ("xid_size", ">i4"), ("xid", ">i8"), ("at_size", ">i4"), ("at", ">i8"),
        ("count_size", ">i4"), ("count", ">i2"), ("layout_size", ">i4"), ("layout", f"S{max(len(said), 1)}"),
        ("row_size", ">i4"),
    ]  # fmt: skip
    if not said:
        fields.remove(("layout", "S1"))
    heads = np.zeros(len(rows.texts), fields)
    heads["fields"], heads["xid_size"], heads["at_size"], heads["count_size"] = 5, 8, 8, 2
    heads["xid"], heads["at"], heads["count"], heads["layout_size"] = xids, at, rows.count, len(said)
    if said:
        heads["layout"] = said
    heads["row_size"] = pc.binary_length(rows.texts).to_numpy(zero_copy_only=False)
    ends = np.arange(len(heads) + 1, dtype=np.int64) * heads.itemsize
    parts = [None, pa.py_buffer(ends), pa.py_buffer(heads)]
    before = pa.Array.from_buffers(pa.large_binary(), len(heads), parts)
    whole = pc.binary_join_element_wise(before, rows.texts, pa.scalar(b"", pa.large_binary()))
    _, offsets, data = whole.buffers()
    places = np.frombuffer(offsets, np.int64, len(whole) + 1, whole.offset * 8)
    return memoryview(data)[places[0] : places[-1]].tobytes()


def _commits(xids: Ints, ends: Ints) -> bytes:
    fields = [("fields", ">i2"), ("xid_size", ">i4"), ("xid", ">i8"), ("lsn_size", ">i4"), ("lsn", ">i8")]
    rows = np.zeros(len(xids), fields)
    rows["fields"], rows["xid_size"], rows["lsn_size"], rows["xid"], rows["lsn"] = 2, 8, 8, xids, ends
    return rows.tobytes()
