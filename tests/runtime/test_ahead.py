"""Batches of aggregations that are begun before the one that they build on is computed: every state is right, whoever
computes them, and also where a batch fails and is computed again while its successor waits."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.runtime.compute.ahead import RowsHere, RowsInSpark
from headwater.runtime.compute.computing import SparkCompute
from headwater.runtime.compute.failures import ProcessDied
from headwater.runtime.scheduling.work import BatchWork
from runtime.small_project import Project, rows

pytestmark = pytest.mark.spark

VIEWS = """
CREATE MATERIALIZED VIEW here AS
    SELECT k, COUNT(*) AS n, SUM(x) AS s, MIN(x) AS low, MEDIAN(x) AS mid FROM a.t GROUP BY k;
CREATE MATERIALIZED VIEW job AS SELECT k + 1 AS k, COUNT(*) AS n, SUM(x) AS s, MAX(x) AS high FROM a.t GROUP BY k + 1;
CREATE MATERIALIZED VIEW tree AS SELECT k, COUNT(*) AS n, COUNT(DISTINCT x) AS d
    FROM (SELECT k, x FROM a.t UNION ALL SELECT k, x FROM a.t) q GROUP BY k;
"""
MARK = "INSERT INTO _headwater_transaction(tag) VALUES (NULL)"
WRITES = 9


def expected(view: str, state: Counter[tuple[int, int]]) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for k in {k for k, _ in +state}:
        x = sorted(x for (key, x) in state.elements() if key == k)
        found.append(
            {
                "here": (k, len(x), sum(x), x[0], statistics.median(x)),
                "job": (k + 1, len(x), sum(x), x[-1]),
                "tree": (k, 2 * len(x), len(set(x))),
            }[view]
        )
    return sorted(found)


def test_every_state_is_right(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path / "p", VIEWS, {"a": "CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, x INTEGER)"})
    project.execute("a", *(f"INSERT INTO t VALUES ({n}, {n % 2}, {n % 5})" for n in range(8)))
    warehouse = project.loaded()
    at, state = warehouse.cut().seq, Counter((n % 2, n % 5) for n in range(8))
    written, begun, failed = 0, list[tuple[str, type]](), set[str]()
    real = SparkCompute.__call__

    def slowly(self: SparkCompute, work: BatchWork) -> Any:
        """Something happens while a batch is computed, so that another is begun; and once it fails then."""
        nonlocal written
        if work.behind:
            ahead = real(self, work)
            begun.append((str(work.view.name), type(ahead)))
            return ahead
        if written < WRITES:
            written += 1
            row, old = 100 + written, written - 1
            project.execute("a", MARK, f"INSERT INTO t VALUES ({row}, {row % 2}, {row % 7})")
            project.execute("a", MARK, f"UPDATE t SET x = x + 1 WHERE id IN ({old % 8}, {99 + written})")
        waited = time.monotonic() + 20
        while work.view.name not in {name for name, _ in begun} and time.monotonic() < waited:
            time.sleep(0.05)
        if work.view.name not in failed:
            failed.add(work.view.name)
            raise ProcessDied("a process died", "it is computed again")
        return real(self, work)

    monkeypatch.setattr(SparkCompute, "__call__", slowly)
    project.execute("a", MARK, "DELETE FROM t WHERE id = 3")
    project.open().run(until_caught_up=True)
    monkeypatch.undo()
    project.open().run(until_caught_up=True)
    assert {*begun} >= {("here", RowsHere), ("job", RowsInSpark), ("tree", RowsInSpark)}
    assert failed == {"here", "job", "tree"}
    seen = 0
    for transaction in warehouse.log(at + 1):
        for change in transaction["changes"]:
            state[change["row"]["k"], change["row"]["x"]] += change["count"]
        for view in ("here", "job", "tree"):
            assert sorted(rows(warehouse, view, transaction["seq"])) == expected(view, state), (view, transaction)
        seen += 1
    assert seen > written > 2
    assert all(verdict.ok for verdict in warehouse.verify())
