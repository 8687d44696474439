"""The profile, and what dbt calls a connection: a reader of the project. It has no transactions of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState, Credentials
from dbt.adapters.headwater.reading import Reader
from dbt.adapters.headwater.relation import DATABASE
from dbt.adapters.sql import SQLConnectionManager
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

from headwater.model.errors import HeadwaterError
from headwater.runtime.project.config import find_config
from headwater.runtime.project.secrets import without_secrets


@dataclass
class HeadwaterCredentials(Credentials):
    """What a profile says: `project` is a folder with a headwater.toml in it or above it; `catch_up`: where nobody
    maintains the warehouse, `dbt run` takes in what has happened at the sources."""

    database: str = DATABASE
    schema: str = "views"
    project: str = "."
    catch_up: bool = True

    @property
    def type(self) -> str:
        return "headwater"

    @property
    def unique_field(self) -> str:
        return self.project

    def _connection_keys(self) -> tuple[str, ...]:
        return ("project", "database", "schema", "catch_up")  # what macros find in `target`, too


class HeadwaterConnectionManager(SQLConnectionManager):
    """Readers, one for each thread."""

    TYPE = "headwater"

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        if connection.state == ConnectionState.OPEN:
            return connection
        with told():
            found = find_config(Path(connection.credentials.project).expanduser())
        connection.handle, connection.state = Reader(found.parent), ConnectionState.OPEN
        return connection

    def cancel(self, connection: Connection) -> None: ...

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        with told():
            yield

    @classmethod
    def get_response(cls, cursor: Any) -> AdapterResponse:
        return AdapterResponse("OK", rows_affected=cursor.rowcount)

    def begin(self) -> Connection:
        connection = self.get_thread_connection()
        connection.transaction_open = True
        return connection

    def commit(self) -> Connection:
        connection = self.get_thread_connection()
        connection.transaction_open = False
        return connection

    @classmethod
    def _rollback_handle(cls, connection: Connection) -> None: ...


@contextmanager
def told() -> Iterator[None]:
    """Errors of Headwater and of the reading engine as dbt's: a sentence, what to do, no secret, no traceback."""
    try:
        yield
    except HeadwaterError as error:
        raise DbtRuntimeError(without_secrets(f"{error.what}\n→ {error.fix}" if error.fix else error.what)) from error
    except duckdb.Error as error:
        raise DbtDatabaseError(without_secrets(str(error))) from error
