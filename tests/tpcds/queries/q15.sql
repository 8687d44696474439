CREATE MATERIALIZED VIEW q15 AS
SELECT ca_zip, SUM(cs_sales_price) AS sum_sales_price
FROM catalog.catalog_sales, shared.customer, shared.customer_address, shared.date_dim
WHERE cs_bill_customer_sk = c_customer_sk
    AND c_current_addr_sk = ca_address_sk
    AND (
        SUBSTR(ca_zip, 1, 5) IN ('85669', '86197', '88274', '83405', '86475', '85392', '85460', '80348', '81792')
        OR ca_state IN ('CA', 'WA', 'GA')
        OR cs_sales_price > 150
    )
    AND cs_sold_date_sk = d_date_sk
    AND d_qoy = 4
    AND d_year = 2000
GROUP BY ca_zip
ORDER BY ca_zip
LIMIT 100;
