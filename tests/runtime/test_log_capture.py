"""A PostgreSQL source captured by its log, on the engine, beside a SQLite one: written to while views are loaded and
maintained, and changed to triggers and back between runs."""

from __future__ import annotations

import itertools
import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

import headwater
from postgres_server import PostgresServer
from runtime.world import Sqlite

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

VIEWS = """
CREATE MATERIALIZED VIEW located AS
SELECT o.id, o.qty, c.city FROM shop.orders o JOIN crm.customers c ON o.customer = c.id;
CREATE MATERIALIZED VIEW per_customer AS
SELECT customer, count(*) AS n, sum(qty) AS qty FROM shop.orders GROUP BY customer;
CREATE MATERIALIZED VIEW everyone AS
SELECT c.id, o.qty FROM crm.customers c LEFT JOIN shop.orders o ON o.customer = c.id;
"""


def configure(folder: Path, url: str, capture: str) -> None:
    (folder / "headwater.toml").write_text(
        f'[sources.shop]\nurl = "{url}"\ncapture = "{capture}"\n[sources.crm]\nurl = "sqlite:///crm.db"\n'
        "[run]\npoll_seconds = 0.05\n"
    )


def shown(warehouse: headwater.Warehouse, view: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in warehouse.rows(view).to_pylist())


def wanted(url: str, folder: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    with psycopg.connect(url) as shop, sqlite3.connect(folder / "crm.db") as crm:
        orders = shop.execute("SELECT id, customer, qty FROM orders").fetchall()
        customers = dict(crm.execute("SELECT id, city FROM customers").fetchall())
    per = {c: [q for _, k, q in orders if k == c] for c in {k for _, k, _ in orders}}
    return {
        "located": Counter((i, q, customers[k]) for i, k, q in orders if k in customers),
        "per_customer": Counter((k, len(qs), sum(qs)) for k, qs in per.items()),
        "everyone": Counter((c, q) for c in customers for q in (per.get(c) or [None])),
    }


def test_the_log_on_the_engine(tmp_path: Path, spark: SparkSession, postgres: PostgresServer) -> None:
    url = postgres.create_database("by_log")
    folder = tmp_path / "p"
    (folder / "views").mkdir(parents=True)
    (folder / "views" / "all.sql").write_text(VIEWS)
    configure(folder, url, "log")
    with Sqlite(folder / "crm.db") as crm:
        crm.execute("PRAGMA journal_mode = WAL")
        crm.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, city TEXT)")
        crm.execute("INSERT INTO customers VALUES (1, 'Rome'), (2, 'Oslo'), (3, 'Lima')")
    stopping, numbers = threading.Event(), itertools.count(1)

    def write() -> None:
        with psycopg.connect(url, autocommit=True) as shop:
            while not stopping.is_set():
                n = next(numbers)
                shop.execute("INSERT INTO orders VALUES (%s, %s, %s)", [n, n % 4, n % 7])
                shop.execute("UPDATE orders SET qty = qty + 1 WHERE id = %s", [n // 2])
                shop.execute("DELETE FROM orders WHERE id = %s", [n // 3])
                time.sleep(0.01)

    with psycopg.connect(url, autocommit=True) as shop:
        shop.execute(
            "CREATE TABLE orders (id int PRIMARY KEY, customer int, qty int); CREATE INDEX ON orders (customer)"
        )
    warehouse = headwater.open(folder)
    warehouse.setup()
    for way in ("log", "triggers", "log"):
        stopping.clear()
        writer = threading.Thread(target=write)
        writer.start()
        try:
            configure(folder, url, way)
            warehouse = headwater.open(folder)
            warehouse.setup()
            warehouse.run(until_caught_up=True)  # beside the writer
        finally:
            stopping.set()
            writer.join()
        warehouse.run(until_caught_up=True)
        assert not warehouse.halted()
        for view, rows in wanted(url, folder).items():
            assert shown(warehouse, view) == rows, (view, way)
    assert all(checked.ok for checked in warehouse.verify())
    warehouse.teardown()
    with psycopg.connect(url) as shop:
        assert not shop.execute("SELECT FROM pg_publication").rowcount
    postgres.drop_database("by_log")
