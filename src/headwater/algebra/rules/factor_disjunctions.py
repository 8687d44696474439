"""What every branch of an OR demands stands beside it, where it can join and go down.

(a.id = b.id AND a.x = 1) OR (a.id = b.id AND b.y = 2)   →   a.id = b.id AND (a.x = 1 OR b.y = 2)
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headwater.algebra.relations import Expression, Filter, Join, Relation, children, with_children
from headwater.algebra.select.correlation import conjunction, conjuncts
from headwater.algebra.select.scope import Fresh


def factor_disjunctions(root: Relation, fresh: Fresh) -> Relation:
    node = with_children(root, tuple(factor_disjunctions(child, fresh) for child in children(root)))
    if isinstance(node, Filter):
        return replace(node, condition=factored(node.condition))
    if isinstance(node, Join) and node.on is not None:
        return replace(node, on=factored(node.on))
    return node


def factored(condition: Expression) -> Expression:
    found = conjunction(part for one in conjuncts(condition) for part in _factored(one))
    return condition if found is None else found


def _factored(node: Expression) -> list[Expression]:
    branches = [{part.sql("spark"): part for part in conjuncts(branch)} for branch in _branches(node)]
    common = [text for text in branches[0] if all(text in branch for branch in branches)]
    if len(branches) == 1 or not common:
        return [node]
    rest = [conjunction(part for text, part in branch.items() if text not in common) for branch in branches]
    shared = [branches[0][text] for text in common]
    if any(one is None for one in rest):  # a branch that demands no more than that
        return shared
    return [*shared, exp.paren(exp.or_(*rest))]


def _branches(node: Expression) -> list[Expression]:
    node = node.unnest()
    if isinstance(node, exp.Or):
        return [*_branches(node.this), *_branches(node.expression)]
    return [node]
