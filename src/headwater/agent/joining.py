"""An agent's folder: agent.toml says who it is and which database it speaks for; agent.state changes at each start.

    [agent]
    name = "laptop7"
    hub = "https://hub.example:7437"
    token = "…"                                  or token = "${HEADWATER_TOKEN}"; not if it was enrolled by certificate
    listen = "192.168.1.7:7438"                  where neighbours in chains reach it, if they do; address = "https://…"
    certificate = "laptop7.pem"                  with key = "laptop7.key", if the hub asks for certificates
    database = "sqlite:///crm.db"                relative to this file

`headwater agent enroll` at the hub prints an invitation, `headwater agent join` beside the database makes the file of
it. Whoever has the file is the agent: it is readable by its owner only.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from headwater.agent.state import FILE as STATE
from headwater.model.errors import ConfigError, UsageError

FILE = "agent.toml"
_KEYS = ("name", "hub", "token", "database", "authority", "certificate", "key", "listen", "address", "log_limit")
NOTHING_MORE: Mapping[str, str] = MappingProxyType({})
_MARK = "headwater-agent-1."
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True)
class AgentSettings:
    """Never printed: the database's url may hold a password."""

    folder: Path
    name: str
    hub: str
    token: str = field(repr=False)
    database: str = field(repr=False)
    authority: str = ""
    log_limit: int = 1_000_000
    """From so many changes that wait on, the agent warns that its log grows."""
    certificate: str = ""
    key: str = ""
    listen: str = ""
    """Where neighbours in chains may reach it: host:port; `address`: how, if not as it listens."""
    address: str = ""


@dataclass(frozen=True)
class Invitation:
    """What an agent needs to join, as one word."""

    name: str
    hub: str
    token: str = field(repr=False)

    def word(self) -> str:
        said = json.dumps([self.name, self.hub, self.token]).encode()
        return _MARK + base64.urlsafe_b64encode(said).decode().rstrip("=")

    @staticmethod
    def read(word: str) -> Invitation:
        word = word.strip()
        try:
            if not word.startswith(_MARK):
                raise ValueError
            body = word.removeprefix(_MARK)
            name, hub, token = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
            return Invitation(str(name), str(hub), str(token))
        except (ValueError, binascii.Error, UnicodeDecodeError):
            raise UsageError(
                "that is no invitation", "paste the whole word that 'headwater agent enroll NAME' printed"
            ) from None


def join(folder: Path, invitation: Invitation, database: str, more: Mapping[str, str] = NOTHING_MORE) -> Path:
    """Write agent.toml; an agent that was here before begins anew. `more` are settings beside these."""
    if not invitation.token and not more.get("certificate"):
        raise UsageError(
            f"{invitation.name} was enrolled to prove itself by a certificate", "give --certificate and --key"
        )
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"name": invitation.name, "hub": invitation.hub, "token": invitation.token, "database": database, **more}
    lines = ["[agent]", *(f"{key} = {json.dumps(value)}" for key, value in settings.items() if value)]
    path = folder / FILE
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    (folder / STATE).unlink(missing_ok=True)
    return path


def read_settings(folder: Path) -> AgentSettings:
    path = folder / FILE if folder.is_dir() else folder
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"there is no {FILE} in {folder}", "'headwater agent join' makes it from an invitation of the hub"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}", "correct that line") from None
    agent = said.get("agent")
    if not isinstance(agent, dict):
        raise ConfigError(f"{path} has no section [agent]", "'headwater agent join' writes it")
    for key in agent:
        if key not in _KEYS:
            raise ConfigError(f"unknown setting {key!r} in {path}", f"there are: {', '.join(_KEYS)}")
    text = {key: _text(agent, key, path) for key in ("name", "hub", "database")}
    token = _text(agent, "token", path) if "token" in agent or not agent.get("certificate") else ""
    limit = agent.get("log_limit", AgentSettings.log_limit)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ConfigError(f"log_limit in {path} must be a number of changes", "correct it")
    folder = path.parent.absolute()
    files = {key: str(folder / _text(agent, key, path)) for key in ("authority", "certificate", "key") if key in agent}
    if "key" in files and "certificate" not in files:
        raise ConfigError(f"{path} has a key and no certificate", "give both")
    places = {key: _text(agent, key, path) for key in ("listen", "address") if key in agent}
    return AgentSettings(
        folder, text["name"], _address(text["hub"], path), token, database_url(text["database"], folder),
        log_limit=limit, **files, **places,
    )  # fmt: skip


def _text(agent: dict[str, object], key: str, path: Path) -> str:
    value = agent.get(key)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{path} does not say {key}", f'add {key} = "…" to [agent]')
    for variable in _VARIABLE.findall(value):
        if variable not in os.environ:
            raise ConfigError(f"environment variable {variable} is not set; {key} in {path} needs it", "export it")
    return _VARIABLE.sub(lambda match: os.environ[match.group(1)], value)


def _address(hub: str, path: Path) -> str:
    parts = urlsplit(hub)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(f"hub in {path} is no address", 'write it like "https://hub.example:7437"')
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise ConfigError(
            f"hub in {path} is reached without TLS, and its token would be readable on the way", "use https://"
        )
    return hub.rstrip("/")


def database_url(url: str, folder: Path) -> str:
    """Files are relative to the agent's folder."""
    scheme, separator, rest = url.partition(":///")
    if scheme in ("sqlite", "delta") and separator:
        return f"{scheme}:///{folder / rest}"  # four slashes: an absolute path
    return url
