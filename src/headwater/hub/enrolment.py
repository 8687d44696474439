"""Who may connect: agents by name, each with a token of its own, kept as a hash in the warehouse.

    enrol     a token, shown once; one that was given out before opens nothing any more
              or no token: a certificate that names the agent opens (`certificates`)
    revoke    nothing opens any more; certificates that were shown until then open nothing ever again

**A restored backup is noticed.** Each time an agent starts it shows the ticket it was given the last time, and brings
the next one along. The ticket it shows is the current one or the next one; the latter then is the current one:

    agent shows   hub knows (current, next)   after it
    t1            (t1, t2)                    (t1, t3)      it died before it had written t2 down
    t2            (t1, t2)                    (t2, t3)
    t0            (t1, t2)                    refused: a copy of the agent, or its machine was put back in time

A start carries its number, too, written down beside the agent before it is sent: one that was held up on a bad line
until the agent had started again is older than what the hub knows, and changes nothing.

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

from headwater.hub.certificates import Certificate
from headwater.model.errors import HeadwaterError, UsageError
from headwater.sources.agent.line import FIRST_TICKET
from headwater.storage import Storage
from headwater.storage.records import decode, encode

_AGENTS = "hub/agents"
_SECRET = "hub/secret"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_REMEMBERED = 20
"""Of the certificates that an agent has shown, so many are known when it is revoked."""
LATELY = 2.0
"""So long a revoked token may still open."""


@dataclass(frozen=True)
class Enrolled:
    """An agent that may connect. `token`, `current` and `next` are hashes; without a token it has a certificate.
    `start` is the number
    of the newest start: which run of the agent, which attempt in it. `shown` and `refused` are fingerprints of
    certificates."""

    name: str
    token: str
    enrolled_at: float
    revoked: bool = False
    current: str = ""
    next: str = ""
    start: tuple[int, int] = (0, 0)
    shown: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Proof:
    """What somebody shows who says that they are an agent."""

    token: str = ""
    certificate: Certificate | None = None


@dataclass(frozen=True)
class Start:
    """What an agent says when it starts."""

    ticket: str
    following: str
    number: tuple[int, int]


class Refused(HeadwaterError):
    """The agent may not connect. Trying again does not help."""


class Connected(Refused):
    """There is one of that name already; if it is gone, the hub knows that within seconds."""


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

    def enrol(self, name: str, by_certificate: bool = False) -> str:
        """A new token for this agent; empty: its certificate opens."""
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot be the name of an agent", "take letters, digits, '-', '_' and '.', 63 of them at most"
            )
        token = "" if by_certificate else secrets.token_urlsafe(32)
        before = self.find(name)
        refused = before.refused if before is not None else ()
        kept = hashed(token) if token else ""
        self._put(Enrolled(name, kept, time.time(), current=hashed(FIRST_TICKET), refused=refused))
        return token

    def revoke(self, name: str) -> None:
        found = self.named(name)
        self._put(replace(found, revoked=True, shown=(), refused=(*found.refused, *found.shown)))

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

    def opens(self, name: str, proof: Proof) -> bool:
        """Whether this is that agent."""
        return _is(self.lately(name), proof) or _is(self.find(name), proof)  # it may have been enrolled just now

    def lately(self, name: str) -> Enrolled | None:
        """As it was a moment ago: agents knock often, and the warehouse may be far."""
        at, found = self._known.get(name, (0.0, None))
        if time.monotonic() - at > LATELY or found is None:
            found = self.find(name)
            if found is not None:
                self._known[name] = time.monotonic(), found
        return found

    def starts(self, name: str, start: Start, certificate: Certificate | None = None) -> None:
        """The agent shows its ticket and brings the next one."""
        found, shown = self.named(name), hashed(start.ticket)
        if shown == found.next:
            found = replace(found, current=shown)
        elif shown != found.current or start.number <= found.start:
            raise Refused(
                f"agent {name} shows a ticket that was used before: it is a copy of another one, or its machine was "
                "restored from a backup",
                f"'headwater agent enroll {name}' at the hub lets it begin anew; then 'headwater agent join' beside it",
            )
        if certificate is not None and certificate.fingerprint not in found.shown:
            found = replace(found, shown=(*found.shown[-_REMEMBERED:], certificate.fingerprint))
        self._put(replace(found, next=hashed(start.following), start=start.number))

    def _put(self, agent: Enrolled) -> None:
        self._storage.make_folder(_AGENTS)
        self._storage.put(_file(agent.name), encode(agent))


def hashed(text: str) -> str:
    """Tokens and tickets are random and long: one round is enough."""
    return hashlib.sha256(text.encode()).hexdigest()


def _is(agent: Enrolled | None, proof: Proof) -> bool:
    known = agent.token if agent is not None else ""
    good = hmac.compare_digest(hashed(proof.token), known or hashed(secrets.token_hex()))
    if agent is None or agent.revoked:
        return False
    if proof.certificate is None:
        return good
    by_certificate = not known and not proof.token
    return proof.certificate.fingerprint not in agent.refused and (good or by_certificate)


def _file(name: str) -> str:
    return f"{_AGENTS}/{name}.json"
