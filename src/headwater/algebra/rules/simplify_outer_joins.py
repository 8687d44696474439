"""An outer join under a condition that no padded row meets is an inner one.

σ b.y = 2 (a ⟕ b)   →   σ b.y = 2 (a ⋈ b)
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headwater.algebra.relations import (
    Expression,
    Filter,
    Join,
    JoinKind,
    Name,
    Relation,
    children,
    mentioned,
    with_children,
)
from headwater.algebra.select.correlation import conjuncts
from headwater.algebra.select.scope import Fresh

_STRICT = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def simplify_outer_joins(root: Relation, fresh: Fresh) -> Relation:
    return _simplified(root, frozenset())


def _simplified(node: Relation, known: frozenset[Name]) -> Relation:
    """`known` are columns that are never NULL in the rows that matter above."""
    if isinstance(node, Filter):
        known = known.union(*(rejects(p) for p in conjuncts(node.condition)))
        return replace(node, child=_simplified(node.child, known))
    if isinstance(node, Join):
        if node.kind is JoinKind.LEFT and known & set(node.right.columns):
            node = replace(node, kind=JoinKind.INNER)
        elif node.kind is JoinKind.FULL and known & set(node.left.columns):
            node = replace(node, kind=JoinKind.INNER if known & set(node.right.columns) else JoinKind.LEFT)
        left, right = known, frozenset[Name]()
        if node.kind is JoinKind.INNER:
            on = frozenset[Name]().union(*(rejects(p) for p in conjuncts(node.on)))
            left = right = known | on
        return replace(node, left=_simplified(node.left, left), right=_simplified(node.right, right))
    return with_children(node, tuple(_simplified(child, frozenset()) for child in children(node)))


def rejects(condition: Expression) -> frozenset[Name]:
    """Columns that the condition cannot be true of when they are NULL."""
    condition = condition.unnest()
    if isinstance(condition, _STRICT):
        sides = (condition.this.unnest(), condition.expression.unnest())
        return frozenset(s.name for s in sides if isinstance(s, exp.Column))
    if isinstance(condition, exp.Not) and isinstance(condition.this.unnest(), exp.Is):
        inner = condition.this.unnest()
        if isinstance(inner.expression, exp.Null) and isinstance(inner.this, exp.Column):
            return mentioned(inner)
    if isinstance(condition, exp.Between | exp.Like) or (isinstance(condition, exp.In) and condition.expressions):
        return frozenset([condition.this.name]) if isinstance(condition.this, exp.Column) else frozenset()
    return frozenset()
