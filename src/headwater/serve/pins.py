"""Pins of the cuts that are read: written by the first who reads a cut, kept for those who read it next.

A pin is a file in the warehouse. One for every statement would cost more than most statements do, so a pin stays until
nobody has read its cut for `LINGER` seconds, or a newer one is read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headwater.storage import Storage
from headwater.warehouse.cuts import Cut
from headwater.warehouse.sessions import PinnedCut

LINGER = 2.0

_Key = tuple[int, int | None]


@dataclass
class _Held:
    pin: PinnedCut
    users: int
    since: float


class Pins:
    """For any number of threads."""

    def __init__(self, storage: Storage) -> None:
        self._storage, self._changed = storage, threading.Condition()
        self._held: dict[_Key, _Held] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    @contextmanager
    def held(self, cut: Cut, seq: int | None = None) -> Iterator[None]:
        """Keeps a cut, or a state of it, from clean-up."""
        if not cut.number:
            yield
            return
        key = (cut.number, seq)
        with self._changed:
            found = self._held.get(key)
            if found is None:
                found = self._held[key] = _Held(PinnedCut(self._storage, cut, seq), 0, 0.0)
                self._start()
                self._changed.notify()  # older ones may go
            found.users += 1
        try:
            yield
        finally:
            with self._changed:
                found.users -= 1
                found.since = time.monotonic()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            gone, self._held = list(self._held.values()), {}
        for held in gone:
            held.pin.close()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._tidy, name="headwater-pins", daemon=True)
            self._thread.start()

    def _tidy(self) -> None:
        while True:
            with self._changed:
                self._changed.wait(LINGER / 2 if self._held else None)
                if self._closed:
                    return
                newest, now = max((key[0] for key in self._held), default=0), time.monotonic()
                idle = [
                    key
                    for key, held in self._held.items()
                    if not held.users and (key[0] < newest or now - held.since > LINGER)
                ]
                gone = [self._held.pop(key) for key in idle]
            for held in gone:
                held.pin.close()
