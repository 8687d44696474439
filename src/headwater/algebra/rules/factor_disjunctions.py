"""What every branch of an OR demands stands beside it, where it can join and go down.

(a.id = b.id AND a.x = 1) OR (a.id = b.id AND b.y = 2)   →   a.id = b.id AND (a.x = 1 OR b.y = 2)
"""

from __future__ import annotations

from dataclasses import replace

from headwater.algebra.disjunctions import factored
from headwater.algebra.relations import Filter, Join, Relation, children, with_children
from headwater.algebra.select.scope import Fresh


def factor_disjunctions(root: Relation, fresh: Fresh) -> Relation:
    node = with_children(root, tuple(factor_disjunctions(child, fresh) for child in children(root)))
    if isinstance(node, Filter):
        return replace(node, condition=factored(node.condition))
    if isinstance(node, Join) and node.on is not None:
        return replace(node, on=factored(node.on))
    return node
