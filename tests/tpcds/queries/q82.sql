CREATE MATERIALIZED VIEW q82 AS
SELECT i_item_id, i_item_desc, i_current_price
FROM shared.item, catalog.inventory, shared.date_dim, store.store_sales
WHERE i_current_price BETWEEN 60 AND 60 + 60
    AND inv_item_sk = i_item_sk
    AND d_date_sk = inv_date_sk
    AND d_date BETWEEN DATE '2000-11-01' AND DATE '2000-11-01' + INTERVAL '60' DAY
    AND i_manufact_id IN (128, 129, 270, 821, 423)
    AND inv_quantity_on_hand BETWEEN 50 AND 500
    AND ss_item_sk = i_item_sk
GROUP BY i_item_id, i_item_desc, i_current_price
ORDER BY i_item_id
LIMIT 100;
