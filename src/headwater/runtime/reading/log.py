"""The numbered source transactions with their changes: what `headwater log` shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from headwater.integrator.journal import read_changes, segments_between, within
from headwater.model.changelog import COUNT, SEQ, UNFIT
from headwater.model.names import FOREVER
from headwater.storage import Storage


def transactions(storage: Storage, first: int | None = None, last: int | None = None) -> Iterator[dict[str, Any]]:
    """The transactions first … last, inclusive, as far as they are kept."""
    lo, hi = (first - 1 if first is not None else 0), (last if last is not None else FOREVER)
    for segment in segments_between(storage, lo, hi):
        low, high = max(lo, segment.lo), min(hi, segment.hi)
        changes: dict[tuple[int, str], list[dict[str, Any]]] = {}
        for table in segment.tables:
            rows = read_changes(storage, [segment], table, low, high)
            for row in rows.to_pylist() if rows is not None else ():
                count, seq, mark = row.pop(COUNT), row.pop(SEQ), row.pop(UNFIT, None)
                found = {"table": str(table), "count": count, "row": row}
                if mark is not None:  # values that their columns' types cannot represent
                    found["unfit"] = json.loads(mark)["values"]
                changes.setdefault((seq, table.source), []).append(found)
        for row in within(storage.read_arrow(segment.transactions), low, high).to_pylist():
            yield {
                "seq": row[SEQ],
                "source": row["source"],
                "transaction": row["transaction"],
                "committed_at": row["committed_at"],
                "global": row.get("global_id"),
                "changes": changes.get((row[SEQ], row["source"]), []),
            }
