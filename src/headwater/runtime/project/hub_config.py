"""[hub]: where agents connect to.

Loopback needs no certificate: whoever can listen there can read everything anyway. Anywhere else the tokens of agents
and the rows they tell would be readable on the way, so a hub without a certificate is refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwater.hub.settings import HubSettings
from headwater.model.errors import ConfigError
from headwater.runtime.project.settings import HubSection


def hub_settings(said: Mapping[str, Any], folder: Path) -> HubSettings:
    section = HubSection(**said)
    host, _, port = section.listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"[hub] listen is {section.listen!r}", 'write host:port, such as "0.0.0.0:7437"')
    files = {name: getattr(section, name) for name in ("certificate", "key", "authority", "clients")}
    found = {name: str(folder / Path(file).expanduser()) for name, file in files.items() if file}
    if ("certificate" in found) != ("key" in found):
        raise ConfigError("[hub] has one of certificate and key", "give both")
    if "clients" in found and "certificate" not in found:
        raise ConfigError(
            "[hub] has clients and no certificate: agents show theirs over TLS only", "give certificate and key, too"
        )
    if section.opens == "certificate" and "clients" not in found:
        raise ConfigError(
            '[hub] opens = "certificate" does not say whose certificates', 'name a PEM file: clients = "agents-ca.pem"'
        )
    if "certificate" not in found and not _loopback(host):
        raise ConfigError(
            f"the hub listens at {section.listen}, where others can read what agents tell, and has no certificate",
            "give certificate and key in [hub]; for a try, one that is its own authority:\n"
            "openssl req -x509 -newkey rsa:2048 -nodes -days 365 -keyout hub.key -out hub.pem "
            "-subj /CN=hub.example -addext subjectAltName=DNS:hub.example",
        )
    if not section.address and host in ("0.0.0.0", "::"):
        raise ConfigError(
            f"the hub listens at {section.listen}, which is no address that an agent could connect to",
            'say in [hub] how agents reach it: address = "https://hub.example:7437"',
        )
    scheme = "https" if "certificate" in found else "http"
    shown = f"[{host}]" if ":" in host else host
    address = section.address.rstrip("/") or f"{scheme}://{shown}:{port}"
    if not address.startswith(f"{scheme}://"):
        raise ConfigError(f"[hub] address is {section.address!r}", f"it begins with {scheme}://")
    return HubSettings(host, int(port), address, opens=section.opens, **found)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
