"""Tables of one source asked together, on the engine: the same states as asked one by one, and fewer questions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

import headwater
from headwater.cli.planning import make_plan
from headwater.runtime.engine import Engine
from postgres_server import PostgresServer
from runtime.world import Sqlite

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

SHOP = """
CREATE TABLE branches (id int PRIMARY KEY, region text);
CREATE TABLE orders (id int PRIMARY KEY, customer_id bigint, branch_id int, status text);
CREATE TABLE lines (order_id int, product text, qty int);
CREATE INDEX ON orders (customer_id); CREATE INDEX ON orders (branch_id);
CREATE INDEX ON lines (order_id); CREATE INDEX ON lines (product)
"""
FILES = {
    "crm": "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT);"
    "CREATE TABLE cities (name TEXT PRIMARY KEY, country TEXT); CREATE INDEX by_city ON customers (city)",
    "stock": "CREATE TABLE products (code TEXT PRIMARY KEY, price INTEGER)",
}
JOIN = (
    "FROM shop.orders o JOIN shop.lines l ON l.order_id = o.id JOIN shop.branches b ON b.id = o.branch_id"
    " JOIN crm.customers c ON c.id = o.customer_id JOIN crm.cities t ON t.name = c.city"
    " JOIN stock.products p ON p.code = l.product WHERE o.status <> 'void'"
)
VIEWS = f"""
CREATE MATERIALIZED VIEW every_one WITH (consistency = 'complete') AS
SELECT o.id, b.region, l.qty, c.name, t.country, l.qty * p.price AS amount {JOIN};
CREATE MATERIALIZED VIEW sums WITH (consistency = 'strong') AS
SELECT b.region, t.country, COUNT(*) AS n, SUM(l.qty * p.price) AS amount {JOIN} GROUP BY b.region, t.country;
"""


class Business:
    def __init__(self, folder: Path, url: str, join: bool) -> None:
        self.folder, self.url, self.chance = folder, url, random.Random(7)
        (folder / "views").mkdir(parents=True)
        (folder / "views" / "all.sql").write_text(VIEWS)
        files = "".join(f'[sources.{name}]\nurl = "sqlite:///{name}.db"\n' for name in FILES)
        run = f"[run]\npoll_seconds = 0.05\njoin_at_sources = {str(join).lower()}\n"
        (folder / "headwater.toml").write_text(f'[sources.shop]\nurl = "{url}"\n{files}{run}')
        with psycopg.connect(url, autocommit=True) as shop:
            shop.execute(SHOP)
        for name, script in FILES.items():
            self.write(name, "PRAGMA journal_mode = WAL", *script.split(";"))
        with psycopg.connect(url, autocommit=True) as shop:
            shop.execute("INSERT INTO branches SELECT n, 'r' || n FROM generate_series(0, 2) AS n")
            shop.execute("INSERT INTO orders SELECT n, n % 5, n % 3, 'open' FROM generate_series(1, 9) AS n")
            shop.execute("INSERT INTO lines SELECT n % 9 + 1, chr(97 + n % 3), n FROM generate_series(1, 40) AS n")
        self.write("stock", "INSERT INTO products VALUES ('a', 1), ('b', 2), ('A', 3)")
        self.write("crm", "INSERT INTO cities VALUES ('Bern', 'CH'), ('Ulm', 'DE')")
        self.write(
            "crm",
            "INSERT INTO customers VALUES (1, 'n1', 'Bern'), (2, 'n2', 'Ulm'), (3, 'n3', 'Bern'), (4, 'n4', NULL)",
        )

    def write(self, name: str, *statements: str) -> None:
        with Sqlite(self.folder / f"{name}.db") as db:
            for statement in statements:
                db.execute(statement)

    def act(self, *sources: str) -> None:
        """One transaction at one of these sources; inserts, updates, deletes, rows that stand twice, NULLs."""
        r, source = self.chance, self.chance.choice(sources)
        n, code, city = r.randint(1, 9), r.choice("abcA"), r.choice(["'Bern'", "'bern'", "'Ulm'", "NULL"])
        if source == "stock":
            self.write("stock", f"INSERT OR REPLACE INTO products VALUES ('{code}', {n})")
        elif source == "crm":
            self.write("crm", *r.choice([
                (f"INSERT OR REPLACE INTO customers VALUES ({n}, 'n{n}', {city})",),
                (f"DELETE FROM customers WHERE id = {n}", f"INSERT OR REPLACE INTO cities VALUES ('Ulm', 'x{n}')"),
                ("INSERT OR REPLACE INTO cities VALUES ('Bern', 'CH')",),
            ]))  # fmt: skip
        else:
            with psycopg.connect(self.url) as shop:
                shop.execute(r.choice([
                    f"INSERT INTO branches VALUES ({n % 3}, 'r{n}') ON CONFLICT (id) DO UPDATE SET region = 'r{n % 2}'",
                    f"INSERT INTO orders VALUES ({n}, {n}, {n % 3}, 'open') ON CONFLICT (id)"
                    f" DO UPDATE SET customer_id = {r.randint(1, 9)}, status = '{r.choice(['void', 'x'])}'",
                    f"INSERT INTO lines VALUES ({n}, '{code}', {n}), ({n}, '{code}', {n})",
                    f"UPDATE lines SET product = '{code}', order_id = {r.randint(1, 9)} WHERE order_id = {n}",
                    f"DELETE FROM lines WHERE order_id = {n} AND product = '{code}'",
                    f"UPDATE orders SET branch_id = {r.choice([0, 1, 2, 'NULL'])} WHERE id = {n}",
                ]))  # fmt: skip

    @contextmanager
    def running(self) -> Iterator[tuple[headwater.Warehouse, Engine]]:
        warehouse = headwater.open(self.folder)
        warehouse.setup()
        plans = warehouse.plans()
        with warehouse.engine() as engine:
            engine.start(plans)
            engine.catch_up()
            yield warehouse, engine


def asked(engine: Engine, act: Any) -> int:
    """How many questions the batch took that some changes made, per view."""
    before = engine.meter.tally.questions
    act()
    engine.catch_up()
    return (engine.meter.tally.questions - before) // len(engine.cut.views)


@pytest.mark.parametrize("join", [True, pytest.param(False, marks=pytest.mark.soak)], ids=["together", "one by one"])
def test_every_state_is_exact(tmp_path: Path, spark: SparkSession, postgres: PostgresServer, join: bool) -> None:
    world = Business(tmp_path / "p", postgres.create_database(f"joined_{join}".lower()), join)
    with world.running() as (warehouse, engine):
        first = engine.cut.seq
        for _ in range(3):
            for _ in range(10):
                world.act("shop", "crm", "stock")
            engine.catch_up()
        one = asked(engine, lambda: world.write("stock", "UPDATE products SET price = price + 1"))
        other = asked(engine, lambda: world.write("crm", "UPDATE cities SET country = country || '!'"))
        last = engine.cut.seq
    assert not warehouse.halted()
    # stock asks for the three tables of shop, and they for the two of crm
    assert one == (2 if join else 5)
    # a city asks for customers; together they ask for shop, and that for stock
    assert other == (1 + 2 if join else 5)
    for at in ((first + last) // 2, last):
        assert all(checked.ok for checked in warehouse.verify(at=at)), f"at {at}"
    assert len(warehouse.rows("every_one")) > 5, "a view with nothing in it shows nothing"
    said = make_plan(warehouse).views[0]
    if not join:
        assert (said.questions, said.for_themselves, list(said.together)) == (10, 0, [])
        return
    assert (said.questions, said.for_themselves) == (4, 6)
    assert {(str(tables), tables.columns) for tables in said.together} >= {
        ("shop.public.orders ⋈ shop.public.lines ⋈ shop.public.branches", ("l.product",)),
        ("crm.customers ⋈ crm.cities", ("c.id",)),
    }
