"""Which table and which column a name means, and what is said when it means none or several."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.model.errors import UnknownName, ViewSqlError

from .shop import Known, table, view

UNKNOWN = [
    ("SELECT id FROM shap.orders", "unknown source 'shap' at v.sql:2", "'shop'"),
    ("SELECT id\nFROM shop.orderz", "unknown table 'orderz' in source shop at v.sql:3", "'orders'"),
    ("SELECT idd FROM shop.orders", "unknown column 'idd' at v.sql:2", "'id'"),
    ("SELECT o.qtty FROM shop.orders o", "unknown column 'qtty' in o (shop.public.orders) at v.sql:2", "'qty'"),
    ("SELECT ord.id FROM shop.orders", "unknown table or alias 'ord' at v.sql:2", "'orders'"),
    ("SELECT orders.id FROM shop.orders o", "unknown table or alias 'orders' at v.sql:2", "there are: o"),
    ("SELECT o.id FROM shop.orders o JOIN crm.customers c ON c.id = p.sku JOIN stock.products p ON TRUE", "'p'", "o"),
    ("SELECT id + 1 AS more FROM shop.orders WHERE more > 1", "unknown column 'more'", "made_at"),
    ("SELECT sku FROM stock.products JOIN stock.prices USING (skew)", "unknown column 'skew'", "'sku'"),
]


@pytest.mark.parametrize(("select", "what", "fix"), UNKNOWN)
def test_an_unknown_name_offers_the_nearest(select: str, what: str, fix: str) -> None:
    with pytest.raises(UnknownName) as caught:
        view(select)
    assert what in caught.value.what
    assert fix in caught.value.fix


WRONG = [
    ("SELECT id FROM shop.orders, crm.customers", 2, "'id' is ambiguous: orders.id or customers.id", "orders.id"),
    ("SELECT sku FROM stock.products p JOIN stock.prices q ON\nsku = 'a'", 3, "p.sku or q.sku", "p.sku"),
    ("SELECT id FROM orders", 2, "which source", "shop.orders"),
    ("SELECT id FROM nowhere", 2, "which source", "source.nowhere"),
    ("SELECT id FROM a.b.c.d.e", 2, "too many parts", "source.table"),
    ("SELECT x.id FROM shop.orders x JOIN crm.customers X ON TRUE", 2, "two tables", "alias"),
    ("SELECT orders.id FROM shop.orders, shop.orders", 2, "two tables of FROM", "alias"),
    ("SELECT id FROM shop.orders AS `a.b`", 2, "cannot be an alias", "without a dot"),
    ("SELECT id,\ncount(*) FROM shop.orders GROUP BY id", 3, "COUNT(*) has no name", "COUNT(*) AS name"),
    ("SELECT id,\nqty + 1 FROM shop.orders", 3, "qty + 1 has no name", "qty + 1 AS name"),
    ("SELECT id, qty AS ID FROM shop.orders", 2, "two columns are called 'ID'", "AS"),
    (
        "SELECT * FROM stock.products p JOIN stock.prices q ON p.sku = q.sku",
        2,
        "called 'sku': `p`.`sku`",
        "in place of *",
    ),
    ("SELECT id AS __count FROM shop.orders", 2, "'__count' is reserved", "id AS name"),
    ("SELECT id AS `a b` FROM shop.orders", 2, "'a b' cannot name a column", "id AS name"),
    ("SELECT * FROM crm.customers", 2, "customers.spot has type 'geometry'", "in place of *"),
    ("SELECT name FROM crm.customers\nWHERE spot IS NULL", 3, "customers.spot has type 'geometry'", "leave"),
    (
        "SELECT status, qty, count(*) AS n FROM shop.orders GROUP BY status",
        2,
        "orders.qty is neither grouped",
        "GROUP BY",
    ),
    ("SELECT status FROM shop.orders HAVING count(*) > 1", 2, "orders.status is neither grouped", "GROUP BY"),
    ("SELECT status FROM shop.orders GROUP BY 2", 2, "GROUP BY 2", "1 to 1"),
    (
        "SELECT sku, sum(qty) AS qty FROM shop.orders GROUP BY sku\nHAVING qty > 1",
        3,
        "both an output and",
        "orders.qty",
    ),
    ("SELECT count(o.*) AS n FROM shop.orders o", 2, "only in the select list", "name the column"),
]


@pytest.mark.parametrize(("select", "line", "what", "fix"), WRONG)
def test_a_wrong_name_says_why(select: str, line: int, what: str, fix: str) -> None:
    with pytest.raises(ViewSqlError) as caught:
        view(select)
    assert caught.value.what.startswith(f"v.sql:{line}: ")
    assert what in caught.value.what
    assert fix in caught.value.fix


CASES = Known(table("db", "t", "", Id=pa.int64(), id=pa.int64(), NAME=pa.string()))


def test_exact_spelling_wins_over_any_case() -> None:
    assert view('SELECT "Id", name FROM db.t', CASES).occurrences[0].columns == ("Id", "NAME")
    assert view("SELECT id FROM db.t", CASES).occurrences[0].columns == ("id",)
    assert view("SELECT T.Id FROM db.t", CASES).columns == ("Id",)


@pytest.mark.parametrize(
    ("select", "what"),
    [
        ("SELECT ID FROM db.t", "t.Id or t.id"),
        ("SELECT t.ID FROM db.t", "Id or id"),
        ("SELECT Id, id AS other FROM db.t", "differ only in case"),
    ],
)
def test_spellings_that_differ_in_case_alone(select: str, what: str) -> None:
    with pytest.raises(ViewSqlError, match=what):
        view(select, CASES)


def test_a_table_without_a_usable_column() -> None:
    only = Known(table("db", "t", "", spot=None), table("db", "u", "", a=pa.int64()))
    with pytest.raises(ViewSqlError, match="no column that Headwater can represent"):
        view("SELECT count(*) AS n FROM db.t", only)
