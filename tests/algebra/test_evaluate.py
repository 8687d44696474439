"""The reference evaluator, on examples small enough to check by eye."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headwater.algebra import Bag, Relation, evaluate

from .shop import CUSTOMERS, ORDERS, PRODUCTS, view


def order(number: int, **columns: Any) -> dict[str, Any]:
    return dict.fromkeys([c.name for c in ORDERS.columns]) | {"id": number} | columns


TABLES = {
    ORDERS.name: [
        order(1, customer_id=10, sku="a", qty=2, status="open", weight=0.1),
        order(2, customer_id=10, sku="b", qty=None, status="open", weight=0.2),
        order(3, customer_id=11, sku="a", qty=5, status="done", weight=0.3),
        order(3, customer_id=11, sku="a", qty=5, status="done", weight=0.3),
        order(4, customer_id=None, sku="a", qty=1, status=None),
    ],
    CUSTOMERS.name: Relation.of(("id", "name", "region", "Zip"), [(10, "Ann", "EU", ""), (11, "Bo", None, "")]),
    PRODUCTS.name: Relation.of(
        ("sku", "title", "price"), [("a", "Ax", Decimal("1.10")), ("b", "Bow", Decimal("2.00"))]
    ),
}

ORDERS_OF = "FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id JOIN stock.products p ON p.sku = o.sku"

EXAMPLES: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        f"SELECT o.id, c.name, o.qty * p.price AS amount {ORDERS_OF}",
        [
            (1, "Ann", Decimal("2.20")),
            (2, "Ann", None),
            (3, "Bo", Decimal("5.50")),
            (3, "Bo", Decimal("5.50")),
        ],
    ),
    (f"SELECT o.id {ORDERS_OF} WHERE o.status = 'open' AND p.title LIKE '%x'", [(1,)]),
    ("SELECT id FROM shop.orders WHERE status IS NULL", [(4,)]),
    ("SELECT DISTINCT status FROM shop.orders", [("open",), ("done",), (None,)]),
    (
        "SELECT status, COUNT(*) AS n, COUNT(qty) AS q, SUM(qty) AS s, AVG(qty) AS a, MIN(qty) AS lo, MAX(qty) AS hi,"
        " COUNT(DISTINCT sku) AS d, SUM(DISTINCT qty) AS sd FROM shop.orders GROUP BY status",
        [
            ("open", 2, 1, 2, 2.0, 2, 2, 2, 2),
            ("done", 2, 2, 10, 5.0, 5, 5, 1, 5),
            (None, 1, 1, 1, 1.0, 1, 1, 1, 1),
        ],
    ),
    ("SELECT SUM(weight) AS w FROM shop.orders", [(0.9,)]),
    ("SELECT COUNT(*) AS n, SUM(qty) AS s, MAX(qty) AS m FROM shop.orders WHERE id > 9", [(0, None, None)]),
    ("SELECT status, COUNT(*) AS n FROM shop.orders WHERE id > 9 GROUP BY status", []),
    ("SELECT COUNT(*) AS n FROM shop.orders HAVING n > 9", []),
    ("SELECT sku, SUM(qty) * 2 AS s FROM shop.orders GROUP BY sku HAVING COUNT(*) > 1", [("a", 26)]),
    ("SELECT AVG(price) AS a, SUM(price) AS s FROM stock.products", [(Decimal("1.550000"), Decimal("3.10"))]),
    ("SELECT COUNT(*) FILTER (WHERE status = 'done') AS n FROM shop.orders", [(2,)]),
    ("SELECT COUNT(*) AS n FROM shop.orders CROSS JOIN stock.products", [(10,)]),
]


@pytest.mark.parametrize(("select", "rows"), EXAMPLES)
def test_example(select: str, rows: list[tuple[Any, ...]]) -> None:
    assert evaluate(view(select), TABLES) == Bag.of(rows)


def test_a_change_of_a_table_is_a_bag_too() -> None:
    """V(T + ΔT) = V(T) + V(ΔT) for a view without aggregation, deletions included."""
    products = view("SELECT title, price FROM stock.products WHERE price > 1")
    columns = ("sku", "title", "price")
    old = Bag.of([("a", "Ax", Decimal(2))])
    change = Bag({("a", "Ax", Decimal(2)): -1, ("a", "Axe", Decimal(3)): 1})
    both = evaluate(products, {PRODUCTS.name: Relation(columns, old)}) + evaluate(
        products, {PRODUCTS.name: Relation(columns, change)}
    )
    assert both == evaluate(products, {PRODUCTS.name: Relation(columns, old + change)}) == Bag.of([("Axe", Decimal(3))])
