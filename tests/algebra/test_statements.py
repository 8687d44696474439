"""Files of views: statements, options, and errors that point at the place."""

from __future__ import annotations

import pytest

from headwater.algebra import define, parse_views
from headwater.model.consistency import Level
from headwater.model.errors import UnknownName, ViewSqlError

from .shop import CATALOG

FILE = """\
-- orders that are open; with a semicolon
CREATE MATERIALIZED VIEW open_orders WITH (consistency = 'strong') AS
SELECT id FROM shop.orders WHERE status = 'open;' /* ; */;
;

create materialized view "Skus" as
select distinct sku from stock.products
"""


def test_several_views_in_a_file() -> None:
    first, second = parse_views(FILE, "views/shop.sql")
    assert (first.name, first.line, dict(first.options)) == ("open_orders", 2, {"consistency": "strong"})
    assert (second.name, second.line, dict(second.options)) == ("Skus", 6, {})
    assert first.text == "SELECT id FROM shop.orders WHERE status = 'open;'"
    assert second.text == "select distinct sku from stock.products"
    assert define(first, CATALOG).level is Level.STRONG
    assert define(second, CATALOG).level is Level.COMPLETE
    assert define(second, CATALOG).line == 6


@pytest.mark.parametrize("text", ["", "\n  \n", "-- nothing yet\n", ";;"])
def test_a_file_may_hold_no_view(text: str) -> None:
    assert parse_views(text, "v.sql") == []


@pytest.mark.parametrize("value", ["'complete'", "'Strong'", "convergent", "'CONVERGENT'"])
def test_levels(value: str) -> None:
    (parsed,) = parse_views(
        f"CREATE MATERIALIZED VIEW v WITH (Consistency = {value}) AS SELECT id FROM shop.orders", "f"
    )
    assert define(parsed, CATALOG).level.value == value.strip("'").lower()


@pytest.mark.parametrize(
    ("options", "what", "fix"),
    [
        ("consistncy = 'complete'", "unknown option 'consistncy' of view v", "'consistency'"),
        ("consistency = 'complet'", "unknown value of option consistency 'complet'", "'complete'"),
        ("refresh = 3", "unknown option 'refresh'", "consistency"),
    ],
)
def test_unknown_options(options: str, what: str, fix: str) -> None:
    (parsed,) = parse_views(f"\nCREATE MATERIALIZED VIEW v WITH ({options}) AS SELECT id FROM shop.orders", "f.sql")
    with pytest.raises(UnknownName) as caught:
        define(parsed, CATALOG)
    assert what in caught.value.what
    assert "f.sql:" in caught.value.what
    assert fix in caught.value.fix


CREATE = "CREATE MATERIALIZED VIEW v AS"

UNREADABLE = [
    ("SELECT id FROM shop.orders", "1:1: found 'SELECT' where CREATE should stand", "^"),
    ("CREATE VIEW v AS SELECT 1", "1:8: found 'VIEW' where MATERIALIZED", "       ^"),
    ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1", "1:8: CREATE OR REPLACE", "       ^"),
    ("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1", "1:26: IF NOT EXISTS", " ^"),
    ("CREATE MATERIALIZED VIEW", "the statement ends where a view name should stand", "^"),
    ("CREATE MATERIALIZED VIEW 3x AS SELECT 1", "'3x' cannot name a view", "^"),
    ("CREATE MATERIALIZED VIEW `a b` AS SELECT 1", "'a b' cannot name a view", "^"),
    ("CREATE MATERIALIZED VIEW __v AS SELECT 1", "'__v' cannot name a view", "^"),
    ("CREATE MATERIALIZED VIEW a.b AS SELECT 1", "without schema or column list", "^"),
    ("CREATE MATERIALIZED VIEW v (x) AS SELECT 1", "without schema or column list", "^"),
    ("CREATE MATERIALIZED VIEW v SELECT 1", "found 'SELECT' where AS should stand", "^"),
    ("CREATE MATERIALIZED VIEW v WITH (a 1) AS SELECT 1", "found '1' where = should stand", "^"),
    ("CREATE MATERIALIZED VIEW v WITH (a = 1, a = 2) AS SELECT 1", "option 'a' is given twice", "^"),
    ("CREATE MATERIALIZED VIEW v AS", "no query after AS", "^"),
    (f"{CREATE}\nSELECT id FRO shop.orders\nWHERE", "2:11: cannot read this: is FRO FROM?", "          ^"),
    (f"{CREATE}\nSELEC url FROM shop.orders", "2:1: cannot read this: is SELEC SELECT?", "\n    ^"),
    (f"{CREATE}\nSELECT url FORM shop.orders", "2:12: cannot read this: is FORM FROM?", "           ^"),
    (f"{CREATE}\nSELECT id FROM shop.orders WERE id = 1", "2:28: cannot read this: is WERE WHERE?", "^"),
    (f"{CREATE}\nSELECT id FROM shop.orders GRUP BY id", "2:28: cannot read this: is GRUP GROUP?", "^"),
    (f"{CREATE}\nSELECT a b c FROM shop.orders", "2:12: cannot read this: Invalid expression", "^"),
    (f"{CREATE}\n\tSELECT id FROM shop.orders WHERE", "2:29: cannot read this: something is missing here", "^"),
    (f"{CREATE}\nSELECT 'abc FROM shop.orders", "2:8: a ' opened here is never closed", "       ^"),
    (f'{CREATE}\nSELECT\n  "id FROM shop.orders', '3:3: a " opened here is never closed', "  ^"),
    (f"{CREATE}\nSELECT (id FROM shop.orders", "2:12: cannot read this", "^"),
    (
        f"{CREATE} SELECT id FROM shop.orders;\n{CREATE} SELECT 1",
        "f.sql:2: view v is defined twice, first in line 1",
        "",
    ),
]


@pytest.mark.parametrize(("text", "what", "caret"), UNREADABLE)
def test_unreadable_sql_is_pointed_at(text: str, what: str, caret: str) -> None:
    with pytest.raises(ViewSqlError) as caught:
        parse_views(text, "f.sql")
    assert caught.value.what.startswith("f.sql:")
    assert what in caught.value.what
    assert caught.value.what.endswith(caret)
    assert "\x1b" not in str(caught.value)
    assert caught.value.fix
