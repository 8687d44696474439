CREATE MATERIALIZED VIEW q21 AS
SELECT *
FROM (
    SELECT
        w_warehouse_name,
        i_item_id,
        SUM(CASE WHEN d_date < DATE '2000-11-11' THEN inv_quantity_on_hand ELSE 0 END) AS inv_before,
        SUM(CASE WHEN d_date >= DATE '2000-11-11' THEN inv_quantity_on_hand ELSE 0 END) AS inv_after
    FROM catalog.inventory, shared.warehouse, shared.item, shared.date_dim
    WHERE i_current_price BETWEEN 0.99 AND 100
        AND i_item_sk = inv_item_sk
        AND inv_warehouse_sk = w_warehouse_sk
        AND inv_date_sk = d_date_sk
        AND d_date BETWEEN DATE '2000-11-11' - INTERVAL '60' DAY AND DATE '2000-11-11' + INTERVAL '60' DAY
    GROUP BY w_warehouse_name, i_item_id
) AS x
WHERE CASE WHEN inv_before > 0 THEN CAST(inv_after AS DOUBLE) / inv_before ELSE NULL END BETWEEN 0.1 AND 10.0
ORDER BY w_warehouse_name, i_item_id
LIMIT 100;
