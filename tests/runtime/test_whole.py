"""The whole, on real parts: PostgreSQL, SQLite, Spark, Delta."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.model.errors import WarehouseError
from headwater.runtime.steps import Step, watch
from postgres_server import PostgresServer
from runtime.world import World, check_every_state, expected, seen, states

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


@pytest.fixture
def world(tmp_path: Path, postgres: PostgresServer, request: pytest.FixtureRequest, spark: SparkSession) -> World:
    name = f"w{abs(hash(request.node.nodeid))}"
    return World(tmp_path / "project", postgres.create_database(name))


def test_every_state_of_complete_views_is_a_source_state(world: World) -> None:
    warehouse = world.open()
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    first, since = world.now(), warehouse.status().cut.seq
    for burst in (1, 7, 25):
        world.act(burst)
        warehouse.run(until_caught_up=True)
    assert check_every_state(warehouse, first, since) >= 33
    *_, (_, last) = states(warehouse, first, since)
    assert all(+last[t] == +c for t, c in world.now().items())
    for view in ("lines", "same_city"):
        assert seen(warehouse, view) == expected(warehouse, view, world.now())
    assert [(v.view, v.ok) for v in warehouse.verify()] == [(name, True) for name in warehouse.views]


def test_states_hold_while_writers_write(world: World) -> None:
    warehouse = world.open()
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    first, since = world.now(), warehouse.status().cut.seq
    with warehouse.engine() as engine:
        engine.start(warehouse.plans())
        writer = threading.Thread(target=world.act, args=(60,))
        writer.start()
        while writer.is_alive():
            engine.step()
        engine.catch_up()
    check_every_state(warehouse, first, since)
    *_, (_, last) = states(warehouse, first, since)
    assert all(+last[t] == +c for t, c in world.now().items())


class Crash(BaseException):
    """Stands for kill -9 at a step: nothing is finished, nothing is cleaned up."""


@pytest.mark.parametrize("step", list(Step), ids=lambda s: s.name)
def test_a_crash_at_any_step_loses_and_doubles_nothing(world: World, step: Step) -> None:
    warehouse = world.open()
    warehouse.setup()
    at_load = step in (Step.STAGED, Step.LOADED)
    if not at_load:
        warehouse.run(until_caught_up=True)
        first, since = world.now(), warehouse.status().cut.seq
        world.act(6)

    def crash(reached: Step) -> None:
        if reached is step:
            raise Crash

    crashes = warehouse.compact if step is Step.COMPACTED else lambda: warehouse.run(until_caught_up=True)
    watch(crash)
    try:
        with pytest.raises(Crash):
            crashes()
    finally:
        watch(None)
    if at_load:
        first, since = world.now(), 0
    world.act(3)
    again = world.open()
    again.run(until_caught_up=True)
    if at_load:
        world.act(3)
        again.run(until_caught_up=True)
        assert all(v.ok for v in again.verify())
    else:
        check_every_state(again, first, since)
        *_, (_, last) = states(again, first, since)
        assert all(+last[t] == +c for t, c in world.now().items())
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
