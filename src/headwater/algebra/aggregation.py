"""γ, taken apart: keys and arguments over the core, calls over the arguments, outputs over keys and calls.

    SELECT status, SUM(qty) * 2 AS twice … GROUP BY status
    keys       key0 = `o.status`
    arguments  arg0 = `o.qty`
    calls      agg0 = sum(arg0)
    outputs    status = `key0`, twice = `agg0` * 2

DISTINCT is an aggregation whose keys are the outputs and that calls nothing. Two expressions are the same if their
Spark SQL is the same text.
"""

from __future__ import annotations

from sqlglot import exp

from headwater.algebra.aggregates import AggregateFunction, Quantile
from headwater.algebra.dialect import column_of, over_core, spark_sql
from headwater.algebra.functions import MAINTAINED, has_aggregate, is_aggregate
from headwater.algebra.percentiles import percentile_call
from headwater.algebra.query import Query
from headwater.algebra.statements import ParsedView
from headwater.algebra.view import AggregateCall, Aggregation, Output


def aggregation(query: Query, parsed: ParsedView) -> Aggregation | None:
    """The aggregation on top of the core, None if there is none."""
    if query.aggregates:
        return _Aggregation(query, parsed).value()
    return _distinct(query) if query.distinct else None


def _core_sql(tree: exp.Expr) -> str:
    return spark_sql(over_core(tree.unnest()))


def _distinct(query: Query) -> Aggregation:
    texts = list(dict.fromkeys(_core_sql(tree) for _, tree in query.outputs))
    keys = tuple(Output(f"key{i}", text) for i, text in enumerate(texts))
    outputs = tuple(
        Output(name, spark_sql(column_of(f"key{texts.index(_core_sql(tree))}"))) for name, tree in query.outputs
    )
    return Aggregation(keys, (), (), outputs)


class _Aggregation:
    def __init__(self, query: Query, parsed: ParsedView) -> None:
        self.query, self.parsed = query, parsed
        self.keys = list(dict.fromkeys(_core_sql(key) for key in query.keys or ()))
        self.arguments: list[str] = []
        self.calls: dict[tuple[AggregateFunction, str | None, bool, Quantile | None], str] = {}

    def value(self) -> Aggregation:
        outputs = tuple(Output(name, spark_sql(self._over_groups(tree))) for name, tree in self.query.outputs)
        having = "" if self.query.having is None else spark_sql(self._over_groups(self.query.having))
        if self.query.distinct:
            self._check_distinct({o.expression for o in outputs})
        return Aggregation(
            tuple(Output(f"key{i}", text) for i, text in enumerate(self.keys)),
            tuple(Output(f"arg{i}", text) for i, text in enumerate(self.arguments)),
            tuple(
                AggregateCall(name, function, argument, distinct, quantile)
                for (function, argument, distinct, quantile), name in self.calls.items()
            ),
            outputs,
            having,
        )

    def _check_distinct(self, outputs: set[str]) -> None:
        for i, text in enumerate(self.keys):
            if spark_sql(column_of(f"key{i}")) not in outputs:
                raise self.parsed.error(
                    f"DISTINCT over groups is not maintained: {text} is grouped by but not selected",
                    "groups may look alike: select every GROUP BY expression, or group by the selected ones only",
                    keyword="DISTINCT",
                )

    def _over_groups(self, tree: exp.Expr) -> exp.Expr:
        """The tree over the names of keys and calls."""
        return tree.copy().transform(self._replace)

    def _replace(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Literal):
            text = spark_sql(over_core(node)) if isinstance(node, exp.Condition) else ""
            if text in self.keys:
                return column_of(f"key{self.keys.index(text)}")
        if isinstance(node, exp.Filter | exp.WithinGroup) or is_aggregate(node):
            return column_of(self._call(node))
        if isinstance(node, exp.Column):
            raise self.parsed.error(
                f"column {node.table}.{node.name} is neither grouped by nor inside an aggregate",
                f"add it to GROUP BY, or use an aggregate of it, such as MAX({node.table}.{node.name})",
                node,
            )
        return node

    def _call(self, node: exp.Expr) -> str:
        only = None
        if isinstance(node, exp.Filter):
            only = node.expression.this
            node = node.this
        percentile = percentile_call(node)
        function = MAINTAINED.get(type(node)) if percentile is None else percentile.function
        if function is None:
            raise self.parsed.error(
                "FILTER stands only behind COUNT, SUM, AVG, MIN, MAX and percentiles", "remove it", node
            )
        argument: exp.Expr | None
        argument, distinct = self._argument(node) if percentile is None else (percentile.argument, False)
        for part in (argument, only):
            if part is not None and has_aggregate(part):
                raise self.parsed.error(
                    "an aggregate inside an aggregate", "make the inner one a view, and aggregate that", node
                )
        if only is not None:
            argument = exp.Case().when(only.copy(), exp.Literal.number(1) if argument is None else argument.copy())
        key = (
            function,
            None if argument is None else self._named(argument),
            distinct and function not in ("min", "max"),
            None if percentile is None else percentile.quantile,
        )
        return self.calls.setdefault(key, f"agg{len(self.calls)}")

    def _argument(self, node: exp.Expr) -> tuple[exp.Expr | None, bool]:
        """The argument, None for what counts every row; and whether it is DISTINCT."""
        argument, distinct = node.this, isinstance(node.this, exp.Distinct)
        several = argument.expressions if distinct else [argument, *node.expressions]
        if len(several) != 1 or argument is None:
            raise self.parsed.error(
                f"{spark_sql(node)} does not have exactly one argument",
                "aggregate one expression; combine several first, for example with CONCAT or GREATEST",
                node,
            )
        (argument,) = several
        counts_rows = isinstance(argument, exp.Star | exp.Literal) and isinstance(node, exp.Count) and not distinct
        return (None if counts_rows else argument), distinct

    def _named(self, argument: exp.Expr) -> str:
        text = _core_sql(argument)
        if text not in self.arguments:
            self.arguments.append(text)
        return f"arg{self.arguments.index(text)}"
