"""Whose capture it is: sources serve several projects, and each is known there by its warehouse's identity."""

from __future__ import annotations

import socket
from dataclasses import replace

from headwater.runtime.project.config import Config

_OPTIONS = ("owner", "owner_label")


def owned(config: Config, identity: str) -> Config:
    """The project with sources that know whom they serve. The label (machine and folder) is for people, and lets a
    project whose warehouse was removed take its own place again."""
    said = {"owner": identity, "owner_label": f"{socket.gethostname()}:{config.folder}"}
    sources = {
        name: replace(
            spec, options=(*(o for o in spec.options if o[0] not in _OPTIONS), *((k, said[k]) for k in _OPTIONS))
        )
        for name, spec in config.sources.items()
    }
    return replace(config, sources=sources)
