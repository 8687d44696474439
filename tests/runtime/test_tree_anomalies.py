"""What people know to go wrong with incremental views, end to end: a LEFT JOIN whose right row comes later, from
another database, or in the same global transaction; a top-N whose first row is deleted; NOT IN with a NULL that comes
and goes.

PostgreSQL and SQLite are written to all the while, `headwater run` is killed and started again, and a reader looks at
every cut it can get: beside each view stand its tables as plain views, so it computes for itself what it must see.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater
from headwater.model.errors import HeadwaterError
from postgres_server import PostgresServer
from runtime.test_processes import Run
from runtime.world import Sqlite

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.soak, pytest.mark.timeout(900)]

VIEWS = """
CREATE MATERIALIZED VIEW orders_all AS SELECT id FROM shop.orders;
CREATE MATERIALIZED VIEW payments_all AS SELECT order_id, amount FROM pay.payments;
CREATE MATERIALIZED VIEW items_all AS SELECT id, price FROM shop.items;
CREATE MATERIALIZED VIEW banned_all AS SELECT n, item FROM pay.banned;
CREATE MATERIALIZED VIEW paid AS
  SELECT o.id, p.amount FROM shop.orders o LEFT JOIN pay.payments p ON p.order_id = o.id;
CREATE MATERIALIZED VIEW top3 AS SELECT id, price FROM shop.items ORDER BY price DESC, id LIMIT 3;
CREATE MATERIALIZED VIEW allowed AS SELECT id FROM shop.items WHERE id NOT IN (SELECT item FROM pay.banned);
"""
TOGETHER = 3
"""Every third order is paid in the global transaction that orders it."""
Rows = list[tuple[Any, ...]]


class Shop:
    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url, self.orders, self.deeds = folder, url, 0, 0
        (folder / "views").mkdir(parents=True)
        (folder / "views" / "all.sql").write_text(VIEWS)
        (folder / "headwater.toml").write_text(
            f'[sources.shop]\nurl = "{url}"\n[sources.pay]\nurl = "sqlite:///pay.db"\n[run]\npoll_seconds = 0.05\n'
        )
        with psycopg.connect(url) as shop:
            shop.execute("CREATE TABLE orders (id int PRIMARY KEY)")
            shop.execute("CREATE TABLE items (id int PRIMARY KEY, price int)")
            shop.execute("INSERT INTO items SELECT n, n FROM generate_series(1, 5) n")
        with Sqlite(folder / "pay.db") as pay:
            pay.execute("PRAGMA journal_mode = WAL")
            pay.execute("CREATE TABLE payments (order_id INTEGER PRIMARY KEY, amount INTEGER)")
            pay.execute("CREATE TABLE banned (n INTEGER PRIMARY KEY, item INTEGER)")

    def write(self, stop: threading.Event) -> None:
        r = random.Random(5)
        with psycopg.connect(self.url, autocommit=True) as shop:
            while not stop.is_set():
                self.deeds += 1
                r.choice([self._order, self._order, self._pay, self._items, self._ban])(shop, r)
                time.sleep(0.02)

    def _order(self, shop: psycopg.Connection[Any], r: random.Random) -> None:
        self.orders += 1
        if self.orders % TOGETHER:
            shop.execute("INSERT INTO orders VALUES (%s)", (self.orders,))
            return
        tag = f"order-{self.orders}"
        with shop.transaction():
            shop.execute("SELECT headwater.part_of(%s, 2)", (tag,))
            shop.execute("INSERT INTO orders VALUES (%s)", (self.orders,))
        with Sqlite(self.folder / "pay.db") as pay:
            pay.execute("BEGIN IMMEDIATE")
            pay.execute("INSERT INTO _headwater_transaction(tag, parts) VALUES (?, 2)", (tag,))
            pay.execute("INSERT INTO payments VALUES (?, ?)", (self.orders, r.randint(1, 9)))
            pay.execute("COMMIT")

    def _pay(self, shop: psycopg.Connection[Any], r: random.Random) -> None:
        """Later, for an order of long ago, one that is not there yet, or once more."""
        order = r.randint(1, self.orders + 2)
        if order % TOGETHER:
            with Sqlite(self.folder / "pay.db") as pay:
                pay.execute(
                    r.choice(
                        [
                            "INSERT OR REPLACE INTO payments VALUES (?1, ?2)",
                            "DELETE FROM payments WHERE order_id = ?1 AND ?2",
                        ]
                    ),
                    (order, r.randint(1, 9)),
                )

    def _items(self, shop: psycopg.Connection[Any], r: random.Random) -> None:
        first = "id = (SELECT id FROM items ORDER BY price DESC, id LIMIT 1)"
        shop.execute(
            r.choice(
                [
                    f"DELETE FROM items WHERE {first}",
                    "INSERT INTO items VALUES (%(id)s, %(price)s)"
                    " ON CONFLICT (id) DO UPDATE SET price = excluded.price",
                    f"UPDATE items SET price = 0 WHERE {first}",
                ]
            ),
            {"id": r.randint(1, 8), "price": r.randint(1, 20)},
        )

    def _ban(self, shop: psycopg.Connection[Any], r: random.Random) -> None:
        with Sqlite(self.folder / "pay.db") as pay:
            if r.random() < 0.5:
                pay.execute("INSERT OR REPLACE INTO banned VALUES (?, ?)", (r.randint(1, 4), r.choice([None, 1, 2, 7])))
            else:
                pay.execute("DELETE FROM banned WHERE n = ?", (r.randint(1, 4),))


def check(session: headwater.Session) -> int:
    """Every view is what its tables say, at this very state."""
    shown: dict[str, Rows] = {
        name: [tuple(row.values()) for row in session.rows(name).to_pylist()]
        for name in ("orders_all", "payments_all", "items_all", "banned_all", "paid", "top3", "allowed")
    }
    at = session.cut.seq
    amounts = dict(shown["payments_all"])
    paid = [(order, amounts.get(order)) for (order,) in shown["orders_all"]]
    assert sorted(shown["paid"], key=repr) == sorted(paid, key=repr), f"LEFT JOIN at {at}"
    half = [order for order, amount in paid if not order % TOGETHER and amount is None]
    assert not half, f"orders {half} without the payment of the same transaction, at {at}"
    best = sorted(shown["items_all"], key=lambda item: (-item[1], item[0]))[:3]
    assert sorted(shown["top3"]) == sorted(best), f"top 3 at {at}"
    banned = [item for _, item in shown["banned_all"]]
    items = [] if None in banned else [(item,) for item, _ in shown["items_all"] if item not in banned]
    assert sorted(shown["allowed"]) == sorted(items), f"NOT IN at {at}, banned {banned}"
    return session.cut.number


def read(folder: Path, stop: threading.Event, found: dict[str, Any]) -> None:
    warehouse = headwater.open(folder)
    while not stop.is_set() and "wrong" not in found:
        try:
            with warehouse.session() as session:
                found.setdefault("cuts", set()).add(check(session))
        except HeadwaterError:
            time.sleep(0.2)  # nothing to read yet
        except AssertionError as error:
            found["wrong"] = error


def saw_more(found: dict[str, Any], cuts: int = 8, seconds: float = 180) -> None:
    """Wait until the reader has seen that many cuts more."""
    want, end = len(found.get("cuts", ())) + cuts, time.monotonic() + seconds
    while len(found.get("cuts", ())) < want and "wrong" not in found:
        assert time.monotonic() < end, f"only {len(found.get('cuts', ()))} cuts in {seconds} s"
        time.sleep(0.2)


def test_what_people_know_to_go_wrong(tmp_path: Path, postgres: PostgresServer) -> None:
    shop = Shop(tmp_path / "p", postgres.create_database("anomalies"))
    headwater.open(shop.folder).setup()
    stop, found = threading.Event(), dict[str, Any]()
    threads = [threading.Thread(target=shop.write, args=(stop,))]
    threads += [threading.Thread(target=read, args=(shop.folder, stop, found))]
    run = Run(shop.folder)
    try:
        for thread in threads:
            thread.start()
        for _ in range(3):
            saw_more(found)
            os.killpg(run.process.pid, signal.SIGKILL)
            run.close()
            run = Run(shop.folder)
        saw_more(found)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        run.close()
    assert "wrong" not in found, found["wrong"]
    warehouse = headwater.open(shop.folder)
    warehouse.run(until_caught_up=True)
    assert not warehouse.halted()
    status = warehouse.status()
    last, oldest = status.cut.seq, max(view.horizon for view in status.views)
    assert last - oldest > 50, "too little happened to mean anything"
    for seq in range(oldest, last + 1, max(1, (last - oldest) // 60)):
        with warehouse.session(at=seq) as session:
            check(session)
    assert not [(v.view, v.missing, v.extra) for v in warehouse.verify() if not v.ok]
    print(f"{shop.deeds} deeds, {last} transactions, {len(found['cuts'])} cuts seen while running")
    assert len(found["cuts"]) > 10
