"""A lease on a warehouse in an object store: a record that is only ever replaced by one who has read it.

    nothing there               put it, if there is still nothing         (If-None-Match: *)
    one that has run out        put ours, if it is still that one         (If-Match: its tag)
    our own, every third of it  put a later end, if it is still our own   (If-Match: our last tag)

Each taking has a number one higher than the one before. The clocks decide only who may try: a holder trusts its own
record a little less long than it tells others, by a clock that goes on while the machine sleeps, and what it commits
carries the number (docs/decisions/0014). No two records are alike, so a tag, which some stores compute from the bytes,
stands for one record.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from headwater.model.errors import HeadwaterError, LeaseLost, WarehouseError
from headwater.storage import Storage
from headwater.storage.records import decode, encode
from headwater.warehouse.cuts import CutLog

NAME = "lock"
LEASE_SECONDS = 60.0
_TRUSTED = 0.9
"""The part of a lease that its holder relies on: others may have clocks that are a little ahead."""


def awake_or_not() -> float:
    """Seconds that pass also while the machine sleeps, where the operating system counts them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass(frozen=True)
class Record:
    """Who holds the lease until when. What is missing in a record of an older version is empty."""

    purpose: str = ""
    pid: int = 0
    host: str = ""
    since: float = 0.0
    expires: float = 0.0
    fence: int = 0
    token: str = ""
    renewals: int = 0

    @staticmethod
    def new(purpose: str, fence: int, seconds: float) -> Record:
        now = time.time()
        return Record(purpose, os.getpid(), socket.gethostname(), now, now + seconds, fence, uuid.uuid4().hex)

    @staticmethod
    def parse(data: bytes | str | None) -> Record:
        """An empty record for what is none."""
        try:
            return decode(data or "{}", Record, "the lease")
        except WarehouseError:
            return Record()

    @property
    def who(self) -> str:
        return f"{self.purpose!r}, process {self.pid} on {self.host}" if self.host else "another process"

    def refusal(self, more: str = "") -> WarehouseError:
        return WarehouseError(
            f"this warehouse is being maintained already, by {self.who}",
            f"only one may do so at a time: stop that one first, or use another [warehouse] path{more}",
        )


def next_fence(storage: Storage, before: Record) -> int:
    """One more than any lease had so far, also if the record was lost or is from a backup."""
    return max(before.fence, CutLog(storage).fence()) + 1


class ObjectLease:
    """Held from `take` to `release`, unless it is lost: then `check` raises LeaseLost ever after."""

    def __init__(
        self, storage: Storage, purpose: str, seconds: float, clock: Callable[[], float] = awake_or_not
    ) -> None:
        self._storage, self._purpose, self._seconds, self._clock = storage, purpose, seconds, clock
        self._record, self._tag = Record(), ""
        self._renewed, self._renewed_at = 0.0, 0.0
        self._lost, self._trouble = "", ""
        self._renewing = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="headwater-lease", daemon=True)

    @property
    def fence(self) -> int:
        return self._record.fence

    def take(self) -> None:
        found = self._storage.objects.get(NAME)
        before = Record.parse(found.data if found else None)
        if (left := before.expires - time.time()) > 0:
            raise before.refusal(f"; if it has died, its lease is over in {left:.0f} seconds")
        record = Record.new(self._purpose, next_fence(self._storage, before), self._seconds)
        if not self._put(record, found.tag if found else None):
            raise self._there().refusal()
        self._thread.start()

    def renew(self) -> None:
        """Extend it, if it is still ours."""
        with self._renewing:
            self.check()
            later = replace(self._record, expires=time.time() + self._seconds, renewals=self._record.renewals + 1)
            if not self._put(later, self._tag):
                there = self._there()
                self._lost = f"{there.who} has taken it over" if there.host else f"{NAME} was removed"
            self.check()

    def check(self) -> None:
        """LeaseLost, if others may hold it by now."""
        passed = max(self._clock() - self._renewed, time.time() - self._renewed_at)
        if not self._lost and passed > self._seconds * _TRUSTED:
            why = f": {self._trouble}" if self._trouble else "; this process, or its machine, may have stood still"
            self._lost = f"it could not be renewed for {passed:.0f} seconds{why}"
        if self._lost:
            raise LeaseLost(
                f"this run has lost its lease on the warehouse at {self._storage.url}, nothing more is written:"
                f" {self._lost}",
                "'headwater status' shows who maintains it now; if nobody does, start again: the newest cut is whole",
            )

    def release(self) -> None:
        """Let others take it at once. The record stays: the next number follows from it."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()
        with suppress(HeadwaterError):  # then it runs out by itself
            self.check()
            self._storage.objects.put_instead(NAME, encode(replace(self._record, expires=0.0)), self._tag)

    def _put(self, record: Record, instead_of: str | None) -> bool:
        """It counts from before the request, however long the answer takes."""
        asked, asked_at = self._clock(), time.time()
        objects, data = self._storage.objects, encode(record)
        tag = objects.put_new(NAME, data) if instead_of is None else objects.put_instead(NAME, data, instead_of)
        if tag is None:  # refused, or done by a request whose answer was lost and that was tried again
            found = objects.get(NAME)
            tag = found.tag if found is not None and found.data == data else None
        if tag is None:
            return False
        self._record, self._tag, self._renewed, self._renewed_at = record, tag, asked, asked_at
        return True

    def _there(self) -> Record:
        found = self._storage.objects.get(NAME)
        return Record.parse(found.data if found else None)

    def _keep(self) -> None:
        wait = self._seconds / 3
        while not self._done.wait(wait):
            try:
                self.renew()
                wait, self._trouble = self._seconds / 3, ""
            except LeaseLost:
                return
            except Exception as error:  # said by `check` when the time is over
                wait = self._seconds / 12
                self._trouble = error.what if isinstance(error, HeadwaterError) else type(error).__name__
