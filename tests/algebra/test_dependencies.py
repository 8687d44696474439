"""Which views a view reads, the order that follows, and the circles that do not."""

from __future__ import annotations

import pytest

from headwater.algebra import ParsedView, in_order, parse_views, references
from headwater.model.errors import ViewSqlError


def create(name: str, query: str) -> str:
    return f"CREATE MATERIALIZED VIEW {name} AS\n{query};\n"


def files(**texts: str) -> list[ParsedView]:
    """Views of several files, in this order."""
    return [view for name, text in texts.items() for view in parse_views(text, f"{name}.sql")]


NAMES = ("a", "b", "Big", "orders", "lines", "Lines")

READS = [
    ("SELECT x FROM shop.orders", ()),
    ("SELECT x FROM orders", ("orders",)),
    ("SELECT x FROM ORDERS JOIN shop.orders o ON TRUE", ("orders",)),
    ("SELECT x FROM b, big, a, b AS again", ("b", "Big", "a")),
    ("SELECT x FROM b JOIN (a JOIN `big` ON TRUE) ON TRUE", ("b", "a", "Big")),
    ("SELECT x FROM lines, a", ("lines", "a")),
    ("SELECT x FROM LINES", ()),  # which of the two?
    ("SELECT x FROM nowhere", ()),
    ("SELECT a.x FROM a.b", ()),
    ("SELECT 'FROM a' AS a FROM b -- , a", ("b",)),
    ("SELECT x FROM a LEFT JOIN b ON TRUE", ("a", "b")),
    ("SELECT rand() AS x FROM a", ()),  # refused on sight
    ("WITH a AS (SELECT 1) SELECT x FROM a", ()),
    ("SELECT x FROM a UNION SELECT x FROM b WHERE x IN (SELECT y FROM big)", ("a", "b", "Big")),
]


@pytest.mark.parametrize(("query", "reads"), READS)
def test_references(query: str, reads: tuple[str, ...]) -> None:
    (parsed,) = parse_views(create("v", query), "v.sql")
    assert references(parsed, NAMES) == reads


ORDERS = [
    # views as "name: what it reads", in order of files; the order they are defined in
    ("a, b, c", "a b c"),
    ("a: b, b", "b a"),
    ("a: b, b: c, c", "c b a"),
    ("z, a: z, m: a z, b", "z a m b"),
    ("top: left right, left: base, right: base, base", "base left right top"),
    ("a, b: c, c: a, d: b, e", "a c b d e"),
]


@pytest.mark.parametrize(("given", "expected"), ORDERS)
def test_each_view_stands_after_those_it_reads_and_else_as_given(given: str, expected: str) -> None:
    texts = {}
    for view in given.split(", "):
        name, _, reads = view.partition(":")
        froms = ", ".join(reads.split() or ["shop.orders"])
        texts[name] = create(name, f"SELECT 1 AS x FROM {froms}")
    assert [v.name for v in in_order(files(**texts))] == expected.split()


def test_a_long_chain() -> None:
    chain = [create(f"v{i}", f"SELECT x FROM v{i + 1}") for i in range(300)]
    parsed = parse_views("".join(chain) + create("v300", "SELECT id AS x FROM shop.orders"), "f.sql")
    assert [v.name for v in in_order(parsed)] == [f"v{i}" for i in range(300, -1, -1)]


def test_a_circle_of_three_is_shown_whole() -> None:
    parsed = files(
        zero=create("outside", "SELECT x FROM c"),
        one=create("a", "SELECT x\nFROM B, shop.orders"),
        two=create("fine", "SELECT x FROM shop.orders") + create("b", "SELECT x FROM C"),
        three="\n\n" + create("c", "SELECT x FROM fine, a"),
    )
    with pytest.raises(ViewSqlError) as caught:
        in_order(parsed)
    assert caught.value.what == (
        "one.sql:3: view a: views read each other in a circle: a (one.sql:1) → b (two.sql:3) → c (three.sql:3) → a"
    )
    assert "source.table" in caught.value.fix


def test_a_circle_of_two() -> None:
    with pytest.raises(ViewSqlError) as caught:
        in_order(files(x=create("a", "SELECT x FROM b") + create("b", "SELECT x FROM a")))
    assert caught.value.what.endswith("a (x.sql:1) → b (x.sql:3) → a")


@pytest.mark.parametrize("name", ["orders", "Orders", "`ORDERS`"])
def test_a_view_that_reads_itself(name: str) -> None:
    with pytest.raises(ViewSqlError) as caught:
        in_order(files(x=create("orders", f"SELECT x\nFROM {name}")))
    assert caught.value.what == "x.sql:3: view orders: it reads itself: orders → orders"
    assert "source.table" in caught.value.fix


def test_a_view_that_reads_itself_and_others() -> None:
    with pytest.raises(ViewSqlError, match="it reads itself"):
        in_order(files(x=create("b", "SELECT x FROM a"), y=create("a", "SELECT x FROM a, b")))


def test_a_refused_view_does_not_hide_behind_a_circle() -> None:
    parsed = files(x=create("a", "SELECT rand() AS x FROM b") + create("b", "SELECT x FROM a"))
    assert [v.name for v in in_order(parsed)] == ["a", "b"]
