"""Pins: a reader that wants one state for several reads, and keeps clean-up from taking it away.

A pin is a small file that names a cut and expires; its owner renews it while it lives. Compaction's clean-up and the
trimming of captures leave alone what a valid pin refers to.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from dataclasses import dataclass

from headwater.storage import Storage
from headwater.storage.records import decode, encode
from headwater.warehouse.cuts import Cut

FOLDER = "sessions"
PIN_SECONDS = 60.0


@dataclass(frozen=True)
class Pin:
    """`seq` is the state its owner reads, at or before the cut's."""

    cut: Cut
    seq: int
    owner: str
    expires: float


@dataclass(frozen=True)
class _Expiry:
    """What can be read of a pin whichever version wrote it."""

    expires: float


class PinnedCut:
    """Holds a pin on a cut until closed, renewing it in the background."""

    def __init__(self, storage: Storage, cut: Cut, at: int | None = None) -> None:
        self._storage, self.cut, self._at = storage, cut, cut.seq if at is None else at
        self._name = f"{FOLDER}/{uuid.uuid4().hex}.json"
        self._done = threading.Event()
        self._write()
        self._thread = threading.Thread(target=self._renew, name="headwater-pin", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._done.set()
        self._thread.join(timeout=5)
        self._storage.delete(self._name)

    def _renew(self) -> None:
        while not self._done.wait(PIN_SECONDS / 3):
            self._write()

    def _write(self) -> None:
        owner = f"process {os.getpid()} on {socket.gethostname()}"
        self._storage.put(self._name, encode(Pin(self.cut, self._at, owner, time.time() + PIN_SECONDS)))


def pins(storage: Storage) -> list[Pin]:
    """The pins that are valid now; expired ones are removed."""
    valid = []
    for name in storage.names(FOLDER):
        if not name.endswith(".json"):
            continue
        text = storage.get(f"{FOLDER}/{name}")
        if text is None:
            continue
        where = storage.uri(f"{FOLDER}/{name}")
        if decode(text, _Expiry, where).expires < time.time():
            storage.delete(f"{FOLDER}/{name}")
        else:
            valid.append(decode(text, Pin, where))
    return valid
