"""Checks reach back to the horizon, also after the sources have forgotten; one odd view keeps no other from them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from runtime.small_project import Project

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

VIEWS = """
CREATE MATERIALIZED VIEW a AS SELECT x FROM db.t;
CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM db.t;
CREATE MATERIALIZED VIEW u AS SELECT y FROM db.u;
"""
TABLES = "CREATE TABLE t (x INTEGER); INSERT INTO t VALUES (1); CREATE TABLE u (y INTEGER)"


def test_old_states_are_verified_after_the_sources_have_forgotten(tmp_path: Path, spark: SparkSession) -> None:
    project = Project(tmp_path / "p", VIEWS, {"db": TABLES})
    warehouse = project.loaded()
    for n in range(2, 6):
        project.execute("db", f"INSERT INTO t VALUES ({n})")
        warehouse.run(until_caught_up=True)
    with warehouse.engine() as engine:
        engine.start(warehouse.plans())
        engine.catch_up()
        for name, position in engine.cut.positions.items():  # what a run does ten seconds after a cut
            warehouse.catalog.source(name).trim(position)
    for seq in range(5):
        assert [(v.seq, v.ok, v.problem) for v in warehouse.verify(["a", "n"], at=seq)] == [(seq, True, "")] * 2


def test_a_view_that_does_not_resolve_keeps_no_other_from_being_checked(tmp_path: Path, spark: SparkSession) -> None:
    project = Project(tmp_path / "p", VIEWS, {"db": TABLES})
    warehouse = project.loaded()
    project.execute("db", "DROP TABLE u")
    warehouse = project.open()
    found = {v.view: (v.ok, v.problem) for v in warehouse.verify()}
    assert found["a"] == found["n"] == (True, "")  # type: ignore[index] # a ViewName is a str
    assert not found["u"][0]  # type: ignore[index] # a ViewName is a str
    assert "unknown table" in found["u"][1]  # type: ignore[index] # a ViewName is a str
