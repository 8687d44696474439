"""A view in another view's FROM: its pieces as a golden table, what its name means, and its rows.

`fixtures/views_over_views.txt` holds cases as `views.txt` does, with a file of views in place of a SELECT; the pieces
are those of the view `v`.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.algebra import UNTYPED, Bag, Relation, as_table, define, evaluate, evaluate_all, parse_views
from headwater.algebra.conditions import check_equalities
from headwater.model.errors import UnknownName, ViewSqlError
from headwater.model.names import ViewName, view_table

from .shop import CATALOG, CUSTOMERS, ORDERS, views
from .test_define import cases, pieces
from .test_evaluate import TABLES

FIXTURE = Path(__file__).parent / "fixtures" / "views_over_views.txt"


@pytest.mark.parametrize(("text", "expected"), [pytest.param(s, e, id=t) for t, s, e in cases(FIXTURE)])
def test_pieces(text: str, expected: str) -> None:
    assert pieces(views(text)[ViewName("v")]) == expected


OPEN = "CREATE MATERIALIZED VIEW open_orders AS SELECT id, customer_id, qty FROM shop.orders WHERE status = 'open';\n"


def test_a_view_as_a_table() -> None:
    (view,) = views(OPEN).values()
    table = as_table(view)
    assert table.name == view_table("open_orders")
    assert [(c.name, c.type, c.declared) for c in table.columns] == [
        (name, UNTYPED, "of view open_orders") for name in ("id", "customer_id", "qty")
    ]
    assert table.supported() == table.columns
    assert (table.key, table.indexes, table.rows) == ((), (), None)


def test_parents_and_tables() -> None:
    defined = views(
        OPEN + "CREATE MATERIALIZED VIEW v AS SELECT a.id FROM open_orders a JOIN crm.customers c ON c.id = a.id"
        " JOIN Open_Orders b ON b.id = a.id"
    )[ViewName("v")]
    assert defined.parents == ("open_orders",)
    assert defined.base_tables == (CUSTOMERS.name,)
    assert defined.tables == (view_table("open_orders"), CUSTOMERS.name)


V = "CREATE MATERIALIZED VIEW v AS\n"

WRONG = [
    # the view, which begins in line 2; line, what, fix
    (f"{V}SELECT id\nFROM open_ordrs", 4, "'open_ordrs' does not say which source", "; or a view: open_orders"),
    (f"{V}SELECT id FROM orders", 3, "which source", "write shop.orders; or a view: open_orders"),
    (
        f"{V}SELECT id FROM zzz",
        3,
        "which source",
        "write source.zzz, where source is one of headwater.toml's; or a view",
    ),
    (f"{V}SELECT id FROM `größe`", 3, "table 'größe' does not say", "open_orders"),
    (f"{V}SELECT id FROM open_orders, open_orders", 3, "two tables of FROM: open_orders and open_orders", "alias"),
    (f"{V}SELECT id FROM open_orders a,\nopen_orders b", 3, "'id' is ambiguous: a.id or b.id", "a.id"),
    (f"{V}SELECT max(count(*)) AS n FROM open_orders", 3, "inside an aggregate", "make the inner one a view"),
]


@pytest.mark.parametrize(("text", "line", "what", "fix"), WRONG)
def test_a_wrong_name_says_why(text: str, line: int, what: str, fix: str) -> None:
    with pytest.raises(ViewSqlError) as caught:
        views(OPEN + text)
    assert caught.value.what.startswith(f"v.sql:{line}: view v: ")
    assert what in caught.value.what
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("select", "what", "fix"),
    [
        ("SELECT qtty FROM open_orders", "unknown column 'qtty' at v.sql:3", "'qty'"),
        ("SELECT o.status FROM open_orders o", "unknown column 'status' in o (open_orders) at v.sql:3", "there are"),
        ("SELECT id FROM shop.open_orders", "unknown table 'open_orders' in source shop", "'orders'"),
        ("SELECT id FROM open_orders.orders", "unknown source 'open_orders'", "shop"),
    ],
)
def test_an_unknown_name_offers_the_nearest(select: str, what: str, fix: str) -> None:
    with pytest.raises(UnknownName) as caught:
        views(OPEN + V + select)
    assert what in caught.value.what
    assert fix in caught.value.fix


def test_a_view_without_others_is_told_of_tables_only() -> None:
    (parsed,) = parse_views(f"{V}SELECT id FROM orders", "v.sql")
    with pytest.raises(ViewSqlError) as caught:
        define(parsed, CATALOG)
    assert caught.value.fix == "write shop.orders"
    with pytest.raises(ViewSqlError) as caught:
        define(parsed, CATALOG, {}, ["v", "totals"])
    assert caught.value.fix == "write shop.orders; or a view: totals"


def test_a_view_whose_parent_could_not_be_defined() -> None:
    (parsed,) = parse_views(f"{V}SELECT id FROM Totals", "v.sql")
    with pytest.raises(ViewSqlError, match=r"v\.sql:2: view v: it reads view totals, which is not usable"):
        define(parsed, CATALOG, {}, ["v", "totals"])


def test_a_name_that_is_several_views_in_another_case() -> None:
    (parent,) = views(OPEN).values()
    (parsed,) = parse_views(f"{V}SELECT id FROM TOTALS", "v.sql")
    twins = {ViewName("Totals"): parent, ViewName("totals"): parent}
    with pytest.raises(ViewSqlError, match="'TOTALS' is ambiguous: Totals or totals"):
        define(parsed, CATALOG, twins)


def test_joins_are_checked_again_when_the_types_are_known() -> None:
    defined = views(OPEN + V + "SELECT o.id FROM open_orders o JOIN crm.customers c ON c.id = o.customer_id")
    child = defined[ViewName("v")]
    customers = pa.schema({"id": pa.int32()})
    parent = view_table("open_orders")
    check_equalities(child, {CUSTOMERS.name: customers, parent: pa.schema({"customer_id": pa.int64()})})
    with pytest.raises(ViewSqlError) as caught:
        check_equalities(child, {CUSTOMERS.name: customers, parent: pa.schema({"customer_id": pa.string()})})
    assert "v.sql:2: view v: o.customer_id is string and c.id is int32" in caught.value.what
    assert "CAST" in caught.value.fix


CHAIN = """
CREATE MATERIALIZED VIEW busiest AS SELECT MAX(orders) AS most, COUNT(*) AS regions FROM per_region;
CREATE MATERIALIZED VIEW pairs AS
    SELECT a.name, b.name AS other FROM named a JOIN named b ON a.sku = b.sku AND a.name <> b.name;
CREATE MATERIALIZED VIEW per_region AS SELECT region, COUNT(*) AS orders, SUM(qty) AS qty FROM named GROUP BY region;
CREATE MATERIALIZED VIEW named AS
    SELECT o.id, o.sku, o.qty, c.name, c.region FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id;
CREATE MATERIALIZED VIEW priced AS
    SELECT n.id, p.price FROM named n JOIN stock.products p ON p.sku = n.sku WHERE n.qty > 2 AND n.region IS NULL;
"""


def test_rows_of_views_over_views() -> None:
    defined = views(CHAIN)
    assert list(defined) == ["named", "pairs", "per_region", "busiest", "priced"]
    rows = evaluate_all(defined.values(), TABLES)
    assert rows == {
        "named": Bag.of(
            [
                (1, "a", 2, "Ann", "EU"),
                (2, "b", None, "Ann", "EU"),
                (3, "a", 5, "Bo", None),
                (3, "a", 5, "Bo", None),
            ]
        ),
        "pairs": Bag({("Ann", "Bo"): 2, ("Bo", "Ann"): 2}),
        "per_region": Bag.of([("EU", 2, 2), (None, 2, 10)]),
        "busiest": Bag.of([(2, 2)]),
        "priced": Bag({(3, Decimal("1.10")): 2}),
    }


def test_a_change_of_a_parent_is_a_bag_too() -> None:
    """V(P + ΔP) = V(P) + V(ΔP), where P is the parent's rows: a view over a view is maintained as one over tables."""
    defined = views(OPEN + V + "SELECT id, qty * 2 AS twice FROM open_orders WHERE qty > 1")
    parent, child = defined.values()
    old = evaluate(parent, {ORDERS.name: TABLES[ORDERS.name]})
    change = Bag({(1, 10, 2): -1, (1, 10, 7): 2})
    relations = [{view_table(parent.name): Relation(parent.columns, bag)} for bag in (old, change, old + change)]
    before, delta, after = (evaluate(child, relation) for relation in relations)
    assert before + delta == after == Bag({(1, 14): 2})
