"""What `verify` found, kept beside the views: one small file for each time, the newest hundred of them.

Files are written once and named by their time, so a reader that knows some reads only those that are new.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from headwater.storage import Storage
from headwater.storage.records import decode, encode

FOLDER = "verified"
KEPT = 100


@dataclass(frozen=True)
class Verdict:
    """A view compared with its sources as of exactly transaction `seq`. `problem` says what else was wrong;
    `missing` and `extra` are the first rows that should be in the view and are not, and that are and should not."""

    view: str
    seq: int
    at: float
    ok: bool
    rows: int
    differing: int = 0
    problem: str = ""
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


def record_verdicts(storage: Storage, verdicts: Sequence[Verdict]) -> None:
    """Keep what was found; forget the oldest."""
    if not verdicts:
        return
    stamp = datetime.fromtimestamp(time.time(), UTC).strftime("%Y%m%dT%H%M%S.%f")
    storage.put(f"{FOLDER}/{stamp}-{uuid.uuid4().hex[:8]}.json", encode(list(verdicts)))
    for name in _names(storage)[:-KEPT]:
        storage.delete(f"{FOLDER}/{name}")


class VerdictLog:
    """The verdicts of a warehouse, for a reader that comes back."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._known: dict[str, list[Verdict]] = {}

    def all(self) -> list[Verdict]:
        """Every verdict that is kept, oldest first."""
        found: dict[str, list[Verdict]] = {}
        for name in _names(self._storage):
            known = self._known.get(name)
            if known is None:
                text = self._storage.get(f"{FOLDER}/{name}")
                if text is None:
                    continue  # forgotten meanwhile
                known = decode(text, list[Verdict], self._storage.uri(f"{FOLDER}/{name}"))
            found[name] = known
        self._known = found
        return [verdict for verdicts in found.values() for verdict in verdicts]


def newest_of_each(verdicts: Iterable[Verdict]) -> dict[str, Verdict]:
    """The last verdict on each view."""
    return {verdict.view: verdict for verdict in verdicts}


def _names(storage: Storage) -> list[str]:
    return [name for name in storage.names(FOLDER) if name.endswith(".json")]
