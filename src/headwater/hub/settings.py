"""Where a hub listens, and how it proves who it is."""

from __future__ import annotations

from dataclasses import dataclass


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
