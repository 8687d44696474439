"""Watching the sources' tables: a view whose column was dropped, renamed or retyped is halted, with the reason."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from headwater.model.errors import HeadwaterError
from headwater.model.names import SourceName, TableName, ViewName
from headwater.model.schema import TableSchema
from headwater.runtime.catalog import SourceCatalog
from headwater.runtime.plans import ViewPlan

SECONDS = 5.0


class SchemaWatch:
    """Knows which views rely on which columns, looks at the sources from time to time, and names views to halt."""

    def __init__(self, catalog: SourceCatalog, plans: Mapping[ViewName, ViewPlan]) -> None:
        self._catalog, self._plans = catalog, plans
        self._halted: set[ViewName] = set()
        self._last: dict[SourceName, float] = {}

    def columns(self, source: SourceName) -> dict[TableName, tuple[str, ...]]:
        """The tables to poll at a source, with every column that Headwater can represent."""
        described = self._catalog.described(source)
        wanted = {
            t for n, p in self._plans.items() if n not in self._halted for t in p.view.tables if t.source == source
        }
        return {t: tuple(c.name for c in described[t].supported()) for t in sorted(wanted) if t in described}

    def check(self, source: SourceName) -> dict[ViewName, str]:
        """Compare what the views rely on with what the source has now; newly unfit views and why."""
        self._last[source] = time.monotonic()
        try:
            tables = self._catalog.refresh(source)
            capture = self._catalog.source(source).capture()
        except HeadwaterError:
            return {}  # not now: the poller reports that the source is away
        found: dict[ViewName, str] = {}
        for name, plan in self._plans.items():
            if name in self._halted:
                continue
            for table in plan.view.tables:
                if table.source != source:
                    continue
                why = _unfit(plan, table, tables.get(table))
                if not why and capture is None:
                    why = f"the capture at {source} was removed; run 'headwater setup', then 'headwater run'"
                elif not why and capture is not None and table not in capture.tables:
                    said = capture.broken.get(table, "its capture was removed")
                    why = f"{table}: {said}; run 'headwater setup', then 'headwater run' loads the view anew"
                if why:
                    found[name] = why
                    break
        self._halted |= set(found)
        return found

    def due(self, reachable: Collection[SourceName]) -> dict[ViewName, str]:
        """Check one of the reachable sources, if it is time."""
        now = time.monotonic()
        sources = {t.source for p in self._plans.values() for t in p.view.tables}
        for source in sorted(sources & set(reachable)):
            if now - self._last.setdefault(source, now) > SECONDS:
                return self.check(source)
        return {}


def _unfit(plan: ViewPlan, table: TableName, now: TableSchema | None) -> str:
    if now is None:
        return f"table {table} is gone"
    for field in plan.schemas[table]:
        column = now.column(field.name)
        if column is None:
            return f"column {field.name} of {table} was dropped or renamed"
        if column.type != field.type:
            return f"column {field.name} of {table} is now of type {column.declared}"
    return ""
