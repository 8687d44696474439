"""A hub in this process: opened by whoever needs agents, shared by all commands of the project on this machine.

The first command that needs an agent opens the hub and keeps it as long as it runs; others that find it open use it.
It writes nothing but who may connect and who was there, so nothing is lost when it closes, or is killed.
"""

from __future__ import annotations

import errno
import logging
import socket
import ssl

import msgspec
import urllib3

from headwater.hub.app import Hub
from headwater.hub.certificates import Certified
from headwater.hub.chain_records import ChainRecords
from headwater.hub.contacts import Contacts
from headwater.hub.desk import Desk
from headwater.hub.enrolment import Enrolment
from headwater.hub.settings import HubSettings
from headwater.model.errors import ConfigError
from headwater.model.logged import event
from headwater.sources.agent.line import trusting
from headwater.sources.agent.serving import Served, TlsFiles
from headwater.storage import Storage

log = logging.getLogger(__name__)


class OpenHub(Served):
    """A hub, open until closed."""

    def __init__(self, hub: Hub, settings: HubSettings, listening: socket.socket) -> None:
        files = TlsFiles(settings.certificate, settings.key, settings.clients)
        super().__init__(hub.app(), listening, files, Certified)


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
    records = ChainRecords(storage)
    hub = Hub(identity, enrolment.secret(), enrolment, Contacts(storage), Desk(), records=records, opens=settings.opens)
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
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(settings.certificate, settings.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the hub's certificate cannot be used: {error}", "correct certificate and key in [hub] of headwater.toml"
        ) from error
    if settings.clients:
        trusting(settings.clients)  # which says what is wrong with it
