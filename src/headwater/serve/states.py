"""States of the warehouse, as statements read them.

A statement reads one state of one cut: `reading` says which, `asked` answers. While anybody reads a cut it is pinned,
so that clean-up leaves its files alone. What is known of a cut's files (`warehouse.contents`) and of its views is kept
for the next statement; it is read when a statement needs it, never before.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
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
from headwater.serve.batches import Batches, Computed, Found
from headwater.serve.engines import Engines, Folded, Key, Wanted
from headwater.serve.pins import Pins
from headwater.serve.statements import Query
from headwater.warehouse.cuts import Cut, CutLog
from headwater.warehouse.delta import open_table
from headwater.warehouse.layout import log_folder
from headwater.warehouse.lookup import Lookups
from headwater.warehouse.reading import Pinned
from headwater.warehouse.state import State

FRESH_SECONDS = 0.02
"""Where the newest cut can only be found by reading, one look serves all who ask within so long."""
LOOK_SECONDS = 1.0
"""And where it can be seen that nothing was appended, so long."""
OLDER = 64
"""Older states that are remembered."""


@dataclass(frozen=True)
class Reading:
    """What a query reads: these views at one state of one cut, and perhaps the catalogue."""

    cut: Cut
    seq: int | None
    views: Mapping[ViewName, Pinned]
    catalogued: bool


class States:
    """All that connections share, for any number of threads."""

    def __init__(self, project: Project, memory: str = "1GB") -> None:
        self._project, self._engines, self._pins = project, Engines(memory), Pins(project.storage)
        self._shelf, self._lookups = project.shelf, Lookups()
        self._looking, self._lock = threading.Lock(), threading.Lock()
        self._newest: tuple[float, Cut] | None = None
        self._schemas: dict[str, pa.Schema] = {}
        self._kinds: dict[str, Mapping[str, duckdb.sqltypes.DuckDBPyType]] = {}
        self._older: OrderedDict[Key, Mapping[ViewName, Pinned]] = OrderedDict()

    def close(self) -> None:
        """Ends the engines, and lets go of all cuts."""
        self._engines.close()
        self._pins.close()

    def newest(self) -> Cut:
        with self._looking:  # a table of deltalake serves one thread at a time
            cuts = self._project.cuts
            patience = LOOK_SECONDS if cuts.unchanged() else 0.0 if self._project.storage.local else FRESH_SECONDS
            if self._newest is None or time.monotonic() - self._newest[0] > patience:
                self._newest = (time.monotonic(), self._project.cut(create=True))
            return self._newest[1]

    def held(self, cut: Cut, seq: int | None = None) -> AbstractContextManager[None]:
        """Keeps a cut from clean-up."""
        return self._pins.held(cut, seq)

    def reading(self, query: Query, cut: Cut, at: int | dt.datetime | None) -> Reading:
        """What a query reads in that cut, or an error that names the views there are."""
        if not cut.number and query.tables:
            raise HistoryGone("nothing is maintained yet", "run 'headwater run': it loads the views")
        named = [cut.named(name) for name in query.tables]
        if query.perhaps:
            there = {name.lower(): name for name in cut.views}
            named += [there[name.lower()] for name in query.perhaps if name.lower() in there]
        views = tuple(sorted(set(named)))
        if not views:
            return Reading(cut, None, {}, query.catalogued)
        seq = state_in(cut_by(self._log(), cut, at), views, at) if isinstance(at, dt.datetime) else at
        return Reading(cut, seq, self._pinned(cut, views, seq), query.catalogued)

    def asked(
        self, query: Query, reading: Reading, values: Sequence[str | None] = (), oids: Sequence[int] = ()
    ) -> Batches:
        """The rows of a query, as they are made."""
        found = self._plain(query, reading, values, oids)
        return found or self._computed(reading, query.bound(values, oids))

    def schema(self, cut: Cut, name: ViewName) -> pa.Schema:
        """The columns of a view's changelog."""
        state = cut.views[name]
        return self._columns(log_folder(state.folder), state.version)

    def _pinned(self, cut: Cut, views: tuple[ViewName, ...], seq: int | None) -> Mapping[ViewName, Pinned]:
        if seq is None:
            return pinned_views(cut, self._project.cuts, views, None)
        key: Key = (cut.number, seq, views)
        with self._lock:
            found = self._older.get(key)
        if found is None:
            found = pinned_views(cut, self._log(), views, seq)
            with self._lock:
                self._older[key] = found
                while len(self._older) > OLDER:
                    self._older.popitem(last=False)
        return found

    def _plain(
        self, query: Query, reading: Reading, values: Sequence[str | None], oids: Sequence[int]
    ) -> Batches | None:
        """The answer to a plain question, if it is one that needs no engine."""
        plain = query.plain
        if plain is None:
            return None
        ((name, view),) = reading.views.items()
        schema = self._columns(view.folder, view.version)
        columns = plain.shown(_without(schema))
        if not columns or view.folded:
            return None
        keys = plain.keys(schema, values, oids)
        if keys is None or (keys and not self._lookups.often(view.folder, tuple(sorted(keys)))):
            return None
        contents = self._shelf.contents(view.folder, view.version)
        if contents.many_back:
            return None
        names = list(dict.fromkeys(name for name, _ in columns))
        known = self._types(reading, name)
        shown = [(column, said, known[column]) for column, said in columns]
        if not keys:
            if plain.limit is None:
                self._lookups.whole(view.folder, contents)
            state = State(schema, int(view.seq), lambda: contents)
            return Found(shown, _without(schema), state.rows(names), plain.limit)
        rows = self._lookups.found(contents, int(view.seq), keys, names)
        return None if rows is None else Found(shown, _without(schema), iter(rows.to_batches()), plain.limit)

    def _computed(self, reading: Reading, sql: str) -> Batches:
        folders = tuple((n, s.folder) for n, s in sorted(reading.cut.views.items())) if reading.catalogued else None
        key: Key = (folders, *((name, v.folder, v.version, v.seq) for name, v in reading.views.items()))
        lent = self._engines.idle(key)
        if lent is None:
            views = {str(name): self._known(view) for name, view in reading.views.items()}
            known = {str(n): self.schema(reading.cut, n) for n in reading.cut.views} if reading.catalogued else None
            lent = self._engines.lend(Wanted(key, views, known))
        return Computed(lent.connection, sql, partial(self._engines.give_back, lent))

    def _known(self, view: Pinned) -> State | Folded:
        schema = self._columns(view.folder, view.version)
        contents = self._shelf.contents(view.folder, view.version)
        if not view.folded and not contents.many_back and len(schema) > 2:
            # a connection that waits for the next reader keeps nothing in memory: contents are looked for when it reads
            return State(schema, int(view.seq), partial(self._shelf.contents, view.folder, view.version))
        paths, system = [file.path for file in contents.files], self._project.storage.filesystem
        return Folded(ds.dataset(paths, schema=schema, format="parquet", filesystem=system), int(view.seq))

    def _types(self, reading: Reading, name: ViewName) -> Mapping[str, duckdb.sqltypes.DuckDBPyType]:
        """The engine's types of a view's columns."""
        folder = reading.views[name].folder
        if folder not in self._kinds:
            quoted = name.replace('"', '""')
            asked = self._computed(reading, f'SELECT * FROM "{quoted}"')
            self._kinds[folder] = dict(zip(asked.names, asked.kinds, strict=True))
            asked.close()
        return self._kinds[folder]

    def _log(self) -> CutLog:
        return CutLog(self._project.storage)  # of one's own: this may take long

    def _columns(self, folder: str, version: int) -> pa.Schema:
        """Of a changelog: they never change, a view that has others has another folder."""
        if folder not in self._schemas:
            table = open_table(self._project.storage, folder, version)
            self._schemas[folder] = pa.schema(table.schema().to_arrow())
        return self._schemas[folder]


def _without(schema: pa.Schema) -> pa.Schema:
    """The columns that readers see."""
    return pa.schema([field for field in schema if field.name not in (COUNT, SEQ)])


def halted(cut: Cut, views: Sequence[ViewName]) -> Iterator[tuple[str, str]]:
    """What readers of these views must be told, and what to do."""
    for name in views:
        state = cut.views[name]
        if state.state != "live":
            what = f"view {name} is halted: its rows are those of state {state.seq} (why: {state.reason})"
            yield what, state.fix or "when the cause is gone, 'headwater apply' loads it again"
