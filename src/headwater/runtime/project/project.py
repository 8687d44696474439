"""A project, opened: its settings, its sources, its warehouse, and the views its SQL files define."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.errors import HistoryGone
from headwater.model.names import SourceName, TableName, ViewName
from headwater.runtime.project.catalog import SourceCatalog, define_views
from headwater.runtime.project.config import Config
from headwater.runtime.project.ownership import owned
from headwater.storage import Storage
from headwater.warehouse.contents import Shelf
from headwater.warehouse.cuts import Cut, CutLog
from headwater.warehouse.format import check_format, claim, identity_of

if TYPE_CHECKING:  # the parser is imported by those who parse: reading must answer at once
    from headwater.algebra.view import ViewDefinition
    from headwater.hub.serving import OpenHub


class Project:
    """What reading, checking and maintaining share."""

    def __init__(self, config: Config) -> None:
        self.storage = Storage(config.warehouse)
        self.config = owned(config, identity_of(self.storage), self.storage)
        self.cuts = CutLog(self.storage)
        self.catalog = SourceCatalog(self.config, self.open_hub)
        self.shelf = Shelf(self.storage)
        self._hub: OpenHub | None = None
        self._views: dict[ViewName, ViewDefinition] | None = None

    def claim(self) -> None:
        """Give the warehouse its identity, by which the sources know us: before anything is installed or written."""
        self.config = owned(self.config, claim(self.storage), self.storage)
        self.catalog.adopt(self.config)

    def open_hub(self) -> None:
        """Let agents connect, unless another process of the project lets them already."""
        if self.config.hub is None or self._hub is not None:
            return
        from headwater.hub.serving import open_hub

        self._hub = open_hub(self.storage, claim(self.storage), self.config.hub)

    def close(self) -> None:
        """Let go of the sources, and of the agents."""
        self.catalog.close()
        if self._hub is not None:
            self._hub.close()
            self._hub = None

    def views(self) -> dict[ViewName, ViewDefinition]:
        """The views of the project's SQL files, resolved against its sources."""
        if self._views is None:
            self._views = define_views(self.config, self.catalog, self.storage)
        return self._views

    def tables(self) -> dict[SourceName, list[TableName]]:
        """The tables that views use, per source."""
        result: dict[SourceName, list[TableName]] = {}
        for view in self.views().values():
            for table in view.captured_tables:
                known = result.setdefault(table.source, [])
                if table not in known:
                    known.append(table)
        return {source: sorted(tables) for source, tables in sorted(result.items())}

    def cut(self, create: bool = False) -> Cut:
        """The newest cut; an error where nothing has been maintained yet."""
        there = check_format(self.storage, create=False)
        cut = self.cuts.newest() if there else Cut()
        if not cut.number and not create:
            raise HistoryGone(f"there is nothing in the warehouse {self.storage.url} yet", "run 'headwater run' first")
        return cut
