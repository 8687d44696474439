"""Certificates of agents: proof of who connects, instead of a token or beside one.

    agent ── TLS, its certificate ──▶ hub      signed by an authority of [hub] clients, within its time: OpenSSL checks
                                               it names the agent whose doors are knocked at: `Enrolment` checks

A certificate names an agent by its common name or by a DNS name. What it proves is asked with every request: one whose
time is over opens nothing, though the connection was made before.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.requests import Request

_KEY = "headwater.certificate"


@dataclass(frozen=True)
class Certificate:
    """One that OpenSSL found to be right when the connection was made. `until` is the end of its time."""

    names: frozenset[str]
    fingerprint: str
    until: float

    def over(self) -> bool:
        return time.time() >= self.until


def certificate_of(request: Request) -> Certificate | None:
    """What whoever sends this request has proven itself by; None: by no certificate."""
    found = request.scope.get(_KEY)
    return found if isinstance(found, Certificate) else None


class Certified(H11Protocol):
    """Tells every request what was proven when its connection was made."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        shown, app = _shown(transport.get_extra_info("ssl_object")), self.app

        async def told(scope: Any, receive: Any, send: Any) -> None:
            scope[_KEY] = shown
            await app(scope, receive, send)

        self.app = told


def _shown(connection: ssl.SSLObject | None) -> Certificate | None:
    if connection is None:
        return None
    raw, said = connection.getpeercert(binary_form=True), connection.getpeercert()
    if not raw or not said:
        return None
    subject: Any = said.get("subject", ())
    others: Any = said.get("subjectAltName", ())
    names = {value for part in subject for key, value in part if key == "commonName"}
    names |= {value for key, value in others if key == "DNS"}
    return Certificate(
        frozenset(names), hashlib.sha256(raw).hexdigest(), ssl.cert_time_to_seconds(str(said["notAfter"]))
    )
