CREATE MATERIALIZED VIEW q04 AS
SELECT o_orderpriority, COUNT(*) AS order_count
FROM sales.orders
WHERE o_orderdate >= DATE '1995-01-01'
    AND o_orderdate < DATE '1995-01-01' + INTERVAL '6' MONTH
    AND EXISTS (
        SELECT *
        FROM sales.lineitem
        WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate
    )
GROUP BY o_orderpriority
ORDER BY o_orderpriority;
