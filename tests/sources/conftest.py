"""The `rig` fixture: every adapter in turn."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from warehouse.conftest import in_s3, s3

from .rigs import RIGS, Opener, Rig

__all__ = ["in_s3", "rig", "s3"]

if importlib.util.find_spec(f"{__package__}.rig_postgres"):
    importlib.import_module(f"{__package__}.rig_postgres")  # appends itself to RIGS


@pytest.fixture(params=RIGS)
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    opener: Opener = request.param
    with opener(request) as opened:
        yield opened
