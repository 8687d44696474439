"""Engines: one for all queries, and connections to it that know the views of one state.

What a connection knows (its views, as tables of the state that is read) belongs to it alone. Who is done hands it back,
and the next who reads the same state takes it as it is: nothing is told to the engine again while a cut stands still.
The catalogue takes an engine of its own, made once for the views there are.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from headwater.model.changelog import COUNT, SEQ
from headwater.serve import catalog
from headwater.warehouse.duck import LOCKED, fold_sql
from headwater.warehouse.reading import identifier
from headwater.warehouse.state import State

CATALOGUES = 4
IDLE = 32
"""Connections that wait for the next who wants them."""
_BEFORE = (
    "SET temp_directory = ''",
    "SET threads = 2",
    "SET GLOBAL TimeZone = 'UTC'",
    "SET GLOBAL integer_division = true",
    "SET GLOBAL default_null_order = 'nulls_last_on_asc_first_on_desc'",
)
Key = tuple[object, ...]


@dataclass(frozen=True)
class Folded:
    """A view that must be folded: its changelog, and the state to read."""

    log: ds.Dataset
    seq: int


@dataclass(frozen=True)
class Wanted:
    """What a connection must know. `key` tells it from others; `catalogue` are all views and their columns, if the
    query looks into the catalogue."""

    key: Key
    views: Mapping[str, State | Folded]
    catalogue: Mapping[str, pa.Schema] | None


@dataclass(frozen=True)
class Lent:
    """A connection, for one query at a time."""

    key: Key
    connection: duckdb.DuckDBPyConnection


class Engines:
    """For any number of threads. `memory` is what each engine may take."""

    def __init__(self, memory: str) -> None:
        self._memory, self._lock, self._making = memory, threading.Lock(), threading.Lock()
        self._plain: duckdb.DuckDBPyConnection | None = None
        self._catalogued: OrderedDict[Key, duckdb.DuckDBPyConnection] = OrderedDict()
        self._idle: OrderedDict[int, Lent] = OrderedDict()
        self._closed = False

    def idle(self, key: Key) -> Lent | None:
        """A connection that knows what the key stands for already."""
        with self._lock:
            found = next((number for number, lent in reversed(self._idle.items()) if lent.key == key), None)
            return None if found is None else self._idle.pop(found)

    def lend(self, wanted: Wanted) -> Lent:
        connection = self._engine(wanted.catalogue).cursor()
        for number, (name, view) in enumerate(wanted.views.items()):
            if isinstance(view, State):
                connection.register(name, view)
            else:
                log = f"__log{number}"
                connection.register(log, view.log)
                fold = fold_sql(log, view.log.schema, view.seq)
                connection.execute(f"CREATE TEMP VIEW {identifier(name)} AS {fold}")
        return Lent(wanted.key, connection)

    def give_back(self, lent: Lent) -> None:
        """What ended well; another is closed."""
        with self._lock:
            if self._closed:
                lent.connection.close()
                return
            self._idle[id(lent)] = lent
            gone = self._idle.popitem(last=False)[1] if len(self._idle) > IDLE else None
        if gone is not None:
            gone.connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = list(self._idle.values()), OrderedDict()
        for lent in idle:
            lent.connection.close()
        with self._making:
            for engine in (self._plain, *self._catalogued.values()):
                if engine is not None:
                    engine.close()
            self._plain = None
            self._catalogued.clear()

    def _engine(self, views: Mapping[str, pa.Schema] | None) -> duckdb.DuckDBPyConnection:
        with self._making:
            if views is None:
                if self._plain is None:
                    self._plain = self._made()
                return self._plain
            key: Key = tuple((name, tuple(map(str, schema))) for name, schema in sorted(views.items()))
            found = self._catalogued.get(key)
            if found is None:
                found = self._catalogued[key] = self._made(views)
                while len(self._catalogued) > CATALOGUES:
                    self._catalogued.popitem(last=False)  # closes when its last connection does
            self._catalogued.move_to_end(key)
            return found

    def _made(self, views: Mapping[str, pa.Schema] | None = None) -> duckdb.DuckDBPyConnection:
        engine = duckdb.connect(":memory:", config={"memory_limit": self._memory})
        for setting in _BEFORE:
            engine.execute(setting)
        if views is not None:
            _catalogue(engine, views)
        for setting in LOCKED:
            engine.execute(setting)
        return engine


def _catalogue(engine: duckdb.DuckDBPyConnection, views: Mapping[str, pa.Schema]) -> None:
    made = [f"CREATE SCHEMA {schema}" for schema in catalog.SCHEMAS.values()]
    for schema, tables in catalog.TABLES.items():
        for table, columns in tables.items():
            listed = ", ".join(f"{identifier(column)} {kind}" for column, kind in columns.items())
            made.append(f"CREATE TABLE {catalog.SCHEMAS[schema]}.{table} ({listed})")
    engine.execute(";\n".join([*made, *catalog.macros()]))
    for (schema, table), rows in catalog.rows({name: _shown(columns) for name, columns in views.items()}).items():
        if rows:
            names = catalog.TABLES[schema][table]
            data = pa.Table.from_pydict({name: [row.get(name) for row in rows] for name in names})
            engine.register("__rows", data)
            engine.execute(f"INSERT INTO {catalog.SCHEMAS[schema]}.{table} SELECT * FROM __rows")
            engine.unregister("__rows")


def _shown(schema: pa.Schema) -> pa.Schema:
    found = [field for field in schema if field.name not in (COUNT, SEQ)]
    return pa.schema(found or [("exists", pa.int32())])
