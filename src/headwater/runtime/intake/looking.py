"""Looks at sources as they are now, through connections of its own: nothing else waits for them."""

from __future__ import annotations

from headwater.model.names import SourceName
from headwater.runtime.intake.schema_watch import Present
from headwater.runtime.project.catalog import SourceCatalog


class Looking:
    """Called in the watch's thread. What a source says of its tables is news to the project's catalog too."""

    def __init__(self, catalog: SourceCatalog) -> None:
        self._catalog, self._own = catalog, catalog.another()

    def __call__(self, source: SourceName) -> Present:
        self._own.adopt(self._catalog.config)
        adapter, tables = self._own.source(source), self._own.refresh(source)
        self._catalog.learned(source, tables)
        return Present(adapter, tables, adapter.capture())

    def close(self) -> None:
        self._own.close()
