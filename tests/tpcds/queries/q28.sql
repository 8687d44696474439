CREATE MATERIALIZED VIEW q28 AS
SELECT *
FROM (
    SELECT AVG(ss_list_price) AS b1_lp, COUNT(ss_list_price) AS b1_cnt, COUNT(DISTINCT ss_list_price) AS b1_cntd
    FROM store.store_sales
    WHERE ss_quantity BETWEEN 0 AND 5
        AND (
            ss_list_price BETWEEN 8 AND 18 OR ss_coupon_amt BETWEEN 45 AND 100 OR ss_wholesale_cost BETWEEN 57 AND 77
        )
) AS b1,
(
    SELECT AVG(ss_list_price) AS b2_lp, COUNT(ss_list_price) AS b2_cnt, COUNT(DISTINCT ss_list_price) AS b2_cntd
    FROM store.store_sales
    WHERE ss_quantity BETWEEN 6 AND 10
        AND (
            ss_list_price BETWEEN 90 AND 100 OR ss_coupon_amt BETWEEN 23 AND 100 OR ss_wholesale_cost BETWEEN 31 AND 51
        )
) AS b2,
(
    SELECT AVG(ss_list_price) AS b3_lp, COUNT(ss_list_price) AS b3_cnt, COUNT(DISTINCT ss_list_price) AS b3_cntd
    FROM store.store_sales
    WHERE ss_quantity BETWEEN 11 AND 15
        AND (
            ss_list_price BETWEEN 42 AND 52 OR ss_coupon_amt BETWEEN 12 AND 100 OR ss_wholesale_cost BETWEEN 79 AND 99
        )
) AS b3,
(
    SELECT AVG(ss_list_price) AS b4_lp, COUNT(ss_list_price) AS b4_cnt, COUNT(DISTINCT ss_list_price) AS b4_cntd
    FROM store.store_sales
    WHERE ss_quantity BETWEEN 16 AND 20
        AND (
            ss_list_price BETWEEN 35 AND 45 OR ss_coupon_amt BETWEEN 60 AND 160 OR ss_wholesale_cost BETWEEN 38 AND 58
        )
) AS b4,
(
    SELECT AVG(ss_list_price) AS b5_lp, COUNT(ss_list_price) AS b5_cnt, COUNT(DISTINCT ss_list_price) AS b5_cntd
    FROM store.store_sales
    WHERE ss_quantity BETWEEN 21 AND 25
        AND (
            ss_list_price BETWEEN 12 AND 22 OR ss_coupon_amt BETWEEN 84 AND 184 OR ss_wholesale_cost BETWEEN 17 AND 37
        )
) AS b5,
(
    SELECT AVG(ss_list_price) AS b6_lp, COUNT(ss_list_price) AS b6_cnt, COUNT(DISTINCT ss_list_price) AS b6_cntd
    FROM store.store_sales
    WHERE ss_quantity BETWEEN 26 AND 30
        AND (
            ss_list_price BETWEEN 28 AND 38 OR ss_coupon_amt BETWEEN 25 AND 125 OR ss_wholesale_cost BETWEEN 42 AND 62
        )
) AS b6
LIMIT 100;
