"""Many small transactions of the log at once: taken apart as arrays, not event by event.

Where single rows are committed one after the other, nearly all of the log are transactions alike: a name, the layout of
one table, one event of rows, a commit. Those that stand next to each other are a **run**.

    stretch   the packets of such transactions, and where in them each event begins
    run       what they say: names, places, moments, and by table their rows, not decoded yet
    alike     rows of a run that have one layout

**Invariant.** A run says what its events, read one by one, would say. What is taken for granted of all of them is read
of the first as any event is, and compared byte by byte with the others; where they differ, or where anything else is
met than the above, the events are read one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.sources.mariadb import events
from headwater.sources.mariadb.catalog import OWN
from headwater.sources.mariadb.events import HEADER, Event, Layout
from headwater.sources.mariadb.places import Place
from headwater.sources.mariadb.wire import Block

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

FEWEST = 8
"""Shorter runs are read one by one."""
LARGEST = 2048
"""Larger events of rows are decoded row by row, as fast."""

_SAID = 1 + HEADER.size
"""From the beginning of a packet to the body of its event."""
_NOTES = (29, 160)
"""Statements as text, for people."""
_GTID_33 = 33
_ROWS = 0
"""In a pattern: one of `_PLAIN_ROWS`."""
_MARIADB = (events.GTID, events.TABLE_MAP, _ROWS, events.XID)
_MYSQL = (_GTID_33, events.QUERY, events.TABLE_MAP, _ROWS, events.XID)
_PLAIN_ROWS = (23, 24, 25, 30, 31, 32)
_UNUSUAL = 1 | 64 | 128
"""Flags of a GTID: no COMMIT follows, or XA is meant."""
_BEGIN = b"\0BEGIN"
_NAMED = {events.GTID: 13, _GTID_33: 25}
"""So many bytes of a GTID are read."""


@dataclass(frozen=True, eq=False)
class Stretch:
    """Of each transaction, which packets of a block it is. Its events end with so many bytes of checksum."""

    block: Block
    names: Ints
    layouts: Ints
    rows: Ints
    commits: Ints
    tail: int

    @property
    def _packets(self) -> Iterator[list[int]]:
        return (column.tolist() for column in (self.names, self.layouts, self.rows, self.commits))

    @property
    def packets(self) -> tuple[int, int]:
        """The first, and the one behind the last; notes are among them."""
        return int(self.names[0]), int(self.commits[-1]) + 1

    def events(self, number: int) -> Iterator[tuple[int, Event]]:
        """One by one, with the server that wrote each; notes are left out."""
        for transaction in zip(*self._packets, strict=True):
            for packet in transaction:
                server = HEADER.unpack_from(self.block.data, self.block.begins[packet] + 1)[2]
                yield server, self.event(packet, number)

    def event(self, packet: int, number: int) -> Event:
        """`number` is the file's."""
        begin, end = self.block.begins[packet], self.block.ends[packet]
        when, kind, _, _, offset, _ = HEADER.unpack_from(self.block.data, begin + 1)
        return Event(kind, when, Place(number, offset), self.block.data[begin + _SAID : end - self.tail])


@dataclass(frozen=True, eq=False)
class Alike:
    """Events of one table, one of each of these transactions of the run. Of each: its kind, where its transaction ends,
    and where its images are."""

    layout: Layout
    data: bytes
    of: Ints
    kinds: Ints
    places: Ints
    begins: Ints
    ends: Ints

    def where(self, wanted: npt.NDArray[np.bool_]) -> Alike:
        arrays = (array[wanted] for array in (self.of, self.kinds, self.places, self.begins, self.ends))
        return Alike(self.layout, self.data, *arrays)

    def next_after(self, place: int) -> int:
        """Where the first transaction ends that ends after a place; one does."""
        return int(self.places[np.searchsorted(self.places, place, "right")])


@dataclass(frozen=True, eq=False)
class Run:
    """Transactions one after the other. `rows` are of one database only."""

    names: pa.Array
    places: Ints
    when: Ints
    rows: tuple[Alike, ...]
    size: int

    @property
    def place(self) -> Place:
        """Where the last of them ends."""
        return Place.of(int(self.places[-1]))

    def counted(self, tables: Collection[str], upto: Place | None = None) -> int:
        """How many events of rows of these tables there are in those that end by then."""
        found = [part for part in self.rows if part.layout.table in tables]
        return sum(len(part.of) if upto is None else int((part.places <= int(upto)).sum()) for part in found)


def heads(block: Block) -> int:
    """How many packets there are up to the last that says how a file begins."""
    found = np.flatnonzero(np.isin(block.kinds, (events.ROTATE, events.FORMAT)))
    return int(found[-1]) + 1 if len(found) else 0


def stretches(block: Block, tail: int) -> Iterator[tuple[int, int, Stretch | None]]:
    """A block in order: packets from … to, and what they are if they are a stretch."""
    at = 0
    for stretch in _found(block, tail):
        first, last = stretch.packets
        if at < first:
            yield at, first, None
        yield first, last, stretch
        at = last
    if at < len(block.begins):
        yield at, len(block.begins), None


def _found(block: Block, tail: int) -> list[Stretch]:
    if len(block.begins) < FEWEST * len(_MARIADB):
        return []
    data, begins, ends = block.bytes, *block.spans
    kinds = block.kinds
    packets = np.flatnonzero(~np.isin(kinds, _NOTES))
    pattern = _MARIADB if (kinds == events.GTID).any() else _MYSQL
    count = len(packets) - len(pattern) + 1
    alike = np.ones(max(count, 0), np.bool_)
    for n, kind in enumerate(pattern):
        here = kinds[packets[n : n + count]] if count > 0 else kinds[:0]
        alike &= np.isin(here, _PLAIN_ROWS) if kind == _ROWS else here == kind
    starts = np.flatnonzero(alike)
    if len(starts) < FEWEST:
        return []
    of = [packets[starts + n] for n in range(len(pattern))]
    sizes = [ends[packet] - begins[packet] - _SAID - tail for packet in of]
    good = (sizes[0] >= _NAMED[pattern[0]]) & (sizes[-2] >= 6) & (sizes[-3] >= 6) & (sizes[-2] <= LARGEST)
    starts, of = starts[good], [packet[good] for packet in of]
    if len(starts) < FEWEST:
        return []
    named = begins[of[0]] + _SAID
    if pattern is _MARIADB:
        good = data[named + 12] & _UNUSUAL == 0
    else:
        server = data[named[0] + 1 :][:16].tobytes()
        good = _same(data, named + 1, server) & _same(data, ends[of[1]] - tail - len(_BEGIN), _BEGIN)
    chosen = np.flatnonzero(good)
    found = []
    for part in np.split(chosen, np.flatnonzero(np.diff(starts[chosen]) != len(pattern)) + 1):
        if len(part) >= FEWEST:
            names, layouts, rows, commits = (of[n][part] for n in (0, -3, -2, -1))
            found.append(Stretch(block, names, layouts, rows, commits, tail))
    return found


def read(stretch: Stretch, number: int, database: str) -> Run | None:
    """What they say; None if that cannot be said of all at once."""
    block, tail = stretch.block, stretch.tail
    data, begins, ends = block.bytes, *block.spans
    tables = numbers(data, begins[stretch.layouts] + _SAID, 6)
    if (tables != numbers(data, begins[stretch.rows] + _SAID, 6)).any():
        return None
    kinds = data[begins[stretch.rows] + 5].astype(np.int64)
    places = (number << 40) | numbers(data, begins[stretch.commits] + 1 + 13, 4)
    parts: list[Alike] = []
    for table in np.unique(tables).tolist():
        of = np.flatnonzero(tables == table)
        described, written = stretch.layouts[of], stretch.rows[of]
        first = stretch.event(int(described[0]), number).body
        if not _alike(data, (begins[described] + _SAID, ends[described] - tail), first):
            return None
        layout = events.layout(first)
        if layout.database != database:
            continue
        if not layout.columns or layout.table.startswith(OWN) or layout.table in {one.layout.table for one in parts}:
            return None
        images = np.zeros(len(of), np.int64)
        for kind in np.unique(kinds[of]).tolist():
            alike = np.flatnonzero(kinds[of] == kind)
            body = stretch.event(int(written[alike[0]]), number).body
            rows = events.rows(kind, body, layout)
            before = body[: len(body) - len(rows.images)]
            if not rows.whole or not _same(data, begins[written[alike]] + _SAID, before).all():
                return None
            images[alike] = begins[written[alike]] + _SAID + len(before)
        parts.append(Alike(layout, block.data, of, kinds[of], places[of], images, ends[written] - tail))
    when = numbers(data, begins[stretch.commits] + 1, 4)
    first_packet, last_packet = stretch.packets
    size = int(ends[last_packet - 1] - begins[first_packet])
    return Run(_names(stretch, data, begins), places, when, tuple(parts), size)


def _names(stretch: Stretch, data: Bytes, begins: Ints) -> pa.Array:
    at = begins[stretch.names]
    body = at + _SAID
    if data[at[0] + 5] == events.GTID:
        sequence, domain = numbers(data, body, 8), numbers(data, body + 8, 4)
        server = numbers(data, at + 1 + 5, 4)
        said = [pa.array(part).cast(pa.string()) for part in (domain, server, sequence)]
        return pc.binary_join_element_wise(*said, "-")
    first = stretch.event(int(stretch.names[0]), 0)
    server_name = events.mysql_gtid(first.kind, first.body).rpartition(":")[0]
    said_numbers = pa.array(numbers(data, body + 17, 8)).cast(pa.string())
    return pc.binary_join_element_wise(pa.scalar(server_name), said_numbers, ":")


def numbers(data: Bytes, at: Ints, size: int) -> Ints:
    """Of so many bytes, the lowest first; of eight, as they are."""
    found = np.zeros(len(at), np.int64)
    for n in range(size):
        found |= data[at + n].astype(np.int64) << 8 * n
    return found


def _same(data: Bytes, at: Ints, text: bytes) -> npt.NDArray[np.bool_]:
    """Where these bytes stand."""
    told = np.frombuffer(text, np.uint8)
    fits = at + len(told) <= len(data)
    there = data[np.where(fits, at, 0)[:, None] + np.arange(len(told))] == told
    whole: npt.NDArray[np.bool_] = fits & there.all(axis=1)
    return whole


def _alike(data: Bytes, spans: tuple[Ints, Ints], text: bytes) -> bool:
    begins, ends = spans
    return bool((ends - begins == len(text)).all() and _same(data, begins, text).all())
