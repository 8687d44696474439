"""A database behind an agent: the rig of a SQLite file, read through a real hub by a real agent."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from agents.hub_here import HubHere, running
from headwater.model.source import Source, SourceSpec
from headwater.sources import connect

from .rigs import RIGS, SqliteRig


class AgentRig:
    """Writes as the rig of the file does; reads through the agent."""

    def __init__(self, file: SqliteRig, hub: HubHere, name: str) -> None:
        self._file, self._hub, self.agent = file, hub, name
        self.name = "agent"
        options: Mapping[str, Any] = {**dict(file.spec.options), **hub.options()}
        self.spec = SourceSpec(file.spec.name, f"agent://{name}", tuple(options.items()))

    def source(self) -> Source:
        return connect(self.spec)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


_shared: list[HubHere] = []


@contextmanager
def open_agent(request: pytest.FixtureRequest) -> Iterator[AgentRig]:
    if not _shared:
        _shared.append(HubHere(request.getfixturevalue("tmp_path_factory").mktemp("hub")))
    file = SqliteRig(request.getfixturevalue("tmp_path") / "far.db", "wal")
    name = f"far-{secrets.token_hex(4)}"
    with running(_shared[0].invited(name, file.spec.url)):
        yield AgentRig(file, _shared[0], name)


RIGS.append(pytest.param(open_agent, id="agent", marks=pytest.mark.soak))  # a minute; tests/agents is always run
