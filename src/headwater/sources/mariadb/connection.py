"""Connections to one MariaDB or MySQL, and its errors in our words.

An adapter borrows a connection per call; a stream that is still being read keeps its own, so calls may be nested.
Passwords never reach a message: only host, port, database and user are named. A session reads text as UTF-8, times
in UTC, and nothing that depends on the server's modes.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
from pymysql.cursors import SSCursor

from headwater.model.errors import (
    ConfigError,
    HeadwaterError,
    LifeChanged,
    PositionTrimmed,
    SchemaChanged,
    SourceRefused,
    SourceUnavailable,
)
from headwater.model.source import SourceSpec
from headwater.sources.mariadb.dialect import Dialect, dialect_of, number_of
from headwater.sources.mariadb.wire import Columns, columns_of

Connection = pymysql.Connection

_FRESH = 0.5
"""Seconds for which a connection is taken to be still there."""
_LOST = frozenset({2006, 2013, 2055, 1053, 1927, 1184, 4031})
_DENIED = frozenset({1142, 1143, 1227, 1044, 1370})
_MOVED = frozenset({1146, 1054, 1412, 1051})
LOG_TROUBLE = 1236
"""The server cannot send its log from where it was asked to."""


_encryption: dict[str, dict[str, Any]] = {}
"""Per server, as the first connection turned out."""


class ConnectionPool:
    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._idle: list[tuple[Connection, float]] = []
        self._parameters = _parameters(spec)

    @property
    def database(self) -> str:
        return str(self._parameters["database"])

    @property
    def user(self) -> str:
        return str(self._parameters["user"])

    @property
    def place(self) -> str:
        return f"{self._parameters['host']}:{self._parameters['port']}/{self.database}"

    @contextlib.contextmanager
    def borrow(self) -> Iterator[Connection]:
        """A connection in autocommit mode. Whatever transaction is left open is rolled back."""
        connection = self._waiting() or self.connect()
        whole = False
        try:
            with self.explained():
                yield connection
            whole = True
        finally:
            self._return(connection, whole)

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """The driver's errors as ours."""
        try:
            yield
        except pymysql.MySQLError as error:
            raise self._translated(error) from error
        except (OSError, EOFError) as error:
            raise SourceUnavailable(
                f"source {self._spec.name} ({self.place}) lost the connection: {error}", "it reconnects on its own"
            ) from error

    def connect(self) -> Connection:
        """A new connection, which is the caller's to close."""
        try:
            connection = pymysql.connect(**self._parameters, **_encryption.get(self.place, {}))
            version = str(connection.server_version)  # type: ignore[attr-defined]  # the stubs lack it
            product = dialect(connection)
            if number_of(version) < product.oldest:
                connection.close()
                raise SourceRefused(
                    f"source {self._spec.name} ({self.place}) is {product.name} {version}, which is too old",
                    f"use {product.name} {product.oldest[0]}.{product.oldest[1]} or newer",
                )
            with connection.cursor() as cursor:
                cursor.execute(product.session)
        except pymysql.MySQLError as error:
            raise self._connect_error(error) from None
        except RuntimeError as error:  # the driver's word for a library that it lacks
            raise SourceRefused(
                f"source {self._spec.name} ({self.place}) offers no encryption, and without it the password of"
                f" {self._parameters['user']} cannot be sent",
                "turn on TLS at the server, or 'pip install cryptography' where Headwater runs",
            ) from error
        # making a context for each connection takes ten times as long as connecting
        made: Any = connection
        _encryption[self.place] = {"ssl": made.ctx} if made._secure else {"ssl_disabled": True}
        return connection

    def close(self) -> None:
        while self._idle:
            cut_off(self._idle.pop()[0])

    def _waiting(self) -> Connection | None:
        """One that is idle, and still there: a server that was restarted has forgotten them all."""
        while self._idle:
            connection, since = self._idle.pop()
            if _hung_up(connection):
                cut_off(connection)
                continue
            try:
                if time.monotonic() - since > _FRESH:
                    connection.ping(reconnect=False)
                return connection
            except (pymysql.MySQLError, OSError):
                cut_off(connection)
        return None

    def _return(self, connection: Connection, whole: bool) -> None:
        if not connection.open:
            return
        if not whole:  # an answer may be half read
            cut_off(connection)
            return
        try:
            connection.rollback()
        except (pymysql.MySQLError, OSError):
            cut_off(connection)
            return
        self._idle.append((connection, time.monotonic()))

    def _connect_error(self, error: pymysql.MySQLError) -> HeadwaterError:
        code, said = _told(error)
        password = str(self._parameters.get("password") or "")
        if len(password) > 2 and password in said:
            said = "the connection failed"
        where = f"source {self._spec.name} ({self.place})"
        fixes = {
            1045: f"check the user and password in the url; the user is {self.user}",
            3159: "append ?ssl_ca=/path/to/ca.pem to the url: the server wants encryption",
            1049: "create the database, or name another one in the url",
            1044: f"GRANT SELECT ON `{self.database}`.* TO {self.user}",
            1130: "let this host in: CREATE USER …@'host'",
            1698: f"let {self.user} log in with a password: ALTER USER … IDENTIFIED BY …",
        }
        if code in fixes:
            return SourceRefused(f"{where} refused the connection: {said}", fixes[code])
        return SourceUnavailable(
            f"{where} cannot be reached: {said}", "check that the server is running and that host and port are right"
        )

    def _translated(self, error: pymysql.MySQLError) -> HeadwaterError:
        code, said = _told(error)
        where = f"source {self._spec.name}"
        if code in _LOST or isinstance(error, pymysql.err.InterfaceError):
            return SourceUnavailable(f"{where} ({self.place}) lost the connection: {said}", "it reconnects on its own")
        if code in _DENIED:
            return SourceRefused(f"{where}: {said}", f"grant it to the user {self.user}; 'headwater setup' says how")
        if code == LOG_TROUBLE:
            return PositionTrimmed(f"{where}: {said}", "ask as of a newer position")
        if code == 1205:
            return SourceUnavailable(
                f"{where}: a table stayed locked by another session for too long ({said})",
                "try again when that session's transaction has ended; SHOW PROCESSLIST shows which it is",
            )
        if code in _MOVED:
            return SchemaChanged(f"{where}: {said}", "change the views that use it, or change the table back")
        if isinstance(error, pymysql.OperationalError):
            return SourceUnavailable(f"{where} ({self.place}): {said}", "see the server's log")
        return HeadwaterError(f"{where}: {said}", "this looks like a bug in Headwater")


def _hung_up(connection: Connection) -> bool:
    """Whether a server that went away has closed its end: nothing else is to be read where nothing was asked."""
    idle: Any = connection  # the driver has no words for it
    waiting = select.poll()
    waiting.register(idle._sock, select.POLLIN)
    return bool(waiting.poll(0))


def rows(connection: Connection, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """What a statement answers."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())


def dialect(connection: Connection) -> Dialect:
    return dialect_of(str(connection.server_version))  # type: ignore[attr-defined]  # the stubs lack it


def log_end(connection: Connection) -> tuple[Any, ...]:
    """File and offset at which the log ends, and the databases that are in it, and are not."""
    (found,) = rows(connection, dialect(connection).log_end)
    return found


def stream(connection: Connection, statement: str, width: int, most: int) -> Iterator[Columns]:
    """The rows of an answer as they come, so many at a time: columns of texts."""
    cursor = connection.cursor(SSCursor)
    cursor.execute(statement)
    wire: Any = connection  # the driver has no words for it
    wire._result.unbuffered_active = False  # or else the cursor would read on when it is let go
    yield from columns_of(wire._rfile.read1, width, most)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def another_life(source: str, why: str) -> LifeChanged:
    return LifeChanged(
        f"source {source} is not the database that the views were loaded from: {why}. Was it restored from a backup, is"
        " it a copy, or was its log reset?",
        "'headwater setup', then 'headwater apply', loads the views over it again",
    )


def _told(error: pymysql.MySQLError) -> tuple[int, str]:
    arguments = error.args
    code = arguments[0] if arguments and isinstance(arguments[0], int) else 0
    return code, " ".join(str(arguments[1] if len(arguments) > 1 else error).split())


def cut_off(connection: Connection) -> None:
    """Without a farewell: a result may be half read."""
    connection._force_close()  # type: ignore[attr-defined]  # the stubs lack it


def _parameters(spec: SourceSpec) -> Mapping[str, Any]:
    """The driver's parameters, from the url and the options that complete it."""
    said = dict(spec.options)
    wrong = ConfigError(
        f"source {spec.name}: the url is not one MariaDB or MySQL understands",
        "write it as mariadb://user:password@host:3306/database, with any of / @ : % ? # in the password"
        " percent-encoded (%2F %40 %3A %25 %3F %23), or give host, port, database, user and password one by one",
    )
    try:
        parts = urlsplit(spec.url)
        port = parts.port
    except ValueError:
        raise wrong from None
    if "@" in (parts.hostname or "") or "@" in parts.path or parts.fragment or parts.path.count("/") > 1:
        raise wrong
    database = said.get("database") or unquote(parts.path.removeprefix("/"))
    if not database:
        raise ConfigError(f"source {spec.name}: the url names no database", "append it: mariadb://host:3306/database")
    ask = dict(pair.partition("=")[::2] for pair in parts.query.split("&") if pair)
    return {
        "host": said.get("host") or parts.hostname or "localhost",
        "port": int(said.get("port") or port or 3306),
        "user": said.get("user") or unquote(parts.username or "") or "root",
        "password": said.get("password") or unquote(parts.password or ""),
        "database": database,
        "charset": "utf8mb4",
        "autocommit": True,
        "connect_timeout": 5,
        "read_timeout": 600,
        "write_timeout": 60,
        "program_name": "headwater",
        **({"unix_socket": unquote(ask["unix_socket"])} if "unix_socket" in ask else {}),
        **({"ssl_ca": unquote(ask["ssl_ca"])} if "ssl_ca" in ask else {}),
    }
