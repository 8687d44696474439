"""Starting the page: an address, a token where others can reach it, and a server until it is stopped."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

from headwater.runtime.listening import is_loopback, listen
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


def token_for(host: str, given: str | None) -> str:
    """The token that a page there wants: none on this machine unless one is given, else one that nobody guesses."""
    if given:
        return given
    return "" if is_loopback(host) else secrets.token_urlsafe(24)


def serve(project: Project, host: str, port: int, token: str, ready: Callable[[Address], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; `ready` is told the address."""
    import uvicorn

    from headwater.page.server import application
    from headwater.page.work import Worker, commands

    listening = listen(host, port)
    address = Address(host, listening.getsockname()[1], token)
    closing = threading.Event()

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            closing.set()  # streams would go on for ever
            super().handle_exit(sig, frame)

    worker = Worker(commands(project.config.folder))
    config = uvicorn.Config(
        application(project, token, closing, worker), log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=1, lifespan="off", ws="none",
    )  # fmt: skip
    ready(address)
    try:
        with listening, suppress(KeyboardInterrupt):  # it was asked to stop, and has
            Server(config).run(sockets=[listening])
    finally:
        worker.stop()
