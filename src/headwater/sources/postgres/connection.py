"""Connections to one PostgreSQL, and its errors in our words.

An adapter borrows a connection per call; a stream that is still being read keeps its own, so calls may be nested.
Passwords never reach a message: only host, port, database and role are named, and only if the url as a whole could be
understood. A password with a `/` or `@` in it that is not percent-encoded shifts into the other parts of a url; such a
url is refused, and nothing of it is repeated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from headwater.model.errors import (
    CaptureMissing,
    ConfigError,
    HeadwaterError,
    LifeChanged,
    PositionTrimmed,
    SchemaChanged,
    SourceRefused,
    SourceUnavailable,
)
from headwater.model.source import SourceSpec

NOT_CAPTURED = "HW001"
"""SQLSTATE raised by headwater.holds: the table has no capture."""
TRIMMED = "HW002"
"""SQLSTATE raised by headwater.holds: the position is older than what capture keeps."""
MOVED = "HW003"
"""SQLSTATE raised by headwater.holds: the table is not in the shape that the reader took it for."""
LIFE = "HW004"
"""SQLSTATE raised by headwater.alive: the database is no continuation of the position's past."""
BROKEN = "HW005"
"""SQLSTATE raised by headwater.holds: the table's capture is broken."""

PINNED = (
    ("extra_float_digits", "1"),
    ("DateStyle", "ISO, YMD"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("bytea_output", "hex"),
)
"""The settings that decide how values read as text: the same for capture's triggers and for our sessions."""

_SESSION = "; ".join(
    f"SET {name} = '{value}'"
    for name, value in (
        *PINNED,
        ("client_encoding", "UTF8"),
        ("default_transaction_isolation", "read committed"),
        ("jit", "off"),
        ("lock_timeout", "30s"),
    )
)

Connection = psycopg.Connection[tuple[Any, ...]]


_OPTIONS = {"host": "host", "port": "port", "database": "dbname", "user": "user", "password": "password"}
"""What a spec's options may say instead of the url, and libpq's word for it."""


class ConnectionPool:
    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._idle: list[Connection] = []
        self._parameters = _parameters(spec)

    @property
    def place(self) -> str:
        host = self._parameters.get("host", "localhost")
        return f"{host}:{self._parameters.get('port', 5432)}/{self._parameters.get('dbname', '')}"

    @contextlib.contextmanager
    def borrow(self) -> Iterator[Connection]:
        """A connection in autocommit mode. Whatever transaction is left open is rolled back."""
        connection = self._idle.pop() if self._idle else self._connect()
        try:
            yield connection
        except psycopg.Error as error:
            raise self._translated(error, connection) from error
        finally:
            self._return(connection)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _return(self, connection: Connection) -> None:
        status = connection.info.transaction_status
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            with contextlib.suppress(psycopg.Error):
                connection.rollback()
                status = connection.info.transaction_status
        if status == TransactionStatus.IDLE and not connection.closed:
            self._idle.append(connection)
        else:
            connection.close()

    def _connect(self) -> Connection:
        try:
            connection = psycopg.connect(**self._parameters, autocommit=True, prepare_threshold=None)
            connection.execute(_SESSION)
            return connection
        except psycopg.Error as error:
            raise self._connect_error(str(error)) from None

    def _connect_error(self, message: str) -> HeadwaterError:
        said = " ".join(message.split())
        password = str(self._parameters.get("password") or "")
        if len(password) > 2 and password in said:
            said = "the connection failed"
        role = self._parameters.get("user", "the current user")
        where = f"source {self._spec.name} ({self.place})"
        refusals = {
            "password authentication failed": f"check the user and password in the url; the role is {role}",
            "no password supplied": "the server wants a password: add it to the url or to ~/.pgpass",
            "role ": f"create the role {role}, or name another one in the url",
            "database ": "create the database, or name another one in the url; \\l in psql lists them",
            "no pg_hba.conf entry": "let this host in: add a line to the server's pg_hba.conf",
            "permission denied": f'run GRANT CONNECT ON DATABASE "{self._parameters.get("dbname", role)}" TO "{role}";',
        }
        fatal = said.rpartition("FATAL: ")[2].strip() if "FATAL: " in said else ""
        for mark, fix in refusals.items():
            named = mark in ("role ", "database ")
            if fatal and (
                (named and fatal.startswith(mark) and "does not exist" in fatal) or (not named and mark in fatal)
            ):
                return SourceRefused(f"{where} refused the connection: {fatal}", fix)
        if "no password supplied" in said:
            return SourceRefused(
                f"{where} refused the connection: no password supplied", refusals["no password supplied"]
            )
        return SourceUnavailable(
            f"{where} cannot be reached: {said}", "check that the server is running and that host and port are right"
        )

    def _translated(self, error: psycopg.Error, connection: Connection) -> HeadwaterError:
        said = error.diag.message_primary or " ".join(str(error).split())
        where = f"source {self._spec.name}"
        state = error.sqlstate or ""
        if connection.closed or state.startswith("57P"):
            return SourceUnavailable(f"{where} ({self.place}) lost the connection: {said}", "it reconnects on its own")
        if state == NOT_CAPTURED:
            return CaptureMissing(f"{where}: {said}", "run 'headwater setup'")
        if state == BROKEN:
            return CaptureMissing(f"{where}: capture of {said}", "run 'headwater setup', which captures it anew")
        if state == MOVED:
            return SourceUnavailable(f"{where}: {said} while it was read, again and again", "try again")
        if state == LIFE:
            return LifeChanged(
                f"{where} is not the database that the views were loaded from: {said}. Was it restored from a backup,"
                " or is it a copy?",
                "'headwater setup', then 'headwater apply', loads the views over it again",
            )
        if state == TRIMMED:
            return PositionTrimmed(f"{where}: {said}", "ask as of a newer position")
        if state == "55P03":
            return SourceUnavailable(
                f"{where}: a table stayed locked by another session for too long ({said})",
                "try again when that session's transaction has ended; pg_stat_activity and pg_locks show which it is",
            )
        if state == "42501":
            help_said = "'headwater setup --print' writes what somebody who may has to run there"
            return SourceRefused(f"{where}: {said}", f"{help_said}, for the role {connection.info.user}")
        if state in ("42P01", "3F000", "42883") and "headwater" in said:
            return CaptureMissing(
                f"{where}: capture is not installed here, or was installed by an older Headwater",
                "run 'headwater setup'",
            )
        if state in ("42P01", "42703", "3F000", "42704"):
            return SchemaChanged(f"{where}: {said}", "change the views that use it, or change the table back")
        if state.startswith("22"):
            return SchemaChanged(
                f"{where}: changes captured before a column was altered no longer fit its type ({said})",
                "install capture of this table anew, then load its views again",
            )
        if isinstance(error, psycopg.OperationalError):
            return SourceUnavailable(f"{where} ({self.place}): {said}", "see the server's log")
        return HeadwaterError(
            f"{where}: {said}", "this looks like a bug in Headwater; the server's log has the statement"
        )


def _parameters(spec: SourceSpec) -> dict[str, Any]:
    """libpq's parameters, from the url and the options that complete it."""
    try:
        found = {k: v for k, v in conninfo_to_dict(spec.url).items() if v is not None}
    except psycopg.Error:  # its message may quote the url
        found = {"host": "@"}
    port = str(found.get("port", "")).replace(",", "")
    if any("@" in str(found.get(part, "")) for part in ("host", "dbname")) or not (port or "0").isdigit():
        raise ConfigError(
            f"source {spec.name}: the url is not one PostgreSQL understands",
            "write it as postgresql://user:password@host:5432/database, with any of / @ : % ? # in the password"
            " percent-encoded (%2F %40 %3A %25 %3F %23), or give host, port, database, user and password one by one",
        )
    found |= {_OPTIONS[key]: value for key, value in spec.options if key in _OPTIONS}
    found.setdefault("connect_timeout", 5)
    found.setdefault("application_name", "headwater")
    return found
