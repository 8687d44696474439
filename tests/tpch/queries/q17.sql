CREATE MATERIALIZED VIEW q17 AS
SELECT SUM(l_extendedprice) / 7.0 AS avg_yearly
FROM sales.lineitem, parts.part
WHERE p_partkey = l_partkey
    AND p_brand = 'Brand#23'
    AND p_container = 'MED BOX'
    AND l_quantity < (
        SELECT 0.6 * AVG(l_quantity)
        FROM sales.lineitem
        WHERE l_partkey = p_partkey
    );
