"""What a run tells those who ask `headwater status`: a small file, written about once a second while it runs.

It is a courtesy, never read by the run itself: how each source is doing, where each view is, what it waits for and
since when, the view update tables, what is being built, which global transactions lack parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.project.secrets import without_secrets
from headwater.runtime.snapshot import RunSnapshot
from headwater.storage import Storage
from headwater.storage.records import as_builtins, decode, encode

FILE = "run.json"
SECONDS = 1.0


def read_report(storage: Storage) -> dict[str, Any] | None:
    """The newest report, None if nothing runs or has run."""
    text = storage.get(FILE)
    return None if text is None else parse_report(text, storage.uri(FILE))


def parse_report(text: bytes, name: str) -> dict[str, Any]:
    return decode(text, dict[str, Any], name)


class Report:
    """Writes the report."""

    def __init__(self, storage: Storage, look: Callable[[], RunSnapshot], clock: Clock = SYSTEM) -> None:
        self._storage, self._look, self._clock = storage, look, clock
        self._next = 0.0

    def step(self) -> None:
        if self._clock.monotonic() >= self._next:
            self._next = self._clock.monotonic() + SECONDS
            self._storage.put(FILE, encode(told(self._look())))

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
            "transactions": s.transactions,
        }
        for s in now.sources
    }
    return {
        "at": now.at,
        "numbered": now.numbered,
        "totals": as_builtins(now.totals),
        "load": None if now.load is None else as_builtins(now.load),
        "sources": sources,
        "views": [as_builtins(manager) for manager in now.managers],
        "groups": [as_builtins(group) for group in now.groups],
        "building": None if now.building is None else as_builtins(now.building),
        "not_built": {name: without_secrets(why) for name, why in now.not_built.items()},
        "global": list(now.missing),
        "torn": list(now.torn),
        "moments": [as_builtins(moment) for moment in now.moments],
    }
