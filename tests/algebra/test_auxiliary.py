"""Which parts of a query are kept apart, and which are left alone because they mean nothing by themselves."""

from __future__ import annotations

import pytest

from headwater.algebra.auxiliary import defined
from headwater.algebra.statements import parse_views

from .shop import CATALOG


def parts(query: str) -> list[str]:
    (parsed,) = parse_views(f"CREATE MATERIALIZED VIEW v WITH (auxiliary = 'auto') AS {query}", "v.sql")
    *kept, _ = defined(parsed, CATALOG)
    return [" ".join(view.text.split()) for view in kept]


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        (
            "SELECT sku, SUM(qty) AS n FROM shop.orders GROUP BY sku ORDER BY n LIMIT 3",
            ["SELECT sku, SUM(qty) AS n FROM shop.orders GROUP BY sku"],
        ),
        (
            "SELECT id FROM shop.orders WHERE qty > (SELECT AVG(qty) FROM shop.orders)",
            ["SELECT AVG(qty) AS value0 FROM shop.orders"],
        ),
        (
            "SELECT sku FROM shop.orders GROUP BY sku"
            " HAVING SUM(qty) FILTER (WHERE qty > 0) > 1 + (SELECT MAX(qty) FROM shop.orders) AND COUNT(*) > 1",
            [
                "SELECT MAX(qty) AS value0 FROM shop.orders",
                "SELECT sku, SUM(qty) FILTER(WHERE qty > 0) AS having2 FROM shop.orders"
                " GROUP BY sku HAVING COUNT(*) > 1",
            ],
        ),
        (
            "WITH r AS (SELECT sku, COUNT(*) AS n FROM shop.orders GROUP BY sku)"
            " SELECT a.sku FROM r a JOIN r b ON a.n = b.n",
            ["SELECT sku, COUNT(*) AS n FROM shop.orders GROUP BY sku"],
        ),
        (
            "SELECT sku, MEDIAN(qty) AS n FROM shop.orders GROUP BY sku ORDER BY n LIMIT 3",
            ["SELECT sku, MEDIAN(qty) AS n FROM shop.orders GROUP BY sku"],
        ),
    ],
)
def test_what_is_kept_apart(query: str, kept: list[str]) -> None:
    assert parts(query) == kept


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sku, SUM(qty) AS n FROM shop.orders GROUP BY sku",
        "SELECT o.id FROM shop.orders o WHERE o.qty > (SELECT AVG(i.qty) FROM shop.orders i WHERE i.sku = o.sku)",
        "SELECT sku, SUM(qty) AS n FROM shop.orders GROUP BY sku ORDER BY MAX(id) LIMIT 3",
        "SELECT sku, MODE(qty) AS n FROM shop.orders GROUP BY sku ORDER BY n LIMIT 3",
        "SELECT sku AS s, SUM(qty) AS n FROM shop.orders GROUP BY sku HAVING n > (SELECT 1 AS one)",
        "SELECT id FROM shop.orders ORDER BY id LIMIT 3",
        "SELECT DISTINCT sku FROM shop.orders ORDER BY sku LIMIT 3",
    ],
)
def test_what_is_left_alone(query: str) -> None:
    assert parts(query) == []


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT * FROM (SELECT SUM(qty) AS s FROM shop.orders)", ("s",)),
        ("SELECT s FROM (SELECT SUM(qty) AS s, COUNT(*) AS n FROM shop.orders) WHERE n > 1", ("s",)),
        ("SELECT id, (SELECT COUNT(*) FROM shop.orders) AS n FROM shop.orders", ("id", "n")),
        ("SELECT id, (SELECT MAX(qty) AS m FROM shop.orders) AS n FROM shop.orders", ("id", "n")),
    ],
)
def test_columns_keep_their_names(query: str, columns: tuple[str, ...]) -> None:
    (parsed,) = parse_views(f"CREATE MATERIALIZED VIEW v WITH (auxiliary = 'auto') AS {query}", "v.sql")
    *kept, rest = defined(parsed, CATALOG)
    assert len(kept) == 1
    assert rest.columns == columns


def test_a_query_of_with_is_not_taken_for_another_of_the_same_name() -> None:
    query = (
        "WITH r AS (SELECT sku, COUNT(*) AS n FROM shop.orders GROUP BY sku)"
        " SELECT r.sku, (WITH r AS (SELECT 7 AS seven) SELECT r.seven FROM r) AS seven FROM r"
    )
    (parsed,) = parse_views(f"CREATE MATERIALIZED VIEW v WITH (auxiliary = 'auto') AS {query}", "v.sql")
    *kept, rest = defined(parsed, CATALOG)
    assert len(kept) == 1
    assert "FROM v__1 AS `r`" in " ".join(rest.text.split())
    assert "SELECT r.seven FROM r" in " ".join(rest.text.split())


def test_periodic_views_keep_nothing() -> None:
    options = "auxiliary = 'auto', consistency = 'periodic', schedule = '1 hour'"
    query = "SELECT sku, SUM(qty) AS n FROM shop.orders GROUP BY sku ORDER BY n LIMIT 3"
    (parsed,) = parse_views(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS {query}", "v.sql")
    assert len(defined(parsed, CATALOG)) == 1
