"""SQL over all views at one state, by an engine of its own that can read nothing else.

Each view is the fold of its changelog up to that state (`warehouse.duck`), over the files that the state names.

The engine is started for the query and ends with it: only a SELECT, no files, no network, no settings, so much memory,
so many rows, so many seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import UsageError
from headwater.model.names import ViewName
from headwater.storage import Storage
from headwater.warehouse.delta import open_table
from headwater.warehouse.duck import LOCKED, fold_sql, log_files
from headwater.warehouse.reading import Pinned, identifier

_BEFORE = (
    "SET temp_directory = ''",
    "SET threads = 2",
    "SET preserve_insertion_order = true",
    "SET enable_progress_bar = false",  # it would be written to the terminal, or to a pipe that nobody reads
)


@dataclass(frozen=True)
class Limits:
    """What one query may take."""

    rows: int = 1_000
    seconds: float = 20.0
    memory: str = "1GB"


def run_query(storage: Storage, views: Mapping[ViewName, Pinned], sql: str, limits: Limits) -> tuple[pa.Table, bool]:
    """The first rows of the answer, and whether there are more."""
    with _engine(storage, views, limits.memory) as engine, _timed(engine, limits.seconds) as late:
        try:
            statements = engine.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise UsageError("only one SELECT can be asked here", "the page reads, it changes nothing")
            answer = engine.sql(sql)
            if answer is None:
                raise UsageError("the query has no rows to show", "ask a SELECT")
            found = answer.limit(limits.rows + 1).to_arrow_table()
        except duckdb.InterruptException:
            if late.is_set():
                raise UsageError(
                    f"the query took longer than {limits.seconds:g} s", "ask for less: a WHERE, fewer columns"
                ) from None
            raise
        except duckdb.OutOfMemoryException as error:
            raise UsageError(f"the query needs more than {limits.memory}", "ask for less at a time") from error
        except duckdb.Error as error:
            what = " ".join(str(error).strip().splitlines()[:2])
            raise UsageError(f"the query does not run: {what}", "views: " + ", ".join(views)) from error
    return found.slice(0, limits.rows), found.num_rows > limits.rows


def first_rows(storage: Storage, view: Pinned, limits: Limits) -> tuple[pa.Table, bool]:
    """The first rows of one view in its own order and then by all columns, and whether there are more."""
    columns = [f.name for f in _columns(pa.schema(open_table(storage, view.folder, view.version).schema().to_arrow()))]
    order = [
        f"{identifier(name)} {'DESC' if down else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"
        for name, down, first in view.order
    ] + [f"{n + 1} NULLS LAST" for n in range(len(columns))]
    said = f" ORDER BY {', '.join(order)}" if order else ""
    return run_query(storage, {ViewName("it"): view}, f'SELECT * FROM "it"{said}', limits)


@contextmanager
def _engine(storage: Storage, views: Mapping[ViewName, Pinned], memory: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """An engine that knows these views, and from then on nothing else."""
    engine = duckdb.connect(":memory:", config={"memory_limit": memory})
    try:
        for setting in _BEFORE:
            engine.execute(setting)
        for number, (name, view) in enumerate(views.items()):
            log = f"__log{number}"
            files = log_files(storage, view)
            engine.register(log, files)
            engine.execute(f"CREATE VIEW {identifier(name)} AS {fold_sql(log, files.schema, view.seq)}")
        for setting in LOCKED:
            engine.execute(setting)
        yield engine
    finally:
        engine.close()


@contextmanager
def _timed(engine: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[threading.Event]:
    """Breaks off what takes longer; the event says that it did."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        engine.interrupt()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def _columns(schema: pa.Schema) -> list[pa.Field]:
    return [field for field in schema if field.name not in (COUNT, SEQ)]
