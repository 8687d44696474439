"""One view in full: its SQL, its plan, its columns, how many rows and bytes, what was verified.

Rows are counted once and then by what changed: rows(b) = rows(a) + the sum of the counts of (a, b].
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import HeadwaterError, UnknownName
from headwater.model.names import SourceName, TableName, ViewName
from headwater.model.schema import TableSchema
from headwater.page import cells
from headwater.page.look import Look, Now, maintained
from headwater.page.trust import verdict_json
from headwater.runtime.project.remembered import recall
from headwater.storage import Storage
from headwater.warehouse.changes import Changelog, open_changelog
from headwater.warehouse.layout import log_folder

COUNTED = 5_000_000
"""Rows of a view with a longer history are not counted."""


class Sizes:
    """How many rows views have, counted by what changed since they were last asked for."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._known: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def rows(self, folder: str, log: Changelog, seq: int) -> int | None:
        """None where counting takes long."""
        with self._lock:
            at, rows = self._known.get(folder, (-1, 0))
            if seq < at:
                at, rows = -1, 0
            files = log.within(at, seq)
            if sum(file.rows for file in files) > COUNTED:
                return None
            for file in files:
                path = self._storage.path(f"{log.folder}/{file.name}")
                found = pq.read_table(
                    path, filesystem=self._storage.filesystem, columns=[COUNT, SEQ], partitioning=None
                )
                within = pc.and_(pc.greater(found.column(SEQ), at), pc.less_equal(found.column(SEQ), seq))
                rows += int(pc.sum(found.filter(within).column(COUNT)).as_py() or 0)
            self._known[folder] = (seq, rows)
            return rows


def detail(look: Look, sizes: Sizes, view: str) -> dict[str, Any]:
    now = look.now()
    name = maintained(now).named(view)
    state, about = now.cut.views[name], now.abouts.get(name)
    log = open_changelog(look.project.storage, log_folder(state.folder), state.version)
    sources, parents = now.reads(name)
    return {
        "name": name,
        "sql": (about.statement or about.sql) if about is not None else "",
        "file": about.file if about is not None else "",
        "tables": sorted(str(t) for t in about.identities) if about is not None else [],
        "sources": sources,
        "parents": parents,
        "readers": [other for other in now.cut.views if name in now.reads(other)[1]],
        "level": state.level,
        "every": state.every,
        "maintenance": about.maintenance if about is not None else "",
        "kept_for": about.kept_for if about is not None else "",
        "state": state.state,
        "seq": state.seq,
        "horizon": state.horizon,
        "rows": sizes.rows(state.folder, log, int(state.seq)),
        "bytes": log.bytes,
        "files": len(log.files),
        "columns": [c for c in cells.columns(log.schema) if c["name"] not in (COUNT, SEQ)],
        "plan": plan_lines(look, now, name),
        "verdicts": [verdict_json(v) for v in now.verdicts if v.view == name][-20:],
    }


def plan_lines(look: Look, now: Now, name: ViewName) -> list[str]:
    """The view's tree, drawn from what the warehouse remembers of its sources; nothing where it does not."""
    from headwater.algebra import in_order, parse_views
    from headwater.algebra.drawing import draw, draw_block
    from headwater.maintenance.keeping.choose import define_each

    statements = [(n, about.statement) for n, about in now.abouts.items() if about is not None and about.statement]
    wanted = _with_parents(now, name)
    try:
        parsed = [one for n, text in statements if n in wanted for one in parse_views(text, "view.json")]
        defined = define_each(in_order(parsed), _Remembered(look.project.storage, list(look.project.config.sources)))
    except HeadwaterError:
        return []
    view = defined.views.get(name)
    if view is None:
        return []
    return draw(view.tree) if view.tree is not None else draw_block(view)


def _with_parents(now: Now, name: ViewName) -> set[ViewName]:
    found, todo = {name}, [name]
    while todo:
        for parent in now.reads(todo.pop())[1]:
            if parent not in found and parent in now.cut.views:
                found.add(parent)
                todo.append(parent)
    return found


class _Remembered:
    """The sources' tables as the warehouse remembers them: nobody is asked."""

    def __init__(self, storage: Storage, sources: Sequence[SourceName]) -> None:
        self._storage, self._sources = storage, sources
        self._tables: dict[str, Mapping[TableName, TableSchema]] = {}

    def sources(self) -> Sequence[str]:
        return self._sources

    def tables(self, source: str) -> Sequence[str]:
        return [str(name).partition(".")[2] for name in self._of(source)]

    def resolve(self, source: str, schema: str, table: str) -> TableSchema:
        for name, found in self._of(source).items():
            if name.table.lower() == table.lower() and schema.lower() in ("", name.schema.lower()):
                return found
        raise UnknownName("table", table, self.tables(source), f"in source {source!r}")

    def _of(self, source: str) -> Mapping[TableName, TableSchema]:
        if source not in self._tables:
            self._tables[source] = recall(self._storage, SourceName(source))
        return self._tables[source]
