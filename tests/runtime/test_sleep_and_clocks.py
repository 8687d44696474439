"""Machines that sleep for a day, and clocks that are wrong by days: nothing is lost, what is shown was once true."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from agents.hub_here import running
from agents.wrong_clock import DAY, WrongClock
from headwater.model.errors import HeadwaterError
from runtime.test_agents import Far
from runtime.test_agents import shown as shown_of_all
from runtime.test_chains import TABLES, Fleet, shown

pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler to make a wrong clock"),
]

ASLEEP_SECONDS = 45
"""Longer than any time-out between hub, agents and members of chains but the one of a window that got lost."""


def eventually(holds: Callable[[], bool], seconds: float = 180) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(HeadwaterError):  # nothing is there yet
            if holds():
                return True
        time.sleep(1)
    return False


@pytest.mark.parametrize("how", ["chain", "copy", "visit"])
def test_the_hubs_machine_sleeps_for_a_day(tmp_path: Path, how: str) -> None:
    """Everything of a run stops at once, in the middle of whatever it does, and goes on a day later by its clock."""
    clock = WrongClock(tmp_path)
    with contextlib.ExitStack() as stack:
        place: Fleet | Far
        if how == "chain":
            fleet = place = Fleet(tmp_path, "pull-push")
            stack.enter_context(fleet.agents())
        else:
            far = place = Far(tmp_path, how)
            far.join(far.port)
            stack.enter_context(running(far.laptop, wait=False))
        warehouse = place.open()

        def right() -> bool:
            wanted = place.wanted()
            if isinstance(place, Far):
                return shown_of_all(warehouse) == wanted
            return shown(warehouse, "sold") == wanted["sold"]

        def write(n: int) -> None:
            if isinstance(place, Far):
                place.write("crm", f"INSERT INTO customers VALUES ({n}, 'c{n}')", "DELETE FROM customers WHERE id = 2")
                place.write("shop", f"INSERT INTO orders VALUES ({n}, {n}, 1)")
            else:
                place.write(
                    "till", f"INSERT INTO sales VALUES ({n}, 1, 4, 'y')", "UPDATE sales SET qty = 9 WHERE id = 8"
                )
                place.write("store", f"UPDATE items SET kind = 2, title = 't{n}' WHERE id = 1")
                place.write("office", f"UPDATE kinds SET tax = {n} WHERE id = 2")

        warehouse.setup()
        command = [sys.executable, "-m", "headwater.cli.main", "run", "-p", str(place.folder)]
        with (tmp_path / "run.log").open("w") as log:
            run = subprocess.Popen(command, env=clock.surroundings(), stdout=log, stderr=log, start_new_session=True)
        try:
            assert eventually(lambda: run.poll() is not None or right()), (tmp_path / "run.log").read_text()
            assert run.poll() is None, (tmp_path / "run.log").read_text()
            for n in range(100, 105):
                write(n)
            os.killpg(run.pid, signal.SIGSTOP)
            before = warehouse.cut().number
            for n in range(105, 110):
                write(n)
                time.sleep(ASLEEP_SECONDS / 5)
            assert warehouse.cut().number == before, "it sleeps"
            clock.set(DAY)
            os.killpg(run.pid, signal.SIGCONT)
            assert eventually(right), (tmp_path / "run.log").read_text()
            write(200)
            assert eventually(right), (tmp_path / "run.log").read_text()
            assert run.poll() is None, "the same run goes on"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGCONT)
                run.send_signal(signal.SIGINT)
            try:
                run.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
        assert all(found.ok for found in warehouse.verify())
        warehouse.project.close()


@contextlib.contextmanager
def agents(folders: dict[Path, int]) -> Iterator[None]:
    """Agents as processes, each with a clock of its own."""
    found = []
    for folder in folders:
        (folder / "log").unlink(missing_ok=True)
    for folder, days in folders.items():
        command = [sys.executable, "-m", "headwater.cli.main", "agent", "run", "-f", str(folder)]
        with (folder / "log").open("a") as log:
            surroundings = WrongClock(folder, days * DAY).surroundings()
            found.append(subprocess.Popen(command, env=surroundings, stdout=log, stderr=log))
    try:
        assert eventually(lambda: all("hub" in (folder / "log").read_text() for folder in folders))
        yield
    finally:
        for process in found:
            process.terminate()
        for process in found:
            process.wait(30)


def test_the_clock_of_a_process_is_wrong(tmp_path: Path) -> None:
    """What the others rest on."""
    clock = WrongClock(tmp_path, -5 * DAY)
    command = [sys.executable, "-c", "import time, datetime; print(time.time(), datetime.datetime.now().timestamp())"]
    said = subprocess.run(command, env=clock.surroundings(), capture_output=True, check=True).stdout
    assert all(abs(float(one) + 5 * DAY - time.time()) < 60 for one in said.split())


@pytest.mark.parametrize("how", ["pull-push", "pure-push"])
def test_members_of_a_chain_whose_clocks_are_wrong_by_days(tmp_path: Path, spark: SparkSession, how: str) -> None:
    fleet = Fleet(tmp_path, how, direct=True)
    wrong = dict(zip(TABLES, (5, -5, 40), strict=True))
    warehouse = fleet.open()
    with agents({fleet.machines[name]: days for name, days in wrong.items()}):
        warehouse.setup()
        warehouse.run(until_caught_up=True)
        assert shown(warehouse, "sold") == fleet.wanted()["sold"]
    with agents({fleet.machines[name]: wrong[other] for name, other in zip(TABLES, reversed(TABLES), strict=True)}):
        fleet.write("till", "INSERT INTO sales VALUES (100, 1, 4, 'y')", "UPDATE sales SET qty = 9 WHERE id = 8")
        fleet.write("store", "UPDATE items SET kind = 2 WHERE id = 1", "DELETE FROM items WHERE id = 4")
        fleet.write("office", "UPDATE kinds SET tax = 7, name = 'other' WHERE id = 2")
        warehouse.run(until_caught_up=True)
        assert shown(warehouse, "sold") == fleet.wanted()["sold"]
        assert all(found.ok for found in warehouse.verify())
    warehouse.project.close()


@pytest.mark.parametrize("questions", ["copy", "visit"])
def test_an_agent_whose_clock_is_wrong_by_days(tmp_path: Path, spark: SparkSession, questions: str) -> None:
    far = Far(tmp_path, questions)
    far.join(far.port)
    warehouse = far.open()
    for n, days in enumerate((5, -5)):
        with agents({far.laptop: days}):
            far.write("shop", f"INSERT INTO orders VALUES ({100 + n}, {100 + n}, 7)")
            far.write("crm", f"INSERT INTO customers VALUES ({100 + n}, 'c9')", "DELETE FROM customers WHERE id = 1")
            warehouse.setup()
            warehouse.run(until_caught_up=True)
            assert shown_of_all(warehouse) == far.wanted()
            assert all(found.ok for found in warehouse.verify())
    warehouse.project.close()
