"""The agent's line to its hub: it only ever connects outwards."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec
import urllib3

from headwater.agent.joining import AgentSettings
from headwater.chain.letter import Letter
from headwater.chain.neighbours import Neighbours, decoded
from headwater.model.errors import ConfigError, HeadwaterError, SourceRefused, SourceUnavailable
from headwater.sources.agent.line import refusal, trusting, whole

_QUICK = urllib3.Timeout(connect=5, read=15)
_LONG = urllib3.Timeout(connect=5, read=60)


class NotStarted(HeadwaterError):
    """The hub does not know that this agent runs: it was opened anew."""


class Twin(HeadwaterError):
    """The hub has an agent of this name. If that one is gone, it knows within seconds."""


class ChainGone(HeadwaterError):
    """The hub knows no such epoch of a chain, or not with this member."""


class LetterTooLarge(HeadwaterError):
    """More than a hub passes on at once."""


@dataclass(frozen=True)
class Work:
    """A call to perform."""

    number: int
    body: bytes


class HubLine:
    """Used by all threads of an agent."""

    def __init__(self, settings: AgentSettings, lines: int) -> None:
        self._base = f"{settings.hub}/agents/{settings.name}"
        self._headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
        context = trusting(settings.authority) if settings.hub.startswith("https:") else None
        if context is not None and settings.certificate:
            _show(context, settings.certificate, settings.key)
        self._pool = urllib3.PoolManager(1, maxsize=lines, ssl_context=context)

    def start(self, said: dict[str, Any]) -> None:
        self._post("start", said)

    def life(self, instance: str, working_on: list[int], about: dict[str, Any]) -> None:
        self._post("life", {"instance": instance, "working_on": working_on, "about": about})

    def stop(self, instance: str, about: dict[str, Any]) -> None:
        self._post("stop", {"instance": instance, "about": about})

    def work(self, instance: str, worker: int = 0) -> Work | None:
        """A call for one of this agent's workers, which works on none."""
        response = self._post("work", {"instance": instance, "worker": worker}, _LONG)
        if response.status == 204:
            return None
        return Work(int(response.headers["X-Call"]), response.data)

    def answer(self, number: int, pieces: Iterator[bytes]) -> None:
        """Tell an answer; whether anybody still wants it is for the hub to know."""
        with self._explained():
            response = self._pool.request(
                "POST", f"{self._base}/answers/{number}", body=pieces, chunked=True, headers=self._headers,
                timeout=_LONG, retries=False, redirect=False,
            )  # fmt: skip
        _check(response, allowed=(204, 410))

    # ── chains ───────────────────────────────────────────────────────────────────────────────────────────────────

    def chain(self, name: str) -> bytes:
        """What a member of a chain is told."""
        return self._chain_door(f"chains/{quote(name, safe='')}", b"{}", {}).data

    def neighbours(self, name: str) -> Neighbours:
        """Who of a chain can be reached, and how they are known."""
        return decoded(self._chain_door(f"chains/{quote(name, safe='')}/neighbours", b"{}", {}, timeout=_QUICK).data)

    def went(self, name: str, epoch: int, window: int, letters: dict[str, int]) -> None:
        """So many letters of a window went to neighbours directly."""
        said = msgspec.json.encode({"window": window, "letters": letters})
        self._chain_door(f"chains/{quote(name, safe='')}/direct", said, {"X-Epoch": str(epoch)}, timeout=_QUICK)

    def box(self, wait: float) -> Letter | None:
        """The next letter."""
        found = self._chain_door("box", msgspec.json.encode({"wait": wait}), {})
        if found.status == 204:
            return None
        said = {name: found.headers.get(f"X-{name}", "") for name in ("Chain", "From", "To", "Kind")}
        return Letter(said["Chain"], int(found.headers["X-Epoch"]), said["From"], said["To"], said["Kind"], found.data)

    def send(self, letter: Letter) -> None:
        found = self._chain_door("letters", letter.body, letter.headers(), allowed=(204, 413), timeout=_QUICK)
        if found.status == 413:
            raise LetterTooLarge(
                f"a window of {letter.chain} has more changes than can be passed on at once"
                f" ({len(letter.body):,} bytes)",
                "choose a shorter window for the view, so that fewer changes gather; or questions = 'copy'",
            )

    def _chain_door(
        self,
        door: str,
        body: bytes,
        headers: dict[str, str],
        allowed: tuple[int, ...] = (200, 204),
        timeout: urllib3.Timeout = _LONG,
    ) -> urllib3.BaseHTTPResponse:
        with self._explained():
            response = self._pool.request(
                "POST", f"{self._base}/{door}", body=body, headers={**self._headers, **headers},
                timeout=timeout, retries=False, redirect=False,
            )  # fmt: skip
        if response.status == 410:
            said = refusal(response.data)
            raise ChainGone(said.what, said.fix)
        return _check(response, allowed)

    def _post(self, door: str, said: dict[str, Any], timeout: urllib3.Timeout = _QUICK) -> urllib3.BaseHTTPResponse:
        with self._explained():
            response = self._pool.request(
                "POST", f"{self._base}/{door}", body=msgspec.json.encode(said), headers=self._headers,
                timeout=timeout, retries=False, redirect=False,
            )  # fmt: skip
        return _check(response, allowed=(200, 204))

    def _explained(self) -> _Explained:
        return _Explained(self._base.partition("/agents/")[0])

    def close(self) -> None:
        self._pool.clear()


class _Explained:
    """Makes of a driver's errors what an agent understands."""

    def __init__(self, hub: str) -> None:
        self._hub = hub

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, urllib3.exceptions.SSLError | ssl.SSLError):
            if refused := _refused(error):
                raise SourceRefused(
                    f"the hub at {self._hub} does not take this agent's certificate: {refused}",
                    "certificate and key in agent.toml must be of an authority that [hub] clients names at the hub",
                ) from error
            raise SourceRefused(
                f"the hub at {self._hub} cannot prove who it is: {_reason(error)}",
                'name the file with its certificate: authority = "hub.pem" in agent.toml, or renew the certificate',
            ) from error
        if isinstance(error, urllib3.exceptions.HTTPError | OSError):
            raise SourceUnavailable(
                f"the hub at {self._hub} does not answer ({type(error).__name__})", "it is tried again"
            ) from error


_ALERTS = {
    "CERTIFICATE_EXPIRED": "its time is over, or has not begun",
    "UNKNOWN_CA": "it is signed by an authority that the hub does not know",
    "UNSUPPORTED_CERTIFICATE": "it was not made for clients",
    "BAD_CERTIFICATE": "it is not in order",
    "CERTIFICATE_UNKNOWN": "it is not in order",
    "DECRYPT_ERROR": "its key does not belong to it",
    "CERTIFICATE_REVOKED": "it was revoked",
}
"""What a hub says when it breaks off, by the end of OpenSSL's name for it."""


def _refused(error: BaseException) -> str:
    """Why the hub broke off; empty: it was not the hub that did."""
    found = re.search(r"ALERT_([A-Z_]+)", str(error))
    return _ALERTS.get(found.group(1), f"it says {found.group(1)}") if found else ""


def _show(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        context.load_cert_chain(certificate, key or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the certificate {certificate} cannot be used: {error}", "correct certificate and key in agent.toml"
        ) from error


def _reason(error: BaseException) -> str:
    text = str(error)
    return "its certificate has expired" if "expired" in text else text.partition("(_ssl")[0][-160:].strip()


def _check(response: urllib3.BaseHTTPResponse, allowed: tuple[int, ...]) -> urllib3.BaseHTTPResponse:
    if response.status in allowed:
        if not whole(response):
            raise SourceUnavailable("an answer of the hub was cut off", "it is asked again")
        return response
    said = refusal(response.data)
    if response.status == 409:
        raise NotStarted(said.what, said.fix)
    if response.status == 423:
        raise Twin(said.what, said.fix)
    if response.status in (401, 403):
        raise SourceRefused(said.what, said.fix)
    raise SourceUnavailable(said.what, said.fix)
