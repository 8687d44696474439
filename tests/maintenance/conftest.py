"""How much the oracles try: little by default, much with HYPOTHESIS_PROFILE=campaign."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from .oracle import remembered_expressions

_common = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": False}
settings.register_profile("bounded", max_examples=100, **_common)
settings.register_profile("campaign", max_examples=5_000, **_common)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "bounded"))


@pytest.fixture(autouse=True, scope="session")
def _parse_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, remembered_expressions(patch):
        yield
