"""The `rig` fixture: every adapter in turn."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from .rigs import RIGS, Opener, Rig

for name in ("rig_postgres", "rig_mariadb"):
    if importlib.util.find_spec(f"{__package__}.{name}"):
        importlib.import_module(f"{__package__}.{name}")  # appends itself to RIGS


@pytest.fixture(params=RIGS)
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    opener: Opener = request.param
    with opener(request) as opened:
        yield opened
