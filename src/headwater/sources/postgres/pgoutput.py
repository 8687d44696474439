"""What PostgreSQL's own output plugin says of transactions, read: messages in, rows as texts out. Pure.

Protocol version 1, text values. A tuple becomes the text that PostgreSQL itself would write of the row, `(1,"a b",,t)`,
because that is what a change is in a change table (`triggers.py`); values are taken as they are, byte for byte.

An update tells a large value that it did not touch as "unchanged"; the row before has it (REPLICA IDENTITY FULL).

**Many at once.** A burst is hundreds of thousands of small messages, so nothing is done for one message that could be
done for all: the messages are one buffer, and what is at a certain place of each is read by one gather. The rows of a
table are walked column by column, all at the same time: where a value begins is known when the one before it is.

    I  oid  N tuple              one row came
    D  oid  O tuple              one row went; K in place of O: only its key is told
    U  oid  O tuple  N tuple     one went, one came
    tuple = number of columns, each  n (NULL) | u (unchanged) | t length bytes

The values of a table's rows lie in the buffer in the order of the rows and columns, so that the buffer with their ends
as offsets is an Arrow array, and putting rows together is Arrow's work. `tests/sources/pgoutput_reference.py` reads
message by message, and both must say the same.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_INT, _SHORT = struct.Struct(">I"), struct.Struct(">H")
_SPARE = bytes(8)
"""Behind the last message, so that a number may be read wherever a value might have been."""
_SPECIAL = np.isin(np.arange(256), np.frombuffer(b'"\\(), \t\n\v\f\r', np.uint8))
"""Bytes that a field cannot have without quotes around it."""
_INSERT, _UPDATE, _DELETE, _BEGIN, _COMMIT, _RELATION, _TRUNCATE = b"IUDBCRT"
_WHOLE, _TEXT, _UNCHANGED = b"Otu"


@dataclass(frozen=True)
class Relation:
    """A table as the log has it from here on: the names of the columns that it tells, in their order."""

    oid: int
    columns: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one table in the order of the log: by which transaction (its place in the batch), whether each came
    (count 1) or went (−1), and as text; `relation` is how its columns are called."""

    relation: Relation
    transaction: Ints
    count: Ints
    texts: pa.LargeBinaryArray


@dataclass(frozen=True, eq=False)
class Batch:
    """Transactions in the order of their commits. The last one may go on in the next batch, and is its first then.

    `at` is when each was committed, in microseconds since 2000; `ends` where its commit ends in the log, 0 if that is
    not told yet; `upto` the same, or at least more than where its commit begins. `told`: rows of it were told, or that
    it emptied a table. `truncated` are the tables that a transaction emptied; `partial` those of which an old row was
    not told whole, and the last `upto` of who did so."""

    xids: Ints
    at: Ints
    ends: Ints
    upto: Ints
    told: npt.NDArray[np.bool_]
    rows: Sequence[Rows]
    truncated: Sequence[tuple[int, Collection[int]]]
    partial: Mapping[int, int]


@dataclass(frozen=True)
class _Open:
    """A transaction whose commit is not there yet; `commit` is where it begins."""

    xid: int
    at: int
    commit: int
    told: bool


class Decoder:
    """Reads messages on from where it was. Transactions whose commit begins before `since` are left out: a place up to
    which everything was told is in no commit's midst, for a log that is read up to there is read to the end of the
    record that it finds there."""

    def __init__(self, since: int) -> None:
        self._since = since
        self._relations: dict[int, Relation] = {}
        self._open: _Open | None = None

    def decode(self, messages: Sequence[bytes]) -> Batch:
        seen = _Messages.of(messages)
        begins, commits = np.flatnonzero(seen.kinds == _BEGIN), np.flatnonzero(seen.kinds == _COMMIT)
        head, going_on = self._open, int(self._open is not None)
        first = [] if head is None else [head]
        xids = np.concatenate([np.array([o.xid for o in first], np.int64), seen.numbers(begins, 17, ">u4")])
        at = np.concatenate([np.array([o.at for o in first], np.int64), seen.numbers(begins, 9, ">i8")])
        commit = np.concatenate([np.array([o.commit for o in first], np.int64), seen.numbers(begins, 1, ">i8")])
        upto = commit + 1
        ends = np.zeros(len(xids), np.int64)
        ends[: len(commits)] = seen.numbers(commits, 10, ">i8")
        upto[: len(commits)] = ends[: len(commits)]
        assert len(xids) - len(commits) in (0, 1), "one transaction after the other"
        of = np.cumsum(seen.kinds == _BEGIN) - 1 + going_on
        wanted = commit >= self._since
        told = np.array([o.told for o in first] + [False] * len(begins), np.bool_)
        rows, partial = self._rows(messages, seen, of, wanted)
        truncated = [
            (int(of[n]), _truncated(messages[n]))
            for n in np.flatnonzero(seen.kinds == _TRUNCATE).tolist()
            if wanted[of[n]]
        ]
        for one in rows:
            told[one.transaction] = True
        told[[n for n, _ in truncated]] = True
        self._open = None
        if len(xids) > len(commits):
            self._open = _Open(int(xids[-1]), int(at[-1]), int(commit[-1]), bool(told[-1]))
        short: dict[int, int] = {}
        for n, oid in partial:
            short[oid] = max(short.get(oid, 0), int(upto[of[n]]))
        return Batch(xids, at, np.where(wanted, ends, 0), upto, told, rows, truncated, short)

    def _rows(
        self, messages: Sequence[bytes], seen: _Messages, of: Ints, wanted: npt.NDArray[np.bool_]
    ) -> tuple[list[Rows], list[tuple[int, int]]]:
        """The rows that are told, by table; and which messages about which table told none, for the old one was not
        whole."""
        kinds = seen.kinds
        places = np.flatnonzero((kinds == _INSERT) | (kinds == _UPDATE) | (kinds == _DELETE))
        places = places[wanted[of[places]]]
        oids = seen.numbers(places, 1, ">u4")
        whole = (kinds[places] == _INSERT) | (seen.buffer[seen.starts[places] + 5] == _WHOLE)
        partial = list(zip(places[~whole].tolist(), oids[~whole].tolist(), strict=True))
        places, oids = places[whole], oids[whole]
        named: dict[int, list[tuple[int, Relation]]] = {}
        for n in np.flatnonzero(kinds == _RELATION).tolist():
            relation = _relation(messages[n])
            named.setdefault(relation.oid, []).append((n, relation))
        rows = []
        for oid in np.unique(oids).tolist():
            mine, anew = places[oids == oid], named.get(oid, [])
            cuts = np.searchsorted(mine, [n for n, _ in anew])
            known = [self._relations.get(oid), *(relation for _, relation in anew)]
            for part, described in zip(np.split(mine, cuts), known, strict=True):
                if len(part):
                    assert described is not None, "a table is described before its rows are told"
                    rows.append(_rows_of(seen, described, part, of[part]))
        self._relations |= {oid: anew[-1][1] for oid, anew in named.items()}
        return rows, partial


@dataclass(frozen=True, eq=False)
class _Messages:
    """Messages as one buffer: where each begins, and what it is."""

    buffer: Bytes
    starts: Ints
    kinds: Bytes

    @classmethod
    def of(cls, messages: Sequence[bytes]) -> _Messages:
        sizes = np.fromiter(map(len, messages), np.int64, len(messages))
        buffer = np.frombuffer(b"".join([*messages, _SPARE]), np.uint8)
        starts = np.cumsum(sizes) - sizes
        return cls(buffer, starts, buffer[starts])

    def numbers(self, which: Ints | Sequence[int], offset: int, kind: str) -> Ints:
        """What these messages have at this offset."""
        return self.numbers_at(self.starts[which] + offset, kind)

    def numbers_at(self, places: Ints, kind: str) -> Ints:
        windows = np.lib.stride_tricks.sliding_window_view(self.buffer, np.dtype(kind).itemsize)
        return windows[places].view(kind).ravel().astype(np.int64)

    def tuples(self, places: Ints, width: int) -> tuple[_Tuples, Ints]:
        """The tuples that begin there, and where they end."""
        assert (self.numbers_at(places, ">u2") == width).all(), "a tuple has the columns that its table has"
        at, found = places + 2, _Tuples.empty(len(places), width)
        for n in range(width):
            found.kinds[:, n] = self.buffer[at]
            text = found.kinds[:, n] == _TEXT
            found.lengths[:, n] = np.where(text, self.numbers_at(np.where(text, at + 1, 0), ">u4"), 0)
            found.starts[:, n] = at + np.where(text, 5, 1)
            at = found.starts[:, n] + found.lengths[:, n]
        return found, at


@dataclass(frozen=True, eq=False)
class _Tuples:
    """Of each tuple, for each column, its kind, and where its text begins and how long it is."""

    kinds: Bytes
    starts: Ints
    lengths: Ints

    @classmethod
    def empty(cls, count: int, width: int) -> _Tuples:
        shape = (count, width)
        return cls(np.zeros(shape, np.uint8), np.zeros(shape, np.int64), np.zeros(shape, np.int64))

    def put(self, places: Ints, found: _Tuples) -> None:
        self.kinds[places], self.starts[places], self.lengths[places] = found.kinds, found.starts, found.lengths


def _rows_of(seen: _Messages, relation: Relation, places: Ints, of: Ints) -> Rows:
    """What these messages, of one table, tell."""
    width = len(relation.columns)
    kinds, updates = seen.kinds[places], seen.kinds[places] == _UPDATE
    first, end = seen.tuples(seen.starts[places] + 6, width)
    second, _ = seen.tuples(end[updates] + 1, width)
    row = np.arange(len(places)) + np.cumsum(updates) - updates  # an update takes two
    new = row[updates] + 1
    tuples = _Tuples.empty(len(places) + len(new), width)
    tuples.put(row, first)
    tuples.put(new, second)
    count = np.ones(len(tuples.kinds), np.int64)
    count[row[kinds != _INSERT]] = -1
    return Rows(relation, np.repeat(of, 1 + updates), count, _texts(seen.buffer, tuples, new))


def _texts(buffer: Bytes, tuples: _Tuples, new: Ints) -> pa.LargeBinaryArray:
    """Rows as PostgreSQL writes them. `new` are those that come right after what they take the place of."""
    rows, width = tuples.kinds.shape
    values = _values(buffer, tuples)
    index = np.arange(rows * width).reshape(rows, width) * 2
    special = np.concatenate([[0], np.cumsum(_SPECIAL[buffer])])
    quoted = (special[tuples.starts + tuples.lengths] > special[tuples.starts]) | (tuples.lengths == 0)
    null = tuples.kinds != _TEXT
    which, column = np.nonzero(tuples.kinds[new] == _UNCHANGED)
    for part in (index, quoted, null):
        part[new[which], column] = part[new[which] - 1, column]
    fields = []
    for n in range(width):
        field = values.take(pa.array(index[:, n], mask=null[:, n]))
        if (quoted[:, n] & ~null[:, n]).any():
            escaped = pc.replace_substring(pc.replace_substring(field, b"\\", b"\\\\"), b'"', b'""')
            inside = pc.binary_join_element_wise(_scalar(b'"'), escaped, _scalar(b'"'), _scalar(b""))
            field = pc.if_else(pa.array(quoted[:, n]), inside, field)
        fields.append(pc.fill_null(field, _scalar(b"")))
    if not fields:
        return pa.array([b"()"] * rows, pa.large_binary())
    inside = pc.binary_join_element_wise(*fields, _scalar(b",")) if width > 1 else fields[0]
    return pc.binary_join_element_wise(_scalar(b"("), inside, _scalar(b")"), _scalar(b""))


def _scalar(text: bytes) -> pa.LargeBinaryScalar:
    return pa.scalar(text, pa.large_binary())


def _values(buffer: Bytes, tuples: _Tuples) -> pa.LargeBinaryArray:
    """The buffer as an array that has the values, row by row, at its even places."""
    ends = np.empty(2 * tuples.starts.size + 1, np.int64)
    ends[0:-1:2] = tuples.starts.ravel()
    ends[1::2] = (tuples.starts + tuples.lengths).ravel()
    ends[-1] = ends[-2] if len(ends) > 1 else 0
    return pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(buffer)])


def _truncated(data: bytes) -> frozenset[int]:
    (number,) = _INT.unpack_from(data, 1)
    return frozenset(_INT.unpack_from(data, 6 + 4 * n)[0] for n in range(number))


def _relation(data: bytes) -> Relation:
    (oid,) = _INT.unpack_from(data, 1)
    at = data.index(b"\0", data.index(b"\0", 5) + 1) + 2  # schema, name, replica identity
    (number,) = _SHORT.unpack_from(data, at)
    return Relation(oid, tuple(_names(data, at + 2, number)))


def _names(data: bytes, at: int, number: int) -> Iterator[str]:
    for _ in range(number):
        end = data.index(b"\0", at + 1)
        yield data[at + 1 : end].decode()
        at = end + 9  # type and modifier
