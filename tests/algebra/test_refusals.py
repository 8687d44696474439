"""What is refused says what, where and why, and what to do instead."""

from __future__ import annotations

import contextlib

import pytest

from headwater.model.errors import UnknownName, ViewSqlError

from .shop import view

# the SELECT begins in line 2; the construct stands in the line given
REFUSED = [
    # construct, line, why, SELECT
    ("kurtosis()", 2, "not always the same", "SELECT kurtosis(qty) AS q FROM shop.orders"),
    ("NATURAL JOIN", 3, "any column added", "SELECT o.id FROM shop.orders o\nNATURAL JOIN stock.products p"),
    ("PIVOT", 3, "depend on data", "SELECT * FROM shop.orders\nPIVOT (sum(qty) FOR status IN ('a', 'b'))"),
    ("TABLESAMPLE", 3, "function of its sources", "SELECT id FROM shop.orders\nTABLESAMPLE (10 PERCENT)"),
    ("ANY", 3, "compares with a query", "SELECT sku,\nany(paid) AS p FROM shop.orders GROUP BY sku"),
    ("rand", 3, "function of its sources", "SELECT id,\nrand() AS q FROM shop.orders"),
    ("uuid", 3, "function of its sources", "SELECT id,\nuuid() AS q FROM shop.orders"),
    ("unix_timestamp", 3, "function of its sources", "SELECT id,\nunix_timestamp() AS q FROM shop.orders"),
    ("monotonically_increasing_id", 2, "function of", "SELECT monotonically_increasing_id() AS q FROM shop.orders"),
    ("input_file_name", 2, "function of its sources", "SELECT input_file_name() AS q FROM shop.orders"),
    ("explode", 3, "several rows", "SELECT id,\nupper(explode(split(sku, '-'))) AS q FROM shop.orders"),
    ("TIMESTAMP 'now'", 3, "a clock", "SELECT id FROM shop.orders\nWHERE made_at > TIMESTAMP 'now'"),
    ("DATE 'today'", 3, "a clock", "SELECT id FROM shop.orders\nWHERE day >= DATE 'today'"),
    ("DATE ' Tomorrow '", 3, "a clock", "SELECT id FROM shop.orders\nWHERE day < ' Tomorrow '::date"),
    ("DATE 'yesterday'", 3, "a clock", "SELECT id,\nCAST('yesterday' AS DATE) AS d FROM shop.orders"),
    ("TIMESTAMP 'NOW Europe/Rome'", 2, "a clock", "SELECT TIMESTAMP 'NOW Europe/Rome' AS t FROM shop.orders"),
    ("TIMESTAMP_NTZ 'now'", 2, "a clock", "SELECT CAST('now' AS TIMESTAMP_NTZ) AS t FROM shop.orders"),
    ("TIMESTAMP 'now'", 2, "a clock", "SELECT TRY_CAST('now' AS TIMESTAMP) AS t FROM shop.orders"),
    ("TIMESTAMP '10:00'", 2, "a clock", "SELECT TIMESTAMP '10:00' AS t FROM shop.orders"),
    ("TIMESTAMP 'T10:00:00'", 2, "a clock", "SELECT TIMESTAMP 'T10:00:00' AS t FROM shop.orders"),
    ("to_timestamp of 'now'", 2, "a clock", "SELECT to_timestamp('now') AS t FROM shop.orders"),
    ("to_date of 'today'", 2, "a clock", "SELECT to_date(('today')) AS t FROM shop.orders"),
    ("timestamp of 'now'", 2, "a clock", "SELECT year(timestamp('now')) AS t FROM shop.orders"),
    ("DATE 'today'", 3, "a clock", "SELECT o.id FROM shop.orders o JOIN crm.customers c\nON o.day = DATE 'today'"),
    ("DATE 'today'", 3, "a clock", "SELECT count(*) AS n FROM shop.orders\nGROUP BY day > DATE 'today'"),
    ("DATE 'today'", 3, "a clock", "SELECT sku, 1 AS n FROM shop.orders GROUP BY sku\nHAVING max(day) < DATE 'today'"),
    ("DATE 'today'", 3, "a clock", "SELECT CASE WHEN id = 1 THEN\ndate_add(DATE 'today', 1) END AS d FROM shop.orders"),
    ("current_path", 2, "function of its sources", "SELECT current_path() AS p FROM shop.orders"),
    ("aes_encrypt", 2, "function of its sources", "SELECT aes_encrypt(sku, '0000111122223333') AS p FROM shop.orders"),
    ("session_window", 2, "several rows", "SELECT session_window(made_at, '1 hour') AS w FROM shop.orders"),
    ("SELECT lists nothing", 2, "", "SELECT FROM shop.orders"),
    ("now", 2, "without end", "SELECT now() AS t FROM shop.orders"),
    ("now", 3, "without end", "SELECT id FROM shop.orders\nWHERE day > now() OR id = 1"),
    ("now", 3, "without end", "SELECT id FROM shop.orders\nWHERE NOT day > now()"),
    ("current_date", 3, "without end", "SELECT id FROM shop.orders\nWHERE id + datediff(current_date, day) > 3"),
    ("current_date", 3, "without end", "SELECT id FROM shop.orders\nWHERE current_date > DATE '2024-01-01'"),
    ("current_timestamp", 3, "without end", "SELECT id,\ncurrent_timestamp() AS q FROM shop.orders"),
    ("parameter", 3, "value", "SELECT id FROM shop.orders\nWHERE id = :x"),
    ("parameter", 3, "value", "SELECT id FROM shop.orders\nWHERE id = ?"),
    ("range()", 2, "several rows", "SELECT id FROM range(10)"),
    ("VERSION", 2, "as they are", "SELECT id FROM shop.orders VERSION AS OF 3"),
    ("planner hint", 2, "how to join", "SELECT /*+ BROADCAST(o) */ id FROM shop.orders o"),
    ("FOR UPDATE", 2, "never locks", "SELECT id FROM shop.orders FOR UPDATE"),
    ("aggregate inside an aggregate", 2, "", "SELECT sum(count(*)) AS x FROM shop.orders"),
    ("aggregate cannot stand in ON or WHERE", 3, "", "SELECT id FROM shop.orders\nWHERE sum(qty) > 3"),
    ("GROUP BY cannot hold an aggregate", 2, "", "SELECT 1 AS x FROM shop.orders GROUP BY sum(qty)"),
    (
        "UNION, which Spark SQL has not",
        2,
        "",
        "WITH RECURSIVE x AS (SELECT 1 AS n UNION SELECT n + 1 FROM x) SELECT n FROM x",
    ),
    ("is no UNION ALL", 2, "", "WITH RECURSIVE x AS (SELECT n FROM x) SELECT n FROM x"),
    (
        "the first part of x speaks of x",
        2,
        "",
        "WITH RECURSIVE x AS (SELECT n FROM x UNION ALL SELECT n + 1 FROM x) SELECT n FROM x",
    ),
    (
        "cannot be followed",
        2,
        "",
        "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT MAX(n) FROM x) SELECT n FROM x",
    ),
    (
        "cannot be followed",
        2,
        "",
        "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT a.n FROM x a JOIN x b ON a.n = b.n) SELECT n FROM x",
    ),
    (
        "cannot be followed",
        2,
        "",
        "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT o.id FROM shop.orders o LEFT JOIN x ON x.n = o.id)"
        " SELECT n FROM x",
    ),
    (
        "UNION ALL of 1 and of 2 columns",
        2,
        "",
        "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n, n + 1 FROM x) SELECT n FROM x",
    ),
    (
        "ORDER BY or LIMIT",
        2,
        "",
        "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x LIMIT 5) SELECT n FROM x",
    ),
    ("FIRST()", 3, "not said", "SELECT sku,\nfirst(qty) AS q FROM shop.orders GROUP BY sku"),
    (
        "LAST_VALUE()",
        3,
        "peers",
        "SELECT sku,\nlast_value(qty) OVER (PARTITION BY sku ORDER BY day) AS q FROM shop.orders",
    ),
    ("LIMIT wants a whole number", 3, "", "SELECT id FROM shop.orders\nLIMIT id + 1"),
    ("UNION of 1 and of 2 columns", 2, "", "SELECT id FROM shop.orders UNION SELECT id, qty FROM shop.orders"),
    (
        "a subquery of 2 columns",
        3,
        "one value",
        "SELECT id,\n(SELECT id, name FROM crm.customers) AS x FROM shop.orders",
    ),
    ("neither grouped by", 3, "", "SELECT x.sku,\nx.qty FROM (SELECT * FROM shop.orders) x GROUP BY x.sku"),
    ("ORDER BY 3", 3, "no such output", "SELECT id, qty FROM shop.orders\nORDER BY 3 LIMIT 1"),
    ("no window 'w'", 3, "", "SELECT id,\nrank() OVER w AS r FROM shop.orders"),
    ("names two tables", 3, "", "SELECT o.id FROM shop.orders o\nLEFT JOIN crm.customers o ON TRUE"),
    ("ORDER BY speaks of", 2, "does not show", "SELECT DISTINCT sku FROM shop.orders ORDER BY qty LIMIT 2"),
    ("no name", 3, "", "SELECT id,\nqty + 1 FROM shop.orders LIMIT 3"),
    (
        "TABLESAMPLE",
        2,
        "function of its sources",
        "SELECT id FROM (SELECT id FROM shop.orders TABLESAMPLE (10 PERCENT)) x",
    ),
    (
        "rand",
        3,
        "function of its sources",
        "SELECT id FROM shop.orders WHERE id IN (SELECT id FROM crm.customers\nWHERE rand() > 0.5)",
    ),
]

MAINTAINED = [
    "SELECT left(sku, 1) AS l FROM shop.orders o\nLEFT JOIN crm.customers c ON c.id = o.id",
    "SELECT o.id FROM shop.orders o\nRIGHT JOIN crm.customers c ON c.id = o.id",
    "SELECT o.id FROM shop.orders o\nFULL OUTER JOIN crm.customers c ON c.id = o.id",
    "SELECT o.id FROM shop.orders o\nLEFT SEMI JOIN crm.customers c ON c.id = o.id",
    "SELECT o.id FROM shop.orders o\nANTI JOIN crm.customers c ON c.id = o.id",
    "SELECT o.id FROM shop.orders o\nJOIN LATERAL (SELECT 1) x",
    "SELECT o.id FROM shop.orders o\nLATERAL VIEW explode(o.sku) t AS y",
    "SELECT id FROM\n(SELECT id FROM shop.orders) x",
    "SELECT id FROM shop.orders WHERE id IN\n(SELECT id FROM crm.customers)",
    "SELECT id FROM shop.orders WHERE\nEXISTS (SELECT id FROM crm.customers)",
    "SELECT id,\n(SELECT 1) AS x FROM shop.orders",
    "WITH x AS (SELECT 1)\nSELECT id FROM shop.orders",
    "SELECT id FROM shop.orders\nUNION ALL SELECT id FROM crm.customers",
    "SELECT id FROM shop.orders\nINTERSECT SELECT id FROM crm.customers",
    "SELECT id FROM shop.orders\nEXCEPT SELECT id FROM crm.customers",
    "SELECT id,\nsum(qty) OVER (PARTITION BY sku) AS s FROM shop.orders",
    "SELECT id,\nrow_number() OVER (ORDER BY sku) AS s FROM shop.orders",
    "SELECT id FROM shop.orders\nORDER BY id + 1",
    "SELECT id FROM shop.orders\nORDER BY id LIMIT 1 + 1",
    "SELECT id FROM shop.orders\nLIMIT 3",
    "SELECT id FROM shop.orders\nOFFSET 3",
    "SELECT id FROM shop.orders\nQUALIFY id > 3",
    "SELECT status, count(*) AS n FROM shop.orders\nGROUP BY ROLLUP (status)",
    "SELECT status, count(*) AS n FROM shop.orders\nGROUP BY status WITH CUBE",
    "SELECT sku, 1 AS n FROM shop.orders\nGROUP BY GROUPING SETS ((sku), ())",
    "SELECT status, count(*) AS n FROM shop.orders\nGROUP BY ALL",
    "SELECT DISTINCT ON (sku) sku, id FROM shop.orders",
    "SELECT DISTINCT count(*) AS n FROM shop.orders GROUP BY sku",
    "SELECT sku,\ncollect_list(qty) AS q FROM shop.orders GROUP BY sku",
    "SELECT sku,\nstddev(qty) AS q FROM shop.orders GROUP BY sku",
    "SELECT percentile(DISTINCT qty, 0.5) AS q FROM shop.orders",
    "SELECT count_if(paid) AS q FROM shop.orders",
    "SELECT string_agg(sku, ',') AS s FROM shop.orders",
    "SELECT string_agg(DISTINCT sku, ',' ORDER BY sku) AS s FROM shop.orders",
    "SELECT listagg(sku) AS s FROM shop.orders",
    "SELECT count(*) AS n FROM shop.orders\nGROUP BY ()",
    "SELECT count(*) AS n FROM shop.orders\nGROUP BY (sku, qty)",
    "SELECT 1 AS x",
    "SELECT id FROM VALUES (1) AS t(id)",
    "SELECT a FROM shop.orders AS o(a)",
    "SELECT count(DISTINCT id, qty) AS n FROM shop.orders",
    "SELECT count(id, qty) AS n FROM shop.orders",
    "SELECT * EXCEPT (id) FROM shop.orders",
]


@pytest.mark.parametrize(
    ("construct", "line", "why", "select"), REFUSED, ids=[f"{c}-{n}" for n, (c, *_) in enumerate(REFUSED)]
)
def test_refused(construct: str, line: int, why: str, select: str) -> None:
    with pytest.raises(ViewSqlError) as caught:
        view(select)
    assert caught.value.what.startswith(f"v.sql:{line}: view v: ")
    assert construct.lower() in caught.value.what.lower()
    assert why in caught.value.what
    assert caught.value.fix


@pytest.mark.parametrize(
    "select",
    [
        "SELECT id FROM shop.orders WHERE made_at > TIMESTAMP 'epoch'",
        "SELECT id FROM shop.orders WHERE made_at > TIMESTAMP '2024-01-01 10:00:00'",
        "SELECT id FROM shop.orders WHERE day > DATE '2024-01-01'",
        "SELECT id FROM shop.orders WHERE status IN ('now', 'today')",
        "SELECT CAST('today' AS STRING) AS word, 'now' AS other FROM shop.orders",
    ],
)
def test_what_only_looks_like_a_clock_is_not_refused(select: str) -> None:
    assert view(select)


@pytest.mark.parametrize("select", MAINTAINED)
def test_what_more_than_a_block_is_maintained(select: str) -> None:
    """Each of these was refused while a view was joins and one grouping."""
    with contextlib.suppress(UnknownName):  # some speak of columns that are not there
        assert view(select).tree is not None


def test_order_by_alone_leaves_a_block_a_block() -> None:
    found = view("SELECT sku, SUM(qty) AS n FROM shop.orders GROUP BY sku ORDER BY n DESC")
    assert found.tree is None
    assert found.order == (("n", True, False),)
