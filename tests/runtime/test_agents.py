"""A database behind an agent, on the engine: away, back, cut off, killed; everything is told once, and others go on."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater
from agents.bad_line import BadLine
from agents.hub_here import running
from headwater.agent.joining import Invitation, join
from headwater.hub.enrolment import Enrolment
from runtime.world import Sqlite

pytestmark = pytest.mark.spark

VIEWS = """
CREATE MATERIALIZED VIEW located AS
SELECT o.id, o.qty, c.city FROM shop.orders o JOIN crm.customers c ON o.customer = c.id;
CREATE MATERIALIZED VIEW per_city AS
SELECT c.city, count(*) AS n, sum(o.qty) AS qty
FROM shop.orders o JOIN crm.customers c ON o.customer = c.id GROUP BY c.city;
CREATE MATERIALIZED VIEW orders_only AS SELECT id, qty FROM shop.orders;
"""


class Far:
    """A project whose customers are on a laptop."""

    def __init__(self, folder: Path, questions: str) -> None:
        self.folder, self.laptop = folder / "p", folder / "laptop"
        (self.folder / "views").mkdir(parents=True)
        self.laptop.mkdir()
        (self.folder / "views" / "all.sql").write_text(VIEWS)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (self.folder / "headwater.toml").write_text(
            f'[sources.shop]\nurl = "sqlite:///shop.db"\n[sources.crm]\nurl = "agent://laptop"\n'
            f'questions = "{questions}"\n[hub]\nlisten = "127.0.0.1:{self.port}"\n[run]\npoll_seconds = 0.05\n'
        )
        self.write(
            "shop", "PRAGMA journal_mode = WAL", "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INT, qty INT)"
        )
        self.write("shop", "CREATE INDEX of_customer ON orders (customer)")
        self.write("crm", "PRAGMA journal_mode = WAL", "CREATE TABLE customers (id INTEGER PRIMARY KEY, city TEXT)")
        self.write("shop", *(f"INSERT INTO orders VALUES ({n}, {n % 5}, {n})" for n in range(20)))
        self.write("crm", *(f"INSERT INTO customers VALUES ({n}, 'c{n % 2}')" for n in range(5)))

    def join(self, port: int) -> None:
        token = Enrolment(self.open().storage).enrol("laptop")
        join(self.laptop, Invitation("laptop", f"http://127.0.0.1:{port}", token), "sqlite:///crm.db")

    def open(self) -> headwater.Warehouse:
        return headwater.open(self.folder)

    def file(self, database: str) -> Path:
        return (self.laptop if database == "crm" else self.folder) / f"{database}.db"

    def write(self, database: str, *statements: str) -> None:
        with Sqlite(self.file(database)) as db:
            for statement in statements:
                db.execute(statement)

    def wanted(self) -> dict[str, Counter[tuple[Any, ...]]]:
        with Sqlite(self.file("shop")) as shop, Sqlite(self.file("crm")) as crm:
            orders = shop.execute("SELECT id, customer, qty FROM orders")
            customers = dict(crm.execute("SELECT id, city FROM customers"))
        located = [(i, q, customers[c]) for i, c, q in orders if c in customers]
        cities = {city: [q for _, q, where in located if where == city] for _, _, city in located}
        return {
            "located": Counter(located),
            "per_city": Counter((city, len(qs), sum(qs)) for city, qs in cities.items()),
            "orders_only": Counter((i, q) for i, _, q in orders),
        }


def shown(warehouse: headwater.Warehouse) -> dict[str, Counter[tuple[Any, ...]]]:
    views = ("located", "per_city", "orders_only")
    return {view: Counter(tuple(row.values()) for row in warehouse.rows(view).to_pylist()) for view in views}


def test_away_and_back(tmp_path: Path, spark: SparkSession) -> None:
    far = Far(tmp_path, "copy")
    far.join(far.port)
    warehouse = far.open()
    with running(far.laptop, wait=False):
        warehouse.setup()
        warehouse.run(until_caught_up=True)
        assert shown(warehouse) == far.wanted()
    far.write("shop", "INSERT INTO orders VALUES (100, 1, 7)", "UPDATE orders SET qty = 50 WHERE id = 3")
    warehouse.run(until_caught_up=True, without=["crm"])
    assert shown(warehouse) == far.wanted()  # what is needed of the laptop is kept here: nobody waits for it
    far.write("crm", "INSERT INTO customers VALUES (9, 'c9')", "UPDATE customers SET city = 'moved' WHERE id = 1")
    far.write("shop", "INSERT INTO orders VALUES (101, 9, 8)")
    warehouse.run(until_caught_up=True, without=["crm"])
    away = shown(warehouse)
    assert away["orders_only"] == far.wanted()["orders_only"]
    assert away["located"] != far.wanted()["located"]
    with running(far.laptop, wait=False):
        warehouse.run(until_caught_up=True)
        assert shown(warehouse) == far.wanted()
        assert all(found.ok for found in warehouse.verify())
    warehouse.project.close()


@pytest.mark.soak
@pytest.mark.parametrize("questions", ["copy", "visit"])
def test_cut_off_and_killed_at_any_moment(tmp_path: Path, spark: SparkSession, questions: str) -> None:
    """The agent is a process that is killed (-9) again and again, over a line that cuts messages in the middle."""
    far = Far(tmp_path, questions)
    line = BadLine(far.port)
    far.join(line.port)
    warehouse = far.open()
    stop, chance = threading.Event(), random.Random(3)
    agents: list[subprocess.Popen[bytes]] = []

    def live() -> None:
        while not stop.is_set():
            agents.append(subprocess.Popen(
                [sys.executable, "-m", "headwater.cli.main", "agent", "run", "-f", str(far.laptop)],
                stderr=subprocess.DEVNULL,
            ))  # fmt: skip
            stop.wait(1e9 if not line.bad else 4 + 6 * chance.random())
            agents[-1].send_signal(signal.SIGKILL)
            agents[-1].wait()

    living = threading.Thread(target=live)
    living.start()
    try:
        warehouse.setup()
        warehouse.run(until_caught_up=True)
        line.bad = True
        os.kill(agents[-1].pid, signal.SIGKILL)
        stop.set()
        living.join()
        stop.clear()
        living = threading.Thread(target=live)
        living.start()
        with warehouse.engine() as engine:
            warehouse._start(engine, apply=False)
            until = time.monotonic() + 60
            number = 1000
            while time.monotonic() < until:
                for _ in range(chance.randrange(5)):
                    number += 1
                    far.write("shop", f"INSERT INTO orders VALUES ({number}, {number % 40}, {chance.randrange(9)})")
                    if chance.random() < 0.5:
                        key = chance.randrange(40)
                        far.write("crm", f"DELETE FROM customers WHERE id = {key}")
                        far.write("crm", f"INSERT INTO customers VALUES ({key}, 'c{chance.randrange(3)}')")
                for _ in range(5):
                    engine.step()
        line.bad = False
        warehouse.run(until_caught_up=True)
        assert shown(warehouse) == far.wanted()
        last = warehouse.cut().seq
        assert last > 100
        for at in (None, last // 2, last // 3):
            assert all(found.ok for found in warehouse.verify(at=at))
        assert line.cuts > 5
        assert len(agents) > 4
    finally:
        stop.set()
        living.join()
        line.close()
        warehouse.project.close()
