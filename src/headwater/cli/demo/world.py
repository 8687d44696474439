"""The demo's project: three databases, a few thousand rows, three views."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import psycopg

CUSTOMERS, PRODUCTS, ORDERS = 500, 200, 4000

TOML = """\
# The demo's project. 'headwater init DIR' writes one with every setting explained.

[sources.shop]
url = "{shop}"

[sources.crm]
url = "sqlite:///crm.db"

[sources.stock]
url = "sqlite:///stock.db"
"""

VIEWS = {
    "open_orders.sql": """\
-- Three databases, one view: every transaction at any of them is a state of it.
CREATE MATERIALIZED VIEW open_orders WITH (consistency = 'complete') AS
SELECT o.id, c.name, c.city, p.title, o.qty, o.qty * p.price AS amount
FROM shop.orders o
JOIN crm.customers c ON c.id = o.customer_id
JOIN stock.products p ON p.sku = o.sku
WHERE o.status = 'open';
""",
    "customer_totals.sql": """\
-- What each customer has ordered so far, at today's prices. Strong: one state per batch.
CREATE MATERIALIZED VIEW customer_totals WITH (consistency = 'strong') AS
SELECT c.id, c.name, COUNT(*) AS orders, SUM(o.qty) AS items, SUM(o.qty * p.price) AS amount
FROM shop.orders o
JOIN crm.customers c ON c.id = o.customer_id
JOIN stock.products p ON p.sku = o.sku
GROUP BY c.id, c.name;
""",
    "busy_categories.sql": """\
-- Categories with many open orders, and the span of prices in them.
CREATE MATERIALIZED VIEW busy_categories WITH (consistency = 'complete') AS
SELECT p.category, COUNT(*) AS orders, COUNT(DISTINCT o.customer_id) AS customers,
       MIN(p.price) AS cheapest, MAX(p.price) AS dearest
FROM shop.orders o
JOIN stock.products p ON p.sku = o.sku
WHERE o.status = 'open'
GROUP BY p.category
HAVING COUNT(*) >= 150;
""",
}

CATEGORIES = ("books", "garden", "kitchen", "lamps", "music", "paper", "tea", "tools", "toys", "wool")
CITIES = ("Bergen", "Cádiz", "Ghent", "Graz", "Kraków", "Lyon", "Oulu", "Porto", "Turin", "Ulm")
_FIRST = ("Ada", "Bo", "Chloé", "Dora", "Emil", "Fay", "Gus", "Hana", "Ivo", "Jun", "Kim", "Lea", "Max", "Noor", "Zoë")
_LAST = ("Abe", "Berg", "Costa", "Diaz", "Ek", "Fuchs", "Gray", "Holt", "Ito", "Jones", "Kaya", "Lund", "Moss", "Nagy")
_KINDS = ("small", "large", "blue", "red", "plain", "fine", "old", "new", "round", "light")


def write_project(folder: Path, shop_url: str) -> None:
    (folder / "headwater.toml").write_text(TOML.format(shop=shop_url), encoding="utf-8")
    (folder / "views").mkdir(exist_ok=True)
    for name, text in VIEWS.items():
        (folder / "views" / name).write_text(text, encoding="utf-8")


def fill(folder: Path, server_url: str, shop_url: str, chance: random.Random) -> None:
    """Create the three databases and their first rows."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE shop")
    with psycopg.connect(shop_url) as connection:
        connection.execute(
            "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id int NOT NULL,"
            " sku text NOT NULL, qty int NOT NULL, status text NOT NULL, placed_at timestamptz NOT NULL DEFAULT now())"
        )
        connection.execute("CREATE INDEX ON orders (customer_id)")
        connection.execute("CREATE INDEX ON orders (sku)")
        with connection.cursor().copy("COPY orders (customer_id, sku, qty, status) FROM STDIN") as copy:
            for _ in range(ORDERS):
                copy.write_row((*order(chance), "open" if chance.random() < 0.4 else "shipped"))
    with psycopg.connect(shop_url, autocommit=True) as connection:
        connection.execute("ANALYZE orders")
    crm = sqlite(folder / "crm.db")
    crm.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT NOT NULL)")
    people = [(i, person(chance), chance.choice(CITIES)) for i in range(1, CUSTOMERS + 1)]
    crm.executemany("INSERT INTO customers VALUES (?, ?, ?)", people)
    crm.commit()
    crm.close()
    stock = sqlite(folder / "stock.db")
    stock.execute(
        "CREATE TABLE products (sku TEXT PRIMARY KEY, title TEXT NOT NULL, category TEXT NOT NULL, price DECIMAL(8,2))"
    )
    stock.executemany("INSERT INTO products VALUES (?, ?, ?, ?)", [product(i, chance) for i in range(1, PRODUCTS + 1)])
    stock.commit()
    stock.close()


def sqlite(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=30, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("PRAGMA synchronous = normal")
    return connection


def order(chance: random.Random) -> tuple[int, str, int]:
    """customer, sku, quantity; a few customers and products are in much demand."""
    customer = min(CUSTOMERS, 1 + int(chance.expovariate(4 / CUSTOMERS)))
    return customer, f"P{chance.randint(1, PRODUCTS):04}", chance.randint(1, 5)


def person(chance: random.Random) -> str:
    return f"{chance.choice(_FIRST)} {chance.choice(_LAST)}"


def product(number: int, chance: random.Random) -> tuple[Any, ...]:
    category = CATEGORIES[number % len(CATEGORIES)]
    return f"P{number:04}", f"{chance.choice(_KINDS)} {category} {number}", category, price(chance)


def price(chance: random.Random) -> str:
    return f"{chance.randint(1, 120)}.{chance.choice(('00', '50', '95', '99'))}"
