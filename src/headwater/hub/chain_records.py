"""What the last windows of a chain took, kept in the warehouse for those who ask later."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.model.errors import HeadwaterError
from headwater.storage import Storage
from headwater.storage.records import decode, encode

log = logging.getLogger(__name__)

_FOLDER = "hub/chains"


@dataclass(frozen=True)
class ChainRecord:
    """The last window that is over, when, and how many letters of each kind it took; `total` are those of all windows
    that this warehouse remembers."""

    window: int
    at: float
    members: int
    letters: Mapping[str, int] = field(default_factory=dict)
    windows: int = 0
    total: Mapping[str, int] = field(default_factory=dict)

    @property
    def messages(self) -> int:
        """As the papers count: what sources send each other and the warehouse, acknowledgements left out."""
        return sum(self.letters.get(kind, 0) for kind in ("forward", "backward", "batch"))


class ChainRecords:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def over(self, chain: str, window: int, members: int, letters: Mapping[str, int]) -> None:
        try:
            last = self.last(chain)
            total = dict(last.total) if last is not None else {}
            for kind, number in letters.items():
                total[kind] = total.get(kind, 0) + number
            windows = (last.windows if last is not None else 0) + 1
            self._storage.make_folder(_FOLDER)
            record = ChainRecord(window, time.time(), members, letters, windows, total)
            self._storage.put(f"{_FOLDER}/{chain}.json", encode(record))
        except (HeadwaterError, OSError) as error:  # a full disk is no reason to stop a chain
            log.warning("what window %d of %s took could not be written down: %s", window, chain, error)

    def last(self, chain: str) -> ChainRecord | None:
        data = self._storage.get(f"{_FOLDER}/{chain}.json")
        return None if data is None else decode(data, ChainRecord, self._storage.uri(_FOLDER))
