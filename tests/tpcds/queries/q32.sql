CREATE MATERIALIZED VIEW q32 AS
SELECT SUM(cs_ext_discount_amt) AS excess_discount_amount
FROM catalog.catalog_sales, shared.item, shared.date_dim
WHERE i_manufact_id = 128
    AND i_item_sk = cs_item_sk
    AND d_date BETWEEN DATE '2000-11-01' AND DATE '2000-11-01' + INTERVAL '90' DAY
    AND d_date_sk = cs_sold_date_sk
    AND cs_ext_discount_amt > (
        SELECT 1.3 * AVG(cs_ext_discount_amt)
        FROM catalog.catalog_sales, shared.date_dim
        WHERE cs_item_sk = i_item_sk
            AND d_date BETWEEN DATE '2000-11-01' AND DATE '2000-11-01' + INTERVAL '90' DAY
            AND d_date_sk = cs_sold_date_sk
    )
LIMIT 100;
