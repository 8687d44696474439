"""The soak: writers that never rest, a run that is killed (-9) again and again, sources that go away meanwhile."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from postgres_server import PostgresServer
from runtime.world import World, expected, seen, states

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.soak]

KILLS = 4


@pytest.mark.timeout(600)
def test_soak(tmp_path: Path, postgres: PostgresServer, spark: SparkSession) -> None:
    world = World(tmp_path / "project", postgres.create_database("soak"))
    warehouse = world.open()
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    first, since = world.now(), warehouse.status().cut.seq
    enough = threading.Event()

    def keep_writing() -> None:
        while not enough.is_set():
            world.act()
            time.sleep(0.15)

    writer = threading.Thread(target=keep_writing)
    writer.start()
    pick = random.Random(7)
    reached = []
    try:
        for kill in range(KILLS):
            with (tmp_path / f"run{kill}.log").open("wb") as log:
                run = subprocess.Popen(
                    [sys.executable, "-m", "headwater.cli.main", "run", "--project", str(world.folder)],
                    stdout=log,
                    stderr=log,
                )
                shown = warehouse.cut().number
                _until(lambda shown=shown: warehouse.cut().number > shown + 1, run)  # type: ignore[misc] # bound now
                time.sleep(pick.uniform(0, 6))
                if kill == 1:
                    _away(world, 3)
                assert run.poll() is None, (tmp_path / f"run{kill}.log").read_text()
                run.send_signal(signal.SIGKILL)
                run.wait()
            reached.append(warehouse.cut().seq)
    finally:
        enough.set()
        writer.join()
    assert reached[-1] > since, "it made progress between kills"
    again = world.open()
    again.run(until_caught_up=True)
    *_, (last, tables) = states(again, first, since)
    assert last == again.cut().seq
    assert all(+tables[t] == +rows for t, rows in world.now().items()), "the journal tells exactly what happened"
    for view in again.views:
        assert seen(again, view) == expected(again, view, world.now())
    for seq, tables in states(again, first, since):
        if pick.random() < 0.15:
            assert seen(again, "open_orders", seq) == expected(again, "open_orders", tables), f"state {seq}"
            assert seen(again, "by_city", seq) == expected(again, "by_city", tables), f"state {seq}"
    assert [v.view for v in again.verify() if not v.ok] == []


def _until(holds: Callable[[], bool], run: subprocess.Popen[bytes], seconds: float = 120) -> None:
    """Spark starts slowly, and how slowly nobody knows: wait for something to happen, not for a time."""
    end = time.monotonic() + seconds
    while not holds() and run.poll() is None and time.monotonic() < end:
        time.sleep(0.2)


def _away(world: World, seconds: float) -> None:
    """Take a SQLite file away for a while; its writers fail meanwhile, as an application's would."""
    original = world._stock
    world._stock = lambda: None  # type: ignore[method-assign] # the application waits
    time.sleep(0.5)
    moved = list(world.folder.glob("stock.db*"))
    for file in moved:
        file.rename(file.with_name("away-" + file.name))
    time.sleep(seconds)
    for file in reversed(moved):
        file.with_name("away-" + file.name).rename(file)
    world._stock = original  # type: ignore[method-assign]
