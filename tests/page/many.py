"""Two hundred views over fifty sources, written by hand: what a page must not stumble over.

Names are long, and of any script.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cli.small import small_project
from headwater.model.names import VIEWS, Seq, SourceName, TableName, ViewName
from headwater.runtime.project.about import About
from headwater.runtime.report import FILE, told
from headwater.runtime.snapshot import FreshnessNow, GroupNow, ManagerNow, RowNow, SourceNow
from headwater.storage import Storage
from headwater.storage.records import encode
from headwater.warehouse.cuts import CutLog
from headwater.warehouse.lock import Lock
from page.told import BUCKETS, snapshot

VIEWS_MANY, SOURCES_MANY = 200, 50
LONGEST = "w" * 120
ODD = ("Überschüsse @ heute", "売上_日別", "naïve 'quoted' \"view\"", "مبيعات", LONGEST)


def names() -> list[str]:
    return [*ODD, *(f"view_{n:03}" for n in range(VIEWS_MANY - len(ODD)))]


def sources() -> list[str]:
    return [f"region_{n:02}_of_a_company_with_a_long_name" for n in range(SOURCES_MANY)]


def many_project(folder: Path) -> Path:
    """They share one table's files; every fifth view reads another one."""
    small_project(folder)
    settings = "".join(f'[sources.{name}]\nurl = "sqlite:///{name}.db"\n\n' for name in sources())
    (folder / "headwater.toml").write_text(settings)
    storage = Storage(str(folder / "warehouse"))
    cuts = CutLog(storage)
    cut, views = cuts.newest(), {}
    state = cut.views[ViewName("people")]
    for n, name in enumerate(names()):
        of = sources()[n % SOURCES_MANY]
        reads = {TableName(SourceName(of), "people"): {}, TableName(SourceName(sources()[n // 5]), "orders"): {}}
        if n % 5 == 4:
            reads = {TableName(VIEWS, names()[n - 1]): {}}
        sql = f"SELECT id, name FROM {of}.people"
        about = About(ViewName(name), sql, f"CREATE MATERIALIZED VIEW v AS {sql};\n", "views/all.sql", reads)
        storage.put(f"views/many/{n}/view.json", about.to_json())
        (folder / f"warehouse/views/many/{n}/log").symlink_to(folder.absolute() / f"warehouse/{state.folder}/log")
        own = tuple(sorted({t.source for t in reads if t.source != VIEWS}))
        views[ViewName(name)] = replace(state, folder=f"views/many/{n}", sources=own)
    cuts.append(replace(cut, number=cut.number + 1, views=views))
    return folder


@contextmanager
def many_running(folder: Path) -> Iterator[None]:
    """As if a run maintained them, one of them late."""
    storage, now = Storage(str(folder / "warehouse")), time.time()
    fresh = FreshnessNow(0.4, None, 12.5, BUCKETS)
    managers = [ManagerNow(name, True, 5, "", now - 2, 7 * n, 1, 40, fresh) for n, name in enumerate(names())]
    managers[7] = replace(managers[7], computed=3, waits=f"view {LONGEST}", freshness=replace(fresh, since=now - 300))
    keys = {f"k{n}": name for n, name in enumerate(names()[:40])}
    rows = [RowNow(n, n, ["a.people"], now - n, dict.fromkeys(keys, ("w", 0)), []) for n in range(4, 34)]
    facts = {
        "managers": managers,
        "sources": [SourceNow(name, "ok", "", now - 60, "3", "5", 5, 0.4) for name in sources()],
        "groups": [GroupNow("Painting", sources(), keys, rows, len(rows), 0)],
        "numbered": Seq(33),
    }
    with Lock(storage, "headwater run"):
        storage.put(FILE, encode(told(snapshot(now, **facts))))
        yield
