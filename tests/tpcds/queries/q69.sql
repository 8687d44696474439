CREATE MATERIALIZED VIEW q69 AS
SELECT
    cd_gender,
    cd_marital_status,
    cd_education_status,
    COUNT(*) AS cnt1,
    cd_purchase_estimate,
    COUNT(*) AS cnt2,
    cd_credit_rating,
    COUNT(*) AS cnt3
FROM shared.customer AS c, shared.customer_address AS ca, shared.customer_demographics
WHERE c.c_current_addr_sk = ca.ca_address_sk
    AND ca_state IN ('KY', 'GA', 'TX')
    AND cd_demo_sk = c.c_current_cdemo_sk
    AND EXISTS (
        SELECT * FROM store.store_sales, shared.date_dim
        WHERE c.c_customer_sk = ss_customer_sk AND ss_sold_date_sk = d_date_sk AND d_year = 2000 AND d_moy BETWEEN 9 AND 9 + 2
    )
    AND NOT EXISTS (
        SELECT * FROM web.web_sales, shared.date_dim
        WHERE c.c_customer_sk = ws_bill_customer_sk AND ws_sold_date_sk = d_date_sk AND d_year = 2000 AND d_moy BETWEEN 3 AND 5
    )
    AND NOT EXISTS (
        SELECT * FROM catalog.catalog_sales, shared.date_dim
        WHERE c.c_customer_sk = cs_ship_customer_sk AND cs_sold_date_sk = d_date_sk AND d_year = 2000 AND d_moy BETWEEN 3 AND 5
    )
GROUP BY cd_gender, cd_marital_status, cd_education_status, cd_purchase_estimate, cd_credit_rating
ORDER BY cd_gender, cd_marital_status, cd_education_status, cd_purchase_estimate, cd_credit_rating
LIMIT 100;
