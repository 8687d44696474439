"""Bad days: sources that go away, tables that change, captures that vanish, values that do not fit."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

import headwater
from headwater.model.errors import HistoryGone, SourceUnavailable, UnknownName, WarehouseError
from headwater.runtime.engine import Engine
from postgres_server import PostgresServer
from runtime.world import World, expected, seen

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


@pytest.fixture
def world(tmp_path: Path, postgres: PostgresServer, request: pytest.FixtureRequest, spark: SparkSession) -> World:
    name = f"t{abs(hash(request.node.nodeid))}"
    return World(tmp_path / "project", postgres.create_database(name))


@pytest.fixture
def loaded(world: World) -> headwater.Warehouse:
    warehouse = world.open()
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    return warehouse


def state_of(engine: Engine, source: str) -> str:
    return next(one.state for one in engine.look().sources if one.name == source)


def until(engine: Engine, holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to pass"
        engine.step()


def test_a_source_that_goes_away_and_comes_back(world: World, loaded: headwater.Warehouse) -> None:
    file, away = world.folder / "stock.db", world.folder / "away.db"
    with loaded.engine() as engine:
        engine.start(loaded.plans())
        world.act(3)
        engine.catch_up()
        for suffix in ("", "-wal", "-shm"):
            if (world.folder / f"stock.db{suffix}").exists():
                (world.folder / f"stock.db{suffix}").rename(world.folder / f"away.db{suffix}")
        assert away.exists()
        for _ in range(5):
            world._shop()
        taken_in = engine.meter.transactions
        until(engine, lambda: state_of(engine, "stock") != "ok" and engine.meter.transactions > taken_in)
        for suffix in ("-wal", "-shm", ""):
            if (world.folder / f"away.db{suffix}").exists():
                (world.folder / f"away.db{suffix}").rename(world.folder / f"stock.db{suffix}")
        assert file.exists()
        until(engine, lambda: state_of(engine, "stock") == "ok")
        engine.catch_up()
    for view in loaded.views:
        assert seen(loaded, view) == expected(loaded, view, world.now())


def test_a_dropped_column_halts_its_view_and_no_other(world: World, loaded: headwater.Warehouse) -> None:
    with loaded.engine() as engine:
        engine.start(loaded.plans())
        with psycopg.connect(world.url) as db:
            db.execute("ALTER TABLE lines RENAME COLUMN note TO remark")
            db.execute("INSERT INTO lines VALUES (1, 'after')")
        world.act(5)
        until(engine, lambda: engine.cut.views["lines"].state == "halted")  # type: ignore[index] # a ViewName is a str
        world.act(5)
        engine.catch_up()
        assert "note" in engine.cut.views["lines"].reason  # type: ignore[index] # a ViewName is a str
    status = {v.name: v for v in loaded.status().views}
    assert status["lines"].state == "halted"  # type: ignore[index] # a ViewName is a str
    for view in ("open_orders", "by_city", "totals", "same_city"):
        assert seen(loaded, view) == expected(loaded, view, world.now())
    # mended, the view is loaded anew when somebody says so; a run by itself changes nothing
    with psycopg.connect(world.url) as db:
        db.execute("ALTER TABLE lines RENAME COLUMN remark TO note")
    again = world.open()
    again.run(until_caught_up=True)
    assert "headwater apply" in again.cut().views["lines"].fix  # type: ignore[index] # a ViewName is a str
    again.run(until_caught_up=True, apply=True)
    assert seen(again, "lines") == expected(again, "lines", world.now())


def test_a_value_that_spark_cannot_compute_halts_its_view(tmp_path: Path, world: World) -> None:
    with (world.folder / "views" / "more.sql").open("w") as file:
        file.write("CREATE MATERIALIZED VIEW ratio AS SELECT o.id, 100 / o.qty AS share FROM shop.orders o;")
    warehouse = world.open()
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    with psycopg.connect(world.url) as db:
        db.execute("INSERT INTO orders VALUES (1, 1, 'a', 0, 'open')")
    warehouse.run(until_caught_up=True)
    status = {v.name: v for v in warehouse.status().views}
    assert status["ratio"].state == "halted"  # type: ignore[index] # a ViewName is a str
    assert "DIVIDE_BY_ZERO" in status["ratio"].reason  # type: ignore[index] # a ViewName is a str
    assert seen(warehouse, "totals") == expected(warehouse, "totals", world.now())


def test_capture_removed_and_installed_anew_loads_the_views_again(world: World, loaded: headwater.Warehouse) -> None:
    loaded.catalog.source("stock").remove()
    world.act(10)
    without = world.open()
    without.run(until_caught_up=True)  # the views that do not need it go on
    states = without.cut().views
    assert {n for n, s in states.items() if s.state == "halted"} == {"open_orders", "by_city"}
    for view in ("lines", "line_states", "totals", "same_city"):
        assert seen(without, view) == expected(without, view, world.now())
    assert "'headwater setup', then 'headwater apply'" in states["open_orders"].fix  # type: ignore[index] # a ViewName is a str
    again = world.open()
    again.setup()
    world.act(3)
    again.apply(again.plan_apply())
    again.run(until_caught_up=True)
    for view in again.views:
        assert seen(again, view) == expected(again, view, world.now())


def test_views_come_change_and_go_between_runs(world: World, loaded: headwater.Warehouse) -> None:
    (world.folder / "views" / "all.sql").write_text(
        "CREATE MATERIALIZED VIEW totals AS SELECT COUNT(*) AS n FROM shop.orders;"
        "CREATE MATERIALIZED VIEW names AS SELECT DISTINCT name FROM crm.customers;"
    )
    world.act(4)
    again = world.open()
    again.run(until_caught_up=True)  # adds what is new, and takes nothing away
    assert sorted(again.status().cut.views) == sorted([*loaded.views, "names"])
    assert seen(again, "open_orders") == expected(loaded, "open_orders", world.now())
    assert len(again.rows("totals").column_names) == 2
    again.run(until_caught_up=True, apply=True)
    assert sorted(again.status().cut.views) == ["names", "totals"]
    for view in again.views:
        assert seen(again, view) == expected(again, view, world.now())
    with pytest.raises(UnknownName, match="open_orders"):
        again.rows("open_orders")


def test_history_compaction_and_publishing(world: World, loaded: headwater.Warehouse) -> None:
    first = loaded.status().cut.seq
    world.act(12)
    world.configure(small_batch=0)  # so that a batch of `lines` takes long enough for all the rest to wait for the next
    world.open().run(until_caught_up=True)
    last = loaded.status().cut.seq
    before = {seq: seen(loaded, "open_orders", seq) for seq in range(first, last + 1)}
    with loaded.session(at=first) as old:
        pinned = old.rows("by_city").to_pylist()
        world.configure()
        text = (world.folder / "headwater.toml").read_text()
        (world.folder / "headwater.toml").write_text(text + "[warehouse]\nhistory = 5\n")
        short = world.open()
        short.compact()  # an open session holds the horizon back
        assert seen(short, "open_orders", first) == before[first]
        assert sorted(map(str, old.rows("by_city").to_pylist())) == sorted(map(str, pinned))
    short = world.open()
    short.compact()
    for seq in range(last - 5, last + 1):
        assert seen(short, "open_orders", seq) == before[seq]
    with pytest.raises(HistoryGone, match="older than its history"):
        short.rows("open_orders", first)
    assert [v.ok for v in short.verify(["open_orders", "by_city", "totals"], at=last - 2)] == [True] * 3
    with pytest.raises(HistoryGone, match="older than its history"):
        short.verify(["lines"], at=last - 2)  # it skipped all states since the first, which is folded away
    published = short.publish()
    from deltalake import DeltaTable

    plain = DeltaTable(published["open_orders"]).to_pyarrow_table()
    assert plain.column_names == ["id", "name", "title", "amount"]
    assert plain.num_rows == sum(seen(short, "open_orders").values())


def test_an_unreachable_source_at_the_start_is_said(world: World, loaded: headwater.Warehouse) -> None:
    text = (world.folder / "headwater.toml").read_text()
    port = text.partition("127.0.0.1:")[2].partition("/")[0]
    (world.folder / "headwater.toml").write_text(text.replace(port, "1"))
    with pytest.raises(SourceUnavailable) as caught:
        world.open().run(until_caught_up=True)
    assert "secret" not in str(caught.value)


def test_a_warehouse_of_a_newer_version_is_left_alone(world: World, loaded: headwater.Warehouse) -> None:
    (world.folder / "warehouse" / "headwater.json").write_text('{"format": 99}')
    with pytest.raises(WarehouseError, match="newer"):
        world.open().run(until_caught_up=True)
    with pytest.raises(WarehouseError, match="newer"):
        world.open().rows("totals")


def test_a_full_disk_stops_the_run_and_loses_nothing(world: World, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("no right to mount a small file system here")
    try:
        text = (world.folder / "headwater.toml").read_text()
        (world.folder / "headwater.toml").write_text(text + f'[warehouse]\npath = "{disk}/warehouse"\n')
        warehouse = world.open()
        warehouse.setup()
        warehouse.run(until_caught_up=True)
        before = warehouse.cut().seq
        filler = disk / "filler"
        with warehouse.engine() as engine:
            engine.start(warehouse.plans())
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(b"x" * 4096):
                    pass
            world.act(5)
            with pytest.raises(WarehouseError, match="no space left"):
                engine.catch_up()
        assert warehouse.cut().seq == before
        with pytest.raises(WarehouseError, match="no space left"):
            world.open().run(until_caught_up=True)
        filler.unlink()
        again = world.open()
        again.run(until_caught_up=True)
        for view in again.views:
            assert seen(again, view) == expected(again, view, world.now())
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)  # workers may still map files of it
