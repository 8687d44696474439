"""The line from whoever needs a source to the hub that its agent connects to."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import msgspec
import urllib3

from headwater.model.errors import ConfigError, HeadwaterError, SourceUnavailable
from headwater.model.source import SourceSpec
from headwater.sources.agent.calls import Call
from headwater.sources.agent.frames import Frame, frames

HUB, SECRET, AUTHORITY = "hub", "hub_secret", "hub_authority"
"""Options of a spec: the hub's address, what opens it for the project's own processes, whom to believe in (a file)."""

FIRST_TICKET = "first"
"""What an agent shows that has never started."""

_PATIENCE = urllib3.Timeout(connect=5, read=120)


class Line:
    """One caller's connection: kept open between calls."""

    def __init__(self, agent: str, hub: str, secret: str, authority: str) -> None:
        self._agent, self._hub, self._secret = agent, hub, secret
        self._pool = urllib3.PoolManager(1, ssl_context=trusting(authority) if hub.startswith("https:") else None)

    @staticmethod
    def of(spec: SourceSpec) -> Line:
        options = dict(spec.options)
        if HUB not in options:
            raise ConfigError(
                f"source {spec.name} has an agent, but the project has no hub that it could connect to",
                "add a section [hub] to headwater.toml",
            )
        agent = spec.url.removeprefix("agent://").rstrip("/")
        return Line(agent, options[HUB], options.get(SECRET, ""), options.get(AUTHORITY, ""))

    def call(self, call: Call) -> Iterator[Frame]:
        """What the agent answers, frame by frame. SourceUnavailable if it is away, or the line is cut."""
        body = b"".join(call.told())
        try:
            response = self._pool.request(
                "POST", f"{self._hub}/sources/{self._agent}", body=body, preload_content=False, retries=False,
                headers={"Authorization": f"Bearer {self._secret}"}, timeout=_PATIENCE, redirect=False,
            )  # fmt: skip
        except urllib3.exceptions.HTTPError as error:
            raise SourceUnavailable(
                f"source {call.source}: the hub does not answer ({type(error).__name__})", "is its address right?"
            ) from error
        if response.status != 200:
            said = refusal(response.read(decode_content=False))
            response.release_conn()
            raise SourceUnavailable(f"source {call.source}: {said.what}", said.fix)
        try:
            yield from frames(response.stream(1 << 20, decode_content=False))
            response.drain_conn()  # the connection can be used again
        except urllib3.exceptions.HTTPError as error:
            raise SourceUnavailable(f"source {call.source}: the answer was cut off", "it is asked for again") from error
        finally:
            response.close()

    def close(self) -> None:
        self._pool.clear()


def refusal(body: bytes) -> HeadwaterError:
    """Why a hub said no."""
    try:
        said = msgspec.json.decode(body[:10_000], type=dict[str, str])
        return HeadwaterError(said["what"], said.get("fix", ""))
    except (msgspec.DecodeError, KeyError):
        return HeadwaterError("the hub refused without saying why", "is that a hub of Headwater?")


def whole(response: urllib3.BaseHTTPResponse) -> bool:
    """Whether an answer that came at once came whole. Of one that was cut off among its headers http.client makes one
    that has no body, without a word; one that says how long it is was not cut off there."""
    return response.status != 200 or response.headers.get("Content-Length", "").isdecimal()


def trusting(authority: str) -> ssl.SSLContext:
    """TLS that believes in the authorities of this machine, or in those of a file only."""
    context = ssl.create_default_context()
    if authority:
        try:
            context = ssl.create_default_context(cafile=authority)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"{authority} holds no certificates: {error}", "name a PEM file") from error
    return context
