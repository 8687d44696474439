"""Where a hub listens, and how it proves who it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Opens = Literal["either", "certificate"]
"""What an agent must show: a token or a certificate, or a certificate in any case."""


@dataclass(frozen=True)
class HubSettings:
    """[hub]: where it listens, and its certificate. `address` is how agents and Spark's tasks reach it."""

    host: str
    port: int
    address: str
    certificate: str = ""
    key: str = ""
    authority: str = ""
    """Whom those who connect from here believe in: a file; empty: those that this machine believes in."""
    clients: str = ""
    """Whose certificates agents may show: a file of authorities; empty: none are asked for."""
    opens: Opens = "either"
