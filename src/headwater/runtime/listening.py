"""A socket to listen at, or a word about why there is none."""

from __future__ import annotations

import errno
import socket
from ipaddress import ip_address

from headwater.model.errors import HeadwaterError, UsageError


def is_loopback(host: str) -> bool:
    """Whether an address or a name means this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


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
            fix = "another may be open there; choose another with --port, or --port 0 for any that is free"
            raise HeadwaterError(f"port {port} of {host} is taken", fix) from error
        if error.errno == errno.EACCES:
            raise HeadwaterError(f"port {port} of {host} is not ours to take", "choose one above 1023") from error
        raise HeadwaterError(f"cannot listen at {host}:{port}: {error.strerror}", "choose another --host") from error
    return found
