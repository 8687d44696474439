"""What the last windows of a chain took, kept in the warehouse for those who ask later."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from headwater.model.errors import HeadwaterError
from headwater.storage import Storage
from headwater.storage.records import decode, encode

log = logging.getLogger(__name__)

_FOLDER = "hub/chains"


@dataclass(frozen=True)
class ChainRecord:
    """The last window that is over, when, and how many letters of each kind it took; `direct` are those of them that
    agents sent each other without the hub, `total` those of all windows that this warehouse remembers."""

    window: int
    at: float
    members: int
    letters: Mapping[str, int] = field(default_factory=dict)
    windows: int = 0
    total: Mapping[str, int] = field(default_factory=dict)
    direct: Mapping[str, int] = field(default_factory=dict)

    @property
    def messages(self) -> int:
        """As the papers count: what sources send each other and the warehouse, acknowledgements left out."""
        return _of_rows(self.letters)

    @property
    def messages_direct(self) -> int:
        """Those of them that went from agent to agent, and not through the hub."""
        return _of_rows(self.direct)


@dataclass(frozen=True)
class Counted:
    """Letters of each kind: those that went through the hub, and those that went from agent to agent."""

    through: Counter[str]
    direct: Counter[str]


def _of_rows(letters: Mapping[str, int]) -> int:
    return sum(letters.get(kind, 0) for kind in ("forward", "backward", "batch"))


class ChainRecords:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._one = threading.Lock()

    def over(self, chain: str, window: int, members: int, counted: Counted) -> None:
        """A window is over."""

        def record(last: ChainRecord | None) -> ChainRecord:
            letters = counted.through + counted.direct
            total, windows = (Counter(last.total), last.windows) if last is not None else (Counter[str](), 0)
            return ChainRecord(window, time.time(), members, letters, windows + 1, total + letters, counted.direct)

        self._write(chain, record)

    def late(self, chain: str, window: int, direct: Mapping[str, int]) -> None:
        """Letters of a window that was over before its agents had said how many there were."""

        def record(last: ChainRecord | None) -> ChainRecord | None:
            if last is None:
                return None
            more = Counter(direct)
            last = replace(last, total=Counter(last.total) + more)
            if last.window != window:
                return last
            return replace(last, letters=Counter(last.letters) + more, direct=Counter(last.direct) + more)

        self._write(chain, record)

    def _write(self, chain: str, made: Callable[[ChainRecord | None], ChainRecord | None]) -> None:
        try:
            with self._one:
                record = made(self.last(chain))
                if record is not None:
                    self._storage.make_folder(_FOLDER)
                    self._storage.put(f"{_FOLDER}/{chain}.json", encode(record))
        except (HeadwaterError, OSError) as error:  # a full disk is no reason to stop a chain
            log.warning("what a window of %s took could not be written down: %s", chain, error)

    def last(self, chain: str) -> ChainRecord | None:
        data = self._storage.get(f"{_FOLDER}/{chain}.json")
        return None if data is None else decode(data, ChainRecord, self._storage.uri(_FOLDER))
