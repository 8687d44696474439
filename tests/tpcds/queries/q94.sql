CREATE MATERIALIZED VIEW q94 AS
SELECT
    COUNT(DISTINCT ws_order_number) AS order_count,
    SUM(ws_ext_ship_cost) AS total_shipping_cost,
    SUM(ws_net_profit) AS total_net_profit
FROM web.web_sales AS ws1, shared.date_dim, shared.customer_address, web.web_site
WHERE d_date BETWEEN DATE '2000-11-01' AND DATE '2000-11-01' + INTERVAL '60' DAY
    AND ws1.ws_ship_date_sk = d_date_sk
    AND ws1.ws_ship_addr_sk = ca_address_sk
    AND ca_state = 'GA'
    AND ws1.ws_web_site_sk = web_site_sk
    AND web_company_name = 'pri'
    AND EXISTS (
        SELECT *
        FROM web.web_sales AS ws2
        WHERE ws1.ws_order_number = ws2.ws_order_number AND ws1.ws_warehouse_sk <> ws2.ws_warehouse_sk
    )
    AND NOT EXISTS (SELECT * FROM web.web_returns AS wr1 WHERE ws1.ws_order_number = wr1.wr_order_number)
ORDER BY COUNT(DISTINCT ws_order_number)
LIMIT 100;
