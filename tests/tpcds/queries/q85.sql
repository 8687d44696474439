CREATE MATERIALIZED VIEW q85 AS
SELECT
    SUBSTR(r_reason_desc, 1, 20) AS reason,
    AVG(ws_quantity) AS avg_quantity,
    AVG(wr_refunded_cash) AS avg_cash,
    AVG(wr_fee) AS avg_fee
FROM
    web.web_sales,
    web.web_returns,
    web.web_page,
    shared.customer_demographics AS cd1,
    shared.customer_demographics AS cd2,
    shared.customer_address,
    shared.date_dim,
    shared.reason
WHERE ws_web_page_sk = wp_web_page_sk
    AND ws_item_sk = wr_item_sk
    AND ws_order_number = wr_order_number
    AND ws_sold_date_sk = d_date_sk
    AND d_year = 2000
    AND cd1.cd_demo_sk = wr_refunded_cdemo_sk
    AND cd2.cd_demo_sk = wr_returning_cdemo_sk
    AND ca_address_sk = wr_refunded_addr_sk
    AND r_reason_sk = wr_reason_sk
    AND (
        (
            cd1.cd_marital_status = 'M'
            AND cd1.cd_marital_status = cd2.cd_marital_status
            AND cd1.cd_education_status = 'College'
            AND cd1.cd_education_status = cd2.cd_education_status
            AND ws_sales_price BETWEEN 0.00 AND 150.00
        )
        OR (
            cd1.cd_marital_status = 'S'
            AND cd1.cd_marital_status = cd2.cd_marital_status
            AND cd1.cd_education_status = 'College'
            AND cd1.cd_education_status = cd2.cd_education_status
            AND ws_sales_price BETWEEN 0.00 AND 100.00
        )
        OR (
            cd1.cd_marital_status = 'W'
            AND cd1.cd_marital_status = cd2.cd_marital_status
            AND cd1.cd_education_status = '2 yr Degree'
            AND cd1.cd_education_status = cd2.cd_education_status
            AND ws_sales_price BETWEEN 0.00 AND 200.00
        )
    )
    AND (
        (ca_country = 'United States' AND ca_state IN ('GA', 'OH', 'TX') AND ws_net_profit BETWEEN 0 AND 200)
        OR (ca_country = 'United States' AND ca_state IN ('KY', 'TN', 'VA') AND ws_net_profit BETWEEN 0 AND 300)
        OR (ca_country = 'United States' AND ca_state IN ('CA', 'MS', 'WA') AND ws_net_profit BETWEEN 0 AND 250)
    )
GROUP BY r_reason_desc
ORDER BY SUBSTR(r_reason_desc, 1, 20), AVG(ws_quantity), AVG(wr_refunded_cash), AVG(wr_fee)
LIMIT 100;
