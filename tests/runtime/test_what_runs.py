"""What a run maintains: what there is, whatever became of its file, and what truly can be, whoever is away."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.model.errors import UsageError
from runtime.small_project import Project, rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

VIEWS = """
CREATE MATERIALIZED VIEW a AS SELECT x FROM one.t;
CREATE MATERIALIZED VIEW b WITH (consistency = 'strong') AS SELECT y FROM two.u;
CREATE MATERIALIZED VIEW over_a AS SELECT COUNT(*) AS n FROM a;
CREATE MATERIALIZED VIEW both AS SELECT x, y FROM one.t JOIN two.u ON x = y;
"""
TABLES = {"one": "CREATE TABLE t (x INTEGER); INSERT INTO t VALUES (1)", "two": "CREATE TABLE u (y INTEGER)"}


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession) -> Project:
    return Project(tmp_path / "p", VIEWS, TABLES)


class Notes:
    """Hears what a run says."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def loading(self, load: object) -> None: ...

    def running(self, look: object) -> None: ...

    def note(self, text: str) -> None:
        self.said.append(text)


def test_a_run_goes_on_with_views_whose_files_were_edited_or_deleted(project: Project) -> None:
    warehouse = project.loaded()
    state = warehouse.cut().views["over_a"].folder  # type: ignore[index] # a ViewName is a str
    project.write(
        "CREATE MATERIALIZED VIEW a AS SELECT x + 1 AS x FROM one.t; CREATE MATERIALIZED VIEW c AS SELECT y FROM two.u;"
    )
    project.execute("one", "INSERT INTO t VALUES (5)")
    notes = Notes()
    again = project.open()
    again.run(until_caught_up=True, progress=notes)
    said = "\n".join(notes.said)
    for words in ("a is another view there", "b is not there any more", "'headwater apply'"):
        assert words in said
    assert rows(again, "a") == [(1,), (5,)]
    assert rows(again, "over_a") == [(2,)]
    assert again.cut().views["over_a"].folder == state  # type: ignore[index] # a ViewName is a str
    assert rows(again, "c") == []
    again.run(until_caught_up=True, apply=True)
    assert sorted(again.cut().views) == ["a", "c"]
    assert rows(again, "a") == [(2,), (6,)]


def test_a_broken_file_in_views_keeps_nothing_from_being_maintained(project: Project) -> None:
    project.loaded()
    project.write("SELEC nonsense")
    project.execute("one", "INSERT INTO t VALUES (5)")
    notes = Notes()
    again = project.open()
    again.run(until_caught_up=True, progress=notes)
    assert any("views/ cannot be read" in note for note in notes.said)
    assert rows(again, "a") == [(1,), (5,)]


def test_a_run_begins_while_a_source_is_away(tmp_path: Path, spark: SparkSession) -> None:
    views = """
    CREATE MATERIALIZED VIEW a AS SELECT x FROM one.t;
    CREATE MATERIALIZED VIEW over_a AS SELECT COUNT(*) AS n FROM a;
    CREATE MATERIALIZED VIEW both AS SELECT z, y FROM three.v JOIN two.u ON z = y;
    """
    tables = {**TABLES, "three": "CREATE TABLE v (z INTEGER)"}
    project = Project(tmp_path / "p", views, tables)
    project.loaded()
    away = [(project.folder / f"two.db{end}", project.folder / f"away.db{end}") for end in ("", "-wal", "-shm")]
    for file, aside in away:
        if file.exists():
            file.rename(aside)
    project.execute("one", "INSERT INTO t VALUES (5)")
    project.execute("three", "INSERT INTO v VALUES (7)")
    again = project.open()
    again.catalog.recall_from(again.storage)
    with again.engine() as engine:
        again._start(engine, apply=False)
        until = time.monotonic() + 60
        while rows(again, "over_a") != [(2,)] and time.monotonic() < until:
            engine.step()
        assert rows(again, "over_a") == [(2,)]
        assert [s.name for s in engine.look().sources if s.state != "ok"] == ["two"]
        for file, aside in reversed(away):
            if aside.exists():
                aside.rename(file)
        project.execute("two", "INSERT INTO u VALUES (7)")
        engine.catch_up()
    assert {n: (s.state, s.reason) for n, s in again.cut().views.items() if s.state != "live"} == {}
    assert rows(again, "both") == [(7, 7)]


def test_one_view_is_rebuilt_with_those_that_read_it(project: Project) -> None:
    warehouse = project.loaded()
    before = {n: s.folder for n, s in warehouse.cut().views.items()}
    warehouse.rebuild(["a"])
    after = {n: s.folder for n, s in warehouse.cut().views.items()}
    assert {n for n in after if after[n] != before[n]} == {"a", "over_a"}
    with pytest.raises(UsageError, match="is not halted"):
        warehouse.resume(["a"])


def test_a_view_that_cannot_be_computed_goes_on_once_its_value_is_corrected(
    tmp_path: Path, spark: SparkSession
) -> None:
    project = Project(
        tmp_path / "p",
        """
        CREATE MATERIALIZED VIEW share AS SELECT k, 100 / n AS share FROM db.t;
        CREATE MATERIALIZED VIEW sums AS SELECT COUNT(*) AS c, SUM(share) AS s FROM share;
        CREATE MATERIALIZED VIEW plain AS SELECT k, n FROM db.t;
        """,
        {"db": "CREATE TABLE t (k INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t VALUES (1, 4)"},
    )
    warehouse = project.loaded()
    folder = warehouse.cut().views["share"].folder  # type: ignore[index] # a ViewName is a str
    for statement in ("INSERT INTO t VALUES (2, 5)", "INSERT INTO t VALUES (3, 0)", "INSERT INTO t VALUES (4, 10)"):
        project.execute("db", statement)
        warehouse.run(until_caught_up=True)
    states = warehouse.cut().views
    assert {n: s.state for n, s in states.items()} == {"share": "halted", "sums": "halted", "plain": "live"}
    assert "headwater resume share" in states["share"].fix  # type: ignore[index] # a ViewName is a str
    project.execute("db", "UPDATE t SET n = 20 WHERE k = 3")
    warehouse.run(until_caught_up=True)  # a run tries by itself, so does 'headwater resume'
    states = warehouse.cut().views
    assert {s.state for s in states.values()} == {"live"}, states
    assert rows(warehouse, "share") == [(1, 25.0), (2, 20.0), (3, 5.0), (4, 10.0)]
    assert rows(warehouse, "sums") == [(4, 60.0)]
    assert states["share"].folder == folder  # type: ignore[index] # a ViewName is a str
    assert all(v.ok for v in warehouse.verify())
    project.execute("db", "INSERT INTO t VALUES (5, 50)")
    warehouse.run(until_caught_up=True)
    assert rows(warehouse, "sums") == [(5, 62.0)]
