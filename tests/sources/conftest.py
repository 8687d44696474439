"""The `rig` fixture: every adapter in turn."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest

from warehouse.conftest import in_s3, s3

from .rigs import RIGS, Opener, Rig

__all__ = ["in_s3", "rig", "s3"]

for rig_of in ("postgres", "mariadb", "mariadb_triggers", "agent"):
    importlib.import_module(f"{__package__}.rig_{rig_of}")  # appends itself to RIGS


@pytest.fixture(params=RIGS)
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    opener: Opener = request.param
    with opener(request) as opened:
        yield opened


LONG_AT_MARIADB = (
    "test_any_history_is_told_and_answered_exactly",
    "test_any_history_is_joined_exactly",
    "test_any_history_of_parts",
    "test_many_keys_many_rows",
)
"""Each takes several seconds there, and creates tables by the dozen: they are part of make soak. In their place CI runs
the histories of `test_mariadb.py`."""

LONG_AT_MYSQL = (
    "test_random_histories_of_sessions_that_overlap[mysql-1]",
    "test_random_histories_of_sessions_that_overlap[mysql-2]",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"mariadb", "mysql"} & set(item.keywords) and getattr(item, "originalname", "") in LONG_AT_MARIADB:
            item.add_marker(pytest.mark.soak)
        if "mysql" in item.keywords and item.name in LONG_AT_MYSQL:
            item.add_marker(pytest.mark.soak)
