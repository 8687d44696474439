"""Machines that sleep for a day, and clocks that are wrong by days: nothing is lost, and what is shown was once true.

Clocks are those of processes, set by libfaketime (Debian: apt install libfaketime; HEADWATER_FAKETIME names another).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from agents.hub_here import running
from headwater.model.errors import HeadwaterError
from runtime.test_agents import Far
from runtime.test_agents import shown as shown_of_all
from runtime.test_chains import TABLES, Fleet, shown

FOUND = [os.environ.get("HEADWATER_FAKETIME", ""), *map(str, Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))]
LIBRARY = next((path for path in FOUND if path and Path(path).exists()), "")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not LIBRARY, reason="there is no libfaketime"),
]

ASLEEP_SECONDS = 45
"""Longer than any time-out between hub, agents and members of chains but the one of a window that got lost."""


def clock(**said: str) -> dict[str, str]:
    """The surroundings of a process whose clock is wrong; how long something takes it still measures right."""
    return {
        **os.environ,
        "LD_PRELOAD": LIBRARY,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        **said,
    }


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
    jump = tmp_path / "clock"
    jump.write_text("+0d\n")
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
        command = [sys.executable, "-m", "headwater.cli.main", "run", "-C", str(place.folder)]
        surroundings = clock(FAKETIME_TIMESTAMP_FILE=str(jump), FAKETIME_NO_CACHE="1")
        with (tmp_path / "run.log").open("w") as log:
            run = subprocess.Popen(command, env=surroundings, stdout=log, stderr=log, start_new_session=True)
        try:
            assert eventually(lambda: warehouse.cut().number > 0 and right()), (tmp_path / "run.log").read_text()
            for n in range(100, 105):
                write(n)
            os.killpg(run.pid, signal.SIGSTOP)
            before = warehouse.cut().number
            for n in range(105, 110):
                write(n)
                time.sleep(ASLEEP_SECONDS / 5)
            assert warehouse.cut().number == before, "it sleeps"
            jump.write_text("+1d\n")
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
def agents(folders: dict[Path, str]) -> Iterator[None]:
    """Agents as processes, each with a clock of its own."""
    found = []
    for folder in folders:
        (folder / "log").unlink(missing_ok=True)
    for folder, offset in folders.items():
        command = [sys.executable, "-m", "headwater.cli.main", "agent", "run", "-f", str(folder)]
        with (folder / "log").open("a") as log:
            found.append(subprocess.Popen(command, env=clock(FAKETIME=offset), stdout=log, stderr=log))
    try:
        assert eventually(lambda: all("hub" in (folder / "log").read_text() for folder in folders))
        yield
    finally:
        for process in found:
            process.terminate()
        for process in found:
            process.wait(30)


def test_the_clock_of_a_process_is_wrong() -> None:
    """What the others rest on."""
    command = [sys.executable, "-c", "import time; print(time.time())"]
    said = subprocess.run(command, env=clock(FAKETIME="-5d"), capture_output=True, check=True).stdout
    assert abs(float(said) + 5 * 86400 - time.time()) < 60


@pytest.mark.parametrize("how", ["pull-push", "pure-push"])
def test_members_of_a_chain_whose_clocks_are_wrong_by_days(tmp_path: Path, spark: SparkSession, how: str) -> None:
    fleet = Fleet(tmp_path, how, direct=True)
    offsets = dict(zip(TABLES, ("+5d", "-5d", "+40d"), strict=True))
    warehouse = fleet.open()
    with agents({fleet.machines[name]: offset for name, offset in offsets.items()}):
        warehouse.setup()
        warehouse.run(until_caught_up=True)
        assert shown(warehouse, "sold") == fleet.wanted()["sold"]
    with agents({fleet.machines[name]: offsets[other] for name, other in zip(TABLES, reversed(TABLES), strict=True)}):
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
    for n, offset in enumerate(("+5d", "-5d")):
        with agents({far.laptop: offset}):
            far.write("shop", f"INSERT INTO orders VALUES ({100 + n}, {100 + n}, 7)")
            far.write("crm", f"INSERT INTO customers VALUES ({100 + n}, 'c9')", "DELETE FROM customers WHERE id = 1")
            warehouse.setup()
            warehouse.run(until_caught_up=True)
            assert shown_of_all(warehouse) == far.wanted()
            assert all(found.ok for found in warehouse.verify())
    warehouse.project.close()
