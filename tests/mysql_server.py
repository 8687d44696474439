"""A real MySQL for the tests, unpacked from the packages of Debian's sid, on a free port.

    with mysql_server(tmpdir) as server:
        url = server.create_database("shop")

Debian's releases have no MySQL, but sid has. `make mysql` asks the mirror that apt is configured with for it, with
lists of its own, and unpacks it into a folder of the user's cache together with every library it needs, sid's libc
among them: the server is started by that libc's own loader, so whatever the machine has stays what it is. Nothing is
installed. Otherwise as `mariadb_server.py`, whose server this is with other programs.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mariadb_server
from mariadb_server import MariadbServer

PACKAGE = "mysql-server-core"
_LISTS = Path("/etc/apt/sources.list.d")
_UNVERIFIED = ssl.create_default_context()
_UNVERIFIED.check_hostname, _UNVERIFIED.verify_mode = False, ssl.CERT_NONE
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


@dataclass(frozen=True)
class Installation:
    """A root folder that holds the server, its messages, its libraries and their loader."""

    root: Path
    product: str = "MySQL"
    scheme: str = "mysql"

    def command(self) -> list[str]:
        (loader,) = self.root.glob("usr/lib/*-linux-gnu/ld-linux*.so.*")
        return [
            *(str(loader), "--library-path", str(loader.parent), str(self.root / "usr/sbin/mysqld")),
            "--no-defaults",
            f"--basedir={self.root / 'usr'}",
            f"--lc-messages-dir={self.root / 'usr/share/mysql'}",
            f"--character-sets-dir={self.root / 'usr/share/mysql/charsets'}",
            "--secure-file-priv=NULL",
            *(["--user=root"] if os.geteuid() == 0 else []),
        ]

    def settings(self) -> dict[str, str]:
        return {"mysqlx": "OFF", "gtid-mode": "ON", "enforce-gtid-consistency": "ON", "sync-binlog": "0"}

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def bootstrap(self, data: Path) -> None:
        data.rmdir()
        options = ["--initialize-insecure", f"--datadir={data}", "--innodb-redo-log-capacity=8M"]
        subprocess.run([*self.command(), *options], env=self.environment(), check=True, capture_output=True)

    def connecting(self) -> dict[str, Any]:
        return {"ssl": _UNVERIFIED}  # its passwords want encryption

    def users(self) -> list[str]:
        return []


def cache() -> Path:
    return mariadb_server.cache().with_name("mysql")


def find() -> Installation | None:
    return Installation(cache()) if (cache() / "usr/sbin/mysqld").exists() else None


def unpack() -> Installation:
    """Download the packages and unpack them into the cache."""
    if (found := find()) is not None:
        return found
    cache().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache().parent) as folder:
        os.chmod(folder, 0o755)  # apt downloads as a user of its own
        work, root = Path(folder), Path(folder) / "root"
        (work / "lists/partial").mkdir(parents=True)
        (work / "sid.list").write_text(f"deb [signed-by={_KEYS}] {_mirror()} sid main\n")
        about = [f"Dir::Etc::sourcelist={work}/sid.list", "Dir::Etc::sourceparts=-", f"Dir::State::lists={work}/lists"]
        options = [part for setting in about for part in ("-o", setting)]
        subprocess.run(["apt-get", *options, "update", "-q"], check=True)
        subprocess.run(["apt-get", *options, "download", "-q", *_needed(options)], cwd=work, check=True)
        for archive in work.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(archive), str(root)], check=True)
        if not (root / "usr/sbin/mysqld").exists():
            raise SystemExit(f"the package {PACKAGE} holds no MySQL server")
        with contextlib.suppress(OSError):  # somebody else was faster
            root.rename(cache())
    return Installation(cache())


def _mirror() -> str:
    """The one that apt is configured with."""
    for listed in sorted(_LISTS.glob("*.sources")):
        if (found := re.search(r"^URIs:\s*(\S+)", listed.read_text(), re.MULTILINE)) is not None:
            return found[1]
    raise SystemExit(f"no mirror of Debian is configured in {_LISTS}: MySQL cannot be had")


def _needed(options: list[str]) -> list[str]:
    """The server and every library it needs, and those need."""
    without = [f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")]
    command = ["apt-cache", *options, "depends", "--recurse", *without, PACKAGE]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = {line for line in told.splitlines() if line == PACKAGE or line.startswith("lib")}
    return sorted(name for name in names if not name.startswith("libperl"))


@contextlib.contextmanager
def mysql_server(tmpdir: str | os.PathLike[str], settings: Mapping[str, str] | None = None) -> Iterator[MariadbServer]:
    installation = find()
    if installation is None:
        raise RuntimeError("there is no MySQL server here")
    server = MariadbServer(Path(tmpdir), installation, settings)
    try:
        yield server
    finally:
        server.stop()


if __name__ == "__main__":
    sys.stdout.write(f"{unpack().root}\n")
