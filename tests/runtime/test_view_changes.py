"""PVM's ViewChanges are Spark tasks, one job a batch; and the published algorithms maintain views over PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

import headwater
from headwater.cli.recording import recorded
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.runtime.reading.recording import record
from postgres_server import PostgresServer
from runtime.small_project import Project, rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SELECT = "SELECT r.id AS r, s.id AS s, t.w FROM a.r JOIN b.s ON s.k = r.k JOIN c.t ON t.j = s.j"
GROUPS = "SELECT s.k, COUNT(*) AS n FROM a.r JOIN b.s ON s.k = r.k JOIN c.t ON t.j = s.j GROUP BY s.k"
TABLES = {"a": "r (id INTEGER PRIMARY KEY, k INTEGER)", "b": "s (id INTEGER PRIMARY KEY, k INTEGER, j INTEGER)",
          "c": "t (id INTEGER PRIMARY KEY, j INTEGER, w TEXT)"}  # fmt: skip
INDEXES = {"a": ["r (k)"], "b": ["s (k)", "s (j)"], "c": ["t (j)"]}
KEYS = 40
"""So many rows of a table that questions ask for keys."""


def view(name: str, options: str, select: str = SELECT) -> str:
    return f"CREATE MATERIALIZED VIEW {name} WITH ({options}) AS {select};\n"


PVM = "maintenance = 'pvm', consistency = 'convergent', parallel"
CC = "maintenance = 'pvm-cc', parallel"


def statements(source: str) -> list[str]:
    table = TABLES[source].split()[0]
    values = {"a": "({0}, {0})", "b": "({0}, {0}, {0})", "c": "({0}, {0}, 'x')"}[source]
    filled = ", ".join(values.format(n) for n in range(1, KEYS + 1))
    return [
        f"CREATE TABLE {TABLES[source]}",
        *(f"CREATE INDEX {source}{n} ON {columns}" for n, columns in enumerate(INDEXES[source])),
        f"INSERT INTO {table} VALUES {filled}",
    ]


def history(updates: int) -> list[tuple[str, str]]:
    """Single-row transactions that meet each other, of the three sources in turn; every fourth round takes back."""
    found = []
    for n in range(updates):
        own, key = KEYS + 1 + n, n % 5 + 1
        delete = n % 12 in (9, 10, 11)
        found.append(
            {
                0: ("a", f"DELETE FROM r WHERE id = {own - 9}" if delete else f"INSERT INTO r VALUES ({own}, {key})"),
                1: ("b", f"UPDATE s SET j = {key} WHERE id = {own - 9}" if delete
                    else f"INSERT INTO s VALUES ({own}, {key}, {key})"),
                2: ("c", f"UPDATE t SET w = 'y' WHERE id = {own - 9}" if delete
                    else f"INSERT INTO t VALUES ({own}, {key}, 'z')"),
            }[n % 3]
        )  # fmt: skip
    return found


class Jobs:
    """The Spark jobs of batches: how many tasks each of their stages has."""

    def __init__(self, spark: SparkSession, pool: str) -> None:
        self._tracker, self._store = spark.sparkContext.statusTracker(), spark.sparkContext._jsc.sc().statusStore()
        self._pool, self._before = pool, self._known()

    def _known(self) -> set[int]:
        jobs = self._store.jobsList(None)
        return {jobs.apply(n).jobId() for n in range(jobs.size())}

    def since(self) -> list[list[int]]:
        """Of the jobs of this view's pool since then: tasks by stage."""
        found = []
        for job in sorted(self._known() - self._before):
            stages = sorted(self._tracker.getJobInfo(job).stageIds)
            if all(self._store.lastStageAttempt(s).schedulingPool() == self._pool for s in stages):
                found.append([self._tracker.getStageInfo(stage).numTasks for stage in stages])
        return found


def judged(warehouse: headwater.Warehouse, name: str) -> frozenset[Consistency]:
    return check(recorded(record(warehouse.project, [name], inner=True))).holds


def test_a_batch_is_one_job_of_as_many_tasks_as_there_are_cores(tmp_path: Path, spark: SparkSession) -> None:
    """Eight ViewChanges at a time on two cores are two tasks, with four threads each."""
    project = Project(tmp_path / "p", view("v", f"{PVM} = 8"), {n: ";".join(statements(n)) for n in TABLES})
    project.loaded()
    warehouse = project.open()
    for source, statement in history(48):
        mark = "INSERT INTO _headwater_transaction(tag) VALUES (NULL)"
        project.execute(source, "BEGIN IMMEDIATE", mark, statement, "COMMIT")
    jobs = Jobs(spark, "v")
    with warehouse.engine() as engine:
        engine.start(warehouse.plans(), replace=False)
        before = engine.meter.tally
        engine.catch_up()
        tally = engine.meter.tally
    assert tally.questions - before.questions > 80
    assert tally.changes - before.changes == 56, "each once: 48, of which 8 replace a row"
    assert all(v.ok for v in warehouse.verify())
    assert jobs.since() == [[2, 1]]
    assert Consistency.CONVERGENCE in judged(warehouse, "v")


@pytest.mark.soak
def test_at_postgresql_each_algorithm_keeps_its_level(
    tmp_path: Path, postgres: PostgresServer, spark: SparkSession
) -> None:
    names = {n: f"changes_{n}" for n in TABLES}
    urls = {n: postgres.create_database(name) for n, name in names.items()}
    try:
        _keeps_levels(tmp_path / "p", urls, spark)
    finally:
        for name in names.values():
            postgres.drop_database(name)


LEVELS = {
    "sweep": ("maintenance = 'sweep'", Consistency.COMPLETE),
    "nested": ("maintenance = 'nested-sweep', consistency = 'strong'", Consistency.STRONG),
    "tid": ("maintenance = 'tid', consistency = 'strong'", Consistency.STRONG),
    "pvm": (f"{PVM} = 3", Consistency.CONVERGENCE),
    "cc": (f"{CC} = 4", Consistency.COMPLETE),
}


def _keeps_levels(folder: Path, urls: dict[str, str], spark: SparkSession) -> None:
    (folder / "views").mkdir(parents=True)
    settings = "".join(f'[sources.{n}]\nurl = "{url}"\n' for n, url in urls.items())
    (folder / "headwater.toml").write_text(f"{settings}[run]\npoll_seconds = 0.05\n")
    views = [view(name, options) for name, (options, _) in LEVELS.items()]
    views += [view("cc_groups", f"{CC} = 4", GROUPS), view("pvm_said", f"{PVM} = 4", SELECT.replace("t.w", "upper(w)"))]
    (folder / "views" / "all.sql").write_text("".join(views).replace("upper(w)", "upper(t.w) AS w"))
    lines = {n: psycopg.connect(url, autocommit=True) for n, url in urls.items()}
    try:
        for source, line in lines.items():
            for statement in statements(source):
                line.execute(statement)
        warehouse = headwater.open(folder)
        warehouse.setup()
        warehouse.run(until_caught_up=True)
        for source, statement in history(36):
            lines[source].execute(statement)
        jobs = Jobs(spark, "cc_groups")
        warehouse.run(until_caught_up=True)
    finally:
        for line in lines.values():
            line.close()
    assert {v.view: v.ok for v in warehouse.verify()} == dict.fromkeys([*LEVELS, "cc_groups", "pvm_said"], True)
    assert [2, 1] in jobs.since(), "two tasks of ViewChanges"
    content = sorted(rows(warehouse, "sweep"))
    assert content, "else nothing was at stake"
    for name, (_, level) in LEVELS.items():
        assert sorted(rows(warehouse, name)) == content
        assert level in judged(warehouse, name), name
    assert {seq for (seq,) in _seqs(warehouse, "cc")} == {seq for (seq,) in _seqs(warehouse, "sweep")}


def _seqs(warehouse: headwater.Warehouse, name: str) -> list[tuple[int]]:
    """The states that a view went through."""
    recording = record(warehouse.project, [name], inner=True)
    return [(seq,) for seq, changes in recording.states if changes[name]]
