"""The integrator's core: one number per source transaction.

Each source's transactions keep their order; between sources any order will do (they are autonomous, nobody can tell),
so what one round of polls brought is merged by the time of commit as far as the sources know it. The positions after
the last number of a round form a cut: every source at the position its poll ended with.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    ]
)


@dataclass(frozen=True)
class Numbered:
    """Transactions (lo, hi], numbered: who they are, what they changed, and where the sources are after them."""

    lo: Seq
    hi: Seq
    positions: Mapping[SourceName, Position]
    transactions: pa.Table
    changes: Mapping[TableName, pa.Table]


def number(lo: Seq, positions: Mapping[SourceName, Position], polls: Mapping[SourceName, Poll]) -> Numbered:
    """Give the transactions of one round of polls the numbers after `lo`."""
    sources = sorted(s for s in polls if polls[s].transactions.num_rows)
    after = {**positions, **{s: polls[s].end for s in polls}}
    if not sources:
        return Numbered(lo, lo, after, TRANSACTIONS.empty_table(), {})
    # A source's order outranks its clock: its times are made to rise before they are compared with others'.
    times = [np.maximum.accumulate(_micros(polls[s].transactions)) for s in sources]
    lengths = [len(t) for t in times]
    merged = np.argsort(np.concatenate(times), kind="stable")
    seqs = np.empty(len(merged), np.int64)
    seqs[merged] = lo + 1 + np.arange(len(merged))
    own = dict(zip(sources, np.split(seqs, np.cumsum(lengths)[:-1]), strict=True))
    transactions = pa.concat_tables(
        [
            pa.table(
                {
                    SEQ: own[s],
                    "source": pa.array([s] * len(own[s]), pa.string()),
                    "transaction": polls[s].transactions.column("transaction"),
                    "committed_at": polls[s].transactions.column("committed_at"),
                }
            ).cast(TRANSACTIONS)
            for s in sources
        ]
    ).sort_by(SEQ)
    changes = {}
    for source in sources:
        for table, rows in polls[source].changes.items():
            if rows.num_rows:
                seq = own[source][rows.column(ORDINAL).to_numpy()]
                changes[table] = rows.drop_columns([ORDINAL]).append_column(SEQ, pa.array(seq))
    return Numbered(lo, Seq(lo + len(merged)), after, transactions, changes)


def _micros(transactions: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    times = transactions.column("committed_at").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return np.asarray(times.fill_null(0).to_numpy(), np.int64)


def column_order(rows: pa.Table) -> list[str]:
    """A table's own columns, then COUNT and SEQ."""
    return [n for n in rows.column_names if n not in (COUNT, SEQ)] + [COUNT, SEQ]
