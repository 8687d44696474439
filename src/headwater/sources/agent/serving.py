"""A web server in a thread of this process: the hub's doors, and those that agents have for their neighbours.

It writes nothing to anybody's screen, and ends with the process.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any

from headwater.model.errors import HeadwaterError

log = logging.getLogger(__name__)

HEADERS = 64 * 1024
"""No request has longer headers."""


@dataclass(frozen=True)
class TlsFiles:
    """`clients`: the authorities whose certificates those who connect may show."""

    certificate: str = ""
    key: str = ""
    clients: str = ""


class Served:
    """An application, served until closed. `connection` is the class of one, as uvicorn has it; `most` of them
    at once."""

    def __init__(
        self,
        app: Any,
        listening: socket.socket,
        files: TlsFiles,
        connection: type[asyncio.Protocol] | None = None,
        most: int | None = None,
    ) -> None:
        import uvicorn

        _quiet()
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", server_header=False, date_header=False,
            timeout_keep_alive=75, h11_max_incomplete_event_size=HEADERS, http=connection or "h11",
            limit_concurrency=most,
            ssl_certfile=files.certificate or None, ssl_keyfile=files.key or None, ssl_ca_certs=files.clients or None,
            ssl_cert_reqs=ssl.CERT_OPTIONAL if files.clients else ssl.CERT_NONE,
        )  # fmt: skip
        config.load()
        if config.ssl is not None:
            config.ssl.sslobject_class = Telling
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name="serving", daemon=True
        )
        self._thread.start()
        until = time.monotonic() + 10
        while not self._server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.005)
        if not self._server.started:
            host, port = listening.getsockname()[:2]
            raise HeadwaterError(f"nothing could be opened at {host}:{port}", "see the log")

    def close(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(5)


class Telling(ssl.SSLObject):
    """Says why it refuses: asyncio closes a connection whose handshake failed without sending OpenSSL's alert, so that
    the other side could not know. Asked to wait instead, it sends the alert first; whoever gets it closes."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            if getattr(self, "_refused", False):
                raise
            self._refused = True
            raise ssl.SSLWantReadError from error


class _Ours(logging.Handler):
    """What the web server says goes where we log, and never to anybody's screen."""

    def emit(self, record: logging.LogRecord) -> None:
        if log.isEnabledFor(record.levelno):
            log.handle(record)


def _quiet() -> None:
    servers = logging.getLogger("uvicorn")
    if not any(isinstance(handler, _Ours) for handler in servers.handlers):
        servers.addHandler(_Ours())
        servers.propagate = False
