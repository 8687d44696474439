CREATE MATERIALIZED VIEW q92 AS
SELECT SUM(ws_ext_discount_amt) AS excess_discount_amount
FROM web.web_sales, shared.item, shared.date_dim
WHERE i_manufact_id = 128
    AND i_item_sk = ws_item_sk
    AND d_date BETWEEN DATE '2000-11-01' AND DATE '2000-11-01' + INTERVAL '90' DAY
    AND d_date_sk = ws_sold_date_sk
    AND ws_ext_discount_amt > (
        SELECT 1.3 * AVG(ws_ext_discount_amt)
        FROM web.web_sales, shared.date_dim
        WHERE ws_item_sk = i_item_sk
            AND d_date BETWEEN DATE '2000-11-01' AND DATE '2000-11-01' + INTERVAL '90' DAY
            AND d_date_sk = ws_sold_date_sk
    )
ORDER BY SUM(ws_ext_discount_amt)
LIMIT 100;
