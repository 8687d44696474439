"""The log-in: the first messages of a connection, up to the right password.

A name that is not known and a password that is wrong look the same to who tries, and take as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.serve import catalog, messages
from headwater.serve.errors import Refused
from headwater.serve.messages import Body, Malformed
from headwater.serve.scram import MECHANISM, Exchange, Verifier

_TOLD = ("server_version", "server_encoding", "client_encoding", "DateStyle", "IntervalStyle", "TimeZone",
         "integer_datetimes", "standard_conforming_strings", "is_superuser", "session_authorization",
         "default_transaction_read_only", "in_hot_standby", "application_name")  # fmt: skip


@dataclass(frozen=True)
class Account:
    """Who may connect."""

    user: str
    verifier: Verifier

    @classmethod
    def of(cls, user: str, password: str) -> Account:
        return cls(user, Verifier.of(password))


class Login:
    """One try. `said` is what the client says of itself."""

    def __init__(self, account: Account, said: dict[str, str]) -> None:
        self._account, self.said = account, said
        self._exchange = Exchange(account.verifier)
        self._begun = self.done = False
        database = said.get("database") or said.get("user", "")
        if not said.get("user"):
            raise Refused("28000", "no PostgreSQL user name specified in startup packet")
        self._database = database

    def first(self) -> bytes:
        return messages.sasl([MECHANISM])

    def answer(self, kind: bytes, data: bytes) -> Iterator[bytes]:
        """What a message with a part of the proof is answered with; `done` when it is right."""
        if kind != b"p":
            raise Malformed("a password is wanted first")
        body = Body(data)
        if not self._begun:
            if body.text() != MECHANISM:
                raise Malformed(f"only {MECHANISM} is offered")
            self._begun = True
            yield messages.sasl_continue(self._exchange.first(body.value() or b""))
            return
        signature = self._exchange.final(body.rest())
        if signature is None or self.said["user"] != self._account.user:
            raise Refused("28P01", f'password authentication failed for user "{self.said["user"]}"')
        if self._database != catalog.DATABASE:
            what = f'database "{self._database}" does not exist'
            raise Refused("3D000", what, f'the views are in database "{catalog.DATABASE}"')
        self.done = True
        yield messages.sasl_final(signature) + messages.AUTHENTICATED

    def welcome(self, process: int, secret: int) -> bytes:
        """What a client is told before its first question."""
        known = {**catalog.SHOWN, "application_name": self.said.get("application_name", "")}
        told = b"".join(messages.parameter(name, known[name.lower()]) for name in _TOLD)
        return told + messages.key_data(process, secret) + messages.ready(b"I")
