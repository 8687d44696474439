"""What an agent knows of its neighbours in chains, and its letters to those that it reaches.

    letter ──▶ is the neighbour there? ── hello, once an epoch: it proves who it is ──▶ letter ──▶ 204: it has it
                    └─ no, or not now ──▶ through the hub

Invariant: nothing is told to anybody, and nothing is taken from anybody, whom the hub has not named as a member's
neighbour in the present epoch within the last few seconds. So one that was revoked is out as soon as at the hub.
"""

from __future__ import annotations

import ipaddress
import logging
import secrets
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import urlsplit

import urllib3

from headwater.chain.letter import Letter
from headwater.chain.neighbours import HELLO, Neighbour, Neighbours, Reach, digest, proof, proven
from headwater.model.errors import HeadwaterError

log = logging.getLogger(__name__)

FRESH_SECONDS = 10.0
"""So long what the hub said of an epoch is believed."""
AWAY_SECONDS = 30.0
"""A neighbour that was not reached is not tried again for so long: its letters go through the hub meanwhile."""
_FRUITLESS_SECONDS = 1.0
"""The hub is asked about an epoch that it does not know no more often than this: strangers make such questions."""
_TIMES = urllib3.Timeout(connect=2, read=10)


class NeighbourLine(Protocol):
    def neighbours(self, chain: str) -> Neighbours: ...


@dataclass(frozen=True)
class Asked:
    """What the hub said of a chain; None: nothing that could be used."""

    found: Neighbours | None
    at: float


class Neighbourhood:
    """Used by the thread of the chains and by those that take letters; `chains` are those that have windows here."""

    def __init__(self, line: NeighbourLine, chains: Callable[[], list[str]]) -> None:
        self._line, self._chains = line, chains
        self._asked: dict[str, Asked] = {}
        self._guard = threading.Lock()
        self._met: dict[tuple[str, int, str], Reach] = {}
        """Those that have proven who they are, by chain, epoch and node; and where."""
        self._away_until: dict[Reach, float] = {}
        self._pools: dict[Reach, urllib3.PoolManager] = {}

    def find(self, letter: Letter, other: str) -> Neighbour | None:
        """The neighbour at the other end of a letter; None: there is none of that name in this epoch."""
        known = self._known(letter.chain, letter.epoch)
        own = letter.to if other == letter.sender else letter.sender
        return known.find(other) if known is not None and known.own == own else None

    def _known(self, chain: str, epoch: int) -> Neighbours | None:
        with self._guard:
            asked = self._asked.get(chain)
            if asked is not None:
                right = asked.found is not None and asked.found.epoch == epoch
                if time.monotonic() - asked.at < (FRESH_SECONDS if right else _FRUITLESS_SECONDS):
                    return asked.found if right else None
            if chain not in self._chains():
                return None
            try:
                found = self._line.neighbours(chain)
            except HeadwaterError as error:
                log.info("neighbours in %s: %s", chain, error.what)
                found = None
            self._asked[chain] = Asked(found, time.monotonic())
            return found if found is not None and found.epoch == epoch else None

    # ── letters to them ──────────────────────────────────────────────────────────────────────────────────────────

    def send(self, letter: Letter) -> bool:
        """Whether the neighbour has it now. `letter` names its sender."""
        to = self.find(letter, letter.to)
        if to is None or not _private(to.reach) or self._away_until.get(to.reach, 0.0) > time.monotonic():
            return False
        try:
            if self._met.get((letter.chain, letter.epoch, to.node)) != to.reach:
                self._meet(letter, to)
            answer = self._post(to, letter)
        except urllib3.exceptions.HTTPError as error:
            log.info("%s is not reached at %s (%s): through the hub", to.node, to.reach.address, type(error).__name__)
            self._away_until[to.reach] = time.monotonic() + AWAY_SECONDS
            return False
        except Stranger:
            log.warning("whoever listens at %s is not %s: through the hub", to.reach.address, to.node)
            self._away_until[to.reach] = time.monotonic() + AWAY_SECONDS
            return False
        return answer.status == 204

    def _meet(self, letter: Letter, to: Neighbour) -> None:
        """Who listens there proves that it has the keys: an address may have another owner by now."""
        hello = replace(letter, kind=HELLO, body=secrets.token_bytes(16))
        answer = self._post(to, hello)
        back = replace(hello, sender=to.node, to=letter.sender)
        if answer.status != 204 or not proven(answer.headers.get("X-Proof", ""), to.take, back, digest(hello.body)):
            raise Stranger
        for old in [known for known in self._met if known[0] == letter.chain and known[1] != letter.epoch]:
            del self._met[old]
        self._met[letter.chain, letter.epoch, to.node] = to.reach

    def _post(self, to: Neighbour, letter: Letter) -> urllib3.BaseHTTPResponse:
        of_body = digest(letter.body)
        headers = {**letter.headers(), "X-Digest": of_body, "X-Proof": proof(to.send, letter, of_body)}
        pool = self._pools.setdefault(to.reach, _pool(to.reach))
        return pool.request(
            "POST", f"{to.reach.address}/letters", body=letter.body, headers=headers, timeout=_TIMES,
            retries=False, redirect=False,
        )  # fmt: skip

    def close(self) -> None:
        for pool in self._pools.values():
            pool.clear()


class Stranger(Exception):
    """Somebody else than the neighbour listens at its address."""


def _pool(reach: Reach) -> urllib3.PoolManager:
    if not reach.fingerprint:
        return urllib3.PoolManager(1)
    context = ssl.create_default_context()  # which certificate it is, the hub has said
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return urllib3.PoolManager(1, ssl_context=context, assert_fingerprint=reach.fingerprint)


def _private(reach: Reach) -> bool:
    """Whether nobody else can read what is sent there."""
    parts = urlsplit(reach.address)
    if parts.scheme == "https":
        return bool(reach.fingerprint)
    return parts.scheme == "http" and on_this_machine(parts.hostname or "")


def on_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
