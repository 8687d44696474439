"""What an agent remembers between its starts: its ticket, and up to where its hub has been told of changes.

The position is for saying how much waits; what is told next is for the hub to say.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headwater.model.errors import ConfigError
from headwater.sources.agent.line import FIRST_TICKET

FILE = "agent.state"


@dataclass(frozen=True)
class Told:
    """Up to where changes were told to a project; `options` are those it calls the adapter with."""

    source: str
    options: tuple[tuple[str, str], ...]
    position: str


@dataclass(frozen=True)
class AgentState:
    """`runs`: how often the agent was begun here; starts are told apart by it, however late they arrive."""

    ticket: str = FIRST_TICKET
    runs: int = 0
    told: Told | None = None


def read_state(folder: Path) -> AgentState:
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=AgentState)
    except FileNotFoundError:
        return AgentState()
    except msgspec.DecodeError:
        raise ConfigError(
            f"{path} cannot be read", "'headwater agent enroll' at the hub and 'headwater agent join' here begin anew"
        ) from None


def write_state(folder: Path, state: AgentState) -> None:
    """All or nothing, and on the disk."""
    path = folder / FILE
    aside = path.with_suffix(".new")
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(state))
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
