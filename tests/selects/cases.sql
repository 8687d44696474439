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

-- names in subqueries of HAVING and QUALIFY; queries in VALUES and generators; no columns; DISTINCT ON a group
-- p(a int, b int) r(a int, b int)  seeds 0 1 2 3
SELECT p.b AS n FROM s.p GROUP BY p.b HAVING COUNT(*) > (SELECT MIN(n) FROM (SELECT a AS n FROM s.r) q);
SELECT p.b AS n, p.a FROM s.p QUALIFY ROW_NUMBER() OVER (ORDER BY p.a, p.b) >= (SELECT MIN(n) FROM (SELECT a AS n FROM s.r) q);
SELECT p.a, COUNT(*) AS n FROM s.p JOIN s.r ON p.a = r.a GROUP BY p.a HAVING COUNT(r.b) > (SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM s.r GROUP BY a) q);
SELECT v.x FROM VALUES ((SELECT COUNT(*) FROM s.p)), (7) AS v(x);
SELECT 3 AS x FROM s.p HAVING TRUE;
SELECT p.a, (SELECT MAX(1)) AS x FROM s.p;
SELECT p.a FROM s.p WHERE p.a IN (SELECT ROW_NUMBER() OVER ());
SELECT DISTINCT ON (MAX(p.a)) MIN(p.b) AS m FROM s.p GROUP BY p.b ORDER BY MAX(p.a) NULLS FIRST, m NULLS FIRST;
SELECT p.a, x.n FROM s.p, LATERAL (SELECT SUM(r.a) OVER (PARTITION BY p.b) AS n FROM s.r WHERE r.b = p.b) AS x;
SELECT p.a FROM s.p WHERE p.a = ANY (VALUES (1), (2));
SELECT a FROM s.p ORDER BY a NULLS FIRST, b NULLS FIRST LIMIT CAST(2 AS BIGINT);
-- t0(a int, e text)  seeds 0 1 2 3 346
SELECT e, ROW_NUMBER() OVER (ORDER BY a, e) AS m, ROW_NUMBER() OVER (PARTITION BY e ORDER BY a DESC, e) AS n, ROW_NUMBER() OVER (PARTITION BY e ORDER BY a, e) AS o FROM s.t0;
SELECT e, LAG(a) OVER (PARTITION BY e ORDER BY a) AS m, LEAD(a) OVER (PARTITION BY e ORDER BY a DESC) AS n FROM s.t0;
-- the engine that tells us what is right, and matches for us, lost rows where a LEFT JOIN meets nothing
-- t0(a int, c int) t3(a int, c int)  seeds 6 10 14
SELECT x.a AS p FROM s.t3 AS x WHERE EXISTS (SELECT y.a AS q FROM s.t3 AS y LEFT JOIN s.t0 AS z ON y.a = z.a AND y.c = z.c GROUP BY y.a HAVING MAX(y.c) > 0);
-- a total compared with a total: asked for no key, it answered all the same
-- t3(a int, b int)  seeds 0 1 2 206228
SELECT MAX(x.b) AS p FROM s.t3 AS x HAVING COUNT(x.a) <= (SELECT MAX(y.a) AS q FROM s.t3 AS y);
SELECT COUNT(x.b) AS p FROM s.t3 AS x HAVING COUNT(x.a) <= (SELECT MAX(y.a) AS q FROM s.t3 AS y WHERE y.b >= y.a);
SELECT z.p FROM (SELECT 1 AS p UNION ALL SELECT x.a FROM s.t3 AS x) AS z WHERE z.p < (SELECT MAX(y.a) AS q FROM s.t3 AS y);
-- a total below a total, of nothing: it has one row all the same
-- t3(a int, e text)  seeds 0 1 2 3
SELECT x.a AS p, (SELECT COUNT(*) FROM (SELECT COUNT(*) AS n FROM s.t3 AS y WHERE y.a = x.a AND y.e = 'y') AS z) AS q FROM s.t3 AS x;
SELECT DISTINCT x.e AS p, (SELECT MIN('x') AS m FROM (SELECT RANK() OVER (ORDER BY COUNT(*)) AS r FROM s.t3 AS y WHERE y.a = x.a AND y.e > 'x') AS z WHERE z.r <= z.r) AS q FROM s.t3 AS x WHERE x.a IS NOT NULL;
-- rows between two totals: a row that shows the total, or is told apart by it, changes wherever it lies
-- t0(a int, b int, f date) t2(a int, b int)  seeds 0 2 6 9 17 25 38
SELECT x.a AS p, t.q FROM s.t0 AS x JOIN (SELECT MAX(z.b) AS q FROM s.t2 AS z) AS t ON x.a <= t.q;
SELECT x.f AS p FROM s.t0 AS x WHERE x.a <= (SELECT SUM(z.b) AS q FROM s.t2 AS z) GROUP BY x.f;
SELECT x.f AS p, COUNT(*) AS n FROM s.t0 AS x WHERE x.a <= (SELECT SUM(z.b) AS q FROM s.t2 AS z) GROUP BY x.f;
SELECT x.f AS p, ROW_NUMBER() OVER (ORDER BY x.a, x.b, x.f) AS n FROM s.t0 AS x WHERE x.a <= (SELECT SUM(z.b) AS q FROM s.t2 AS z);
