"""What is kept beside views, on the engine: every state is exact, whatever is kept; a source that is not to be asked
may be gone."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater
from headwater.runtime.engine import Engine
from runtime.small_project import Project

pytestmark = pytest.mark.spark

DATABASES = {
    "a": "CREATE TABLE r (id INTEGER PRIMARY KEY, k INTEGER, x INTEGER); CREATE INDEX r_k ON r (k)",
    "b": "CREATE TABLE s (id INTEGER PRIMARY KEY, k INTEGER, y INTEGER); CREATE INDEX s_k ON s (k);"
    "CREATE TABLE t (id INTEGER PRIMARY KEY, y INTEGER, z TEXT); CREATE INDEX t_y ON t (y)",
    "c": "CREATE TABLE u (id INTEGER PRIMARY KEY, z TEXT, w INTEGER); CREATE INDEX u_z ON u (z)",
}
TABLES = {"r": "a", "s": "b", "t": "b", "u": "c"}
JOINED = (
    "SELECT r.id, r.x, s.y, t.z, u.w FROM a.r JOIN b.s ON r.k = s.k JOIN b.t ON s.y = t.y JOIN c.u ON t.z = u.z"
    " WHERE r.x < u.w AND s.id <> 3"
)
GROUPED = "SELECT s.k, COUNT(*) AS n, MAX(r.x) AS top FROM a.r JOIN b.s ON r.k = s.k JOIN b.t ON s.y = t.y GROUP BY s.k"
OUTER = "SELECT r.id, s.y FROM a.r LEFT JOIN b.s ON r.k = s.k AND s.y > 1"
VIEWS = f"""
CREATE MATERIALIZED VIEW plainly AS {JOINED};
CREATE MATERIALIZED VIEW equal2 WITH (auxiliary = 'equal', groups = 2) AS {JOINED};
CREATE MATERIALIZED VIEW often3 WITH (auxiliary = 'frequency', groups = 3) AS {JOINED};
CREATE MATERIALIZED VIEW every_one WITH (auxiliary = 'all') AS {JOINED};
CREATE MATERIALIZED VIEW grouped WITH (auxiliary = 'equal', groups = 2) AS {GROUPED};
CREATE MATERIALIZED VIEW outer_all WITH (auxiliary = 'all') AS {OUTER};
"""


def change(project: Project, chance: random.Random, names: str = "rstu") -> None:
    table = chance.choice(names)
    number, k, y, z = chance.randint(1, 5), chance.choice([1, 2, 3, None]), chance.randint(1, 3), chance.choice("xy")
    values = {"r": (k, chance.randint(0, 4)), "s": (k, y), "t": (y, z), "u": (z, chance.randint(0, 5))}[table]
    said = ", ".join("NULL" if v is None else repr(v) for v in (number, *values))
    if chance.random() < 0.3:
        project.execute(TABLES[table], f"DELETE FROM {table} WHERE id = {number}")
    else:
        project.execute(TABLES[table], f"INSERT OR REPLACE INTO {table} VALUES ({said})")


def recomputed(folder: Path, query: str) -> Counter[tuple[Any, ...]]:
    """By SQLite itself, over all files at once."""
    with sqlite3.connect(":memory:") as db:
        for name in DATABASES:
            db.execute(f"ATTACH '{folder / name}.db' AS {name}")
        return Counter(db.execute(query).fetchall())


def shown(warehouse: headwater.Warehouse, view: str, at: int | None = None) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in warehouse.rows(view, at).to_pylist())


QUERIES = {
    **dict.fromkeys(("plainly", "equal2", "often3", "every_one"), JOINED),
    "grouped": GROUPED,
    "outer_all": OUTER,
}


@pytest.mark.soak
def test_every_state_is_the_same_whatever_is_kept(tmp_path: Path, spark: SparkSession) -> None:
    project, chance = Project(tmp_path / "p", VIEWS, DATABASES), random.Random(3)
    for _ in range(30):
        change(project, chance)
    warehouse = project.loaded()
    kept = {view.name: view.kept_for for view in warehouse.status().views if view.kept_for}
    assert {name: f for name, f in kept.items() if name.startswith(("equal2", "grouped"))} == {
        "equal2__1": "equal2", "equal2__2": "equal2", "grouped__1": "grouped", "grouped__2": "grouped",
    }  # fmt: skip
    assert [n for n in kept if n.startswith("often3")] == ["often3__1", "often3__2", "often3__3"]
    assert {n for n, f in kept.items() if f.startswith("views over")} == {"a__r", "b__s", "b__t", "c__u"}
    for _ in range(2):  # the second run reads what the first has stored
        for _ in range(25):
            change(project, chance)
        project.open().run(until_caught_up=True)
        for name, query in QUERIES.items():
            assert shown(warehouse, name) == recomputed(project.folder, query), name
    cut = warehouse.cut()
    for at in range(cut.views["plainly"].horizon, cut.views["plainly"].seq + 1, 4):
        wanted = shown(warehouse, "plainly", at)
        for name in ("equal2", "often3", "every_one"):
            assert shown(warehouse, name, at) == wanted, f"{name} at {at}"
    assert all(checked.ok for checked in warehouse.verify())
    assert not warehouse.halted()


def test_a_source_that_is_not_asked_may_be_gone(tmp_path: Path, spark: SparkSession) -> None:
    """Its file is taken away after the load: views over it go on with what the others do, exactly; when it is back,
    what it did meanwhile is taken in."""
    views = f"CREATE MATERIALIZED VIEW j AS {JOINED};\nCREATE MATERIALIZED VIEW o AS {QUERIES['outer_all']};"
    project, chance = Project(tmp_path / "p", views, DATABASES), random.Random(4)
    toml = project.folder / "headwater.toml"
    toml.write_text(toml.read_text().replace('url = "sqlite:///b.db"\n', 'url = "sqlite:///b.db"\nask = false\n'))
    for _ in range(30):
        change(project, chance)
    warehouse = project.loaded()
    away = tmp_path / "away"
    away.mkdir()
    for file in project.folder.glob("b.db*"):
        file.rename(away / file.name)
    for _ in range(20):
        change(project, chance, "ru")
    with running(project) as gone_on:
        for file in away.glob("b.db*"):
            (project.folder / file.name).write_bytes(file.read_bytes())  # for the one who computes what must be shown
        wanted = {name: recomputed(project.folder, QUERIES[q]) for name, q in (("j", "plainly"), ("o", "outer_all"))}
        for file in project.folder.glob("b.db*"):
            file.unlink()
        gone_on(lambda: all(shown(warehouse, name) == rows for name, rows in wanted.items()))
    for file in away.glob("b.db*"):
        file.rename(project.folder / file.name)
    for _ in range(20):
        change(project, chance)
    project.open().run(until_caught_up=True)
    assert shown(warehouse, "j") == recomputed(project.folder, JOINED)
    assert shown(warehouse, "o") == recomputed(project.folder, QUERIES["outer_all"])
    assert not warehouse.halted()


def test_views_that_were_loaded_before_say_what_to_do(tmp_path: Path, spark: SparkSession) -> None:
    project = Project(tmp_path / "p", f"CREATE MATERIALIZED VIEW j AS {JOINED};", DATABASES)
    project.loaded()
    toml = project.folder / "headwater.toml"
    toml.write_text(toml.read_text().replace('url = "sqlite:///b.db"\n', 'url = "sqlite:///b.db"\nask = false\n'))
    project.execute("a", "INSERT INTO r VALUES (9, 1, 1)")
    warehouse = project.open()
    warehouse.run(until_caught_up=True)
    assert "source b is not to be asked" in warehouse.halted()["j"]
    changes = warehouse.plan_apply()
    assert {c.view: c.action for c in changes.changes} == {"b__s": "create", "b__t": "create", "j": "replace"}
    warehouse.apply(changes)
    assert not warehouse.halted()
    assert shown(warehouse, "j") == recomputed(project.folder, JOINED)


@contextmanager
def running(project: Project) -> Iterator[Callable[[Callable[[], bool]], None]]:
    """A run in a thread of its own; what is yielded waits until something holds."""
    engines: list[Engine] = []
    thread = threading.Thread(target=lambda: project.open().run(started=engines.append))
    thread.start()

    def until(holds: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < end, "it did not come"
            assert thread.is_alive()
            time.sleep(0.2)

    try:
        yield until
    finally:
        for engine in engines:
            engine.stop()
        thread.join()
