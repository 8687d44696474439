"""The published algorithms maintain real views: the same join by each of them, over files that are written to
meanwhile, verified, recorded from the engine and judged by the lab's checker at the level that each gives."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import headwater
from headwater.algebra.methods import METHODS
from headwater.cli.planning import make_plan
from headwater.cli.recording import recorded
from headwater.integrator.journal import Journal
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.model.errors import ViewSqlError
from headwater.runtime.change.maintained import maintained_views
from headwater.runtime.reading.recording import record
from headwater.runtime.scheduling import managers, relevance
from headwater.runtime.steps import Step
from runtime.small_project import Project, rows
from runtime.test_processes import Run
from runtime.test_whole import crash_at
from runtime.world import Sqlite

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

JOIN = "FROM a.r JOIN b.s ON s.k = r.k JOIN c.t ON t.j = s.j"
LEVELS = {
    "wave": Consistency.COMPLETE,
    "sweep": Consistency.COMPLETE,
    "pvm-cc": Consistency.COMPLETE,
    "nested-sweep": Consistency.STRONG,
    "tid": Consistency.STRONG,
    "pvm": Consistency.CONVERGENCE,
}
DATABASES = {
    "a": "CREATE TABLE r (id INTEGER PRIMARY KEY, k INTEGER, v DOUBLE); CREATE INDEX rk ON r (k)",
    "b": "CREATE TABLE s (id INTEGER PRIMARY KEY, k INTEGER, j DECIMAL(8,1)); CREATE INDEX sk ON s (k);"
    " CREATE INDEX sj ON s (j)",
    "c": "CREATE TABLE t (id INTEGER PRIMARY KEY, j INTEGER, w TEXT, day DATE, at TIMESTAMP); CREATE INDEX tj ON t (j)",
}


def view(maintenance: str, select: str, name: str = "", group: str = "") -> str:
    level = METHODS[maintenance].level.value
    called = f"{name}{maintenance.replace('-', '_')}"
    options = f"maintenance = '{maintenance}', consistency = '{level}'"
    return f"CREATE MATERIALIZED VIEW {called} WITH ({options}) AS SELECT {select} {JOIN}{group};\n"


VIEWS = "".join(
    [
        *(view(m, "r.id AS r, r.v, s.id AS s, t.w, t.day, t.at") for m in LEVELS),
        *(
            view(m, "r.k + 1 AS k, upper(t.w) AS w", "said_", " WHERE r.v > 0.5 OR t.w IS NULL")
            for m in ("sweep", "pvm")
        ),
        *(view(m, "s.k, COUNT(*) AS n, MIN(t.w) AS w", "sum_", " GROUP BY s.k") for m in ("pvm-cc", "pvm", "tid")),
        "CREATE MATERIALIZED VIEW over_sweep AS SELECT r, w FROM sweep WHERE w IS NOT NULL;\n",
    ]
)


class Writer:
    """Commits small transactions, each at one of the three files, each announced by itself."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random, self.base, self.ids = folder, Random(seed), seed * 1000, seed * 1000

    def write(self, transactions: int) -> None:
        for _ in range(transactions):
            name, table = self.random.choice([("a", "r"), ("b", "s"), ("c", "t")])
            with Sqlite(self.folder / f"{name}.db") as db:
                db.execute("BEGIN IMMEDIATE")
                db.execute("INSERT INTO _headwater_transaction(tag) VALUES (NULL)")
                for _ in range(self.random.randint(1, 2)):
                    db.execute(*self._statement(table))
                db.execute("COMMIT")

    def _statement(self, table: str) -> tuple[str, tuple[object, ...]]:
        r = self.random
        which, key = r.randint(self.base, self.ids), r.choice([1, 2, 3, None])
        few = self.ids < self.base + 8
        if not few and r.random() < 0.25:
            return f"DELETE FROM {table} WHERE id = ?", (which,)
        if not few and r.random() < 0.35:
            column = {"r": "k", "s": "j", "t": "j"}[table]
            return f"UPDATE {table} SET {column} = ? WHERE id <= ? AND id > ? - 3", (key, which, which)
        self.ids += 1
        values: dict[str, tuple[object, ...]] = {
            "r": (self.ids, key, r.choice([0.0, -0.0, 0.1, 1e300, None])),
            "s": (self.ids, key, r.choice([1, 2, 2.5, None])),
            "t": (
                self.ids,
                r.choice([1, 2, None]),
                r.choice(["x", "", None]),
                "2024-02-29",
                "2024-02-29 12:00:00.123456",
            ),
        }
        row = values[table]
        return f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row


@pytest.fixture(scope="module", autouse=True)
def _small_batches() -> Iterator[None]:
    """Several batches, though little is written."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (managers, relevance):
            patch.setattr(module, "UPDATES", 8)
        yield


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Project:
    project = Project(tmp_path_factory.mktemp("strategies") / "p", VIEWS, DATABASES)
    project.open().setup()
    Writer(project.folder, 0).write(12)
    project.loaded()
    return project


def judged(warehouse: headwater.Warehouse, name: str) -> frozenset[Consistency]:
    """What the checker says of the states that the engine made, one by one."""
    verdict = check(recorded(record(warehouse.project, [name], inner=True)))
    print(name, verdict)
    return verdict.holds


@pytest.mark.soak
def test_each_keeps_its_promise_while_others_write(project: Project) -> None:
    warehouse = project.open()
    for seed in (1, 2):
        writing = threading.Thread(target=Writer(project.folder, seed).write, args=(10,))
        writing.start()
        warehouse.run(until_caught_up=True)
        writing.join()
    warehouse.run(until_caught_up=True)
    assert {v.view: v.ok for v in warehouse.verify()} == dict.fromkeys(warehouse.cut().views, True)
    content = sorted(rows(warehouse, "wave"), key=repr)
    assert content, "else nothing was at stake"
    for maintenance in LEVELS:
        assert sorted(rows(warehouse, maintenance.replace("-", "_")), key=repr) == content
    for maintenance, level in LEVELS.items():
        assert level in judged(warehouse, maintenance.replace("-", "_")), maintenance
    assert {v.name: v.maintenance for v in warehouse.status().views}["pvm_cc"] == "PVM CC, 4 at a time"


@pytest.mark.soak
def test_a_run_that_dies_goes_on(project: Project) -> None:
    warehouse, writer = project.open(), Writer(project.folder, 3)
    folders = {n: s.folder for n, s in warehouse.cut().views.items()}
    for step in (Step.COMPUTED, Step.COMMITTED, Step.SHOWN):
        writer.write(12)
        crash_at(step, lambda: warehouse.run(until_caught_up=True))
    writer.write(3)
    again = project.open()
    again.run(until_caught_up=True)
    assert all(v.ok for v in again.verify())
    assert {n: s.folder for n, s in again.cut().views.items()} == folders, "nothing was loaded again"
    for name in ("sweep", "pvm_cc"):
        assert Consistency.COMPLETE in judged(again, name)


def test_another_algorithm_goes_on_with_the_same_rows(project: Project) -> None:
    folder = project.open().cut().views["sweep"].folder
    project.write(VIEWS.replace("VIEW sweep WITH (maintenance = 'sweep'", "VIEW sweep WITH (maintenance = 'pvm-cc'"))
    try:
        _goes_on(project, folder)
    finally:
        project.write(VIEWS)


def _goes_on(project: Project, folder: str) -> None:
    warehouse = project.open()
    plan = warehouse.plan_apply()
    assert not plan.changes
    assert any("sweep: PVM CC, 4 at a time maintains it from the next start" in said for said in plan.warnings)
    Writer(project.folder, 5).write(6)
    warehouse.run(until_caught_up=True)
    assert warehouse.cut().views["sweep"].folder == folder
    stored = maintained_views(warehouse.storage, warehouse.cut(), warehouse.catalog).views
    assert {name: v.maintenance for name, v in stored.items()}["sweep"] == "pvm-cc"
    assert all(v.ok for v in warehouse.verify(["sweep", "over_sweep"]))
    assert not warehouse.plan_apply().warnings


def test_what_plan_says(project: Project) -> None:
    planned = {str(v.name): v.maintenance for v in make_plan(project.open()).views}
    assert planned["wave"] == planned["over_sweep"] == ""
    assert planned["sweep"] == "SWEEP: complete at most; 2 questions for each update"
    assert planned["pvm"] == "PVM, 4 at a time: convergent at most; 2 questions for each update"
    assert planned["tid"].startswith("the TID rules: strong at most; questions for each batch")


def test_a_value_that_fails_halts_with_its_row(project: Project, tmp_path: Path) -> None:
    select = "CREATE MATERIALIZED VIEW v WITH (maintenance = 'sweep') AS SELECT r.id, 10 / r.k AS x FROM a.r JOIN b.s"
    own = Project(tmp_path / "p", f"{select} ON s.id = r.id", {n: DATABASES[n] for n in ("a", "b")})
    warehouse = own.loaded()
    own.execute("b", "INSERT INTO s VALUES (1, 1, 1), (2, 2, 2)")
    own.execute("a", "INSERT INTO r VALUES (1, 5, 1)")
    own.execute("a", "INSERT INTO r VALUES (2, 0, 1)")
    warehouse.run(until_caught_up=True)
    state = warehouse.cut().views["v"]  # type: ignore[index]
    assert state.state == "halted"
    assert "r.id = 2" in state.reason, state.reason
    own.execute("a", "UPDATE r SET k = 2 WHERE id = 2")
    warehouse.resume(["v"])
    assert sorted(rows(warehouse, "v")) == [(1, 2.0), (2, 5.0)]
    assert all(v.ok for v in warehouse.verify())


@pytest.mark.soak
def test_ctrl_c_ends_a_batch_that_is_under_way(tmp_path: Path) -> None:
    """120 questions of a tenth of a second each: nobody waits for the last of them, and the next run does it all."""
    far = Project(tmp_path / "p", view("sweep", "r.id AS r, s.id AS s, t.w"), DATABASES)
    for n in range(1, 31):  # so many that questions ask for keys
        far.execute("b", f"INSERT INTO s VALUES ({n}, {n}, {n})")
        far.execute("c", f"INSERT INTO t VALUES ({n}, {n}, 'x', NULL, NULL)")
    far.loaded()
    settings = "".join(f'[sources.{n}]\nurl = "sqlite:///{n}.db"\ndelay_ms = 100\n' for n in DATABASES)
    (far.folder / "headwater.toml").write_text(f"{settings}[run]\npoll_seconds = 0.05\n")
    mark = "INSERT INTO _headwater_transaction(tag) VALUES (NULL)"
    for n in range(1, 61):
        far.execute("a", "BEGIN IMMEDIATE", mark, f"INSERT INTO r VALUES ({n}, 1, 1)", "COMMIT")
    run = Run(far.folder)
    try:
        until = time.monotonic() + 120
        while journaled(far) < 60 and time.monotonic() < until:
            time.sleep(0.2)
        time.sleep(3)
        assert journaled(far) == 60, run.said()
        assert far.open().cut().views["sweep"].seq == 0, "it is under way"  # type: ignore[index]
        started = time.monotonic()
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(20) == 0, run.said()
        assert time.monotonic() - started < 10, run.said()
    finally:
        run.close()
    warehouse = far.open()
    warehouse.run(until_caught_up=True)
    assert len(rows(warehouse, "sweep")) == 60
    assert all(v.ok for v in warehouse.verify())


def journaled(project: Project) -> int:
    newest = Journal(project.open().storage).newest
    return 0 if newest is None else newest.hi


def test_refused_where_a_transaction_could_touch_two_of_its_tables(project: Project) -> None:
    two = "CREATE MATERIALIZED VIEW v WITH (maintenance = 'sweep') AS SELECT x.id FROM a.r x JOIN a.r y ON x.k = y.id;"
    project.write(two)
    try:
        made = make_plan(project.open())
        (error,) = made.errors
        assert isinstance(error, ViewSqlError)
        assert error.what == (
            "views/all.sql:1: view v: it names a.r twice, so one change is two of its updates; SWEEP knows one table"
            " per source and transaction"
        )
        assert error.fix == "write maintenance = 'tid', or maintenance = 'wave', which knows every query"
    finally:
        project.write(VIEWS)
