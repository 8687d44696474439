"""What a run tells those who ask `headwater status`: a small file, written about once a second while it runs.

It is a courtesy, never read by the run itself: how each source is doing, where each view is, what it waits for and
since when, the view update tables, what is being built, which global transactions lack parts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.project.secrets import without_secrets
from headwater.runtime.snapshot import RunSnapshot
from headwater.storage import Storage

FILE = "run.json"
SECONDS = 1.0


def read_report(storage: Storage) -> dict[str, Any] | None:
    """The newest report, None if nothing runs or has run."""
    text = storage.get(FILE)
    return None if text is None else json.loads(text)


class Report:
    """Writes the report."""

    def __init__(self, storage: Storage, look: Callable[[], RunSnapshot], clock: Clock = SYSTEM) -> None:
        self._storage, self._look, self._clock = storage, look, clock
        self._next = 0.0

    def step(self) -> None:
        if self._clock.monotonic() >= self._next:
            self._next = self._clock.monotonic() + SECONDS
            self._storage.put(FILE, json.dumps(told(self._look()), ensure_ascii=False).encode())

    def close(self) -> None:
        self._storage.delete(FILE)


def told(now: RunSnapshot) -> dict[str, Any]:
    """The report of a snapshot."""
    sources = {
        s.name: {
            "state": s.state,
            "reason": without_secrets(s.reason),
            "since": s.since,
            "numbered": s.numbered,
            "lag": s.lag,
        }
        for s in now.sources
    }
    return {
        "at": now.at,
        "numbered": now.numbered,
        "sources": sources,
        "views": [asdict(manager) for manager in now.managers],
        "groups": [asdict(group) for group in now.groups],
        "building": None if now.building is None else asdict(now.building),
        "not_built": {name: without_secrets(why) for name, why in now.not_built.items()},
        "global": list(now.missing),
        "torn": list(now.torn),
    }
