"""A real MariaDB for the tests: an installed `mariadbd`, or one unpacked from Debian's packages, on a free port.

    with mariadb_server(tmpdir) as server:
        url = server.create_database("shop")

`make mariadb` unpacks the packages into a folder of the user's cache; nothing is installed, and no service of the
machine is touched. The server has a data folder, a socket and a port of its own, wants passwords, writes its log by
rows, and syncs nothing to disk. Where there is no server to be had `find` says so, and the tests that need one are
skipped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import pymysql

USER = "headwater"
PASSWORD = "the:secret/of@tests"
PACKAGES = ("mariadb-server-core", "libaio1", "liburing2")
"""What the server needs and a small machine may lack; on other releases of Debian a library may be called otherwise."""


class Programs(Protocol):
    """A server's: what is particular to its product."""

    @property
    def product(self) -> str: ...

    @property
    def scheme(self) -> str: ...

    def command(self) -> list[str]: ...

    def settings(self) -> dict[str, str]: ...

    def environment(self) -> dict[str, str]: ...

    def bootstrap(self, data: Path) -> None: ...

    def connecting(self) -> dict[str, Any]: ...

    def users(self) -> list[str]: ...


@dataclass(frozen=True)
class Installation:
    """Where a server is: the program, the folder of its messages and system tables, the libraries beside it."""

    program: Path
    share: Path
    libraries: tuple[Path, ...] = ()
    product: str = "MariaDB"
    scheme: str = "mariadb"

    def command(self) -> list[str]:
        return [
            str(self.program),
            "--no-defaults",
            f"--lc-messages-dir={self.share}",
            f"--character-sets-dir={self.share / 'charsets'}",
            *(["--user=root"] if os.geteuid() == 0 else []),
        ]

    def settings(self) -> dict[str, str]:
        return {"innodb-flush-method": "nosync", "sync-frm": "0"}

    def environment(self) -> dict[str, str]:
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, self.libraries))}

    def bootstrap(self, data: Path) -> None:
        """Lay out an empty data folder."""
        names = ("mysql_system_tables", "mysql_performance_tables", "mysql_system_tables_data")
        texts = [(self.share / f"{name}.sql").read_text() for name in names]
        options = ["--bootstrap", f"--datadir={data}", f"--tmpdir={data}", "--log-warnings=0"]
        options += ["--enforce-storage-engine="]
        subprocess.run(
            [*self.command(), *options],
            input="\n".join(["CREATE DATABASE mysql;\nUSE mysql;", *texts]).encode(),
            env=self.environment(),
            check=True,
            capture_output=True,
        )

    def connecting(self) -> dict[str, Any]:
        return {"ssl_disabled": True}

    def users(self) -> list[str]:
        """What keeps others out."""
        return ["DELETE FROM mysql.global_priv WHERE User = ''", "FLUSH PRIVILEGES"]


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater" / "mariadb"


def find() -> Installation | None:
    """The server that is installed, else the one in the cache."""
    for root in (Path("/"), cache()):
        for program in (root / "usr/sbin/mariadbd", root / "usr/bin/mariadbd", root / "usr/local/bin/mariadbd"):
            for share in (root / "usr/share/mariadb", root / "usr/share/mysql", root / "usr/local/share/mysql"):
                if program.exists() and (share / "mysql_system_tables.sql").exists():
                    folders = (*root.glob("usr/lib/*-linux-gnu"), *root.glob("lib/*-linux-gnu"))
                    return Installation(program, share, () if root == Path("/") else folders)
    return None


def unpack() -> Installation:
    """Download the packages and unpack them into the cache."""
    if (found := find()) is not None:
        return found
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:  # one by one: another release may not know all of them
        subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=package == PACKAGES[0])
    for archive in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(archive), str(folder)], check=True)
    found = find()
    if found is None:
        raise SystemExit(f"the packages in {folder} hold no MariaDB server")
    return found


class MariadbServer:
    def __init__(self, folder: Path, installation: Programs, settings: Mapping[str, str] | None = None) -> None:
        self._folder, self._found = folder.resolve(), installation
        self._settings = dict(settings or {})
        self._data, self._socket = self._folder / "data", self._folder / "socket"
        self._process: subprocess.Popen[bytes] | None = None
        self.host, self.port = "127.0.0.1", _free_port()
        self._temporary = self._folder / "tmp"  # its own: who starts removes whatever is there
        self._data.mkdir(parents=True)
        self._temporary.mkdir()
        installation.bootstrap(self._data)
        self.start()
        with self._root() as cursor:
            cursor.execute(f"CREATE USER {USER}@'%%' IDENTIFIED BY %s", [PASSWORD])
            cursor.execute(f"GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION")
            for statement in installation.users():
                cursor.execute(statement)

    def start(self) -> None:
        settings = {
            "datadir": str(self._data),
            "tmpdir": str(self._temporary),
            "socket": str(self._socket),
            "port": str(self.port),
            "bind-address": self.host,
            "pid-file": str(self._folder / "pid"),
            "log-error": str(self._folder / "log"),
            "server-id": "1",
            "log-bin": "bin",
            "binlog-format": "ROW",
            "binlog-row-image": "FULL",
            "binlog-row-metadata": "FULL",
            "character-set-server": "utf8mb4",
            "innodb-flush-log-at-trx-commit": "2",
            "innodb-buffer-pool-size": "128M",
            "max-connections": "400",
            **self._found.settings(),
            **self._settings,
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        self._process = subprocess.Popen(
            [*self._found.command(), *options, "--skip-name-resolve"],
            env=self._found.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                pymysql.connect(host=self.host, port=self.port, user="nobody", connect_timeout=2).close()
                return
            except pymysql.err.OperationalError as error:
                if error.args[0] in (1045, 1130):  # it refuses: it is there
                    return
                if time.monotonic() > deadline or self._process.poll() is not None:
                    said = "".join(log.read_text(errors="replace")[-2000:] for log in self._folder.glob("log*"))
                    raise RuntimeError(f"{self._found.product} does not start: {said}") from error
                time.sleep(0.05)

    def stop(self, crash: bool = False) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL if crash else signal.SIGTERM)
            self._process.wait(60)
            self._process = None

    def keep_copy(self) -> None:
        """A cold backup; the server must be stopped."""
        shutil.copytree(self._data, self._folder / "backup")

    def restore_copy(self) -> None:
        """The cold backup instead of what is there; the server must be stopped."""
        shutil.rmtree(self._data)
        shutil.copytree(self._folder / "backup", self._data)

    def url(self, database: str, user: str = USER, password: str = PASSWORD, scheme: str = "") -> str:
        parts = [quote(part, safe="") for part in (user, password, database)]
        return f"{scheme or self._found.scheme}://{parts[0]}:{parts[1]}@{self.host}:{self.port}/{parts[2]}"

    def connect(self, database: str | None = None, **said: Any) -> pymysql.Connection:
        options = {
            "user": USER,
            "password": PASSWORD,
            "charset": "utf8mb4",
            "autocommit": True,
            **self._found.connecting(),
            **said,
        }
        return pymysql.connect(host=self.host, port=self.port, database=database, **(options | said))

    def create_database(self, name: str) -> str:
        """Create a database, return its url."""
        self.run(f"CREATE DATABASE `{name}`")
        return self.url(name)

    def drop_database(self, name: str) -> None:
        self.run(f"DROP DATABASE IF EXISTS `{name}`")

    def run(self, *statements: str) -> None:
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def _root(self) -> contextlib.AbstractContextManager[Any]:
        return pymysql.connect(unix_socket=str(self._socket), user="root", autocommit=True).cursor()


@contextlib.contextmanager
def mariadb_server(
    tmpdir: str | os.PathLike[str], settings: Mapping[str, str] | None = None
) -> Iterator[MariadbServer]:
    installation = find()
    if installation is None:
        raise RuntimeError("there is no MariaDB server here")
    server = MariadbServer(Path(tmpdir), installation, settings)
    try:
        yield server
    finally:
        server.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.stdout.write(f"{unpack().program}\n")
