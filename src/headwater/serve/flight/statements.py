"""Statements of Flight clients, from the question to the rows.

A statement is asked in one call and fetched in another, so what it reads is decided in the first and held until the
second: one cut per statement, or per transaction. What nobody fetches, closes or ends is forgotten after a while.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from headwater.serve import settings
from headwater.serve.batches import Batches
from headwater.serve.errors import Refused
from headwater.serve.flight.values import numbered
from headwater.serve.statements import Query, split, translated
from headwater.serve.states import States, halted
from headwater.serve.stopping import WATCH
from headwater.warehouse.cuts import Cut

FETCH_SECONDS = 120.0
IDLE_SECONDS = 900.0
MOST = 10_000
"""Transactions, and prepared statements: they take nothing but memory."""

T = TypeVar("T")


class Handles(Generic[T]):
    """Things that clients name by a handle. What is not used for so long goes, and is told so by `gone`."""

    def __init__(self, what: str, seconds: float, gone: Callable[[T], None] = lambda _: None, most: int = MOST) -> None:
        self._what, self._seconds, self._gone, self._most, self._lock = what, seconds, gone, most, threading.Lock()
        self._known: dict[bytes, tuple[T, int]] = {}

    def keep(self, thing: T) -> bytes:
        handle = secrets.token_bytes(16)
        with self._lock:
            if len(self._known) >= self._most:
                raise Refused("53400", f"there are {self._most:,} of {self._what}s already", "end some, or wait")
            self._known[handle] = (thing, WATCH.after(self._seconds, partial(self._late, handle)))
        return handle

    def get(self, handle: bytes) -> T:
        with self._lock:
            found = self._known.get(handle)
            if found is None:
                raise Refused("26000", f"this {self._what} is not known", "it was ended, or waited too long: ask again")
            WATCH.never(found[1])
            self._known[handle] = (found[0], WATCH.after(self._seconds, partial(self._late, handle)))
            return found[0]

    def take(self, handle: bytes) -> T:
        """It is the caller's from now on."""
        thing = self.get(handle)
        with self._lock:
            found = self._known.pop(handle, None)
        if found is None:
            raise Refused("26000", f"this {self._what} is not known", "somebody was faster")
        WATCH.never(found[1])
        return thing

    def drop(self, handle: bytes) -> bool:
        """Whether it was there."""
        with self._lock:
            found = self._known.pop(handle, None)
        if found is not None:
            WATCH.never(found[1])
            self._gone(found[0])
        return found is not None

    def _late(self, handle: bytes) -> None:
        self.drop(handle)

    def clear(self) -> None:
        for handle in list(self._known):
            self.drop(handle)


@dataclass(frozen=True)
class Transaction:
    """Everything in it reads one cut."""

    cut: Cut
    hold: ExitStack


@dataclass
class Prepared:
    """`values` are those that were given last."""

    query: Query
    transaction: bytes
    values: list[str | None] = field(default_factory=list)
    oids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Asked:
    """A statement whose rows wait to be fetched. `told` is what its reader should know."""

    batches: Batches
    hold: ExitStack
    told: str

    def end(self) -> None:
        self.batches.close()
        self.hold.close()


class Statements:
    """All that clients have under way."""

    def __init__(self, states: States, most: int) -> None:
        """`most` statements wait to be fetched at once: each of them has an engine."""
        self._states = states
        self.transactions = Handles[Transaction]("transaction", IDLE_SECONDS, lambda t: t.hold.close())
        self.prepared = Handles[Prepared]("prepared statement", IDLE_SECONDS)
        self.asked = Handles[Asked]("statement", FETCH_SECONDS, Asked.end, most)

    def close(self) -> None:
        for kept in (self.asked, self.prepared, self.transactions):
            kept.clear()

    def begin(self) -> bytes:
        hold = ExitStack()
        cut = self._states.newest()
        hold.enter_context(self._states.held(cut))
        return self.transactions.keep(Transaction(cut, hold))

    def query(self, sql: str) -> Query:
        found = split(numbered(sql))
        if len(found) != 1:
            raise Refused("42601", "one statement is wanted", "send them one by one")
        found[0].check()
        if not found[0].reads:
            raise Refused("42601", f'"{found[0].verb}" is not understood here', "ask a SELECT")
        return translated(found[0].text)

    def ask(self, prepared: Prepared, at: str) -> Asked:
        """Decides what is read, and knows the columns; nothing runs before it is fetched."""
        with ExitStack() as hold:
            cut = self.transactions.get(prepared.transaction).cut if prepared.transaction else self._states.newest()
            hold.enter_context(self._states.held(cut))
            reading = self._states.reading(prepared.query, cut, settings.state(at))
            if reading.seq is not None:
                hold.enter_context(self._states.held(cut, reading.seq))
            batches = self._states.asked(prepared.query, reading, prepared.values, prepared.oids)
            told = "; ".join(what for what, _ in halted(cut, tuple(reading.views)))
            return Asked(batches, hold.pop_all(), told)
