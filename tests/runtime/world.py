"""A small business over three real databases, for tests of the whole: a PostgreSQL shop, two SQLite files, some views.

The world applies random transactions; what every view should be after each of them is recomputed in plain Python from
the first rows and the journal (`expected`), so neither Spark nor the wave takes part in the expectation.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any

import adbc_driver_sqlite.dbapi as adbc
import psycopg

import headwater
from headwater.algebra import evaluate
from headwater.algebra.evaluate import Relation
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import TableName
from headwater.warehouse.cuts import ViewState
from headwater.warehouse.layout import log_folder
from headwater.warehouse.table import ChangelogTable

VIEWS = """
CREATE MATERIALIZED VIEW open_orders WITH (consistency = 'complete') AS
SELECT o.id, c.name, p.title, o.qty * p.price AS amount
FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id JOIN stock.products p ON p.sku = o.sku
WHERE o.status = 'open';

CREATE MATERIALIZED VIEW by_city WITH (consistency = 'complete') AS
SELECT c.city, COUNT(*) AS orders, SUM(o.qty) AS pieces, MIN(p.price) AS cheapest, MAX(o.id) AS latest,
       COUNT(DISTINCT o.sku) AS kinds
FROM shop.orders o, crm.customers c, stock.products p
WHERE c.id = o.customer_id AND p.sku = o.sku GROUP BY c.city;

CREATE MATERIALIZED VIEW lines WITH (consistency = 'strong') AS
SELECT o.id, l.note, o.status FROM shop.orders o JOIN shop.lines l ON l.order_id = o.id;

CREATE MATERIALIZED VIEW same_city WITH (consistency = 'convergent') AS
SELECT a.name AS one, b.name AS other FROM crm.customers a JOIN crm.customers b ON a.city = b.city AND a.id < b.id;

CREATE MATERIALIZED VIEW line_states AS
SELECT o.id, o.status FROM shop.orders o JOIN shop.lines l ON l.order_id = o.id;

CREATE MATERIALIZED VIEW totals AS SELECT COUNT(*) AS n, SUM(qty) AS pieces FROM shop.orders;
"""
ROWS = {"shop": "orders, lines", "crm": "customers", "stock": "products"}


class Sqlite:
    """An application's connection, through the same SQLite library as the engine's: two copies of the library in one
    process would lose each other's locks."""

    def __init__(self, path: Path) -> None:
        self._adbc = adbc.connect(str(path), autocommit=True)
        self.execute("PRAGMA busy_timeout = 20000")

    def execute(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._adbc.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall())

    def __enter__(self) -> Sqlite:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._adbc.close()


class World:
    def __init__(self, folder: Path, postgres_url: str, views: str = VIEWS, seed: int = 1) -> None:
        self.folder, self.url, self.random = folder, postgres_url, random.Random(seed)
        self._next = 1000
        (folder / "views").mkdir(parents=True)
        (folder / "views" / "all.sql").write_text(views)
        self.configure()
        with psycopg.connect(self.url) as shop:
            shop.execute("CREATE TABLE orders (id int PRIMARY KEY, customer_id int, sku text, qty int, status text)")
            shop.execute("CREATE TABLE lines (order_id int, note text)")
            shop.execute("CREATE INDEX ON orders (customer_id)")
        for name, ddl in {
            "crm": "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT)",
            "stock": "CREATE TABLE products (sku TEXT PRIMARY KEY, title TEXT, price DECIMAL(10,2))",
        }.items():
            with self.sqlite(name) as db:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute(ddl)
        for _ in range(30):
            self.act()

    def configure(self, **run: Any) -> None:
        settings = "".join(f"{k} = {v}\n" for k, v in run.items())
        (self.folder / "headwater.toml").write_text(
            f'[sources.shop]\nurl = "{self.url}"\n[sources.crm]\nurl = "sqlite:///crm.db"\n'
            f'[sources.stock]\nurl = "sqlite:///stock.db"\n[run]\npoll_seconds = 0.05\n{settings}'
        )

    def open(self) -> headwater.Warehouse:
        return headwater.open(self.folder)

    def sqlite(self, name: str) -> Sqlite:
        return Sqlite(self.folder / f"{name}.db")

    # ---------------------------------------------------------------- history

    def act(self, times: int = 1) -> None:
        """Apply random transactions, each whole, at random sources."""
        for _ in range(times):
            self.random.choice([self._shop, self._shop, self._crm, self._stock])()

    def _shop(self) -> None:
        r = self.random
        with psycopg.connect(self.url) as db:
            for _ in range(r.randint(1, 3)):
                self._next += 1
                deed = r.random()
                if deed < 0.5:
                    row = (self._next, r.randint(1, 8), r.choice("abcde"), r.randint(1, 5), r.choice(["open", "done"]))
                    db.execute("INSERT INTO orders VALUES (%s, %s, %s, %s, %s)", row)
                    db.execute("INSERT INTO lines VALUES (%s, %s), (%s, NULL)", (row[0], f"n{r.randint(1, 3)}", row[0]))
                elif deed < 0.7:
                    db.execute(
                        "UPDATE orders SET status = 'done', qty = qty + 1 WHERE id %% 3 = %s", (r.randint(0, 2),)
                    )
                elif deed < 0.8:
                    db.execute("UPDATE orders SET customer_id = NULL WHERE id %% 7 = %s", (r.randint(0, 6),))
                else:
                    gone = db.execute(
                        "DELETE FROM orders WHERE id %% 5 = %s RETURNING id", (r.randint(0, 4),)
                    ).fetchall()
                    db.execute("DELETE FROM lines WHERE order_id = ANY(%s)", ([g[0] for g in gone],))

    def _crm(self) -> None:
        r = self.random
        with self.sqlite("crm") as db:
            db.execute("BEGIN IMMEDIATE")
            self._mark(db)
            for _ in range(r.randint(1, 2)):
                row = (r.randint(1, 8), f"c{r.randint(1, 99)}", r.choice(["Bologna", "Worcester", "Palo Alto", None]))
                if r.random() < 0.7:
                    db.execute("INSERT OR REPLACE INTO customers VALUES (?, ?, ?)", row)
                else:
                    db.execute("DELETE FROM customers WHERE id = ?", row[:1])
            db.execute("COMMIT")

    def _stock(self) -> None:
        r = self.random
        with self.sqlite("stock") as db:
            db.execute("BEGIN IMMEDIATE")
            self._mark(db)
            row = (r.choice("abcde"), f"t{r.randint(1, 9)}", f"{r.randint(1, 99)}.{r.randint(10, 99)}")
            if r.random() < 0.8:
                db.execute(
                    "INSERT INTO products VALUES (?, ?, ?) ON CONFLICT (sku) DO UPDATE SET price = excluded.price", row
                )
            else:
                db.execute("DELETE FROM products WHERE sku = ?", row[:1])
            db.execute("COMMIT")

    @staticmethod
    def _mark(db: Sqlite) -> None:
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = '_headwater_transaction'"):
            db.execute("INSERT INTO _headwater_transaction(tag) VALUES (NULL)")

    # ------------------------------------------------------------ expectation

    def now(self) -> dict[str, Counter[tuple[Any, ...]]]:
        """Every table's rows right now, read plainly."""
        with psycopg.connect(self.url) as shop:
            orders = Counter(shop.execute("SELECT id, customer_id, sku, qty, status FROM orders").fetchall())
            lines = Counter(shop.execute("SELECT * FROM lines").fetchall())
        with self.sqlite("crm") as db:
            customers = Counter(db.execute("SELECT id, name, city FROM customers"))
        with self.sqlite("stock") as db:
            rows = db.execute("SELECT sku, title, printf('%.2f', price) FROM products")
        products = Counter((s, t, Decimal(p)) for s, t, p in rows)
        return {
            "shop.public.orders": orders,
            "shop.public.lines": lines,
            "crm.customers": customers,
            "stock.products": products,
        }


COLUMNS = {
    "shop.public.orders": ("id", "customer_id", "sku", "qty", "status"),
    "shop.public.lines": ("order_id", "note"),
    "crm.customers": ("id", "name", "city"),
    "stock.products": ("sku", "title", "price"),
}


def states(warehouse: headwater.Warehouse, first: dict[str, Counter[tuple[Any, ...]]], since: int) -> Any:
    """(seq, tables) after every journaled transaction, starting with the first state at `since`. Columns that no view
    uses are not journaled: they are None here."""
    used: dict[str, set[str]] = {}
    for view in warehouse.views.values():
        for occurrence in view.occurrences:
            used.setdefault(str(occurrence.table), set()).update(occurrence.columns)

    def told(table: str, values: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(values[c] if c in used.get(table, ()) else None for c in COLUMNS[table])

    tables: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in first}
    for name, rows in first.items():
        for row, count in rows.items():
            tables[name][told(name, dict(zip(COLUMNS[name], row, strict=True)))] += count
    yield since, tables
    for transaction in warehouse.log(since + 1):
        for change in transaction["changes"]:
            row = told(change["table"], change["row"])
            tables[change["table"]][row] += change["count"]
            assert tables[change["table"]][row] >= 0, f"transaction {transaction['seq']} takes away what is not there"
        yield transaction["seq"], tables


def expected(warehouse: headwater.Warehouse, view: str, tables: dict[str, Counter[tuple[Any, ...]]]) -> Counter[Any]:
    """The view recomputed by the reference algebra."""
    definition = warehouse.views[view]  # type: ignore[index] # a ViewName is a str
    given: dict[TableName, Relation] = {}
    for table in definition.tables:
        rows = [
            dict(zip(COLUMNS[str(table)], row, strict=True))
            for row, count in tables[str(table)].items()
            for _ in range(count)
        ]
        given[table] = rows  # type: ignore[assignment] # rows as mappings will do
    result = evaluate(definition, given)
    return Counter(dict(result))


def seen(warehouse: headwater.Warehouse, view: str, at: int | None = None) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in warehouse.rows(view, at).to_pylist())


SAMPLE = 9
"""Every so many states are read as readers do it; the others are summed up here, from the same changelog."""


def check_every_state(warehouse: headwater.Warehouse, first: dict[str, Counter[tuple[Any, ...]]], since: int) -> int:
    """Every state of the complete views equals recomputation; returns how many states there were."""
    complete = [name for name, view in warehouse.views.items() if view.level.value == "complete"]
    cut = warehouse.cut()
    logs = {view: changes_of(warehouse, cut.views[view]) for view in complete}
    held = {view: Counter[Any]() for view in complete}
    count = 0
    for seq, tables in states(warehouse, first, since):
        for view in complete:
            while logs[view] and logs[view][0][0] <= seq:
                _, row, change = logs[view].popleft()
                held[view][row] += change
            want, got = expected(warehouse, view, tables), +held[view]
            assert got == want, f"{view} at {seq}: missing {want - got}, extra {got - want}"
            if count % SAMPLE == 0:
                assert seen(warehouse, view, seq) == want, f"{view} read at {seq}"
        count += 1
    return count


def changes_of(warehouse: headwater.Warehouse, state: ViewState) -> deque[tuple[int, tuple[Any, ...], int]]:
    """A view's changelog: (seq, row, count), in order."""
    table = ChangelogTable(warehouse.storage, log_folder(state.folder)).at(state.version)
    found = []
    for row in table.to_pyarrow_table().to_pylist():
        seq, count = row.pop(SEQ), row.pop(COUNT)
        found.append((seq, tuple(row.values()), count))
    return deque(sorted(found, key=lambda change: change[0]))
