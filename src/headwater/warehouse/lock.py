"""One maintainer per warehouse.

On disk the operating system's lock decides: it is released by itself when its holder dies, however it dies, and cannot
be lost before. In an object store a lease does (`lease.py`). Either way each holder has a number, one higher than the
holder before, and what is written through the storage while the lock is held asks it first.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import IO

from headwater.storage import Storage
from headwater.storage.files import explained
from headwater.storage.records import encode
from headwater.warehouse.lease import LEASE_SECONDS, NAME, ObjectLease, Record, awake_or_not, next_fence

_TRIES, _MOMENT = 3, 0.02


class FileLease:
    """The operating system's lock on a file."""

    def __init__(self, storage: Storage, purpose: str) -> None:
        self._storage, self._purpose = storage, purpose
        self._file: IO[str] | None = None
        self.fence = 0

    def take(self) -> None:
        self._storage.make_folder()
        with explained(self._storage.url):
            file = open(self._storage.path(NAME), "a+")  # noqa: SIM115 # held until release
        try:
            self._write_into(file)
        except BaseException:
            with suppress(OSError):  # on a full disk what was buffered cannot be written, and need not be
                file.close()
            raise
        self._file = file

    def _write_into(self, file: IO[str]) -> None:
        file.seek(0)
        for left in range(_TRIES - 1, -1, -1):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # perhaps one who only looks who holds it, as a page does all the time
                if not left:
                    raise Record.parse(file.read()).refusal() from None
                time.sleep(_MOMENT)
        self.fence = next_fence(self._storage, Record.parse(file.read()))
        with explained(self._storage.url):
            file.seek(0)
            file.truncate()
            file.write(encode(Record.new(self._purpose, self.fence, LEASE_SECONDS)).decode())
            file.flush()

    def renew(self) -> None:
        """Nothing to do: it is ours as long as we live."""

    def check(self) -> None:
        """Nothing to do: it cannot be lost."""

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class Lock:
    """`with Lock(storage, "headwater run"):` or WarehouseError, saying who holds it."""

    def __init__(
        self,
        storage: Storage,
        purpose: str,
        seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = awake_or_not,
    ) -> None:
        self._storage, self._purpose, self._seconds, self._clock = storage, purpose, seconds, clock
        self._held: FileLease | ObjectLease | None = None

    @property
    def fence(self) -> int:
        """Which holder of the warehouse this is, counted from 1; 0 while it is none."""
        return 0 if self._held is None else self._held.fence

    def acquire(self) -> None:
        storage, purpose = self._storage, self._purpose
        if storage.local:
            lease: FileLease | ObjectLease = FileLease(storage, purpose)
        else:
            lease = ObjectLease(storage, purpose, self._seconds, self._clock)
        lease.take()
        self._held = storage.lease = lease

    def renew(self) -> None:
        """Extend a lease now; it is done in the background too."""
        if self._held is not None:
            self._held.renew()

    def release(self) -> None:
        if self._held is not None:
            self._held.release()
            self._held = self._storage.lease = None

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def holder(storage: Storage) -> Record | None:
    """Who maintains the warehouse right now, None if nobody does."""
    text = storage.get(NAME)
    if not text:
        return None
    record = Record.parse(text)
    if not storage.local:
        return record if record.expires > time.time() else None
    with open(storage.path(NAME)) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return record
    return None
