"""Starting the server: where it listens, who may connect, and until when.

There is always a password, on this machine too: whoever has an account there could connect otherwise, and clients of
PostgreSQL expect to be asked. Where none is said, one is made up and printed; but only for this machine, because
elsewhere it would have to be handed round anew after every start.
"""

from __future__ import annotations

import signal
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa

from headwater.model.errors import ConfigError, UsageError
from headwater.runtime.listening import is_loopback, listen
from headwater.runtime.project.config import Config, serve_settings
from headwater.runtime.project.project import Project
from headwater.runtime.project.secrets import remember
from headwater.runtime.project.settings import ServeSection
from headwater.serve.answers import Limits
from headwater.serve.catalog import DATABASE
from headwater.serve.login import Account
from headwater.serve.server import Server, Terms
from headwater.serve.states import States

if TYPE_CHECKING:
    from headwater.serve.flight.service import Service

PORT = 7432
PASSWORD_VARIABLE = "HEADWATER_PASSWORD"


@dataclass(frozen=True)
class Where:
    """Where to listen; 0: any port that is free. `flight`: for Arrow clients, too."""

    host: str
    port: int
    flight: int | None = None


@dataclass(frozen=True)
class Address:
    """Where a server is. `made_up` is its password where nobody gave one, and is only then said. `flight` is where
    Arrow clients find it."""

    host: str
    port: int
    user: str
    made_up: str = ""
    flight: str = ""

    @property
    def url(self) -> str:
        host = _host(self.host)
        who = quote(self.user, safe="") + (f":{self.made_up}" if self.made_up else "")
        return f"postgresql://{who}@{host}:{self.port}/{DATABASE}"


def password_for(host: str, said: ServeSection, file: Path | None, environment: Mapping[str, str]) -> tuple[str, bool]:
    """The password, from a file, the environment or the settings; and whether it is made up."""
    if file is not None:
        try:
            found = file.read_text(encoding="utf-8").strip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"the password file {file} cannot be read: {error}", "give --password-file a text"
            ) from None
        if not found:
            raise UsageError(f"the password file {file} is empty", "write the password into it")
    else:
        found = environment.get(PASSWORD_VARIABLE, "") or said.password
    if found:
        remember(found)
        return found, False
    if not is_loopback(host):
        raise UsageError(
            f"at {host} others can connect, and there is no password",
            f"set [serve] password, the environment variable {PASSWORD_VARIABLE}, or --password-file",
        )
    return token_urlsafe(18), True


def serve(
    project: Project, where: Where, file: Path | None, environment: Mapping[str, str],
    ready: Callable[[Address], None],
) -> None:  # fmt: skip
    """Serve until Ctrl-C or SIGTERM; `ready` is told the address."""
    said = serve_settings(project.config)
    password, made_up = password_for(where.host, said, file, environment)
    limits = Limits(said.rows, said.seconds, said.connections)
    terms = Terms(Account.of(said.user, password), limits, said.connections, _tls(said, project.config))
    listening, states = listen(where.host, where.port), States(project, said.memory)
    flight = _flight(where, states, terms, _files(said, project.config)) if where.flight is not None else None
    server = Server(listening, states, terms)
    done = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    threading.Thread(target=server.run, name="headwater-serve", daemon=True).start()
    url = "" if flight is None else f"grpc{'+tls' if terms.tls else ''}://{_host(where.host)}:{flight.port}"
    ready(Address(where.host, listening.getsockname()[1], said.user, password if made_up else "", url))
    while not done.wait(1.0):
        pass
    if flight is not None:
        flight.close()
    server.close()


def _flight(where: Where, states: States, terms: Terms, files: tuple[Path, Path] | None) -> Service:
    from headwater.serve.flight.service import Service  # gRPC takes a while to be loaded

    location = f"grpc{'+tls' if files else ''}://{_host(where.host)}:{where.flight}"
    tls = (files[0].read_bytes(), files[1].read_bytes()) if files else None
    try:
        return Service(location, states, terms.account, terms.limits, tls)
    except (OSError, pa.ArrowException) as error:
        raise UsageError(
            f"cannot listen at port {where.flight} for Arrow clients: {error}", "choose another --flight"
        ) from None


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _files(said: ServeSection, config: Config) -> tuple[Path, Path] | None:
    """The certificate and its key."""
    if not said.certificate:
        return None
    return config.folder / Path(said.certificate).expanduser(), config.folder / Path(said.key).expanduser()


def _tls(said: ServeSection, config: Config) -> ssl.SSLContext | None:
    files = _files(said, config)
    if files is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(*files)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"[serve] certificate and key cannot be used: {error}", "give PEM files") from error
    return context
