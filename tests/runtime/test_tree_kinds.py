"""What a SELECT can say, kind by kind, on the engine: loaded, maintained transaction by transaction, and compared at
several states with the query recomputed by Spark from the sources."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from runtime.small_project import Project, rows

pytestmark = pytest.mark.spark

TABLES = {
    "a": "CREATE TABLE e (id INTEGER PRIMARY KEY, k INTEGER, x REAL, t TEXT, d DATE);"
    "CREATE TABLE f (id INTEGER PRIMARY KEY, k INTEGER, v INTEGER, j TEXT)",
    "b": "CREATE TABLE g (k INTEGER, w DECIMAL(10,2), t TEXT)",
}

QUERIES = {
    "deviations": "SELECT k, STDDEV(x) AS s, VAR_POP(x) AS v, AVG(x) AS m FROM a.e GROUP BY k",
    "inner_sums": """SELECT q.k, q.s, g.w FROM (SELECT k, SUM(x) AS s, AVG(x) AS m FROM a.e GROUP BY k) q
        LEFT JOIN b.g g ON g.k = q.k""",
    "lists": """SELECT k, ARRAY_JOIN(COLLECT_LIST(t), '-') AS l, ARRAY_JOIN(COLLECT_SET(t), '-') AS s,
        STRING_AGG(t, ',') AS a, LISTAGG(t, ';') WITHIN GROUP (ORDER BY id DESC) AS o FROM a.e GROUP BY k""",
    "choices": """SELECT k, ANY_VALUE(t) AS any_t, MIN_BY(t, id) AS first_t, MAX_BY(t, x) AS most, MODE(t) AS mode_t,
        MEDIAN(id) AS mid, PERCENTILE(id, 0.25) AS p, BOOL_OR(x > 0.5) AS b, BOOL_AND(x > 0.1) AS c,
        COUNT_IF(t = 'x') AS n, APPROX_COUNT_DISTINCT(t) AS kinds FROM a.e GROUP BY k""",
    "rollup": "SELECT k, t, COUNT(*) AS n, GROUPING(k) AS g FROM a.e GROUP BY ROLLUP (k, t)",
    "cube": "SELECT k, t, SUM(id) AS n, GROUPING_ID(k, t) AS g FROM a.e GROUP BY CUBE (k, t)",
    "moving": """SELECT id, AVG(v) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS m,
        LAG(v, 1, -1) OVER (PARTITION BY k ORDER BY id) AS before, NTILE(2) OVER (PARTITION BY k ORDER BY v) AS half,
        SUM(v) OVER (PARTITION BY k ORDER BY v RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near,
        FIRST_VALUE(v) OVER (PARTITION BY k ORDER BY v DESC) AS best, PERCENT_RANK() OVER (ORDER BY v) AS p FROM a.f""",
    "float_window": "SELECT id, SUM(x) OVER (PARTITION BY k) AS s FROM a.e",
    "named_window": """SELECT id, RANK() OVER w AS r, COUNT(*) OVER w AS n FROM a.f
        WINDOW w AS (PARTITION BY k ORDER BY v)""",
    "qualified": "SELECT k, id, v FROM a.f QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) <= 2",
    "exploded": "SELECT e.id, p.w AS word FROM a.e e LATERAL VIEW explode(split(e.t || ' ' || e.k, ' ')) p AS w",
    "json": "SELECT id, get_json_object(j, '$.a') AS a, v DIV 2 AS half FROM a.f WHERE j IS NOT NULL LIMIT 5",
    "distinct_on": "SELECT DISTINCT ON (k) k, id, v FROM a.f ORDER BY k, v DESC, id",
    "offset_": "SELECT id, v FROM a.f ORDER BY v DESC, id LIMIT 3 OFFSET 2",
    "scalar": """SELECT e.id, (SELECT MAX(w) FROM b.g WHERE g.k = e.k) AS w,
        e.x > (SELECT AVG(x) FROM a.e) AS above FROM a.e e""",
    "lateral": """SELECT g.k, l.id FROM b.g g LEFT JOIN LATERAL (SELECT id FROM a.f WHERE f.k = g.k
        ORDER BY v DESC, id LIMIT 1) l ON TRUE""",
    "unions": """SELECT k, 'e' AS src FROM a.e UNION ALL SELECT k, 'f' FROM a.f INTERSECT SELECT k, 'f' FROM b.g""",
    "between": "SELECT e.id, f.id AS other FROM a.e e LEFT JOIN a.f f ON f.v BETWEEN e.k AND e.k + 1 AND f.id <> e.id",
    "mixed_types": "SELECT e.id, g.t FROM a.e e JOIN b.g g ON g.w = e.k WHERE e.t LIKE '%x%' OR g.t IS NULL",
    "distinct_groups": "SELECT DISTINCT COUNT(*) AS n FROM a.e GROUP BY k",
    "dates": """SELECT YEAR(e.d) AS y, COUNT(*) AS n, MIN(e.d) AS first_day FROM a.e e
        WHERE EXISTS (SELECT 1 FROM a.f WHERE f.k = e.k) GROUP BY YEAR(e.d) HAVING COUNT(*) > 0""",
    "without_from": "SELECT 1 AS one, 'two' AS two",
    "constants": "SELECT v.name, COUNT(e.id) AS n FROM (VALUES (1, 'one'), (2, 'two'), (9, 'nine')) AS v(k, name)"
    " LEFT JOIN a.e e ON e.k = v.k GROUP BY v.name",
    "anything": "SELECT id FROM a.f WHERE v >= ALL (SELECT v FROM a.f o WHERE o.k = f.k)"
    " OR k = ANY (SELECT k FROM b.g WHERE w > 50)",
}


def views() -> str:
    made = [f"CREATE MATERIALIZED VIEW {name} AS {query};" for name, query in QUERIES.items()]
    over = (
        "CREATE MATERIALIZED VIEW over_a_tree AS SELECT q.k, q.id FROM qualified q LEFT ANTI JOIN b.g g ON g.k = q.k;"
    )
    periodic = "CREATE MATERIALIZED VIEW now_and_then WITH (consistency = 'periodic', schedule = '1 hour') AS "
    every = "CREATE MATERIALIZED VIEW every_other WITH (consistency = 'complete', every = 2) AS "
    late = "CREATE MATERIALIZED VIEW late WITH (consistency = 'convergent') AS "
    return "\n".join(
        [
            *made,
            over,
            f"{periodic}{QUERIES['rollup']};",
            f"{every}{QUERIES['qualified']};",
            f"{late}{QUERIES['scalar']};",
        ]
    )


class Business:
    """Random transactions at both files."""

    def __init__(self, project: Project, seed: int) -> None:
        self._project, self._random = project, random.Random(seed)

    def act(self, times: int) -> None:
        for _ in range(times):
            r = self._random
            text = r.choice(["'x'", "'y'", "'xy z'", "NULL", "''"])
            key, number = r.choice(["1", "2", "3", "NULL"]), r.randint(1, 14)
            real, day = r.choice(["0.1", "0.2", "0.7", "1e15", "NULL"]), f"'202{r.randint(0, 3)}-05-06'"
            json = r.choice(["NULL", """'{"a": 1}'""", """'{"a": null}'"""])
            e = f"({number}, {key}, {real}, {text}, {day})"
            f = f"({number}, {key}, {r.randint(0, 5)}, {json})"
            deeds = [
                f"INSERT OR REPLACE INTO e VALUES {e}",
                f"INSERT OR REPLACE INTO f VALUES {f}",
                f"DELETE FROM {r.choice('ef')} WHERE id = {number}",
                f"UPDATE e SET k = {key} WHERE id < {number} AND id > {number - 3}",
            ]
            if r.random() < 0.75:
                self._project.execute("a", r.choice(deeds))
            elif r.random() < 0.7:
                self._project.execute("b", f"INSERT INTO g VALUES ({key}, {r.randint(0, 99)}.5, {text})")
            else:
                self._project.execute("b", f"DELETE FROM g WHERE k = {key} OR w > {r.randint(30, 99)}")


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_every_kind_is_maintained(tmp_path: Path, spark: SparkSession) -> None:
    project = Project(tmp_path / "p", views(), TABLES)
    business = Business(project, 7)
    business.act(12)
    warehouse = project.loaded()
    assert not warehouse.halted()
    assert set(warehouse.cut().views) == set(warehouse.views)
    for burst in (1, 9):
        business.act(burst)
        warehouse.run(until_caught_up=True)
    business.act(3)
    warehouse.run(until_caught_up=True)
    assert not warehouse.halted()
    assert not [(v.view, v.missing, v.extra) for v in warehouse.verify() if not v.ok and v.view != "now_and_then"]
    complete = [name for name, view in warehouse.views.items() if view.level.value == "complete" and view.every == 1]
    earlier = warehouse.status().cut.seq - 2
    some = complete[::3]  # `test_trees` looks at every state; each of these takes Spark a second
    assert not [(v.view, v.missing, v.extra) for v in warehouse.verify(some, at=earlier) if not v.ok]


@pytest.mark.soak
def test_two_rows_where_one_is_allowed_halt_the_view_until_they_are_corrected(
    tmp_path: Path, spark: SparkSession
) -> None:
    single = "CREATE MATERIALIZED VIEW single AS SELECT e.id, (SELECT f.v FROM a.f f WHERE f.k = e.k) AS v FROM a.e e;"
    ratio = "CREATE MATERIALIZED VIEW ratio AS SELECT f.id, e.id DIV f.v AS r FROM a.f f LEFT JOIN a.e e ON e.k = f.k;"
    plain = "CREATE MATERIALIZED VIEW plain AS SELECT f.id, f.v FROM a.f f WHERE EXISTS (SELECT 1 FROM a.e);"
    endless = """CREATE MATERIALIZED VIEW endless AS
        WITH RECURSIVE r(v) MAX RECURSION LEVEL 20 AS (SELECT v FROM a.f WHERE id = 1
        UNION ALL SELECT f.v FROM r JOIN a.f f ON f.k = r.v) SELECT v FROM r;"""
    project = Project(tmp_path / "p", single + ratio + plain + endless, TABLES)
    project.execute("a", "INSERT INTO e VALUES (1, 1, 0, 'x', NULL)", "INSERT INTO f VALUES (1, 1, 7, NULL)")
    warehouse = project.loaded()
    assert rows(warehouse, "single") == [(1, 7)]
    project.execute("a", "INSERT INTO f VALUES (2, 1, 0, NULL), (3, 7, 8, NULL), (4, 8, 7, NULL)")
    warehouse.run(until_caught_up=True)
    halted = warehouse.halted()
    assert set(halted) == {"single", "ratio", "endless"}
    assert re.search(r"deeper than 20 levels with transaction \d+: it comes to \([78]\)", halted["endless"])  # type: ignore[index]
    assert "more than one row" in halted["single"]  # type: ignore[index] # a ViewName is a str
    assert "e.id = 1" in halted["single"]  # type: ignore[index]
    assert "zero" in halted["ratio"]  # type: ignore[index]
    assert re.search(r"the row \(f.id = 2, .*f.v = 0.*\) of transaction \d+", halted["ratio"])  # type: ignore[index]
    assert rows(warehouse, "plain") == [(1, 7), (2, 0), (3, 8), (4, 7)]
    project.execute("a", "DELETE FROM f WHERE id IN (2, 4)")
    warehouse.resume(["single", "ratio", "endless"])
    warehouse.run(until_caught_up=True)
    assert not warehouse.halted()
    assert rows(warehouse, "single") == [(1, 7)]
    assert rows(warehouse, "ratio") == [(1, 0), (3, None)]
    assert rows(warehouse, "endless") == [(7,), (8,)]
    assert all(verification.ok for verification in warehouse.verify())


def test_read_shows_the_order_that_was_said(tmp_path: Path, spark: SparkSession) -> None:
    ordered = "CREATE MATERIALIZED VIEW ordered AS SELECT id, v FROM a.f ORDER BY v DESC, id"
    project = Project(tmp_path / "p", ordered, TABLES)
    project.execute("a", "INSERT INTO f VALUES (1, 1, 5, NULL), (2, 1, 9, NULL), (3, 1, NULL, NULL), (4, 1, 5, NULL)")
    assert rows(project.loaded(), "ordered") == [(2, 9), (1, 5), (4, 5), (3, None)]
