"""Watching the sources' tables: a view whose column was dropped, renamed or retyped is halted, with the reason."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from headwater.model.errors import HeadwaterError
from headwater.model.names import SourceName, TableName
from headwater.model.schema import TableSchema
from headwater.runtime.catalog import SourceCatalog
from headwater.runtime.plans import ViewPlan

SECONDS = 5.0


class SchemaWatch:
    """Knows which views rely on which columns, looks at the sources from time to time, and names views to halt. Views
    are known by their fingerprints: one that is being replaced has two."""

    def __init__(self, catalog: SourceCatalog, plans: Iterable[ViewPlan]) -> None:
        self._catalog = catalog
        self._plans: dict[str, ViewPlan] = {}
        self._halted: set[str] = set()
        self._last: dict[SourceName, float] = {}
        self.add(plans)

    def add(self, plans: Iterable[ViewPlan]) -> None:
        """Watch the tables of these views too."""
        for plan in plans:
            self._plans[plan.fingerprint] = plan
            self._halted.discard(plan.fingerprint)

    def limit_to(self, plans: Iterable[ViewPlan]) -> None:
        """Watch the tables of these views only."""
        wanted = {plan.fingerprint for plan in plans}
        self._plans = {mark: plan for mark, plan in self._plans.items() if mark in wanted}

    def columns(self, source: SourceName) -> dict[TableName, tuple[str, ...]]:
        """The tables to poll at a source, with every column that Headwater can represent."""
        described = self._catalog.described(source)
        wanted = {
            t
            for mark, plan in self._plans.items()
            if mark not in self._halted
            for t in plan.view.base_tables
            if t.source == source
        }
        return {t: tuple(c.name for c in described[t].supported()) for t in sorted(wanted) if t in described}

    def check(self, source: SourceName) -> dict[str, str]:
        """Compare what the views rely on with what the source has now; newly unfit views and why."""
        self._last[source] = time.monotonic()
        try:
            tables = self._catalog.refresh(source)
            capture = self._catalog.source(source).capture()
        except HeadwaterError:
            return {}  # not now: the poller reports that the source is away
        found: dict[str, str] = {}
        for mark, plan in self._plans.items():
            if mark in self._halted:
                continue
            for table in plan.view.base_tables:
                if table.source != source:
                    continue
                why = _unfit(plan, table, tables.get(table))
                if not why and capture is None:
                    why = f"the capture at {source} was removed; run 'headwater setup', then 'headwater apply'"
                elif not why and capture is not None and table not in capture.tables:
                    said = capture.broken.get(table, "its capture was removed")
                    why = f"{table}: {said}; run 'headwater setup', then 'headwater apply' builds the view anew"
                if why:
                    found[mark] = why
                    break
        self._halted |= set(found)
        return found

    def due(self, reachable: Collection[SourceName]) -> dict[str, str]:
        """Check one of the reachable sources, if it is time."""
        now = time.monotonic()
        sources = {t.source for p in self._plans.values() for t in p.view.base_tables}
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
