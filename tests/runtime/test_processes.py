"""Processes die: a Python worker, the daemon they are forked from, the JVM. What is lost by it is time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from postgres_server import PostgresServer
from runtime.small_project import Project, rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

VIEWS = """
CREATE MATERIALIZED VIEW plain AS SELECT k, v FROM db.t;
CREATE MATERIALIZED VIEW sums AS SELECT k % 2 AS odd, COUNT(*) AS n, SUM(v * 2) AS s FROM db.t GROUP BY k % 2;
"""
TABLE = "CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER); INSERT INTO t VALUES (1, 1)"


def descendants(pid: int) -> dict[int, str]:
    """Every process below this one, with its command line."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
            except OSError:
                continue
    found, todo = dict[int, str](), [pid]
    while todo:
        for child in parents.get(todo.pop(), []):
            try:
                found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            todo.append(child)
    return found


class Run:
    """`headwater run` as a person has it, with every event as a line of JSON."""

    def __init__(self, folder: Path) -> None:
        command = [str(Path(sys.executable).parent / "headwater"), "run", "--json", "--project", str(folder)]
        self.output = (folder / "run.log").open("w+")
        self.process = subprocess.Popen(command, stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True)

    def kill(self, which: Callable[[str], bool], but: int | None = None) -> int:
        """Kill -9 the youngest of its processes that fits."""
        found = [pid for pid, command in descendants(self.process.pid).items() if which(command) and pid != but]
        assert found, descendants(self.process.pid)
        os.kill(max(found), signal.SIGKILL)
        return max(found)

    def said(self) -> str:
        return Path(self.output.name).read_text()

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.output.close()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "p", VIEWS, {"db": TABLE})


@pytest.fixture
def run(project: Project) -> Iterator[Run]:
    project.open().setup()
    run = Run(project.folder)
    yield run
    run.close()


def shows(project: Project, run: Run, count: int, seconds: float = 120) -> None:
    """Wait until both views hold `count` rows of the table."""
    warehouse, until = project.open(), time.monotonic() + seconds
    while time.monotonic() < until:
        assert run.process.poll() is None, run.said()
        if warehouse.cut(create=True).views and sum(n for _, n, _ in rows(warehouse, "sums")) == count:  # type: ignore[misc] # numbers
            assert len(rows(warehouse, "plain")) == count
            return
        time.sleep(0.2)
    raise AssertionError(f"{count} rows were not shown in time; the run said:\n{run.said()}")


@pytest.mark.soak
def test_deaths_cost_time_and_nothing_else(project: Project, run: Run) -> None:
    shows(project, run, 1)
    folders = {n: s.folder for n, s in project.open().cut().views.items()}
    kinds: list[Callable[[str], bool]] = [
        lambda command: (
            "headwater.runtime.compute.daemon" in command
        ),  # a worker is forked from the daemon: the same words
        lambda command: "headwater.runtime.compute.daemon" in command,
        lambda command: "org.apache.spark.deploy.SparkSubmit" in command,
    ]
    for number, kind in enumerate(kinds, 2):
        run.kill(kind)
        project.execute("db", f"INSERT INTO t VALUES ({number}, {number})")
        shows(project, run, number)
    project.execute("db", "DELETE FROM t WHERE k = 1")
    shows(project, run, len(kinds))
    cut = project.open().cut()
    assert {s.state for s in cut.views.values()} == {"live"}
    assert {n: s.folder for n, s in cut.views.items()} == folders, "a view was loaded again although it was good"
    assert [len(rows(project.open(), "plain", at)) for at in range(cut.seq + 1)] == [1, 2, 3, 4, 3]
    started = time.monotonic()
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(10) == 0, run.said()
    assert time.monotonic() - started < 10
    assert json.loads(run.said().strip().splitlines()[-1])["event"] == "stopped"


@pytest.mark.soak
@pytest.mark.postgres
def test_ctrl_c_does_not_wait_for_a_source_that_hangs(tmp_path: Path, postgres: PostgresServer) -> None:
    url = postgres.create_database("hangs")
    with psycopg.connect(url) as db:
        db.execute("CREATE TABLE t (k int PRIMARY KEY, v int)")
        db.execute("INSERT INTO t VALUES (1, 1)")
    project = Project(tmp_path / "p", VIEWS, {})
    (project.folder / "headwater.toml").write_text(f'[sources.db]\nurl = "{url}"\n[run]\npoll_seconds = 0.05\n')
    project.open().setup()
    run = Run(project.folder)
    with psycopg.connect(postgres.url(), autocommit=True) as admin:
        try:
            shows(project, run, 1)
            found = "SELECT pid FROM pg_stat_activity WHERE datname = 'hangs'"
            stopped = [pid for (pid,) in admin.execute(found)]
            for pid in stopped:  # its connections are there, and nobody answers
                os.kill(pid, signal.SIGSTOP)
            time.sleep(1)
            started = time.monotonic()
            run.process.send_signal(signal.SIGINT)
            assert run.process.wait(10) == 0, run.said()
            assert time.monotonic() - started < 10
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
            run.close()
