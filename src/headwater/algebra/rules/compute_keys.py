"""What is joined by an expression is joined by a column that holds it, so that a side can be asked by it.

a ⋈ b ON a.x + 1 = b.y   →   (π a.*, a.x + 1 AS k (a)) ⋈ b ON k = b.y
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headwater.algebra.relations import Expression, Join, Name, Project, Relation, children, mentioned, with_children
from headwater.algebra.rules.push_filters import loud
from headwater.algebra.select.correlation import conjunction, conjuncts
from headwater.algebra.select.scope import Fresh, column


def compute_keys(root: Relation, fresh: Fresh) -> Relation:
    node = with_children(root, tuple(compute_keys(child, fresh) for child in children(root)))
    if not isinstance(node, Join):
        return node
    columns = node.columns
    sides = [_Side(node.left), _Side(node.right)]
    parts: list[Expression] = []
    for one in conjuncts(node.on):
        if isinstance(one, exp.EQ | exp.NullSafeEQ) and not loud(one):
            ends = [(one.this.unnest(), one.expression.unnest()), (one.expression.unnest(), one.this.unnest())]
            for a, b in ends:
                if sides[0].owns(a) and sides[1].owns(b):
                    one = type(one)(this=sides[0].key(a, fresh), expression=sides[1].key(b, fresh))
                    break
        parts.append(one)
    node = replace(node, left=sides[0].relation(), right=sides[1].relation(), on=conjunction(parts))
    if node.columns == columns:
        return node
    return Project(node, tuple((name, column(name)) for name in columns))


class _Side:
    def __init__(self, child: Relation) -> None:
        self._child = child
        self._columns = frozenset(child.columns)
        self._more: dict[str, tuple[Name, Expression]] = {}

    def owns(self, expression: Expression) -> bool:
        used = mentioned(expression)
        return bool(used) and used <= self._columns

    def key(self, expression: Expression, fresh: Fresh) -> Expression:
        if isinstance(expression, exp.Column):
            return expression
        text = expression.sql("spark")
        if text not in self._more:
            self._more[text] = (fresh(), expression)
        return column(self._more[text][0])

    def relation(self) -> Relation:
        if not self._more:
            return self._child
        return Project(self._child, (*((n, column(n)) for n in self._child.columns), *self._more.values()))
