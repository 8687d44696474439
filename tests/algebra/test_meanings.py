"""What a view means in Spark and would mean otherwise in PostgreSQL is said."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.algebra.meanings import surprises

from .shop import ORDERS, PRODUCTS, view

SCHEMAS = {t.name: pa.schema([(c.name, c.type) for c in t.columns]) for t in (ORDERS, PRODUCTS)}


@pytest.mark.parametrize(
    ("select", "whole"),
    [
        ("SELECT id / 2 AS half FROM shop.orders", "orders.id DIV 2"),
        ("SELECT id FROM shop.orders WHERE (qty + 1) / id > 3", "(orders.qty + 1) DIV orders.id"),
        ("SELECT sku, SUM(qty) / COUNT(*) AS mean FROM shop.orders GROUP BY sku", "SUM(orders.qty) DIV COUNT(*)"),
    ],
)
def test_a_division_of_integers(select: str, whole: str) -> None:
    (said,) = surprises(view(select), SCHEMAS)
    assert f"write {whole} for" in said
    assert not surprises(view(select.replace(" / ", " DIV ", 1)), SCHEMAS)  # the advice works


@pytest.mark.parametrize("expression", ["weight / 2", "id / 2.0", "CAST(id AS DOUBLE) / 2", "id * 2"])
def test_no_surprise(expression: str) -> None:
    assert not surprises(view(f"SELECT {expression} AS x FROM shop.orders"), SCHEMAS)
