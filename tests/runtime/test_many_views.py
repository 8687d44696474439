"""Many views, one warehouse state: kinds mixed, views over views, views that come and go, on real databases."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater
from headwater.algebra import evaluate_all
from headwater.model.names import TableName
from postgres_server import PostgresServer
from runtime.world import COLUMNS, World, seen, states

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

KINDS = {
    "complete": "consistency = 'complete'",
    "hundred": "consistency = 'complete', every = 4",
    "strong": "consistency = 'strong'",
    "convergent": "consistency = 'convergent'",
    "periodic": "consistency = 'periodic', schedule = '2 seconds'",
}
JOIN = (
    "SELECT o.id, o.qty, c.city, p.price FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id"
    " JOIN stock.products p ON p.sku = o.sku"
)
VIEWS = "".join(
    f"CREATE MATERIALIZED VIEW {kind}_join WITH ({options}) AS {JOIN};"
    f"CREATE MATERIALIZED VIEW {kind}_total WITH ({options}) AS"
    f" SELECT COUNT(*) AS n, SUM(o.qty) AS pieces FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id"
    " JOIN stock.products p ON p.sku = o.sku;"
    for kind, options in KINDS.items()
) + (
    "CREATE MATERIALIZED VIEW by_city AS"
    " SELECT city, COUNT(*) AS n, SUM(qty) AS pieces FROM complete_join GROUP BY city;"
    "CREATE MATERIALIZED VIEW cities AS SELECT COUNT(*) AS n, SUM(n) AS orders FROM by_city;"
    "CREATE MATERIALIZED VIEW named WITH (consistency = 'strong') AS"
    " SELECT b.city, b.n, c.name FROM by_city b JOIN crm.customers c ON c.city = b.city;"
)


@pytest.fixture
def world(tmp_path: Path, postgres: PostgresServer, request: pytest.FixtureRequest, spark: SparkSession) -> World:
    name = f"m{abs(hash(request.node.nodeid))}"
    return World(tmp_path / "project", postgres.create_database(name), VIEWS)


def everything(warehouse: headwater.Warehouse, tables: dict[str, Counter[tuple[Any, ...]]]) -> dict[str, Counter[Any]]:
    """Every view recomputed by the reference algebra, views over views included."""
    used = {t for view in warehouse.views.values() for t in view.base_tables}
    given: dict[TableName, Any] = {
        table: [
            dict(zip(COLUMNS[str(table)], row, strict=True))
            for row, count in tables[str(table)].items()
            for _ in range(count)
        ]
        for table in used
    }
    return {str(name): Counter(dict(bag)) for name, bag in evaluate_all(warehouse.views.values(), given).items()}


def check_now(warehouse: headwater.Warehouse, world: World) -> None:
    want = everything(warehouse, world.now())
    for name in warehouse.views:
        got = seen(warehouse, name)
        assert got == want[name], f"{name}: missing {want[name] - got}, extra {got - want[name]}"


@pytest.mark.soak
def test_kinds_mixed_and_views_over_views(world: World) -> None:
    warehouse = world.open()
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    first, since = world.now(), int(warehouse.status().cut.seq)
    check_now(warehouse, world)
    with warehouse.engine() as engine:
        engine.start(warehouse.plans())
        assert [g.algorithm for g in engine.look().groups] == ["Painting"]
        for _ in range(4):
            world.act(5)
            engine.catch_up()
    check_now(warehouse, world)
    complete = ["complete_join", "complete_total", "by_city", "cities"]
    for seq, tables in states(warehouse, first, since):
        want = everything(warehouse, tables)
        for name in complete:
            assert seen(warehouse, name, seq) == want[name], f"{name} at {seq}"
    assert all(v.ok for v in warehouse.verify())


SOME = """
CREATE MATERIALIZED VIEW orders AS SELECT id, qty, status FROM shop.orders;
CREATE MATERIALIZED VIEW pieces AS SELECT status, SUM(qty) AS pieces FROM orders GROUP BY status;
CREATE MATERIALIZED VIEW names WITH (consistency = 'strong') AS SELECT DISTINCT name FROM crm.customers;
"""


@pytest.mark.parametrize("sequencing", ["sequential", "batched"])
def test_every_sequencing_ends_right(
    tmp_path: Path, postgres: PostgresServer, spark: SparkSession, sequencing: str
) -> None:
    world = World(tmp_path / "project", postgres.create_database(f"seq_{sequencing}"), SOME)
    world.configure(sequencing=f'"{sequencing}"')
    warehouse = world.open()
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    first, since = world.now(), int(warehouse.cut().seq)
    with warehouse.engine() as engine:
        engine.start(warehouse.plans())
        for _ in range(3):
            world.act(4)
            engine.catch_up()
    check_now(warehouse, world)
    for seq, tables in states(warehouse, first, since):
        want = everything(warehouse, tables)
        assert seen(warehouse, "orders", seq) == want["orders"]
        assert seen(warehouse, "pieces", seq) == want["pieces"]
