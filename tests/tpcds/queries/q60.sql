CREATE MATERIALIZED VIEW q60 AS
WITH ss AS (
    SELECT i_item_id, SUM(ss_ext_sales_price) AS total_sales
    FROM store.store_sales, shared.date_dim, shared.customer_address, shared.item
    WHERE i_item_id IN (SELECT i_item_id FROM shared.item WHERE i_category IN ('Books'))
        AND ss_item_sk = i_item_sk
        AND ss_sold_date_sk = d_date_sk
        AND d_year = 2000
        AND d_moy = 11
        AND ss_addr_sk = ca_address_sk
        AND ca_gmt_offset = -5
    GROUP BY i_item_id
),
cs AS (
    SELECT i_item_id, SUM(cs_ext_sales_price) AS total_sales
    FROM catalog.catalog_sales, shared.date_dim, shared.customer_address, shared.item
    WHERE i_item_id IN (SELECT i_item_id FROM shared.item WHERE i_category IN ('Books'))
        AND cs_item_sk = i_item_sk
        AND cs_sold_date_sk = d_date_sk
        AND d_year = 2000
        AND d_moy = 11
        AND cs_bill_addr_sk = ca_address_sk
        AND ca_gmt_offset = -5
    GROUP BY i_item_id
),
ws AS (
    SELECT i_item_id, SUM(ws_ext_sales_price) AS total_sales
    FROM web.web_sales, shared.date_dim, shared.customer_address, shared.item
    WHERE i_item_id IN (SELECT i_item_id FROM shared.item WHERE i_category IN ('Books'))
        AND ws_item_sk = i_item_sk
        AND ws_sold_date_sk = d_date_sk
        AND d_year = 2000
        AND d_moy = 11
        AND ws_bill_addr_sk = ca_address_sk
        AND ca_gmt_offset = -5
    GROUP BY i_item_id
)
SELECT i_item_id, SUM(total_sales) AS total_sales
FROM (SELECT * FROM ss UNION ALL SELECT * FROM cs UNION ALL SELECT * FROM ws) AS tmp1
GROUP BY i_item_id
ORDER BY i_item_id, total_sales
LIMIT 100;
