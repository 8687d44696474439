"""One maintainer per warehouse.

On disk the operating system's lock decides: it is released by itself when its holder dies, however it dies. In an
object store a lease with an expiry does; it is renewed by its holder and taken over when it has run out.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from types import TracebackType
from typing import IO

from headwater.model.errors import WarehouseError
from headwater.storage import Storage
from headwater.storage.files import explained

NAME = "lock"
LEASE_SECONDS = 60.0


class Lock:
    """`with Lock(storage, "headwater run"):` or WarehouseError, saying who holds it."""

    def __init__(self, storage: Storage, purpose: str) -> None:
        self._storage, self._purpose = storage, purpose
        self._file: IO[str] | None = None
        self._leased = False

    def acquire(self) -> None:
        self._storage.make_folder()
        if self._storage.local:
            with explained(self._storage.url):
                file = open(self._storage.path(NAME), "a+")  # noqa: SIM115 # held until release
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read()
                file.close()
                raise self._refusal(holder) from None
            self._file = file
            with explained(self._storage.url):
                file.seek(0)
                file.truncate()
                file.write(self._who())
                file.flush()
            return
        held = self._storage.get(NAME)
        if held and json.loads(held).get("expires", 0) > time.time():
            raise self._refusal(held.decode())
        self.renew()

    def renew(self) -> None:
        """Extend a lease; nothing to do on disk."""
        if not self._storage.local:
            self._storage.put(NAME, self._who().encode())
            self._leased = True

    def release(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # on a full disk what was buffered cannot be written, and need not be
                self._file.seek(0)
                self._file.truncate()
            with suppress(OSError):
                self._file.close()
            self._file = None
        elif self._leased:
            self._storage.delete(NAME)
            self._leased = False

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def _who(self) -> str:
        who = {"purpose": self._purpose, "pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
        return json.dumps({**who, "expires": time.time() + LEASE_SECONDS})

    def _refusal(self, holder: str) -> WarehouseError:
        try:
            who = json.loads(holder)
            by = f"{who['purpose']!r}, process {who['pid']} on {who['host']}"
        except (ValueError, KeyError):
            by = "another process"
        return WarehouseError(
            f"this warehouse is being maintained already, by {by}",
            "only one may do so at a time: stop that one first, or use another [warehouse] path",
        )


def holder(storage: Storage) -> dict[str, object] | None:
    """Who maintains the warehouse right now, None if nobody does."""
    text = storage.get(NAME)
    if not text:
        return None
    if storage.local:
        with open(storage.path(NAME)) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return dict(json.loads(text))
        return None
    who = dict(json.loads(text))
    return who if float(str(who.get("expires", 0))) > time.time() else None
