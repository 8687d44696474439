"""A project, opened: its settings, its sources, its warehouse, and the views its SQL files define."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from headwater.model.errors import HistoryGone
from headwater.model.names import SourceName, TableName, ViewName
from headwater.runtime.project.config import Config
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, CutLog
from headwater.warehouse.format import check_format, claim, identity_of

if TYPE_CHECKING:  # sources and the parser are imported by those who use them: reading must answer at once
    from headwater.algebra.view import ViewDefinition
    from headwater.hub.serving import OpenHub
    from headwater.runtime.project.catalog import SourceCatalog
    from headwater.warehouse.contents import Shelf


class Project:
    """What reading, checking and maintaining share."""

    def __init__(self, config: Config) -> None:
        self.storage = Storage(config.warehouse)
        self._config, self._identity = config, identity_of(self.storage)
        self.cuts = CutLog(self.storage)
        self._hub: OpenHub | None = None
        self._views: dict[ViewName, ViewDefinition] | None = None

    @cached_property
    def config(self) -> Config:
        """The settings, with sources that know whom they serve."""
        from headwater.runtime.project.ownership import owned

        return owned(self._config, self._identity, self.storage)

    @cached_property
    def shelf(self) -> Shelf:
        """What whole views are read from."""
        from headwater.warehouse.contents import Shelf

        return Shelf(self.storage)

    @cached_property
    def catalog(self) -> SourceCatalog:
        """The sources, connected by who asks them."""
        from headwater.runtime.project.catalog import SourceCatalog

        return SourceCatalog(self.config, self.open_hub)

    def claim(self) -> None:
        """Give the warehouse its identity, by which the sources know us: before anything is installed or written."""
        from headwater.runtime.project.ownership import owned

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
        if "catalog" in self.__dict__:
            self.catalog.close()
        if self._hub is not None:
            self._hub.close()
            self._hub = None

    def views(self) -> dict[ViewName, ViewDefinition]:
        """The views of the project's SQL files, resolved against its sources."""
        from headwater.runtime.project.catalog import define_views

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
