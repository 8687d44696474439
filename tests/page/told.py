"""A run that tells: the report of a warehouse that is maintained, and the lock that says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwater.model.names import Seq
from headwater.page.look import Now
from headwater.runtime.report import FILE, told
from headwater.runtime.snapshot import (
    Counts,
    FreshnessNow,
    GroupNow,
    ManagerNow,
    RowNow,
    RunSnapshot,
    SourceNow,
    Totals,
)
from headwater.storage import Storage
from headwater.storage.records import encode
from headwater.warehouse.cuts import Cut
from headwater.warehouse.lock import Lock

BUCKETS = (0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)


def now_with(moments: list[Any]) -> Now:
    """A look at a run that tells these."""
    return Now(0.0, Cut(), None, {"moments": moments})


def snapshot(now: float, **changes: Any) -> RunSnapshot:
    people = ManagerNow(
        "people", True, 5, "view late", now - 2, 7, 1, 40, FreshnessNow(0.4, None, 12.5, BUCKETS)
    )  # fmt: skip
    late = ManagerNow(
        "late", True, 3, "its own computation", now - 9, 3, 0, 4, FreshnessNow(1.0, now - 9, 2.0, BUCKETS)
    )
    entries = {"k1": ("r", 5), "k2": ("w", 0)}
    group = GroupNow(
        "Painting", ["crm"], {"k1": "people", "k2": "late"},
        [RowNow(3, 5, ["crm.people"], now - 9, entries, ["k1"])], 3, 0,
    )  # fmt: skip
    facts: dict[str, Any] = {
        "at": now,
        "cut": 2,
        "seq": Seq(3),
        "numbered": Seq(5),
        "totals": Totals(60.0, Counts(5, 9, 2, 10, 20, 0, 4, 1, 0, 1000), 0.4, 0.3),
        "load": None,
        "sources": [SourceNow("crm", "ok", "", now - 60, "3", "5", 5, 0.4)],
        "views": [],
        "managers": [people, late],
        "groups": [group],
        "building": None,
        "not_built": {},
        "missing": [],
        "torn": [],
    }
    return RunSnapshot(**{**facts, **changes})


@contextmanager
def running(folder: Path, **changes: Any) -> Iterator[Storage]:
    """As if a run maintained the warehouse and told this."""
    storage = Storage(str(folder / "warehouse"))
    with Lock(storage, "headwater run"):
        storage.put(FILE, encode(told(snapshot(time.time(), **changes))))
        yield storage
