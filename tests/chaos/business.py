"""The business that is attacked: tables at three sources, views of every kind, and what each means in plain Python.

The meaning (`View.rows`) is written by hand, row by row. Neither Headwater's algebra nor any SQL engine takes part in
it, so a fault that both share cannot hide. Values are compared in one written form (`canonical`): what PostgreSQL,
SQLite and Arrow call differently is the same text here, and what a view cannot hold (infinity, a word in a column of
numbers) equals nothing a view may show.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]
Bag = Counter[Row]
State = Mapping[str, Bag]
"""Every table of a source, by its name."""
Tables = Mapping[str, Bag]
"""Every table of all sources, as `source.table`."""

POSTGRES_DDL = """
CREATE TYPE order_kind AS ENUM ('web', 'desk', 'mail');
CREATE TABLE control (id int PRIMARY KEY, current int, closed int);
CREATE TABLE receipts (id int PRIMARY KEY, period int, note text);
CREATE TABLE orders (id int PRIMARY KEY, customer int, sku text, qty int, status text, placed timestamp,
    price numeric(10,2), weight float8, due date, kind order_kind, scratch text, odd date);
CREATE TABLE lines (order_id int REFERENCES orders ON DELETE CASCADE ON UPDATE CASCADE, n int, note text,
    PRIMARY KEY (order_id, n));
CREATE TABLE events (id int, part int, note text) PARTITION BY LIST (part);
CREATE TABLE events_0 PARTITION OF events FOR VALUES IN (0);
CREATE TABLE events_1 PARTITION OF events FOR VALUES IN (1);
CREATE TABLE events_2 (id int, part int, note text);
INSERT INTO control VALUES (1, 1, 0), (2, 1, 0);
INSERT INTO receipts VALUES (1, 1, 'first');
INSERT INTO orders SELECT n, n, chr(96 + n), n, 'open', timestamp '2024-05-01 10:00' + n * interval '1.25 h', n + 0.25,
    n * 1.5, date '2024-06-01' + n, 'web' FROM generate_series(1, 6) AS n;
INSERT INTO lines SELECT n, 1, 'n' || n FROM generate_series(1, 6) AS n;
INSERT INTO events SELECT n, n % 2, 'e' || n FROM generate_series(1, 6) AS n;
INSERT INTO events_2 VALUES (20, 2, 'apart');
"""
CUSTOMERS_DDL = (
    "CREATE TABLE {} (id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT 'nobody' UNIQUE, city TEXT, age INTEGER,"
    " junk INTEGER)"
)
SQLITE_DDL = {
    "crm": [
        CUSTOMERS_DDL.format("customers"),
        "CREATE TABLE visits (id INTEGER PRIMARY KEY, customer INTEGER, day TEXT, UNIQUE (customer, day))",
        "CREATE TABLE tally (customer INTEGER PRIMARY KEY, n INTEGER, badge TEXT UNIQUE)",
        "CREATE TRIGGER count_visits AFTER INSERT ON visits BEGIN"
        " INSERT OR REPLACE INTO tally VALUES"
        " (NEW.customer, (SELECT count(*) FROM visits WHERE customer = NEW.customer), NEW.day); END",
        "INSERT INTO customers VALUES (1, 'Ada', 'Bologna', 36, 0), (2, 'Bo', 'Bologna', 40, 0), (3, 'Cy', NULL, 1, 0)",
        "INSERT INTO visits VALUES (1, 1, 'mon'), (2, 2, 'tue')",
    ],
    "stock": [
        "CREATE TABLE products (sku TEXT PRIMARY KEY, title TEXT, price DECIMAL(10,2))",
        "CREATE TABLE bins (sku TEXT, place TEXT)",
        "INSERT INTO products VALUES ('a', 'apple', 1.25), ('b', 'bread', 2.5), ('c', 'cheese', 9.75)",
        "INSERT INTO bins VALUES ('a', 'north'), ('b', 'south')",
    ],
}
SQLITE_MODES = {"crm": "WAL", "stock": "DELETE"}

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "shop.control": ("id", "current", "closed"),
    "shop.receipts": ("id", "period", "note"),
    "shop.orders": (
        "id", "customer", "sku", "qty", "status", "placed::text", "price::text", "weight", "due::text", "kind::text",
    ),
    "shop.lines": ("order_id", "n", "note"),
    "shop.events": ("id", "part", "note"),
    "crm.customers": ("id", "name", "city", "age"),
    "crm.visits": ("id", "customer", "day"),
    "crm.tally": ("customer", "n", "badge"),
    "stock.products": ("sku", "title", "price"),
    "stock.bins": ("sku", "place"),
}  # fmt: skip
"""What the oracle reads of each table: the columns that views use, and no others."""
DECIMALS = frozenset({("shop.orders", "price::text"), ("stock.products", "price")})
SOURCES = ("shop", "crm", "stock")


@dataclass(frozen=True)
class View:
    """`uses` are the columns it reads, per table; `rows` is what it should hold."""

    name: str
    level: str
    sql: str
    uses: Mapping[str, frozenset[str]]
    rows: Callable[[Tables], Bag]

    @property
    def sources(self) -> frozenset[str]:
        return frozenset(table.partition(".")[0] for table in self.uses)


def canonical(value: Any) -> Any:
    """One written form for a value, wherever it was read."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, Decimal):
        return f"{value.normalize():f}" if value.is_finite() else str(value)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    return value


def stored(table: str, values: Row) -> Row:
    """A row as a database gave it, in the written form."""
    row = []
    for column, value in zip(COLUMNS[table], values, strict=True):
        if value is not None and (table, column) in DECIMALS:
            try:
                value = Decimal(str(value)).quantize(Decimal("0.01")) if str(value) != "NaN" else value
            except ArithmeticError:  # a word in a column of numbers
                value = str(value)
        elif isinstance(value, str) and column == "placed::text" and "." in value:
            head, _, fraction = value.partition(".")
            value = f"{head}.{fraction:0<6}"
        row.append(canonical(value))
    return tuple(row)


def _each(bag: Bag) -> Iterator[Row]:
    return bag.elements()


def _picked(table: str, *columns: int) -> Callable[[Tables], Bag]:
    return lambda tables: Counter(tuple(row[c] for c in columns) for row in _each(tables[table]))


def _periods(t: Tables) -> Bag:
    return Counter(
        (c[0], c[1], c[2], r[0]) for c in _each(t["shop.control"]) for r in _each(t["shop.receipts"]) if r[1] == c[2]
    )


def _bought(t: Tables) -> Bag:
    return Counter(
        (o[0], c[1], p[1], o[3])
        for o in _each(t["shop.orders"])
        for c in _each(t["crm.customers"])
        if c[0] == o[1] and o[1] is not None
        for p in _each(t["stock.products"])
        if p[0] == o[2] and o[2] is not None
    )


def _by_city(t: Tables) -> Bag:
    groups: dict[Any, list[Any]] = {}
    for o in _each(t["shop.orders"]):
        for c in _each(t["crm.customers"]):
            if c[0] == o[1] and o[1] is not None:
                groups.setdefault(c[2], []).append(o[3])
    return Counter((city, len(found), _sum(found)) for city, found in groups.items())


def _sum(values: list[Any]) -> Any:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _per_customer(t: Tables) -> Bag:
    counted = Counter(row[1] for row in _each(t["crm.visits"]))
    return Counter(dict.fromkeys(counted.items(), 1))


def _order_notes(t: Tables) -> Bag:
    return Counter(
        (o[0], o[4], line[2]) for o in _each(t["shop.orders"]) for line in _each(t["shop.lines"]) if line[0] == o[0]
    )


def _places(t: Tables) -> Bag:
    return Counter(
        (p[0], p[1], b[1])
        for p in _each(t["stock.products"])
        for b in _each(t["stock.bins"])
        if b[0] == p[0] and p[0] is not None
    )


def _uses(**tables: str) -> dict[str, frozenset[str]]:
    return {name.replace("__", "."): frozenset(columns.split()) for name, columns in tables.items()}


VIEWS = {
    view.name: view
    for view in (
        View("receipts_all", "complete", "SELECT id, period, note FROM shop.receipts",
             _uses(shop__receipts="id period note"), _picked("shop.receipts", 0, 1, 2)),
        View("controls", "complete", "SELECT id, current, closed FROM shop.control",
             _uses(shop__control="id current closed"), _picked("shop.control", 0, 1, 2)),
        View("periods", "complete", "SELECT c.id, c.current, c.closed, r.id AS receipt FROM shop.control c"
             " JOIN shop.receipts r ON r.period = c.closed",
             _uses(shop__control="id current closed", shop__receipts="id period"), _periods),
        View("orders_all", "complete", "SELECT id, customer, qty, status FROM shop.orders",
             _uses(shop__orders="id customer qty status"), _picked("shop.orders", 0, 1, 3, 4)),
        View("orders_wide", "complete", "SELECT id, placed, price, weight, due, kind FROM shop.orders",
             _uses(shop__orders="id placed price weight due kind"), _picked("shop.orders", 0, 5, 6, 7, 8, 9)),
        View("lines_all", "complete", "SELECT order_id, n, note FROM shop.lines",
             _uses(shop__lines="order_id n note"), _picked("shop.lines", 0, 1, 2)),
        View("events_all", "complete", "SELECT id, part, note FROM shop.events",
             _uses(shop__events="id part note"), _picked("shop.events", 0, 1, 2)),
        View("n_orders", "complete", "SELECT COUNT(*) AS n FROM shop.orders",
             _uses(shop__orders=""), lambda t: Counter([(t["shop.orders"].total(),)])),
        View("customers_all", "complete", "SELECT id, name, city, age FROM crm.customers",
             _uses(crm__customers="id name city age"), _picked("crm.customers", 0, 1, 2, 3)),
        View("tallies", "complete", "SELECT customer, n, badge FROM crm.tally",
             _uses(crm__tally="customer n badge"), _picked("crm.tally", 0, 1, 2)),
        View("per_customer", "complete", "SELECT customer, COUNT(*) AS n FROM crm.visits GROUP BY customer",
             _uses(crm__visits="customer"), _per_customer),
        View("products_all", "complete", "SELECT sku, title, price FROM stock.products",
             _uses(stock__products="sku title price"), _picked("stock.products", 0, 1, 2)),
        View("bought", "complete", "SELECT o.id, c.name, p.title, o.qty FROM shop.orders o"
             " JOIN crm.customers c ON c.id = o.customer JOIN stock.products p ON p.sku = o.sku",
             _uses(shop__orders="id customer sku qty", crm__customers="id name", stock__products="sku title"), _bought),
        View("by_city", "complete", "SELECT c.city, COUNT(*) AS n, SUM(o.qty) AS pieces FROM shop.orders o"
             " JOIN crm.customers c ON c.id = o.customer GROUP BY c.city",
             _uses(shop__orders="customer qty", crm__customers="id city"), _by_city),
        View("order_notes", "strong", "SELECT o.id, o.status, l.note FROM shop.orders o"
             " JOIN shop.lines l ON l.order_id = o.id",
             _uses(shop__orders="id status", shop__lines="order_id note"), _order_notes),
        View("places", "convergent", "SELECT p.sku, p.title, b.place FROM stock.products p"
             " JOIN stock.bins b ON b.sku = p.sku",
             _uses(stock__products="sku title", stock__bins="sku place"), _places),
    )
}  # fmt: skip


def definitions() -> str:
    """The views as a project has them."""
    return "\n".join(
        f"CREATE MATERIALIZED VIEW {v.name} WITH (consistency = '{v.level}') AS {v.sql};" for v in VIEWS.values()
    )


def views_over(table: str, column: str | None = None) -> frozenset[str]:
    """The views that read a table, or one of its columns."""
    return frozenset(v.name for v in VIEWS.values() if table in v.uses and (column is None or column in v.uses[table]))


def views_of(source: str) -> frozenset[str]:
    """The views that read anything of a source."""
    return frozenset(v.name for v in VIEWS.values() if source in v.sources)
