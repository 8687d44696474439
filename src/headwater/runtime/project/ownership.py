"""What the specs of sources carry beside headwater.toml: whom they serve, and how agents are reached.

Sources serve several projects, and each is known there by its warehouse's identity."""

from __future__ import annotations

import socket
from dataclasses import replace

from headwater.hub.enrolment import Enrolment
from headwater.model.source import SourceSpec
from headwater.runtime.project.config import Config
from headwater.runtime.project.secrets import remember
from headwater.sources.agent.line import AUTHORITY, HUB, SECRET
from headwater.storage import Storage


def owned(config: Config, identity: str, storage: Storage) -> Config:
    """The project with sources that know whom they serve. The label (machine and folder) is for people, and lets a
    project whose warehouse was removed take its own place again."""
    owner = {"owner": identity, "owner_label": f"{socket.gethostname()}:{config.folder}"}
    hub = _hub(config, storage)
    sources = {
        name: _with(spec, {**owner, **(hub if spec.url.startswith("agent://") else {})})
        for name, spec in config.sources.items()
    }
    return replace(config, sources=sources)


def _hub(config: Config, storage: Storage) -> dict[str, str]:
    if config.hub is None:
        return {}
    secret = Enrolment(storage).secret()
    remember(secret)
    return {HUB: config.hub.address, SECRET: secret, AUTHORITY: config.hub.authority}


def _with(spec: SourceSpec, said: dict[str, str]) -> SourceSpec:
    return replace(spec, options=(*(o for o in spec.options if o[0] not in said), *said.items()))
