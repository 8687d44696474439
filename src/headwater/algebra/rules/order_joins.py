"""Inner joins in an order in which each is joined by an equality, if there is one: nothing is multiplied without need.

FROM a, b, c WHERE a.x = c.x AND b.y = c.y   →   (a ⋈ c) ⋈ b
"""

from __future__ import annotations

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
from headwater.algebra.select.correlation import conjunction, conjuncts, filtered
from headwater.algebra.select.scope import Fresh


def order_joins(root: Relation, fresh: Fresh) -> Relation:
    if not isinstance(root, Join) or root.kind is not JoinKind.INNER:
        return with_children(root, tuple(order_joins(child, fresh) for child in children(root)))
    leaves: list[Relation] = []
    conditions: list[Expression] = []
    _flatten(root, leaves, conditions)
    leaves = [order_joins(leaf, fresh) for leaf in leaves]
    done = leaves.pop(0)
    while leaves:
        have = frozenset(done.columns)
        nearest = next((leaf for leaf in leaves if _connected(have, leaf, conditions)), leaves[0])
        leaves.remove(nearest)
        both = have | set(nearest.columns)
        now = [p for p in conditions if mentioned(p) <= both]
        conditions = [p for p in conditions if not mentioned(p) <= both]
        done = Join(JoinKind.INNER, done, nearest, on=conjunction(now))
    return filtered(done, conditions)


def _flatten(node: Relation, leaves: list[Relation], conditions: list[Expression]) -> None:
    if isinstance(node, Join) and node.kind is JoinKind.INNER:
        _flatten(node.left, leaves, conditions)
        _flatten(node.right, leaves, conditions)
        conditions.extend(conjuncts(node.on))
    elif isinstance(node, Filter) and isinstance(node.child, Join) and node.child.kind is JoinKind.INNER:
        _flatten(node.child, leaves, conditions)
        conditions.extend(conjuncts(node.condition))
    else:
        leaves.append(node)


def _connected(have: frozenset[Name], leaf: Relation, conditions: list[Expression]) -> bool:
    own = set(leaf.columns)
    for one in conditions:
        if isinstance(one, exp.EQ | exp.NullSafeEQ):
            a, b = mentioned(one.this), mentioned(one.expression)
            if (a and b) and ((a <= have and b <= own) or (a <= own and b <= have)):
                return True
    return False
