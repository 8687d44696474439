-- Queries that went wrong once, shortened. What was wrong stands above each.

-- t0(a int, e text) t1(a int, b int)
-- an aggregate of constants without keys carries no column at all
SELECT x.a AS p, (SELECT MIN('') AS m FROM s.t0 AS y) AS q FROM s.t1 AS x;
-- sqlglot takes EXISTS ((q) …) for a function
SELECT x.a AS p FROM s.t1 AS x WHERE EXISTS ((SELECT y.a AS q FROM s.t0 AS y WHERE y.a = x.b) UNION ALL (SELECT 1 AS q FROM s.t0 AS z WHERE z.a = x.a));
-- a scalar subquery may be grouped by
SELECT x.b AS p, (SELECT COUNT(*) AS m FROM s.t0 AS y WHERE y.a = x.a) AS q, COUNT(*) AS n FROM s.t1 AS x GROUP BY ALL;
-- and may stand in an aggregate
SELECT x.b AS p, SUM((SELECT COUNT(*) AS m FROM s.t0 AS y WHERE y.a = x.a)) AS n FROM s.t1 AS x GROUP BY x.b;
-- and ALL ((q) …)
SELECT x.a AS p FROM s.t1 AS x WHERE x.a >= ALL ((SELECT y.a AS q FROM s.t0 AS y) UNION ALL (SELECT 1 AS q));
-- SELECT without FROM has no column on its left side
SELECT 1 AS p WHERE EXISTS (SELECT 1 AS q FROM s.t0 AS y);
SELECT 1 AS p WHERE NOT EXISTS (SELECT 1 AS q FROM s.t0 AS y WHERE y.a = 1);
SELECT 1 AS p WHERE 2 NOT IN (SELECT y.a AS q FROM s.t0 AS y);
-- what WINDOW names speaks of columns of FROM
SELECT x.a AS p, SUM(x.b) OVER w AS q FROM s.t1 AS x WINDOW w AS (PARTITION BY x.a);
SELECT x.a AS p, SUM(x.b) OVER (w ORDER BY x.b NULLS FIRST) AS q FROM s.t1 AS x WINDOW w AS (PARTITION BY x.a);
-- x NOT IN q, with NULLs on either side
SELECT x.a AS p FROM s.t1 AS x WHERE x.a NOT IN (SELECT y.a AS q FROM s.t0 AS y WHERE y.a = x.b OR y.a IS NULL);
SELECT x.a AS p FROM s.t1 AS x WHERE x.a NOT IN (SELECT MAX(y.a) AS q FROM s.t0 AS y WHERE y.a = x.b);
SELECT x.a AS p FROM s.t1 AS x WHERE x.a NOT IN (SELECT y.a AS q FROM s.t0 AS y) AND x.b NOT IN (SELECT x.a AS q);

-- t0(a int, b int) t1(a int, b int)
-- the domain of one subquery held those of all before it: a program of 16,000 steps
SELECT DISTINCT x.a AS p FROM s.t0 AS x WHERE (x.a <> x.b OR x.b NOT IN (SELECT y.b AS q FROM s.t1 AS y WHERE y.b <> x.b AND (y.a >= ANY (SELECT CASE WHEN z.a = 0 THEN y.b END AS r FROM s.t1 AS z) OR y.a <=> 1)));
