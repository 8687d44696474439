"""Views of every shape, on the engine: outer joins, subqueries, set operations, windows and top-N over PostgreSQL and
SQLite; every state of the complete ones is what DuckDB makes of the query as it was written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from pyspark.sql import SparkSession

import headwater
from postgres_server import PostgresServer
from runtime.world import COLUMNS, World, changes_of, seen, states

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

TYPES = {
    "shop.public.orders": (pa.int32(), pa.int32(), pa.string(), pa.int32(), pa.string()),
    "shop.public.lines": (pa.int32(), pa.string()),
    "crm.customers": (pa.int64(), pa.string(), pa.string()),
    "stock.products": (pa.string(), pa.string(), pa.decimal128(10, 2)),
}

QUERIES = {
    "left_join": """SELECT o.id, c.name, p.price FROM shop.orders o LEFT JOIN crm.customers c ON c.id = o.customer_id
        LEFT JOIN stock.products p ON p.sku = o.sku""",
    "full_join": """SELECT o.id, c.name, c.city FROM shop.orders o FULL JOIN crm.customers c
        ON c.id = o.customer_id AND o.qty > 2""",
    "without_orders": """SELECT c.id, c.name FROM crm.customers c
        WHERE NOT EXISTS (SELECT 1 FROM shop.orders o WHERE o.customer_id = c.id AND o.status = 'open')""",
    "not_in": "SELECT p.sku FROM stock.products p WHERE p.sku NOT IN (SELECT sku FROM shop.orders WHERE qty > 3)",
    "never_ordered_by": """SELECT c.name FROM crm.customers c
        WHERE c.id NOT IN (SELECT customer_id FROM shop.orders WHERE status = 'done')""",
    "latest": """SELECT c.name, (SELECT MAX(o.id) FROM shop.orders o WHERE o.customer_id = c.id) AS latest,
        (SELECT COUNT(*) FROM shop.orders o WHERE o.customer_id = c.id) AS n FROM crm.customers c""",
    "top_three": "SELECT id, qty FROM shop.orders WHERE status = 'open' ORDER BY qty DESC, id LIMIT 3",
    "first_of_customer": """SELECT * FROM (SELECT o.id, o.customer_id, o.qty,
        ROW_NUMBER() OVER (PARTITION BY o.customer_id ORDER BY o.qty DESC, o.id) AS place FROM shop.orders o) r
        WHERE r.place <= 2""",
    "running": """SELECT o.id, o.sku, SUM(o.qty) OVER (PARTITION BY o.sku ORDER BY o.id
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far FROM shop.orders o""",
    "both_kinds": """SELECT sku FROM stock.products UNION SELECT sku FROM shop.orders
        EXCEPT SELECT sku FROM shop.orders WHERE qty = 5""",
    "cities": """SELECT c.city, COUNT(o.id) AS orders, SUM(o.qty) AS pieces, AVG(p.price) AS price
        FROM crm.customers c LEFT JOIN shop.orders o ON o.customer_id = c.id LEFT JOIN stock.products p ON p.sku = o.sku
        GROUP BY c.city""",
    "busiest": """WITH per AS (SELECT customer_id, SUM(qty) AS pieces FROM shop.orders GROUP BY customer_id)
        SELECT c.name, per.pieces FROM per JOIN crm.customers c ON c.id = per.customer_id
        WHERE per.pieces >= (SELECT MAX(pieces) FROM per)""",
    "lines_of": """SELECT o.id, l.n FROM shop.orders o, LATERAL (SELECT COUNT(*) AS n FROM shop.lines i
        WHERE i.order_id = o.id AND i.note IS NOT NULL) l""",
    "expensive": """SELECT o.id, UPPER(p.title) || '!' AS title FROM shop.orders o JOIN stock.products p
        ON p.sku = o.sku AND p.price * o.qty > 60
        WHERE o.id IN (SELECT order_id FROM shop.lines WHERE note LIKE 'n%')""",
}
STRONG = ("left_join", "cities", "latest")


def views() -> str:
    complete = [f"CREATE MATERIALIZED VIEW {name} AS {query};" for name, query in QUERIES.items()]
    strong = [
        f"CREATE MATERIALIZED VIEW {name}_strong WITH (consistency = 'strong') AS {QUERIES[name]};" for name in STRONG
    ]
    over = "CREATE MATERIALIZED VIEW city_names AS SELECT c.city, x.name FROM crm.customers c LEFT JOIN latest x"
    return "\n".join([*complete, *strong, f"{over} ON x.name = c.name;"])


class Reference:
    """What a view is over tables as they are at some moment, by an engine that knows nothing of maintenance."""

    def __init__(self) -> None:
        self._duck = duckdb.connect()
        self._held: dict[str, Counter[tuple[Any, ...]]] = {}
        self._texts: dict[str, str] = {}
        for schema in ("shop", "crm", "stock"):
            self._duck.execute(f"CREATE SCHEMA {schema}")

    def become(self, tables: dict[str, Counter[tuple[Any, ...]]]) -> None:
        """From now on the tables are these."""
        for name, rows in tables.items():
            if self._held.get(name) == rows:
                continue
            self._held[name] = Counter(rows)
            repeated = [row for row, count in rows.items() for _ in range(count)]
            columns = zip(COLUMNS[name], TYPES[name], strict=True)
            given = pa.table({c: pa.array([r[i] for r in repeated], t) for i, (c, t) in enumerate(columns)})
            self._duck.register("given", given)
            source, _, table = name.rpartition(".")
            self._duck.execute(f"CREATE OR REPLACE TABLE {source.split('.')[0]}.{table} AS SELECT * FROM given")

    def rows(self, query: str) -> Counter[tuple[Any, ...]]:
        if query not in self._texts:
            (self._texts[query],) = sqlglot.transpile(query, read="spark", write="duckdb")
        text = self._texts[query]
        return Counter(tuple(_plain(v) for v in row) for row in self._duck.execute(text).fetchall())


def _plain(value: Any) -> Any:
    """Averages differ in their type between the engines, not in their value."""
    return round(float(value), 4) if hasattr(value, "as_tuple") or isinstance(value, float) else value


def plain(rows: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter({tuple(_plain(v) for v in row): count for row, count in rows.items()})


def check(warehouse: headwater.Warehouse, first: dict[str, Counter[tuple[Any, ...]]], since: int) -> int:
    """Every state of every complete view is the query over that state of the sources."""
    reference, cut = Reference(), warehouse.cut()
    logs = {view: changes_of(warehouse, cut.views[view]) for view in QUERIES}  # type: ignore[index] # a ViewName
    held = {view: Counter[Any]() for view in QUERIES}
    count = 0
    for seq, tables in states(warehouse, first, since):
        reference.become(tables)
        for view, query in QUERIES.items():
            while logs[view] and logs[view][0][0] <= seq:
                _, row, change = logs[view].popleft()
                held[view][row] += change
            want, got = reference.rows(query), plain(+held[view])
            assert got == want, f"{view} at {seq}: missing {want - got}, extra {got - want}"
        count += 1
    return count


def test_every_state_is_what_the_query_says(tmp_path: Path, postgres: PostgresServer, spark: SparkSession) -> None:
    world = World(tmp_path / "project", postgres.create_database("trees"), views())
    warehouse = world.open()
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    first, since = world.now(), warehouse.status().cut.seq
    for burst in (7, 20):
        world.act(burst)
        warehouse.run(until_caught_up=True)
    assert check(warehouse, first, since) >= 27
    reference = Reference()
    reference.become(world.now())
    for name in STRONG:
        assert plain(seen(warehouse, f"{name}_strong")) == reference.rows(QUERIES[name])
    some = [*STRONG, "city_names"]  # DuckDB has looked at every state of the others
    assert [(v.view, v.ok) for v in warehouse.verify(some) if not v.ok] == []
