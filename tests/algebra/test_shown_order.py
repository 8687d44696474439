"""ORDER BY alone: what it says is remembered, and a block of joins stays one."""

from __future__ import annotations

import doctest

import pytest

from headwater.algebra import shown_order
from headwater.algebra.dialect import ViewSql
from headwater.algebra.shown_order import apart


def test_the_example_runs() -> None:
    assert doctest.testmod(shown_order).failed == 0


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("SELECT a AS x, b FROM s.r ORDER BY x DESC NULLS LAST, b", (("x", True, False), ("b", False, True))),
        ("SELECT a AS x, b FROM s.r ORDER BY 2 DESC NULLS FIRST", (("b", True, True),)),
        ("SELECT a AS x FROM s.r ORDER BY X", (("x", False, True),)),
        ("SELECT r.a AS x FROM s.r ORDER BY r.a", (("x", False, True),)),
        ("SELECT a + 1 AS x FROM s.r ORDER BY a + 1", (("x", False, True),)),
        ("SELECT k, SUM(x) AS t FROM s.r GROUP BY k ORDER BY SUM(x) DESC", (("t", True, False),)),
    ],
)
def test_an_order_of_outputs_is_taken_off(query: str, order: shown_order.Order) -> None:
    rest, found = apart(ViewSql().parse(query)[0])
    assert found == order
    assert rest.args.get("order") is None


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM s.r ORDER BY b",
        "SELECT a FROM s.r ORDER BY a + 1",
        "SELECT a FROM s.r ORDER BY 2",
        "SELECT a FROM s.r ORDER BY 'a'",
        "SELECT * FROM s.r ORDER BY a",
        "SELECT a AS x, b AS X FROM s.r ORDER BY x",
        "SELECT a FROM s.r ORDER BY a LIMIT 3",
        "SELECT a FROM s.r ORDER BY a OFFSET 3",
        "SELECT a FROM s.r UNION ALL SELECT a FROM s.r ORDER BY a",
    ],
)
def test_any_other_stays(query: str) -> None:
    rest, found = apart(ViewSql().parse(query)[0])
    assert found == ()
    assert rest.args.get("order") is not None
