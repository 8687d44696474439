"""Fixtures that several folders of tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from postgres_server import PostgresServer, postgres_server


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A real PostgreSQL, one per run."""
    with postgres_server(tmp_path_factory.mktemp("postgres")) as server:
        yield server
