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
from urllib.parse import quote

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

PORT = 7432
PASSWORD_VARIABLE = "HEADWATER_PASSWORD"


@dataclass(frozen=True)
class Address:
    """Where a server is. `made_up` is its password where nobody gave one, and is only then said."""

    host: str
    port: int
    user: str
    made_up: str = ""

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
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
    project: Project, where: tuple[str, int], file: Path | None, environment: Mapping[str, str],
    ready: Callable[[Address], None],
) -> None:  # fmt: skip
    """Serve until Ctrl-C or SIGTERM; `ready` is told the address."""
    said = serve_settings(project.config)
    password, made_up = password_for(where[0], said, file, environment)
    terms = Terms(
        Account.of(said.user, password), Limits(said.rows, said.seconds), said.connections, _tls(said, project.config)
    )
    listening = listen(*where)
    server = Server(listening, States(project, said.memory), terms)
    done = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    threading.Thread(target=server.run, name="headwater-serve", daemon=True).start()
    ready(Address(where[0], listening.getsockname()[1], said.user, password if made_up else ""))
    while not done.wait(1.0):
        pass
    server.close()


def _tls(said: ServeSection, config: Config) -> ssl.SSLContext | None:
    if not said.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    files = [str(config.folder / Path(file).expanduser()) for file in (said.certificate, said.key)]
    try:
        context.load_cert_chain(*files)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"[serve] certificate and key cannot be used: {error}", "give PEM files") from error
    return context
