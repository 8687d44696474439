CREATE MATERIALIZED VIEW q53 AS
SELECT *
FROM (
    SELECT
        i_manufact_id,
        SUM(ss_sales_price) AS sum_sales,
        AVG(SUM(ss_sales_price)) OVER (PARTITION BY i_manufact_id) AS avg_quarterly_sales
    FROM shared.item, store.store_sales, shared.date_dim, store.store
    WHERE ss_item_sk = i_item_sk
        AND ss_sold_date_sk = d_date_sk
        AND ss_store_sk = s_store_sk
        AND d_month_seq IN (
            1200, 1200 + 1, 1200 + 2, 1200 + 3, 1200 + 4, 1200 + 5, 1200 + 6, 1200 + 7, 1200 + 8, 1200 + 9, 1200 + 10, 1200 + 11
        )
        AND (
            (i_category IN ('Books', 'Home', 'Electronics') AND i_class IN ('personal', 'portable', 'reference'))
            OR (i_category IN ('Women', 'Sports', 'Men') AND i_class IN ('accessories', 'classical', 'fragrances'))
        )
    GROUP BY i_manufact_id, d_qoy
) AS tmp1
WHERE CASE
    WHEN avg_quarterly_sales > 0 THEN ABS(sum_sales - avg_quarterly_sales) / avg_quarterly_sales ELSE NULL
END > 0.1
ORDER BY avg_quarterly_sales, sum_sales, i_manufact_id
LIMIT 100;
