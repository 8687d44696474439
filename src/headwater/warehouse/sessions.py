"""Pins: a reader that wants one state for several reads, and keeps clean-up from taking it away.

A pin is a small file that names a cut and expires; its owner renews it while it lives. Compaction's clean-up and the
trimming of captures leave alone what a valid pin refers to.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from dataclasses import dataclass

from headwater.storage import Storage
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
        pin = {"cut": self.cut.to_json(), "seq": self._at, "owner": owner, "expires": time.time() + PIN_SECONDS}
        self._storage.put(self._name, json.dumps(pin).encode())


def pins(storage: Storage) -> list[Pin]:
    """The pins that are valid now; expired ones are removed."""
    valid = []
    for name in storage.names(FOLDER):
        if not name.endswith(".json"):
            continue
        text = storage.get(f"{FOLDER}/{name}")
        if text is None:
            continue
        raw = json.loads(text)
        if raw["expires"] < time.time():
            storage.delete(f"{FOLDER}/{name}")
        else:
            valid.append(Pin(Cut.from_json(raw["cut"]), raw["seq"], raw["owner"], raw["expires"]))
    return valid
