"""A PostgreSQL of the world's own, which can be copied cold, restored, and stopped without warning."""

from __future__ import annotations

import shutil
from pathlib import Path

from postgres_server import PostgresServer

SETTINGS = {
    "wal_level": "logical",
    "max_prepared_transactions": "10",
    "wal_writer_delay": "10s",  # a commit that did not wait for the log is lost when the server is stopped at once
    "checkpoint_timeout": "1h",
    "max_connections": "100",
    "shared_buffers": "32MB",
}


class ChaosServer(PostgresServer):
    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self._settings = SETTINGS | settings
        super().__init__(folder)

    def start(self) -> None:
        options = f"-h {self.host} -p {self.port} -k {self._data} -F"
        options += "".join(f" -c {name}={value}" for name, value in self._settings.items())
        self._pg_ctl("-w", "-D", str(self._data), "-l", str(self._data / "log"), "-o", options, "start")

    def stop_at_once(self) -> None:
        """As a crash does: what was not yet in the log is gone."""
        self._pg_ctl("-w", "-m", "immediate", "-D", str(self._data), "stop")

    def copy(self) -> None:
        """A cold copy, replacing the last one."""
        self.stop()
        copy = self._data.with_name("pgcopy")
        shutil.rmtree(copy, ignore_errors=True)
        _clone(self._data, copy)
        self.start()

    def restore(self) -> None:
        """Back to the last copy. The server must be stopped."""
        shutil.rmtree(self._data)
        _clone(self._data.with_name("pgcopy"), self._data)
        self.start()


def _clone(source: Path, target: Path) -> None:
    """With owners: the server may run as another user."""
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(".s.PGSQL.*", "postmaster.pid"))
    for old in [source, *source.rglob("*")]:
        new = target / old.relative_to(source)
        if new.exists():
            owner = old.stat()
            shutil.chown(new, owner.st_uid, owner.st_gid)
            new.chmod(owner.st_mode & 0o7777)
