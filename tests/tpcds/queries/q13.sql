CREATE MATERIALIZED VIEW q13 AS
SELECT
    AVG(ss_quantity) AS avg_quantity,
    AVG(ss_ext_sales_price) AS avg_sales_price,
    AVG(ss_ext_wholesale_cost) AS avg_wholesale_cost,
    SUM(ss_ext_wholesale_cost) AS sum_wholesale_cost
FROM store.store_sales, store.store, shared.customer_demographics, shared.household_demographics, shared.customer_address, shared.date_dim
WHERE s_store_sk = ss_store_sk
    AND ss_sold_date_sk = d_date_sk
    AND d_year = 2000
    AND (
        (
            ss_hdemo_sk = hd_demo_sk
            AND cd_demo_sk = ss_cdemo_sk
            AND cd_marital_status = 'M'
            AND cd_education_status = 'College'
            AND ss_sales_price BETWEEN 100.00 AND 150.00
            AND hd_dep_count = 3
        )
        OR (
            ss_hdemo_sk = hd_demo_sk
            AND cd_demo_sk = ss_cdemo_sk
            AND cd_marital_status = 'S'
            AND cd_education_status = 'College'
            AND ss_sales_price BETWEEN 50.00 AND 100.00
            AND hd_dep_count = 1
        )
        OR (
            ss_hdemo_sk = hd_demo_sk
            AND cd_demo_sk = ss_cdemo_sk
            AND cd_marital_status = 'W'
            AND cd_education_status = '2 yr Degree'
            AND ss_sales_price BETWEEN 150.00 AND 200.00
            AND hd_dep_count = 1
        )
    )
    AND (
        (
            ss_addr_sk = ca_address_sk
            AND ca_country = 'United States'
            AND ca_state IN ('TX', 'OH', 'TN')
            AND ss_net_profit BETWEEN 10 AND 200
        )
        OR (
            ss_addr_sk = ca_address_sk
            AND ca_country = 'United States'
            AND ca_state IN ('OR', 'NM', 'KY')
            AND ss_net_profit BETWEEN 15 AND 300
        )
        OR (
            ss_addr_sk = ca_address_sk
            AND ca_country = 'United States'
            AND ca_state IN ('VA', 'TX', 'MS')
            AND ss_net_profit BETWEEN 5 AND 250
        )
    );
