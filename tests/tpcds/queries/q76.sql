CREATE MATERIALIZED VIEW q76 AS
SELECT channel, col_name, d_year, d_qoy, i_category, COUNT(*) AS sales_cnt, SUM(ext_sales_price) AS sales_amt
FROM (
    SELECT 'store' AS channel, 'ss_addr_sk' AS col_name, d_year, d_qoy, i_category, ss_ext_sales_price AS ext_sales_price
    FROM store.store_sales, shared.item, shared.date_dim
    WHERE ss_addr_sk IS NULL AND ss_sold_date_sk = d_date_sk AND ss_item_sk = i_item_sk
    UNION ALL
    SELECT 'web', 'ws_web_page_sk', d_year, d_qoy, i_category, ws_ext_sales_price
    FROM web.web_sales, shared.item, shared.date_dim
    WHERE ws_web_page_sk IS NULL AND ws_sold_date_sk = d_date_sk AND ws_item_sk = i_item_sk
    UNION ALL
    SELECT 'catalog', 'cs_warehouse_sk', d_year, d_qoy, i_category, cs_ext_sales_price
    FROM catalog.catalog_sales, shared.item, shared.date_dim
    WHERE cs_warehouse_sk IS NULL AND cs_sold_date_sk = d_date_sk AND cs_item_sk = i_item_sk
) AS foo
GROUP BY channel, col_name, d_year, d_qoy, i_category
ORDER BY channel, col_name, d_year, d_qoy, i_category
LIMIT 100;
