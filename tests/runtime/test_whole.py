"""The whole, on real parts: PostgreSQL, SQLite, Spark, Delta."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.model.errors import WarehouseError
from headwater.runtime.steps import Step, watch
from postgres_server import PostgresServer
from runtime.world import World, check_every_state, expected, seen, states

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

Tables = dict[str, Counter[tuple[Any, ...]]]


@pytest.fixture
def world(tmp_path: Path, postgres: PostgresServer, request: pytest.FixtureRequest, spark: SparkSession) -> World:
    name = f"w{abs(hash(request.node.nodeid))}"
    return World(tmp_path / "project", postgres.create_database(name))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer, spark: SparkSession) -> World:
    """One world for all who only add to its history: its views are loaded once."""
    world = World(tmp_path_factory.mktemp("whole") / "project", postgres.create_database("whole"))
    warehouse = world.open()
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    return world


def check_since(world: World, first: Tables, since: int) -> int:
    """Every state since then is right, and the last one is that of the sources now; returns how many there were."""
    warehouse = world.open()
    count = check_every_state(warehouse, first, since)
    *_, (_, last) = states(warehouse, first, since)
    assert all(+last[t] == +c for t, c in world.now().items())
    for view in ("lines", "same_city", "totals"):
        assert seen(warehouse, view) == expected(warehouse, view, world.now())
    return count


def test_every_state_of_complete_views_is_a_source_state(loaded: World) -> None:
    warehouse = loaded.open()
    first, since = loaded.now(), warehouse.status().cut.seq
    for burst in (1, 7, 25):
        loaded.act(burst)
        warehouse.run(until_caught_up=True)
    assert check_since(loaded, first, since) >= 33
    assert [(v.view, v.ok) for v in warehouse.verify()] == [(name, True) for name in warehouse.views]


def test_states_hold_while_writers_write(loaded: World) -> None:
    warehouse = loaded.open()
    first, since = loaded.now(), warehouse.status().cut.seq
    with warehouse.engine() as engine:
        engine.start(warehouse.plans())
        writer = threading.Thread(target=loaded.act, args=(60,))
        writer.start()
        while writer.is_alive():
            engine.step()
        engine.catch_up()
    check_since(loaded, first, since)


class Crash(BaseException):
    """Stands for kill -9 at a step: nothing is finished, nothing is cleaned up."""


def crash_at(step: Step, run: Callable[[], object]) -> None:
    """Run, and die there."""

    def crash(reached: Step) -> None:
        if reached is step:
            raise Crash

    watch(crash)
    try:
        with pytest.raises(Crash):
            run()
    finally:
        watch(None)


LOADING = (Step.STAGED, Step.LOADED)


@pytest.mark.parametrize("step", [s for s in Step if s not in LOADING], ids=lambda s: s.name)
def test_a_crash_at_any_step_loses_and_doubles_nothing(loaded: World, step: Step) -> None:
    warehouse = loaded.open()
    first, since = loaded.now(), warehouse.status().cut.seq
    loaded.act(6)
    if step is Step.COMPACTED:
        warehouse.run(until_caught_up=True)
        crash_at(step, warehouse.compact)
    else:
        crash_at(step, lambda: warehouse.run(until_caught_up=True))
    loaded.act(3)
    loaded.open().run(until_caught_up=True)
    check_since(loaded, first, since)


@pytest.mark.parametrize("step", LOADING, ids=lambda s: s.name)
def test_a_crash_while_views_are_loaded_loses_nothing(world: World, step: Step) -> None:
    warehouse = world.open()
    warehouse.setup()
    crash_at(step, lambda: warehouse.run(until_caught_up=True))
    world.act(3)
    again = world.open()
    again.run(until_caught_up=True)
    world.act(3)
    again.run(until_caught_up=True)
    assert all(v.ok for v in again.verify())
    for view in ("lines", "same_city", "totals"):
        assert seen(again, view) == expected(again, view, world.now())


def test_a_second_run_is_refused(world: World) -> None:
    warehouse = world.open()
    second = warehouse.engine()
    with (
        warehouse.engine(),
        pytest.raises(WarehouseError, match="maintained already"),
    ):
        second.__enter__()
