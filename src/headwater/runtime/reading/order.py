"""Are transactions numbered in the order in which their source committed them? Asked of the source itself.

A view's states are compared with recomputation by taking the journal back from now. If two transactions were numbered
the wrong way round, both sides are wrong in the same way and agree. So the order is checked against what the source has
recorded, where it records it.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.integrator.journal import Journal
from headwater.model.changelog import SEQ
from headwater.model.names import SourceName
from headwater.runtime.project.catalog import SourceCatalog

LOOKED_AT = 10_000
"""So many transactions before the state in question."""


def disorder(journal: Journal, catalog: SourceCatalog, sources: Iterable[SourceName], seq: int) -> str:
    """What is out of order among the transactions up to `seq`, in a sentence; empty if nothing is."""
    told: dict[str, list[tuple[int, str]]] = {source: [] for source in sources}
    for table in journal.transactions(seq - LOOKED_AT, seq):
        for row in table.select([SEQ, "source", "transaction"]).to_pylist():
            if row["source"] in told:
                told[row["source"]].append((row[SEQ], row["transaction"]))
    for source, transactions in told.items():
        transactions.sort()
        times = catalog.source(source).commit_times([label for _, label in transactions])
        latest, before = None, (0, "")
        for one, time in zip(transactions, times, strict=True):
            if time is None:
                continue
            first, last = time
            if latest is not None and first < latest:
                return (
                    f"transaction {one[0]} ({source} {one[1]}) was committed before transaction {before[0]}"
                    f" ({source} {before[1]}), so states between them never existed"
                )
            if latest is None or last >= latest:
                latest, before = last, one
    return ""
