"""One SQLite file: connections, read transactions, write transactions, and errors a person can act on.

**One SQLite per process.** ADBC brings its own copy of the SQLite library. POSIX drops all locks a process holds on a
file when that process closes any descriptor of it, so two copies of SQLite in one process silently lose each other's
locks (sqlite.org/howtocorrupt.html, 2.2.1; measured here: a `BEGIN IMMEDIATE` of Python's sqlite3 is gone after an
ADBC connection closes). Hence this package never opens a source file in another way, not even to look at its header,
and an application that writes such a file must be another process.

A read transaction is one snapshot over several statements, and it is short: in rollback-journal mode a reader keeps
writers from committing, so there its answer is drained before the first row is handed out; in WAL mode it streams.

**Which file.** A path is a name: the file behind it may be replaced (`mv`, `cp` after `rm`) while a connection keeps
reading the old one for ever. So before each read the path is compared with what an idle connection was opened on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote as percent

import adbc_driver_manager
import pyarrow as pa

from headwater.model.errors import (
    CaptureMissing,
    ConfigError,
    HeadwaterError,
    SchemaChanged,
    SourceRefused,
    SourceUnavailable,
)
from headwater.model.names import SourceName
from headwater.sources.sqlite.connection import Connection

BUSY_SECONDS = 10


def quote(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class SqliteFile:
    def __init__(self, source: SourceName, path: str, busy_seconds: float = BUSY_SECONDS) -> None:
        self.source = source
        self.path = path
        self._busy_seconds = busy_seconds
        self._seen = False
        self._idle: list[Connection] = []

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One read transaction: all statements inside see the same state. A nested one is a transaction of its own."""
        with self._explained():
            self._check_there()
            connection = self._fresh_idle() or self._open("ro", autocommit=False)
            try:
                yield connection
                connection.end_read()
            except BaseException:  # also GeneratorExit: an answer nobody reads to its end
                connection.close()
                raise
            self._idle.append(connection)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One write transaction, begun with the write lock so that it cannot fail halfway for want of it."""
        with self._explained():
            self._check_there()
            self.check_writable()
            connection = self._open("rw", autocommit=True)
            try:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
            finally:
                connection.close()

    def check_writable(self) -> None:
        """SQLite writes its journal beside the file, so the folder counts too."""
        for path in (self.path, os.path.dirname(self.path) or "."):
            if not os.access(path, os.W_OK):
                raise SourceRefused(f"source {self.source}: {path} is read-only", "grant write permission on it")

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _open(self, mode: str, autocommit: bool) -> Connection:
        which = self._which()
        connection = Connection(f"file:{percent(self.path)}?mode={mode}", autocommit, self._busy_seconds, which)
        self._seen = True
        return connection

    def _fresh_idle(self) -> Connection | None:
        """An idle connection to the file that the path names now; others are closed."""
        if self._idle and self._idle[-1].opened_on != self._which():
            self.close()
        return self._idle.pop() if self._idle else None

    def _which(self) -> tuple[tuple[int, int], ...]:
        """The file, and the WAL beside it: whoever restores a database by copying takes the old WAL away."""
        found: list[tuple[int, int]] = []
        for suffix in ("", "-wal"):
            try:
                status = os.stat(self.path + suffix)
            except FileNotFoundError:
                continue
            found.append((status.st_dev, status.st_ino))
        return tuple(found)

    def _check_there(self) -> None:
        if os.path.isfile(self.path):
            return
        self.close()  # connections to a file that was moved away
        if self._seen:
            raise SourceUnavailable(f"source {self.source}: {self.path} is gone", "put the file back")
        raise ConfigError(f"source {self.source}: there is no file {self.path}", "check the url of the source")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except HeadwaterError:
            raise
        except (adbc_driver_manager.Error, OSError, pa.ArrowException) as error:
            raise self._explain(str(error)) from error

    def _explain(self, message: str) -> HeadwaterError:
        what = f"source {self.source} ({self.path})"
        for words, make in _MEANINGS:
            if words in message:
                return make(what, message)
        return HeadwaterError(f"{what}: {message}")


def _capture_gone(what: str, message: str) -> HeadwaterError:
    return CaptureMissing(f"{what}: capture is not installed", "run 'headwater setup'")


def _changed(what: str, message: str) -> HeadwaterError:
    return SchemaChanged(
        f"{what}: {message.partition('query: ')[0].strip()}", "a table or column was dropped or renamed"
    )


def _locked(what: str, message: str) -> HeadwaterError:
    return SourceUnavailable(f"{what} stayed locked by another process", "end the long transaction there, or retry")


def _damaged(what: str, message: str) -> HeadwaterError:
    return SourceUnavailable(
        f"{what} cannot be read, it is damaged or cut off: {message.partition('query: ')[0].strip()}",
        "put a whole file in its place; if it is being copied right now, this passes",
    )


def _no_database(what: str, message: str) -> HeadwaterError:
    return ConfigError(f"{what} is not a usable SQLite database: {message}", "check the url of the source")


def _unopenable(what: str, message: str) -> HeadwaterError:
    return SourceUnavailable(
        f"{what} cannot be opened",
        "check permissions; a database in WAL mode also needs its folder to be writable, or its -shm and -wal files",
    )


def _read_only(what: str, message: str) -> HeadwaterError:
    return SourceRefused(
        f"{what} is read-only for this user",
        "grant write permission on the file and its folder; if an application crashed, let it open the file once",
    )


def _io(what: str, message: str) -> HeadwaterError:
    return SourceUnavailable(f"{what}: {message}", "check the disk")


_MEANINGS = (
    ("no such table: _headwater_", _capture_gone),
    ("no such table", _changed),
    ("no such column", _changed),
    ("is locked", _locked),
    ("file is not a database", _no_database),
    ("malformed", _damaged),
    ("unable to open", _unopenable),
    ("failed to open", _unopenable),
    ("readonly database", _read_only),
    ("disk I/O error", _io),
    ("disk is full", _io),
)
