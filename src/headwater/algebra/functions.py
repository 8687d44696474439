"""Functions of Spark SQL that a view cannot use as any other: what they are, and why not.

A function is known by the name that Spark SQL calls it, whatever sqlglot makes of it.
"""

from __future__ import annotations

import re

from sqlglot import exp

from headwater.algebra.aggregates import AggregateFunction
from headwater.algebra.dialect import said


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NONDETERMINISTIC = _words(
    """
    rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id
    input_file_name input_file_block_start input_file_block_length
    now curdate current_date current_time current_timestamp localtime localtimestamp current_timezone sysdate
    current_user session_user user current_catalog current_database current_schema current_path version
    reflect java_method try_reflect aes_encrypt python_worker_logs
    """
)

GENERATORS = _words(
    """
    explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple unnest variant_explode
    variant_explode_outer collations sql_keywords range window session_window window_time
    """
)

UNNESTING = ("explode", "posexplode", "inline", "stack", "json_tuple", "unnest", "variant_explode")
"""The generators that may stand in FROM, each also as `…_outer`."""

MAINTAINED: dict[type[exp.Expr], AggregateFunction] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}
"""The aggregates whose groups can be continued from what they keep."""

OTHER_AGGREGATES = _words(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine
    array_agg avg_if bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or
    collect_list collect_set collect_union corr count_if count_min_sketch covar_pop covar_samp every first first_value
    group_concat grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
    kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis
    last last_value listagg max_by mean measure median min_by mode percentile percentile_approx percentile_cont
    percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    schema_of_json_agg schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg
    theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum tuple_intersection_agg_double
    tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double
    tuple_union_agg_integer var_pop var_samp variance vector_avg vector_sum
    """
)


def function_name(node: exp.Expr) -> str:
    """The name Spark SQL calls a function by, in lower case; empty for what is not called by a name."""
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return str(node.name).lower()
    if not isinstance(node, exp.Func) or isinstance(node, exp.Cast | exp.Binary | exp.Case):
        return ""
    written = re.match(r"(\w+)", said(node))
    return written[1].lower() if written else ""


def is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc) or (
        isinstance(node, exp.Anonymous) and function_name(node) in OTHER_AGGREGATES
    )


def has_aggregate(node: exp.Expr) -> bool:
    return any(is_aggregate(part) for part in node.walk())
