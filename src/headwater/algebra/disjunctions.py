"""What every branch of an OR demands, taken out of it: `(j AND a) OR (j AND b)` is `j AND (a OR b)`."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp


def factored(condition: exp.Expr) -> exp.Expr:
    found = _conjunction(part for one in _conjuncts(condition) for part in _factored(one))
    return condition if found is None else found


def _factored(node: exp.Expr) -> list[exp.Expr]:
    branches = [{part.sql("spark"): part for part in _conjuncts(branch)} for branch in _branches(node)]
    common = [text for text in branches[0] if all(text in branch for branch in branches)]
    if len(branches) == 1 or not common:
        return [node]
    rest = [_conjunction(part for text, part in branch.items() if text not in common) for branch in branches]
    shared = [branches[0][text] for text in common]
    if any(one is None for one in rest):  # a branch that demands no more than that
        return shared
    return [*shared, exp.paren(exp.or_(*rest))]


def _branches(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest()
    if isinstance(node, exp.Or):
        return [*_branches(node.this), *_branches(node.expression)]
    return [node]


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest()
    return [*_conjuncts(node.this), *_conjuncts(node.expression)] if isinstance(node, exp.And) else [node]


def _conjunction(parts: Iterable[exp.Expr]) -> exp.Expr | None:
    copies = [part.copy() for part in parts]
    return exp.and_(*copies, copy=False) if copies else None
