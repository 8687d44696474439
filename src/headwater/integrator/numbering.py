"""The integrator's core: one number per transaction.

Each source's transactions keep their order; between sources any order will do (they are autonomous, nobody can tell),
so what one round of polls brought is merged by the time of commit as far as the sources know it. The positions after
the last number of a round form a cut: every source at the position its poll ended with.

The parts of a global transaction share one number. They are a **barrier**: what a source committed before its part has
a smaller number, what it committed after has a larger one. The time of a barrier is the latest of its parts' times,
and of the barriers before it at any of their sources; so times still rise along every source. Among equal times the
phase decides, which also rises along every source:

    0 before any barrier · 2k at the k-th barrier · 2k + 1 after it

where barriers are counted in an order that all sources agree with. Only the parts of one barrier have its phase, so
they stand side by side, and are counted once.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import Position, Seq, SourceName, TableName
from headwater.model.source import ORDINAL, Poll

TRANSACTIONS = pa.schema(
    [
        pa.field(SEQ, pa.int64()),
        pa.field("source", pa.string()),
        pa.field("transaction", pa.string()),
        pa.field("committed_at", pa.timestamp("us", "UTC")),
        pa.field("global_id", pa.string()),
    ]
)
"""One row per source transaction: parts of one global transaction have equal SEQ. Journals written before there were
global transactions lack `global_id`."""

Longs = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class Numbered:
    """Transactions (lo, hi], numbered: who they are, what they changed, and where the sources are after them. There may
    be more rows in `transactions` than numbers: one per part."""

    lo: Seq
    hi: Seq
    positions: Mapping[SourceName, Position]
    transactions: pa.Table
    changes: Mapping[TableName, pa.Table]


def number(
    lo: Seq,
    positions: Mapping[SourceName, Position],
    polls: Mapping[SourceName, Poll],
    alone: frozenset[str] = frozenset(),
) -> Numbered:
    """Give the transactions of one round of polls the numbers after `lo`. Parts with one global id share a number, but
    for the ids in `alone`. That the sources agree on the order of the others is for the caller to see to."""
    sources = sorted(s for s in polls if polls[s].transactions.num_rows)
    after = {**positions, **{s: polls[s].end for s in polls}}
    if not sources:
        return Numbered(lo, lo, after, TRANSACTIONS.empty_table(), {})
    # A source's order outranks its clock: its times are made to rise before they are compared with others'.
    times = [np.maximum.accumulate(_micros(polls[s].transactions)) for s in sources]
    lengths = [len(t) for t in times]
    barriers = _barriers([polls[s].transactions for s in sources], alone)
    if barriers:
        times, phases = _raised(times, barriers)
        phase = np.concatenate(phases)
        merged = np.lexsort((phase, np.concatenate(times)))
        ordered = phase[merged]
        counted = (ordered % 2 == 1) | (ordered == 0) | (np.diff(ordered, prepend=0) != 0)
        nth = np.cumsum(counted)
    else:
        merged = np.argsort(np.concatenate(times), kind="stable")
        nth = 1 + np.arange(len(merged))
    seqs = np.empty(len(merged), np.int64)
    seqs[merged] = lo + nth
    own = dict(zip(sources, np.split(seqs, np.cumsum(lengths)[:-1]), strict=True))
    transactions = pa.concat_tables(
        [
            pa.table(
                {
                    SEQ: own[s],
                    "source": pa.array([s] * len(own[s]), pa.string()),
                    "transaction": polls[s].transactions.column("transaction"),
                    "committed_at": polls[s].transactions.column("committed_at"),
                    "global_id": polls[s].transactions.column("global_id"),
                }
            ).cast(TRANSACTIONS)
            for s in sources
        ]
    ).take(pa.array(merged))
    changes = {}
    for source in sources:
        for table, rows in polls[source].changes.items():
            if rows.num_rows:
                seq = own[source][rows.column(ORDINAL).to_numpy()]
                changes[table] = rows.drop_columns([ORDINAL]).append_column(SEQ, pa.array(seq))
    return Numbered(lo, Seq(lo + int(nth[-1])), after, transactions, changes)


def _barriers(transactions: Sequence[pa.Table], alone: frozenset[str]) -> dict[str, dict[int, int]]:
    """Global id → the places in `transactions` where it has a part → the part's ordinal; only where there are two."""
    found: dict[str, dict[int, int]] = {}
    for place, table in enumerate(transactions):
        ids = table.column("global_id")
        if ids.null_count < len(ids):
            for ordinal, global_id in enumerate(ids.to_pylist()):
                if global_id is not None and global_id not in alone:
                    assert place not in found.get(global_id, ()), f"two parts of {global_id} at one source"
                    found.setdefault(global_id, {})[place] = ordinal
    return {global_id: parts for global_id, parts in found.items() if len(parts) > 1}


def _raised(times: Sequence[Longs], barriers: Mapping[str, Mapping[int, int]]) -> tuple[list[Longs], list[Longs]]:
    """Times and phases of every source's transactions. Barriers are counted earliest first, as the sources allow."""
    along: list[list[tuple[int, str]]] = [[] for _ in times]
    for global_id, parts in barriers.items():
        for place, ordinal in parts.items():
            along[place].append((ordinal, global_id))
    ahead = [iter(sorted(found)) for found in along]
    raised, marks = [t.copy() for t in times], [np.zeros(len(t), np.int64) for t in times]
    awaited = {global_id: len(parts) for global_id, parts in barriers.items()}
    latest = [int(t[0]) for t in times]  # the time of the last barrier that was counted, at each source
    due: list[tuple[int, str]] = []

    def advance(place: int) -> None:
        """The next barrier there. It is due once it is the next at all its sources."""
        for _, global_id in ahead[place]:
            awaited[global_id] -= 1
            if not awaited[global_id]:
                reached = [max(int(times[p][o]), latest[p]) for p, o in barriers[global_id].items()]
                heapq.heappush(due, (max(reached), global_id))
            break

    for place in range(len(times)):
        advance(place)
    nth = 0
    while due:
        nth += 1
        time, global_id = heapq.heappop(due)
        for place, ordinal in barriers[global_id].items():
            raised[place][ordinal] = latest[place] = time
            marks[place][ordinal] = nth
        for place in barriers[global_id]:
            advance(place)
    assert nth == len(barriers), "the sources do not agree on the order of global transactions"
    passed = [np.maximum.accumulate(m) for m in marks]
    phases = [2 * p + ((p > 0) & (m == 0)) for p, m in zip(passed, marks, strict=True)]
    return [np.maximum.accumulate(t) for t in raised], phases


def _micros(transactions: pa.Table) -> Longs:
    times = transactions.column("committed_at").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return np.asarray(times.fill_null(0).to_numpy(), np.int64)


def column_order(rows: pa.Table) -> list[str]:
    """A table's own columns, then COUNT and SEQ."""
    return [n for n in rows.column_names if n not in (COUNT, SEQ)] + [COUNT, SEQ]
