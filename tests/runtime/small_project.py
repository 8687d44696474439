"""Small projects over SQLite files, for tests of the edges: each names its own tables and views."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import headwater
from runtime.world import Sqlite


class Project:
    """A folder with a headwater.toml, databases and views."""

    def __init__(self, folder: Path, views: str, databases: Mapping[str, str], **run: object) -> None:
        self.folder = folder
        (folder / "views").mkdir(parents=True)
        self.write(views)
        self._databases = list(databases)
        self.configure(**run)
        for name, script in databases.items():
            self.execute(name, "PRAGMA journal_mode = WAL", *filter(str.strip, script.split(";")))

    def configure(self, **run: object) -> None:
        sources = "".join(f'[sources.{name}]\nurl = "sqlite:///{name}.db"\n' for name in self._databases)
        settings = "".join(f"{key} = {value!r}\n" for key, value in run.items()).replace("'", '"')
        (self.folder / "headwater.toml").write_text(f"{sources}[run]\npoll_seconds = 0.05\n{settings}")

    def write(self, views: str) -> None:
        (self.folder / "views" / "all.sql").write_text(views)

    def open(self) -> headwater.Warehouse:
        return headwater.open(self.folder)

    def execute(self, database: str, *statements: str) -> None:
        with Sqlite(self.folder / f"{database}.db") as db:
            for statement in statements:
                db.execute(statement)

    def loaded(self) -> headwater.Warehouse:
        """Set up, loaded, caught up."""
        warehouse = self.open()
        warehouse.setup()
        warehouse.run(until_caught_up=True)
        return warehouse


def rows(warehouse: headwater.Warehouse, view: str, at: int | None = None) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in warehouse.rows(view, at).to_pylist()]
