"""Aggregates whose result the query as written leaves open, settled: which row comes first is decided by value.

ANY_VALUE(x)                    MIN(x)
COLLECT_LIST, ARRAY_AGG(x)      SORT_ARRAY(COLLECT_LIST(x)), or by what ORDER BY says and then by x
COLLECT_SET(x)                  SORT_ARRAY(COLLECT_SET(x))
STRING_AGG, LISTAGG(x, s)       LISTAGG(x, s) WITHIN GROUP (ORDER BY …, x)
MIN_BY(x, y), MAX_BY(x, y)      by (y, x)
MODE(x)                         the least of them
APPROX_COUNT_DISTINCT(x)        COUNT(DISTINCT x)
"""

from __future__ import annotations

from sqlglot import exp

from headwater.algebra.dialect import ViewSql, said, spark_sql
from headwater.algebra.functions import function_name
from headwater.algebra.relations import Expression
from headwater.algebra.select.context import Context
from headwater.algebra.select.scope import TREE

_LISTS = ("collect_list", "array_agg")
_STRINGS = ("string_agg", "listagg", "group_concat")
_DEVIATIONS = {
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop",
    "variance": "var_samp",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
}
SETTLED = frozenset(
    (
        *("count", "sum", "avg", "min", "max", "mean", "count_if", "try_sum", "try_avg", *_DEVIATIONS),
        *("bool_and", "bool_or", "every", "some", "bit_and", "bit_or", "bit_xor", "any_value", "min_by", "max_by"),
        *("collect_list", "collect_set", "array_agg", "string_agg", "listagg", "group_concat", "mode", "median"),
        *("percentile", "percentile_cont", "percentile_disc", "approx_count_distinct"),
    )
)
"""The aggregates that are a function of the values alone, or are made one."""
_OPEN = ("first", "last", "first_value", "last_value")


def settled(c: Context, node: Expression) -> Expression:
    """A call, perhaps with FILTER or WITHIN GROUP around it, that means one thing only."""
    only = node.expression.this if isinstance(node, exp.Filter) else None
    call = node.this if isinstance(node, exp.Filter) else node
    order = call.expression.expressions if isinstance(call, exp.WithinGroup) else []
    bare = call.this if isinstance(call, exp.WithinGroup) else call
    word = function_name(bare)
    if word in _OPEN:
        raise c.parsed.error(
            f"cannot maintain {word.upper()}(): which row is first is not said",
            "write MIN(x), MAX(x), MIN_BY(x, y) or MAX_BY(x, y)",
            node,
        )
    if word not in SETTLED:
        raise c.parsed.error(
            f"cannot maintain the aggregate {word}(): what it makes of the same rows is not always the same",
            "use it when you read the view",
            node,
        )
    arguments, distinct, _ = _arguments(bare)
    if word == "mean":
        changed: Expression = exp.Avg(this=bare.expressions[0].copy())
        return changed if only is None else exp.Filter(this=changed, expression=exp.Where(this=only.copy()))
    if word in _DEVIATIONS:
        return folded(_DEVIATIONS[word], arguments[0], only, distinct)
    made = _settled(c, word, bare, list(order))
    if made is None:
        return node
    c.exact = False
    changed, needed = made
    if needed is not None:
        only = needed if only is None else exp.and_(only.copy(), needed)
    return changed if only is None else _filtered(changed, only)


_FOLDS = {
    "sum": "CAST(NULL AS DOUBLE), (a_, v_) -> COALESCE(a_, 0D) + v_",
    "avg": "named_struct('n', 0D, 's', 0D), (a_, v_) -> named_struct('n', a_.n + 1D, 's', a_.s + v_),"
    " a_ -> CASE WHEN a_.n > 0D THEN a_.s / a_.n END",
    "var_pop": "{moments}, a_ -> CASE WHEN a_.n > 0D THEN a_.s / a_.n END",
    "var_samp": "{moments}, a_ -> CASE WHEN a_.n > 1D THEN a_.s / (a_.n - 1D) END",
    "stddev_pop": "{moments}, a_ -> CASE WHEN a_.n > 0D THEN SQRT(a_.s / a_.n) END",
    "stddev_samp": "{moments}, a_ -> CASE WHEN a_.n > 1D THEN SQRT(a_.s / (a_.n - 1D)) END",
}
_MOMENTS = (  # Welford's recurrence: n, mean, sum of squares of deviations
    "named_struct('n', 0D, 'm', 0D, 's', 0D), (a_, v_) -> named_struct('n', a_.n + 1D,"
    " 'm', a_.m + (v_ - a_.m) / (a_.n + 1D),"
    " 's', a_.s + (v_ - a_.m) * (v_ - (a_.m + (v_ - a_.m) / (a_.n + 1D))))"
)


def folded(how: str, argument: Expression, only: Expression | None, distinct: bool) -> Expression:
    """A sum, mean, variance or deviation of floating numbers, added up in the order of the values: the same whatever
    the order of rows."""
    word = "collect_set" if distinct else "collect_list"
    condition = f" FILTER (WHERE {spark_sql(only)})" if only is not None else ""
    fold = _FOLDS[how].replace("{moments}", _MOMENTS)
    text = f"aggregate(sort_array({word}(CAST({spark_sql(argument)} AS DOUBLE)){condition}), {fold})"
    (parsed,) = ViewSql().parse(f"SELECT {text}")
    assert isinstance(parsed, exp.Select)
    made: Expression = parsed.expressions[0]
    for found in made.find_all(exp.Column):
        found.meta[TREE] = True
    return made


def _filtered(call: Expression, only: Expression) -> Expression:
    """FILTER, where the aggregate itself is: f(COLLECT_LIST(x)) filters what is collected."""
    inside = next((p for p in call.walk() if function_name(p) in ("collect_list", "collect_set")), None)
    if inside is None or inside is call:
        return exp.Filter(this=call, expression=exp.Where(this=only.copy()))
    inside.replace(exp.Filter(this=inside.copy(), expression=exp.Where(this=only.copy())))
    return call


def _settled(
    c: Context, word: str, bare: Expression, order: list[Expression]
) -> tuple[Expression, Expression | None] | None:
    arguments, distinct, inner = _arguments(bare)
    order = order or inner
    if word == "any_value":
        return exp.Min(this=arguments[0].copy()), None
    if word == "approx_count_distinct":
        return exp.Count(this=exp.Distinct(expressions=[arguments[0].copy()]), big_int=True), None
    if word == "mode" and arguments:
        ordered = exp.Order(expressions=[exp.Ordered(this=arguments[0].copy(), nulls_first=True)])
        return exp.WithinGroup(this=exp.Anonymous(this="mode"), expression=ordered), None
    if word in ("min_by", "max_by"):
        x, y = arguments[0], arguments[1]
        both = exp.Anonymous(this="struct", expressions=[y.copy(), x.copy()])
        return exp.Anonymous(this=word, expressions=[x.copy(), both]), _known(y)
    if word == "collect_set" or (word in _LISTS and distinct):
        return _sorted(exp.Anonymous(this="collect_set", expressions=[arguments[0].copy()])), None
    if word in _LISTS:
        return _list(c, arguments[0], order, bare)
    if word in _STRINGS:
        x = arguments[0].copy()
        ties = [] if distinct else [exp.Ordered(this=x.copy(), nulls_first=True)]
        by = [o.copy() for o in order] + (ties or ([] if order else [exp.Ordered(this=x.copy(), nulls_first=True)]))
        inside: list[Expression] = [
            exp.Distinct(expressions=[x]) if distinct else x,
            *(a.copy() for a in arguments[1:]),
        ]
        if word == "group_concat" and len(inside) == 1:
            inside.append(exp.Literal.string(","))
        call = exp.Anonymous(this="listagg", expressions=inside)
        return exp.WithinGroup(this=call, expression=exp.Order(expressions=by)), None
    return None


def _arguments(bare: Expression) -> tuple[list[Expression], bool, list[Expression]]:
    """The arguments, whether they are DISTINCT, and ORDER BY inside the parentheses."""
    found, order, distinct = [], [], False
    given = bare.expressions if isinstance(bare, exp.Anonymous) else list(bare.iter_expressions())
    for one in given:
        if isinstance(one, exp.Order):
            order = list(one.expressions)
            one = one.this
        if isinstance(one, exp.Distinct):
            distinct = True
            found.extend(one.expressions)
        elif isinstance(one, exp.Expr):
            found.append(one)
    return found, distinct, order


def _list(c: Context, x: Expression, order: list[Expression], node: Expression) -> tuple[Expression, Expression | None]:
    if not order:
        return _sorted(exp.Anonymous(this="collect_list", expressions=[x.copy()])), None
    down = {bool(o.args.get("desc")) for o in order}
    if len(down) > 1:
        raise c.parsed.error(
            f"cannot maintain {said(node)}: its ORDER BY goes up and down", "let all of it go one way", node
        )
    both = exp.Anonymous(this="struct", expressions=[*(o.this.copy() for o in order), x.copy()])
    up = exp.false() if down.pop() else exp.true()
    listed = exp.Anonymous(this="sort_array", expressions=[exp.Anonymous(this="collect_list", expressions=[both]), up])
    last = exp.Dot(this=exp.to_identifier("e_"), expression=exp.to_identifier(f"col{len(order) + 1}"))
    taken = exp.Lambda(this=last, expressions=[exp.to_identifier("e_")])
    return exp.Anonymous(this="transform", expressions=[listed, taken]), _known(x)


def _sorted(call: Expression) -> Expression:
    return exp.Anonymous(this="sort_array", expressions=[call])


def _known(x: Expression) -> Expression:
    return exp.Not(this=exp.Is(this=x.copy(), expression=exp.Null()))
