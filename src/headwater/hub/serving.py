"""A hub in this process: opened by whoever needs agents, shared by all commands of the project on this machine.

The first command that needs an agent opens the hub and keeps it as long as it runs; others that find it open use it.
It writes nothing but who may connect and who was there, so nothing is lost when it closes, or is killed.
"""

from __future__ import annotations

import errno
import logging
import socket
import ssl
import threading
import time

import msgspec
import urllib3

from headwater.hub.app import Hub
from headwater.hub.chain_records import ChainRecords
from headwater.hub.contacts import Contacts
from headwater.hub.desk import Desk
from headwater.hub.enrolment import Enrolment
from headwater.hub.settings import HubSettings
from headwater.model.errors import ConfigError, HeadwaterError
from headwater.model.logged import event
from headwater.sources.agent.line import trusting
from headwater.storage import Storage

log = logging.getLogger(__name__)


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


class OpenHub:
    """Serving in a thread of its own until closed."""

    def __init__(self, hub: Hub, settings: HubSettings, listening: socket.socket) -> None:
        import uvicorn

        _quiet()
        config = uvicorn.Config(
            hub.app(), log_config=None, access_log=False, lifespan="off", server_header=False, date_header=False,
            timeout_keep_alive=75, h11_max_incomplete_event_size=64 * 1024,
            ssl_certfile=settings.certificate or None, ssl_keyfile=settings.key or None,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name="hub", daemon=True
        )
        self._thread.start()
        until = time.monotonic() + 10
        while not self._server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.005)
        if not self._server.started:
            raise HeadwaterError(f"the hub could not be opened at {settings.host}:{settings.port}", "see the log")

    def close(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(5)


def open_hub(storage: Storage, identity: str, settings: HubSettings) -> OpenHub | None:
    """Open the project's hub; None if another process of the project has it open."""
    _usable(settings)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # with the protocol: else answers wait
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE and _whose(settings) == identity:
            return None
        why = "another program listens there" if error.errno == errno.EADDRINUSE else str(error.strerror).lower()
        raise ConfigError(
            f"the hub cannot listen at {settings.host}:{settings.port}: {why}",
            "choose another port: [hub] listen in headwater.toml; the agents must know it too",
        ) from error
    enrolment = Enrolment(storage)
    hub = Hub(identity, enrolment.secret(), enrolment, Contacts(storage), Desk(), records=ChainRecords(storage))
    facts = event("hub.listens", host=settings.host, port=settings.port)
    log.info("the hub listens at %s:%d", settings.host, settings.port, extra=facts)
    return OpenHub(hub, settings, listening)


def _whose(settings: HubSettings) -> str:
    """The identity of the warehouse whose hub answers there."""
    pool = urllib3.PoolManager(ssl_context=trusting(settings.authority) if settings.certificate else None)
    try:
        said = pool.request("GET", f"{settings.address}/hub", timeout=3, retries=False, redirect=False)
        return str(msgspec.json.decode(said.data, type=dict[str, str]).get("headwater", ""))
    except (urllib3.exceptions.HTTPError, msgspec.DecodeError):
        return ""
    finally:
        pool.clear()


def _usable(settings: HubSettings) -> None:
    if not settings.certificate:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.certificate, settings.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the hub's certificate cannot be used: {error}", "correct certificate and key in [hub] of headwater.toml"
        ) from error
