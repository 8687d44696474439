"""Conditions go down, as near to the tables as they mean the same.

σ a.x = 1 AND b.y = 2 (a ⟕ b)        →   σ b.y = 2 (σ a.x = 1 (a) ⟕ b)
a ⟕ b ON a.id = b.id AND b.z > 0      →   a ⟕ σ b.z > 0 (b) ON a.id = b.id
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from sqlglot import exp

from headwater.algebra.relations import (
    Aggregate,
    Expression,
    Filter,
    Generate,
    Join,
    JoinKind,
    Name,
    Project,
    Relation,
    SetOperation,
    Union,
    Window,
    children,
    mentioned,
    substituted,
    with_children,
)
from headwater.algebra.select.correlation import conjunction, conjuncts, filtered
from headwater.algebra.select.scope import Fresh, column

_LOUD = ("raise_error", "assert_true")


def push_filters(root: Relation, fresh: Fresh) -> Relation:
    return _pushed(root, [])


def _pushed(node: Relation, parts: list[Expression]) -> Relation:
    """σ parts (node)."""
    match node:
        case Filter():
            return _pushed(node.child, [*parts, *conjuncts(node.condition)])
        case Project():
            made = dict(node.outputs)
            down, stay = _split(parts, lambda p: not any(loud(made[n]) for n in mentioned(p)))
            return filtered(replace(node, child=_pushed(node.child, [substituted(p, made) for p in down])), stay)
        case Join():
            return _join(node, parts)
        case Union():
            return replace(
                node, children=tuple(_pushed(c, _renamed(parts, node.columns, c.columns)) for c in node.children)
            )
        case SetOperation():
            sides = [_pushed(c, _renamed(parts, node.columns, c.columns)) for c in (node.left, node.right)]
            return replace(node, left=sides[0], right=sides[1])
        case Aggregate():
            return _through(node, parts, node.keys)
        case Window():
            return _through(node, parts, node.partition)
        case Generate():
            return _through(node, parts, node.child.columns)
        case _:
            return filtered(with_children(node, tuple(_pushed(c, []) for c in children(node))), parts)


def _through(node: Aggregate | Window | Generate, parts: list[Expression], columns: Iterable[Name]) -> Relation:
    known = set(columns)
    down, stay = _split(parts, lambda p: bool(mentioned(p)) and mentioned(p) <= known)
    return filtered(replace(node, child=_pushed(node.child, down)), stay)


def _join(node: Join, parts: list[Expression]) -> Relation:
    left, right = set(node.left.columns), set(node.right.columns)
    on = conjuncts(node.on)
    if node.kind is JoinKind.INNER:
        parts, on = [], [*on, *parts]
        mine, on = _split(on, lambda p: mentioned(p) <= left)
        theirs, on = _split(on, lambda p: mentioned(p) <= right)
        stay: list[Expression] = []
    elif node.kind is JoinKind.FULL:
        mine, theirs, stay = [], [], parts
    else:
        mine, stay = _split(parts, lambda p: mentioned(p) <= left)
        theirs, on = _split(on, lambda p: bool(mentioned(p)) and mentioned(p) <= right)
    joined = replace(node, left=_pushed(node.left, mine), right=_pushed(node.right, theirs), on=conjunction(on))
    return filtered(joined, stay)


def _split(
    parts: Iterable[Expression], test: Callable[[Expression], bool]
) -> tuple[list[Expression], list[Expression]]:
    parts = list(parts)
    return [p for p in parts if test(p)], [p for p in parts if not test(p)]


def loud(expression: Expression) -> bool:
    """Whether evaluating it may end everything: then it is evaluated where it stands, and once."""
    return any(isinstance(p, exp.Anonymous) and p.name.lower() in _LOUD for p in expression.walk())


def _renamed(parts: Iterable[Expression], old: Iterable[Name], new: Iterable[Name]) -> list[Expression]:
    names = {a: column(b) for a, b in zip(old, new, strict=True)}
    return [substituted(p, names) for p in parts]
