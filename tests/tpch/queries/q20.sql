CREATE MATERIALIZED VIEW q20 AS
SELECT s_name, s_address
FROM parts.supplier, geo.nation
WHERE s_suppkey IN (
        SELECT ps_suppkey
        FROM parts.partsupp
        WHERE ps_partkey IN (
                SELECT p_partkey
                FROM parts.part
                WHERE p_name LIKE 'forest%'
            )
            AND ps_availqty > (
                SELECT 0.2 * SUM(l_quantity)
                FROM sales.lineitem
                WHERE l_partkey = ps_partkey
                    AND l_suppkey = ps_suppkey
                    AND l_shipdate >= DATE '1994-01-01'
                    AND l_shipdate < DATE '1994-01-01' + INTERVAL '2' YEAR
            )
    )
    AND s_nationkey = n_nationkey
    AND n_name = 'FRANCE'
ORDER BY s_name;
