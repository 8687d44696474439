"""An agent's own door, for neighbours in chains that reach it: [agent] listen.

    POST /letters     a letter, in the envelope it has at the hub (`letter`), with
                      X-Digest, the body's, and X-Proof, who wrote it (`neighbours`)

Who wrote it is known before its body is read: strangers are told nothing, and take no memory. What is refused here
goes through the hub.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwater.agent.joining import AgentSettings
from headwater.agent.neighbourhood import Neighbourhood, on_this_machine
from headwater.chain.inbox import Inbox
from headwater.chain.letter import LONGEST, Letter
from headwater.chain.neighbours import HELLO, Reach, digest, proof, proven
from headwater.model.errors import ConfigError, UsageError
from headwater.sources.agent.serving import Served, TlsFiles

MOST = 100
"""No more connections at once: neighbours are two."""


class Listening:
    """Open until closed."""

    def __init__(self, settings: AgentSettings, neighbourhood: Neighbourhood, inbox: Inbox) -> None:
        self._neighbourhood, self._inbox = neighbourhood, inbox
        host, port = _place(settings)
        try:
            listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            raise ConfigError(
                f"the agent cannot listen at {settings.listen}: {str(error.strerror).lower()}", "choose another port"
            ) from error
        self.reach = _reach(settings, host, listening.getsockname()[1])
        self._served = Served(self._app(), listening, TlsFiles(settings.certificate, settings.key), most=MOST)

    def _app(self) -> Any:
        try:
            from starlette.applications import Starlette
            from starlette.concurrency import run_in_threadpool
            from starlette.requests import ClientDisconnect, Request
            from starlette.responses import Response
            from starlette.routing import Route
        except ImportError as error:
            raise UsageError(
                f"this agent cannot listen: {error.name} is not installed", "pip install 'headwater[agent]'"
            ) from error

        async def take(request: Request) -> Response:
            letter, length = _envelope(request.headers), request.headers.get("content-length", "")
            if letter is None or not length.isdecimal() or len(length) > 12 or "transfer-encoding" in request.headers:
                return Response(status_code=400)
            if int(length) > LONGEST:
                return Response(status_code=413)
            of_body = request.headers.get("x-digest", "")
            known = await run_in_threadpool(self._neighbourhood.find, letter, letter.sender)
            if known is None:
                return Response(status_code=410)
            if not proven(request.headers.get("x-proof", ""), known.take, letter, of_body):
                return Response(status_code=401)
            try:
                body = await request.body()  # no longer than was said: h11 sees to that
            except ClientDisconnect:
                return Response(status_code=400)
            if digest(body) != of_body:
                return Response(status_code=400)
            if letter.kind == HELLO:
                back = Letter(letter.chain, letter.epoch, letter.to, letter.sender, HELLO, b"")
                return Response(status_code=204, headers={"X-Proof": proof(known.send, back, of_body)})
            came = Letter(letter.chain, letter.epoch, letter.sender, letter.to, letter.kind, body)
            return Response(status_code=204 if self._inbox.put(came) else 503)

        return Starlette(routes=[Route("/letters", take, methods=["POST"])])

    def close(self) -> None:
        self._served.close()


def _envelope(headers: Mapping[str, str]) -> Letter | None:
    said = {name: headers.get(f"x-{name}", "")[:200] for name in ("chain", "epoch", "from", "to", "kind")}
    if not all(said.values()) or not said["epoch"].isdecimal() or len(said["epoch"]) > 18:
        return None
    return Letter(said["chain"], int(said["epoch"]), said["from"], said["to"], said["kind"], b"")


def _place(settings: AgentSettings) -> tuple[str, int]:
    host, _, port = settings.listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"listen is {settings.listen!r}", 'write host:port, such as "192.168.1.7:7438"')
    if not settings.certificate and not on_this_machine(host):
        raise ConfigError(
            f"the agent listens at {settings.listen}, where others can read what its neighbours tell it, and has no"
            " certificate",
            "give certificate and key in [agent]; one that is its own authority is enough, for the hub tells neighbours"
            " which it is:\nopenssl req -x509 -newkey rsa:2048 -nodes -days 365 -keyout agent.key -out agent.pem "
            "-subj /CN=NAME",
        )
    return host, int(port)


def _reach(settings: AgentSettings, host: str, port: int) -> Reach:
    scheme = "https" if settings.certificate else "http"
    if not settings.address and host in ("0.0.0.0", "::"):
        raise ConfigError(
            f"the agent listens at {settings.listen}, which is no address that a neighbour could connect to",
            'say in [agent] how neighbours reach it: address = "https://laptop7.example:7438"',
        )
    shown = f"[{host}]" if ":" in host else host
    address = settings.address.rstrip("/") or f"{scheme}://{shown}:{port}"
    if not address.startswith(f"{scheme}://"):
        raise ConfigError(f"address is {settings.address!r}", f"it begins with {scheme}://")
    if not settings.certificate:
        return Reach(address)
    text = Path(settings.certificate).read_text(encoding="ascii", errors="ignore")
    begin, end = text.find("-----BEGIN CERTIFICATE-----"), text.find("-----END CERTIFICATE-----")
    if begin < 0 or end < 0:
        raise ConfigError(f"{settings.certificate} holds no certificate", "name a PEM file")
    der = ssl.PEM_cert_to_DER_cert(text[begin : end + len("-----END CERTIFICATE-----")])
    return Reach(address, digest(der))
