"""Where to begin when a join is asked for everything: at the table whose conditions leave the fewest rows.

Rough on purpose: an equality leaves a tenth, a range a third, anything else half. Whatever is chosen, the answer is the
same; what differs is how many rows are read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from sqlglot import exp

from headwater.algebra.relations import Expression, Filter, Reference, Relation, Table, children
from headwater.algebra.select.correlation import conjuncts
from headwater.model.names import TableName

Sizes = Mapping[TableName, int]
"""Rows of tables, as far as they are known."""

_UNKNOWN = 1_000_000
_TENTH = (exp.EQ, exp.NullSafeEQ, exp.In)
_THIRD = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Like)


def beginning(node: Relation, sizes: Sizes) -> float:
    """The rows of the table below that has the fewest to begin with; infinite if no table has a condition. What a
    recursion has at hand comes first."""
    if isinstance(node, Reference):
        return 0
    if isinstance(node, Filter) and isinstance(node.child, Table):
        rows: float = sizes.get(node.child.table, _UNKNOWN)
        for part in conjuncts(node.condition):
            rows *= _left(part)
        return rows
    return min((beginning(child, sizes) for child in children(node)), default=math.inf)


def _left(condition: Expression) -> float:
    condition = condition.unnest()
    return 0.1 if isinstance(condition, _TENTH) else 0.3 if isinstance(condition, _THIRD) else 0.5
