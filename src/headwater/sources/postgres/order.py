"""The order of a poll's transactions, and which of them must be told as one.

Known of each transaction: its id, the snapshot of its last captured statement (`seen`), and, where the server keeps
them, its commit time. Transaction b **sees** a if b's snapshot shows a: then a was committed before b was. A *boundary*
divides the poll into A and then B; it is a state that the source was in, of the tables polled, if everything in A was
committed before everything in B. What lies between two boundaries is told as one transaction.

**By commit time**, where all are known: every boundary between two different times counts, unless somebody in A sees
somebody in B: then the clock was set back, and the stretch from the one to the other is told as one.

**By what was seen**, else: (A, B) is a boundary if and only if every b in B sees every a in A. Such boundaries form a
chain. To find them in about linear time: let n(t) be how many transactions t sees. At a boundary after k transactions
those in A see fewer than k (they cannot see anyone in B) and those in B at least k, so sorting by n puts A first,
whatever it is. With f(t) the first place, in that order, of a transaction that t does not see:

    there is a boundary after k   ⟺   f(t) ≥ k for every t from place k on

Two polls are always in order, because each ends with a snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Seen:
    """One snapshot per transaction: all ids below `xmax` are shown, but for `hidden[offsets[i]:offsets[i + 1]]`."""

    xmax: Ints
    hidden: Ints
    offsets: Ints

    @classmethod
    def of(cls, xmax: Ints, hidden: pa.Array) -> Seen:
        """`hidden` are the texts `10,14`, null for none."""
        some = np.flatnonzero(hidden.is_valid().to_numpy(zero_copy_only=False))
        lists = pc.split_pattern(hidden.take(pa.array(some, pa.int64())), ",")
        counts = np.zeros(len(hidden), np.int64)
        counts[some] = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
        values = pc.list_flatten(lists).cast(pa.int64()).to_numpy(zero_copy_only=False)
        return cls(xmax, values, np.concatenate([[0], np.cumsum(counts)]))

    @classmethod
    def nothing(cls, transactions: int) -> Seen:
        """Of transactions whose order is known without."""
        return cls(np.zeros(transactions, np.int64), np.zeros(0, np.int64), np.zeros(transactions + 1, np.int64))

    def shows(self, reader: int, xids: Ints) -> npt.NDArray[np.bool_]:
        """Which of these transactions one transaction (by its place here) sees."""
        hidden = self.hidden[self.offsets[reader] : self.offsets[reader + 1]]
        shown: npt.NDArray[np.bool_] = (xids < self.xmax[reader]) & ~np.isin(xids, hidden)
        return shown


@dataclass(frozen=True)
class Order:
    """`places` are the transactions in order, `starts` where in it each told transaction begins."""

    places: Ints
    starts: Ints


def order(xids: Ints, seen: Seen, last: Ints, times: Ints | None) -> Order:
    """`last` is each transaction's last change id, which decides among equals; `times` their commit times, if known."""
    if not len(xids):
        return Order(np.zeros(0, np.int64), np.zeros(0, np.int64))
    ranked = _Ranked.of(xids, seen)
    return _by_time(ranked, last, times) if times is not None else _by_sight(ranked, xids, seen, last)


@dataclass(frozen=True)
class _Ranked:
    """Snapshots in terms of the poll's own transactions, ranked by id: t sees the ranks below `below[t]` but for those
    paired with it in (`reader`, `unseen`), which are sorted by both."""

    by_rank: Ints
    below: Ints
    reader: Ints
    unseen: Ints

    @classmethod
    def of(cls, xids: Ints, seen: Seen) -> _Ranked:
        by_rank = np.argsort(xids, kind="stable")
        ranked = xids[by_rank]
        below = np.searchsorted(ranked, seen.xmax)
        reader = np.repeat(np.arange(len(xids)), np.diff(seen.offsets))
        rank = np.searchsorted(ranked, seen.hidden)
        told = (rank < len(xids)) & (ranked[np.minimum(rank, len(xids) - 1)] == seen.hidden)
        told &= rank < below[reader]
        reader, rank = reader[told], rank[told]
        sorting = np.lexsort((rank, reader))
        return cls(by_rank, below, reader[sorting], rank[sorting])


def _by_sight(ranked: _Ranked, xids: Ints, seen: Seen, last: Ints) -> Order:
    count = len(xids)
    hidden = np.bincount(ranked.reader, minlength=count)
    itself = xids < seen.xmax  # a snapshot does not list the transaction that took it
    itself[ranked.reader[ranked.by_rank[ranked.unseen] == ranked.reader]] = False
    places = np.lexsort((last, ranked.below - hidden - itself))
    place = np.empty(count, np.int64)
    place[places] = np.arange(count)
    first_from = np.append(np.minimum.accumulate(place[ranked.by_rank][::-1])[::-1], count)
    first_unseen = first_from[ranked.below]
    np.minimum.at(first_unseen, ranked.reader, place[ranked.by_rank[ranked.unseen]])
    from_here_on = np.minimum.accumulate(first_unseen[places][::-1])[::-1]
    return Order(places, np.flatnonzero(from_here_on >= np.arange(count)))


def _by_time(ranked: _Ranked, last: Ints, times: Ints) -> Order:
    count = len(times)
    places = np.lexsort((last, times))
    place = np.empty(count, np.int64)
    place[places] = np.arange(count)
    reaches = np.maximum(_last_seen(ranked, place[ranked.by_rank]), place)[places]
    ordered = times[places]
    later = np.append(True, (ordered[1:] > ordered[:-1]) & (np.maximum.accumulate(reaches)[:-1] < np.arange(1, count)))
    return Order(places, np.flatnonzero(later))


def _last_seen(ranked: _Ranked, place: Ints) -> Ints:
    """The greatest place that each transaction sees, −1 if it sees none; `place` is by rank. What it sees are stretches
    of ranks between those it does not: the greatest of a stretch comes from a table of powers of two."""
    count = len(place)
    levels = [place]
    while 2 << (len(levels) - 1) <= count:
        half = 1 << (len(levels) - 1)
        levels.append(np.maximum(levels[-1][:-half], levels[-1][half:]))
    hidden = np.bincount(ranked.reader, minlength=count)
    begins = np.concatenate([[0], np.cumsum(hidden + 1)])
    low, high = (np.zeros(begins[-1], np.int64) for _ in range(2))
    high[begins[1:] - 1] = ranked.below
    at = np.arange(len(ranked.unseen)) + ranked.reader
    high[at], low[at + 1] = ranked.unseen, ranked.unseen + 1
    greatest = np.full(len(low), -1, np.int64)
    length = high - low
    for level, table in enumerate(levels):
        here = (length >= 1 << level) & (length < 2 << level)
        greatest[here] = np.maximum(table[low[here]], table[high[here] - (1 << level)])
    return np.maximum.reduceat(greatest, begins[:-1])
