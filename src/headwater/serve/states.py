"""States of the warehouse, and an engine for each that somebody asks.

A connection has no engine of its own. For a query there is one per (cut, state, views), shared by all who ask the same
and kept for those who ask next; making one opens no file of a view, and the columns of a view are read once. While
anybody reads a cut it is pinned, so that clean-up leaves its files alone.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import HistoryGone
from headwater.model.names import ViewName
from headwater.runtime.project.project import Project
from headwater.runtime.reading.moments import cut_by, state_in
from headwater.runtime.reading.resolve import pinned_views
from headwater.serve import catalog
from headwater.serve.statements import Query
from headwater.warehouse.cuts import Cut, CutLog
from headwater.warehouse.delta import open_table
from headwater.warehouse.duck import LOCKED, LazyLog, fold_sql, log_files
from headwater.warehouse.layout import log_folder
from headwater.warehouse.reading import Pinned, identifier
from headwater.warehouse.sessions import PinnedCut

FRESH_SECONDS = 0.02
"""A look at the newest cut serves all who ask within so long."""
ENGINES = 16
LOGS = 256
_BEFORE = (
    "SET temp_directory = ''",
    "SET threads = 2",
    "SET GLOBAL TimeZone = 'UTC'",
    "SET GLOBAL integer_division = true",
    "SET GLOBAL default_null_order = 'nulls_last_on_asc_first_on_desc'",
)
_Key = tuple[object, ...]


@dataclass(frozen=True)
class Reading:
    """What a query reads: these views at one state of one cut, and perhaps the catalogue."""

    cut: Cut
    seq: int | None
    views: tuple[ViewName, ...]
    catalogued: bool


@dataclass(frozen=True)
class Engine:
    """An engine, and the changelogs that each connection to it must be given: they are not shared."""

    shared: duckdb.DuckDBPyConnection
    logs: Mapping[str, LazyLog]

    def connection(self) -> duckdb.DuckDBPyConnection:
        found = self.shared.cursor()
        for name, log in self.logs.items():
            found.register(name, log)
        return found


class States:
    """All that connections share, for any number of threads."""

    def __init__(self, project: Project, memory: str = "1GB") -> None:
        self._project, self._memory = project, memory
        self._looking, self._lock, self._making = threading.Lock(), threading.Lock(), threading.Lock()
        self._newest: tuple[float, Cut] | None = None
        self._pins: dict[tuple[int, int | None], tuple[PinnedCut, int]] = {}
        self._engines: OrderedDict[_Key, Engine] = OrderedDict()
        self._logs: OrderedDict[tuple[str, int], ds.Dataset] = OrderedDict()
        self._schemas: dict[str, pa.Schema] = {}

    def close(self) -> None:
        """Ends the engines."""
        with self._making:
            for engine in self._engines.values():
                engine.shared.close()
            self._engines.clear()

    def newest(self) -> Cut:
        with self._looking:  # a table of deltalake serves one thread at a time
            if self._newest is None or time.monotonic() - self._newest[0] > FRESH_SECONDS:
                self._newest = (time.monotonic(), self._project.cut(create=True))
            return self._newest[1]

    @contextmanager
    def held(self, cut: Cut, seq: int | None = None) -> Iterator[None]:
        """Keeps a cut from clean-up; the first who wants it writes the pin, the last takes it away."""
        if not cut.number:
            yield
            return
        key = (cut.number, seq)
        with self._lock:
            pin, users = self._pins.get(key) or (PinnedCut(self._project.storage, cut, seq), 0)
            self._pins[key] = (pin, users + 1)
        try:
            yield
        finally:
            with self._lock:
                pin, users = self._pins[key]
                if users > 1:
                    self._pins[key] = (pin, users - 1)
                else:
                    del self._pins[key]
            if users == 1:
                pin.close()

    def reading(self, query: Query, cut: Cut, at: int | dt.datetime | None) -> Reading:
        """What a query reads in that cut, or an error that names the views there are."""
        if not cut.number and query.tables:
            raise HistoryGone("nothing is maintained yet", "run 'headwater run': it loads the views")
        named = [cut.named(name) for name in query.tables]
        there = {name.lower(): name for name in cut.views}
        named += [there[name.lower()] for name in query.perhaps if name.lower() in there]
        views = tuple(sorted(set(named)))
        if isinstance(at, dt.datetime):
            seq: int | None = state_in(cut_by(self._log(), cut, at), views, at) if views else None
        else:
            seq = at
        return Reading(cut, seq if views else None, views, query.catalogued)

    def engine(self, reading: Reading) -> duckdb.DuckDBPyConnection:
        """A connection to the engine for that, for one query."""
        cut = reading.cut
        key: _Key = (
            (cut.number, reading.seq, *reading.views) if reading.views else (),
            tuple(sorted((n, s.folder) for n, s in cut.views.items())) if reading.catalogued else None,
        )
        with self._making:
            found = self._engines.get(key)
            if found is None:
                found = self._engines[key] = self._made(reading)
                while len(self._engines) > ENGINES:
                    self._engines.popitem(last=False)  # closes when its last query ends
            self._engines.move_to_end(key)
        return found.connection()

    def _log(self) -> CutLog:
        return CutLog(self._project.storage)  # of one's own: this may take long

    def _made(self, reading: Reading) -> Engine:
        engine = duckdb.connect(":memory:", config={"memory_limit": self._memory})
        for setting in _BEFORE:
            engine.execute(setting)
        pinned = pinned_views(reading.cut, self._log(), reading.views, reading.seq) if reading.views else {}
        logs: dict[str, LazyLog] = {}
        for number, (name, view) in enumerate(pinned.items()):
            log, schema = f"__log{number}", self._columns(view.folder, view.version)
            logs[log] = LazyLog(schema, partial(self._files, view))
            engine.register(log, logs[log])
            engine.execute(f"CREATE VIEW {identifier(name)} AS {fold_sql(log, schema, view.seq)}")
        if reading.catalogued:
            self._catalogue(engine, reading.cut)
        for setting in LOCKED:
            engine.execute(setting)
        return Engine(engine, logs)

    def _catalogue(self, engine: duckdb.DuckDBPyConnection, cut: Cut) -> None:
        known = {
            str(name): _shown(self._columns(log_folder(state.folder), state.version))
            for name, state in cut.views.items()
        }
        made = [f"CREATE SCHEMA {schema}" for schema in catalog.SCHEMAS.values()]
        for schema, tables in catalog.TABLES.items():
            for table, columns in tables.items():
                listed = ", ".join(f"{identifier(column)} {kind}" for column, kind in columns.items())
                made.append(f"CREATE TABLE {catalog.SCHEMAS[schema]}.{table} ({listed})")
        engine.execute(";\n".join([*made, *catalog.macros()]))
        for (schema, table), rows in catalog.rows(known).items():
            if rows:
                names = catalog.TABLES[schema][table]
                data = pa.Table.from_pydict({name: [row.get(name) for row in rows] for name in names})
                engine.register("__rows", data)
                engine.execute(f"INSERT INTO {catalog.SCHEMAS[schema]}.{table} SELECT * FROM __rows")
                engine.unregister("__rows")

    def _columns(self, folder: str, version: int) -> pa.Schema:
        """Of a changelog: they never change, a view that has others has another folder."""
        if folder not in self._schemas:
            table = open_table(self._project.storage, folder, version)
            self._schemas[folder] = pa.schema(table.schema().to_arrow())
        return self._schemas[folder]

    def _files(self, view: Pinned) -> ds.Dataset:
        key = (view.folder, view.version)
        with self._lock:
            found = self._logs.get(key)
        if found is None:
            found = log_files(self._project.storage, view)
            with self._lock:
                self._logs[key] = found
                while len(self._logs) > LOGS:
                    self._logs.popitem(last=False)
        return found


def _shown(schema: pa.Schema) -> pa.Schema:
    found = [field for field in schema if field.name not in (COUNT, SEQ)]
    return pa.schema(found or [("exists", pa.int32())])


def halted(cut: Cut, views: Sequence[ViewName]) -> Iterator[tuple[str, str]]:
    """What readers of these views must be told, and what to do."""
    for name in views:
        state = cut.views[name]
        if state.state != "live":
            what = f"view {name} is halted: its rows are those of state {state.seq} (why: {state.reason})"
            yield what, state.fix or "when the cause is gone, 'headwater apply' loads it again"
