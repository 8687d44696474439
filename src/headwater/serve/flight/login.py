"""Who may ask: the account of `headwater serve`, told once in the log-in or with every call.

A client that logs in (Basic) gets a token and sends that from then on (Bearer). Tokens are known to this process only;
the one used longest ago goes when there are too many, and its owner logs in again.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from pyarrow import flight

from headwater.serve.login import Account
from headwater.serve.scram import Verifier

TOKENS = 10_000
AT = "headwater.at"
"""The header that names an older state to read."""

Headers = Mapping[str, Sequence[Any]]


class Handshake(flight.ServerAuthHandler):  # type: ignore[misc] # pyarrow has no types
    """The log-in itself says nothing: what counts is in its headers."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        return None

    def is_valid(self, token: bytes) -> bytes:
        return b""


class Call(flight.ServerMiddleware):  # type: ignore[misc]
    """One call of somebody who may. `at` is the state that it wants to read, as it was said."""

    def __init__(self, at: str, token: str = "") -> None:
        self.at, self._token = at, token

    def sending_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._token}"} if self._token else {}


class Doorkeeper(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Looks at every call before anything else does."""

    def __init__(self, account: Account) -> None:
        self._account, self._lock = account, threading.Lock()
        self._tokens: OrderedDict[str, None] = OrderedDict()

    def start_call(self, info: Any, headers: Headers) -> Call:
        said = [str(value) for name, values in headers.items() if name.lower() == "authorization" for value in values]
        at = next((str(values[0]) for name, values in headers.items() if name.lower() == AT and values), "")
        for value in said:
            kind, _, rest = value.partition(" ")
            if kind.lower() == "bearer" and self._known(rest.strip()):
                return Call(at)
            if kind.lower() == "basic" and self._right(rest.strip()):
                return Call(at, self._token() if info.method == flight.FlightMethod.HANDSHAKE else "")
        raise flight.FlightUnauthenticatedError("the user name or the password is wrong, or none was given")

    def _known(self, token: str) -> bool:
        with self._lock:
            if token in self._tokens:
                self._tokens.move_to_end(token)
                return True
            return False

    def _token(self) -> str:
        made = secrets.token_urlsafe(32)
        with self._lock:
            self._tokens[made] = None
            while len(self._tokens) > TOKENS:
                self._tokens.popitem(last=False)
        return made

    def _right(self, encoded: str) -> bool:
        """As long for a name that is not known as for a password that is wrong."""
        try:  # some clients leave out the padding
            user, _, password = base64.b64decode(encoded + "=" * (-len(encoded) % 4)).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        known = self._account.verifier
        proved = Verifier.of(password, known.salt, known.rounds)
        right = hmac.compare_digest(proved.stored_key, known.stored_key)
        return hmac.compare_digest(user.encode(), self._account.user.encode()) and right
