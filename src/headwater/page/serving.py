"""Starting the page: an address, a token where others can reach it, and a server until it is stopped."""

from __future__ import annotations

import errno
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass

from headwater.model.errors import HeadwaterError, UsageError
from headwater.page.guard import is_loopback
from headwater.runtime.project.project import Project

PORT = 7411
TOKEN_VARIABLE = "HEADWATER_TOKEN"


@dataclass(frozen=True)
class Address:
    """Where a page is. `token` is empty where only this machine can reach it."""

    host: str
    port: int
    token: str = ""

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/" + (f"?token={self.token}" if self.token else "")


def listen(host: str, port: int) -> socket.socket:
    """A socket on that address, or a word about who has it."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise UsageError(f"there is no address called {host!r}", "give --host an address of this machine") from error
    found = socket.socket(family, kind, protocol)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(address)
        found.listen(128)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            fix = "another page may be open there; choose another with --port, or --port 0 for any that is free"
            raise HeadwaterError(f"port {port} of {host} is taken", fix) from error
        if error.errno == errno.EACCES:
            raise HeadwaterError(f"port {port} of {host} is not ours to take", "choose one above 1023") from error
        raise HeadwaterError(f"cannot listen at {host}:{port}: {error.strerror}", "choose another --host") from error
    return found


def token_for(host: str, given: str | None) -> str:
    """The token that a page there wants: none on this machine unless one is given, else one that nobody guesses."""
    if given:
        return given
    return "" if is_loopback(host) else secrets.token_urlsafe(24)


def serve(project: Project, host: str, port: int, token: str, ready: Callable[[Address], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; `ready` is told the address."""
    import uvicorn

    from headwater.page.server import application

    listening = listen(host, port)
    address = Address(host, listening.getsockname()[1], token)
    config = uvicorn.Config(
        application(project, token), log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=1, lifespan="off", ws="none",
    )  # fmt: skip
    ready(address)
    with listening:
        uvicorn.Server(config).run(sockets=[listening])
