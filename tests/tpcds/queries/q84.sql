CREATE MATERIALIZED VIEW q84 AS
SELECT c_customer_id AS customer_id, CONCAT(c_last_name, ', ', c_first_name) AS customername
FROM shared.customer, shared.customer_address, shared.customer_demographics, shared.household_demographics, shared.income_band, store.store_returns
WHERE ca_city = 'Fairview'
    AND c_current_addr_sk = ca_address_sk
    AND ib_lower_bound >= 1
    AND ib_upper_bound <= 1 + 50000
    AND ib_income_band_sk = hd_income_band_sk
    AND cd_demo_sk = c_current_cdemo_sk
    AND hd_demo_sk = c_current_hdemo_sk
    AND sr_cdemo_sk = cd_demo_sk
ORDER BY c_customer_id
LIMIT 100;
