"""SCRAM-SHA-256 (RFC 5802, RFC 7677) as the server: who asks proves the password and never sends it.

    SaltedPassword  = PBKDF2(password, salt, i)
    ClientKey       = HMAC(SaltedPassword, "Client Key")       StoredKey = H(ClientKey)
    ClientProof     = ClientKey XOR HMAC(StoredKey, AuthMessage)
    ServerSignature = HMAC(HMAC(SaltedPassword, "Server Key"), AuthMessage)

What is kept is a `Verifier`: it checks a proof, and cannot be used to log in elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import stringprep
import unicodedata
from dataclasses import dataclass

from headwater.serve.messages import Malformed

MECHANISM = "SCRAM-SHA-256"
ROUNDS = 4096


@dataclass(frozen=True)
class Verifier:
    """What tells a right password from others."""

    salt: bytes
    rounds: int
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, password: str, salt: bytes | None = None, rounds: int = ROUNDS) -> Verifier:
        salt = secrets.token_bytes(16) if salt is None else salt
        salted = hashlib.pbkdf2_hmac("sha256", prepared(password), salt, rounds)
        client = _hmac(salted, b"Client Key")
        return cls(salt, rounds, hashlib.sha256(client).digest(), _hmac(salted, b"Server Key"))


class Exchange:
    """One log-in: the client's first message, ours, its proof, our signature."""

    def __init__(self, verifier: Verifier, nonce: str | None = None) -> None:
        self._verifier = verifier
        self._nonce = nonce or secrets.token_urlsafe(18)
        self._said = self._header = self._full = ""

    def first(self, message: bytes) -> bytes:
        said = _decoded(message)
        for header in ("n,,", "y,,"):
            if said.startswith(header):
                self._header, bare = header, said[len(header) :]
                break
        else:
            raise Malformed("the log-in asks for channel binding, which is not offered")
        nonce = _fields(bare).get("r", "")
        if not nonce:
            raise Malformed("the log-in has no nonce")
        self._full = nonce + self._nonce
        salt = base64.b64encode(self._verifier.salt).decode()
        answer = f"r={self._full},s={salt},i={self._verifier.rounds}"
        self._said = f"{bare},{answer}"
        return answer.encode()

    def final(self, message: bytes) -> bytes | None:
        """The server's signature if the proof is right, else None."""
        said = _decoded(message)
        without, _, proof_text = said.rpartition(",p=")
        fields = _fields(without)
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except (binascii.Error, ValueError):
            raise Malformed("the proof of the log-in is not base64") from None
        bound = base64.b64encode(self._header.encode()).decode()
        if fields.get("c") != bound or fields.get("r") != self._full or len(proof) != 32:
            return None
        whole = f"{self._said},{without}".encode()
        signature = _hmac(self._verifier.stored_key, whole)
        client = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client).digest(), self._verifier.stored_key):
            return None
        return b"v=" + base64.b64encode(_hmac(self._verifier.server_key, whole))


def prepared(password: str) -> bytes:
    """SASLprep, as PostgreSQL does it: what cannot be prepared is taken as it is."""
    mapped = "".join(" " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c))
    found = unicodedata.normalize("NFKC", mapped)
    banned = (stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4, stringprep.in_table_c5,
              stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8, stringprep.in_table_c9,
              stringprep.in_table_a1)  # fmt: skip
    if not found or any(test(c) for c in found for test in banned):
        return password.encode()
    return found.encode()


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _decoded(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise Malformed("the log-in is not UTF-8") from None


def _fields(text: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}
