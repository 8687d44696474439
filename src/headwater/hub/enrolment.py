"""Who may connect: agents by name, each with a token of its own, kept as a hash in the warehouse.

    enrol     a token, shown once; one that was given out before opens nothing any more
    revoke    no token opens anything

**A restored backup is noticed.** Each time an agent starts it shows the ticket it was given the last time, and brings
the next one along. The ticket it shows is the current one or the next one; the latter then is the current one:

    agent shows   hub knows (current, next)   after it
    t1            (t1, t2)                    (t1, t3)      it died before it had written t2 down
    t2            (t1, t2)                    (t2, t3)
    t0            (t1, t2)                    refused: a copy of the agent, or its machine was put back in time

Invariant: of two copies of one agent at most one gets past its second start.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time
from dataclasses import dataclass, replace

from headwater.model.errors import HeadwaterError, UsageError
from headwater.sources.agent.line import FIRST_TICKET
from headwater.storage import Storage
from headwater.storage.records import decode, encode

_AGENTS = "hub/agents"
_SECRET = "hub/secret"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_LATELY = 2.0
"""So long a revoked token may still open."""


@dataclass(frozen=True)
class Enrolled:
    """An agent that may connect. `token`, `current` and `next` are hashes."""

    name: str
    token: str
    enrolled_at: float
    revoked: bool = False
    current: str = ""
    next: str = ""


class Refused(HeadwaterError):
    """The agent may not connect. Trying again does not help."""


class Enrolment:
    """The enrolled agents of a warehouse."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._known: dict[str, tuple[float, Enrolled | None]] = {}

    def secret(self) -> str:
        """What opens the hub for the project's own processes."""
        found = self._storage.get(_SECRET)
        if found is None:
            self._storage.make_folder("hub")
            self._storage.put_new(_SECRET, secrets.token_urlsafe(32).encode())
            if self._storage.local:
                os.chmod(self._storage.path(_SECRET), 0o600)
            found = self._storage.get(_SECRET)
        assert found is not None
        return found.decode()

    def enrol(self, name: str) -> str:
        """A new token for this agent."""
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot be the name of an agent", "take letters, digits, '-', '_' and '.', 63 of them at most"
            )
        token = secrets.token_urlsafe(32)
        self._put(Enrolled(name, hashed(token), time.time(), current=hashed(FIRST_TICKET)))
        return token

    def revoke(self, name: str) -> None:
        self._put(replace(self.named(name), revoked=True))

    def named(self, name: str) -> Enrolled:
        found = self.find(name)
        if found is None:
            raise UsageError(f"no agent {name!r} is enrolled", f"'headwater agent enroll {name}' does it")
        return found

    def find(self, name: str) -> Enrolled | None:
        data = self._storage.get(_file(name)) if _NAME.fullmatch(name) else None
        return None if data is None else decode(data, Enrolled, self._storage.uri(_file(name)))

    def all(self) -> list[Enrolled]:
        names = (name.removesuffix(".json") for name in self._storage.names(_AGENTS))
        return [found for name in sorted(names) if (found := self.find(name)) is not None]

    def opens(self, name: str, token: str) -> bool:
        """Whether this token is that agent's."""
        return _is(self.lately(name), token) or _is(self.find(name), token)  # it may have been enrolled just now

    def lately(self, name: str) -> Enrolled | None:
        """As it was a moment ago: agents knock often, and the warehouse may be far."""
        at, found = self._known.get(name, (0.0, None))
        if time.monotonic() - at > _LATELY or found is None:
            found = self.find(name)
            if found is not None:
                self._known[name] = time.monotonic(), found
        return found

    def starts(self, name: str, ticket: str, following: str) -> None:
        """The agent shows its ticket and brings the next one."""
        found, shown = self.named(name), hashed(ticket)
        if shown == found.next:
            found = replace(found, current=shown)
        elif shown != found.current:
            raise Refused(
                f"agent {name} shows a ticket that was used before: it is a copy of another one, or its machine was "
                "restored from a backup",
                f"'headwater agent enroll {name}' at the hub lets it begin anew; then 'headwater agent join' beside it",
            )
        self._put(replace(found, next=hashed(following)))

    def _put(self, agent: Enrolled) -> None:
        self._storage.make_folder(_AGENTS)
        self._storage.put(_file(agent.name), encode(agent))


def hashed(text: str) -> str:
    """Tokens and tickets are random and long: one round is enough."""
    return hashlib.sha256(text.encode()).hexdigest()


def _is(agent: Enrolled | None, token: str) -> bool:
    good = hmac.compare_digest(hashed(token), agent.token if agent is not None else hashed(secrets.token_hex()))
    return good and agent is not None and not agent.revoked


def _file(name: str) -> str:
    return f"{_AGENTS}/{name}.json"
