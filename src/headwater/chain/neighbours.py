"""Neighbours in a chain that reach each other: where, and what proves to one who of the others wrote a letter.

    hub ── to each member, of this epoch: the neighbours' addresses, and for each a key of either direction ──▶ agent
    a ── letter, proof ──▶ b      proof = HMAC(key of a → b in this epoch; chain, epoch, a, b, kind, digest of the body)

The keys are made of a secret that the hub draws for each epoch. So the key of a → b is known to a, b and the hub only:
what proves a letter proves nothing of another sender, receiver, chain, epoch or body. A letter that comes twice is
harmless, as it is through the hub (`acknowledged`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, field

import msgspec

from headwater.chain.letter import Letter
from headwater.sources.agent.frames import Malformed

HELLO = "hello"
"""A letter of this kind asks its receiver to prove itself, before it is told anything; its body is for this once."""


@dataclass(frozen=True)
class Reach:
    """Where an agent listens: its address, and the fingerprint of its certificate, if it has one."""

    address: str = ""
    fingerprint: str = ""


@dataclass(frozen=True)
class Neighbour:
    """`send` is the key of letters to it, `take` that of letters from it."""

    node: str
    reach: Reach
    send: str = field(repr=False)
    take: str = field(repr=False)


@dataclass(frozen=True)
class Neighbours:
    """Those of one member, `own`, in one epoch."""

    epoch: int
    own: str
    others: tuple[Neighbour, ...]

    def find(self, node: str) -> Neighbour | None:
        return next((one for one in self.others if one.node == node), None)


def key_of(secret: bytes, chain: str, epoch: int, way: tuple[str, str]) -> str:
    """The key of letters from way[0] to way[1]."""
    said = json.dumps([chain, epoch, *way]).encode()
    return hmac.new(secret, said, hashlib.sha256).hexdigest()


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def proof(key: str, letter: Letter, of_body: str) -> str:
    """That whoever has the key wrote this letter, with a body of this digest."""
    said = json.dumps([letter.chain, letter.epoch, letter.sender, letter.to, letter.kind, of_body]).encode()
    return hmac.new(bytes.fromhex(key), said, hashlib.sha256).hexdigest()


def proven(shown: str, key: str, letter: Letter, of_body: str) -> bool:
    return shown.isascii() and hmac.compare_digest(shown, proof(key, letter, of_body))


def encoded(neighbours: Neighbours) -> bytes:
    return msgspec.json.encode(neighbours)


def decoded(said: bytes) -> Neighbours:
    try:
        return msgspec.json.decode(said, type=Neighbours)
    except msgspec.DecodeError:
        raise Malformed(
            "what the hub told of neighbours is not understood", "are hub and agent of one version?"
        ) from None
