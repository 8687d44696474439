"""A connection to an SQLite file, through ADBC: its reader fills Arrow columns ten times faster than Python's sqlite3
makes rows.

The driver manager is taken by its own hand, without its DB-API: that loads half of Arrow (`pyarrow.dataset`) to be able
to take what we never give it, 54 MB in a process that has nothing else to do than to watch a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import adbc_driver_manager
import adbc_driver_sqlite
import pyarrow as pa

BATCH_ROWS = 65_536


class Connection:
    """`opened_on` says which file the path was when it was opened. With `autocommit`, statements begin and end
    transactions; without, each statement is in one, until `end_read`."""

    def __init__(self, uri: str, autocommit: bool, busy_seconds: float, opened_on: object = None) -> None:
        self.opened_on = opened_on
        self._running: list[ExitStack] = []
        self._database = adbc_driver_sqlite.connect(uri)
        try:
            self._adbc = adbc_driver_manager.AdbcConnection(self._database)
        except BaseException:
            self._database.close()
            raise
        try:
            self._adbc.set_autocommit(autocommit)
            self.execute(f"PRAGMA busy_timeout = {int(busy_seconds * 1000)}")
            self.execute("PRAGMA cache_size = -32768")
        except BaseException:
            self.close()
            raise

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """A small answer, as Python values."""
        found: list[tuple[Any, ...]] = []
        with self._ran(sql) as reader:
            for batch in reader:
                found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
        return found

    def execute(self, sql: str) -> None:
        self.rows(sql)

    def stream(self, sql: str, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """A big answer, in Arrow. With `keys`, the statement runs once per row of it, bound as ?1, ?2, …"""
        with self._ran(sql, keys, BATCH_ROWS) as reader:
            yield from reader

    def end_read(self) -> None:
        self._adbc.rollback()  # and begins anew, deferred: nothing is locked until the next statement

    def close(self) -> None:
        """With whatever it still reads."""
        with suppress(adbc_driver_manager.Error):
            while self._running:
                self._running.pop().close()
            self._adbc.close()
            self._database.close()

    @contextmanager
    def _ran(
        self, sql: str, keys: pa.RecordBatch | None = None, batch_rows: int | None = None
    ) -> Iterator[pa.RecordBatchReader]:
        with ExitStack() as running:
            statement = running.enter_context(adbc_driver_manager.AdbcStatement(self._adbc))
            self._running.append(running)
            running.callback(self._ended, running)
            if batch_rows is not None:
                statement.set_options(**{adbc_driver_sqlite.StatementOptions.BATCH_ROWS.value: str(batch_rows)})
            statement.set_sql_query(sql)
            statement.prepare()
            if keys is not None:
                statement.bind(keys)
            handle, _ = statement.execute_query()
            yield running.enter_context(pa.RecordBatchReader.from_stream(handle))  # closed before its statement is

    def _ended(self, running: ExitStack) -> None:
        with suppress(ValueError):
            self._running.remove(running)
