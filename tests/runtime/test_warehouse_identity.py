"""A warehouse is one whole: removed under a run, or put together from parts, it is refused, never counted twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.model.errors import WarehouseError
from runtime.small_project import Project, rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

VIEWS = "CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n, SUM(x) AS total FROM db.t;"
TABLE = "CREATE TABLE t (x INTEGER); INSERT INTO t VALUES (1), (2), (3)"


def test_a_warehouse_removed_under_a_run_ends_it_and_the_next_run_counts_once(
    tmp_path: Path, spark: SparkSession
) -> None:
    project = Project(tmp_path / "p", VIEWS, {"db": TABLE})
    warehouse = project.loaded()
    with warehouse.engine() as engine:
        engine.start(warehouse.plans())
        engine.catch_up()
        shutil.rmtree(project.folder / "warehouse")
        project.execute("db", "INSERT INTO t VALUES (4)")
        with pytest.raises(WarehouseError, match="removed or replaced under this run"):
            engine.catch_up()
    assert not (project.folder / "warehouse" / "journal").exists()
    again = project.open()
    again.setup()
    again.run(until_caught_up=True)
    assert rows(again, "n") == [(4, 10)]


def test_a_journal_without_its_description_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    project = Project(tmp_path / "p", VIEWS, {"db": TABLE})
    warehouse = project.loaded()
    project.execute("db", "INSERT INTO t VALUES (4)")
    warehouse.run(until_caught_up=True)
    (project.folder / "warehouse" / "headwater.json").unlink()
    with pytest.raises(WarehouseError, match="parts of a warehouse"):
        project.open().run(until_caught_up=True)
    shutil.rmtree(project.folder / "warehouse")  # as the error says
    again = project.open()
    again.setup()
    again.run(until_caught_up=True)
    assert rows(again, "n") == [(4, 10)]


@pytest.mark.parametrize("part", ["journal", "cuts"])
def test_parts_of_two_warehouses_are_refused(tmp_path: Path, spark: SparkSession, part: str) -> None:
    one, other = (Project(tmp_path / name, VIEWS, {"db": TABLE}) for name in ("one", "other"))
    for project in (one, other):
        warehouse = project.loaded()
        project.execute("db", "INSERT INTO t VALUES (4)")
        warehouse.run(until_caught_up=True)
    shutil.rmtree(one.folder / "warehouse" / part)
    shutil.copytree(other.folder / "warehouse" / part, one.folder / "warehouse" / part)
    with pytest.raises(WarehouseError, match="belongs to another warehouse"):
        one.open().run(until_caught_up=True)


def test_a_journal_that_was_lost_is_noticed(tmp_path: Path, spark: SparkSession) -> None:
    project = Project(tmp_path / "p", VIEWS, {"db": TABLE})
    warehouse = project.loaded()
    project.execute("db", "INSERT INTO t VALUES (4)")
    warehouse.run(until_caught_up=True)
    shutil.rmtree(project.folder / "warehouse" / "journal")
    with pytest.raises(WarehouseError, match="do not belong together"):
        project.open().run(until_caught_up=True)
