"""The `rig` fixture: every adapter in turn."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest

from warehouse.conftest import in_s3, s3

from .rigs import RIGS, Opener, Rig

__all__ = ["in_s3", "rig", "s3"]

for rig_of in ("postgres", "agent"):
    importlib.import_module(f"{__package__}.rig_{rig_of}")  # appends itself to RIGS


@pytest.fixture(params=RIGS)
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    opener: Opener = request.param
    with opener(request) as opened:
        yield opened
