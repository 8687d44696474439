"""The order in which a wave visits the occurrences of a view.

A spanning tree of the join graph, walked twice:

    up     every partial result climbs from its origin to the root, one question per edge
    down   every partial result descends to the occurrences it has not met, one question per edge

so a view over n occurrences asks 2(n−1) questions, whatever the shape of the graph and the size of the batch; for a
chain these are the backward and the forward pass of Pull-Push. Equalities that are not on the tree (cycles) are checked
as soon as both their sides are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.algebra.view import Equality, ViewDefinition


@dataclass(frozen=True)
class JoinStep:
    """Extend the partials of `origins` by occurrence `target`. `near` are core columns they have, `far` the target's
    columns that must equal them; both empty for a cross join."""

    target: int
    start: int
    near: tuple[str, ...]
    far: tuple[str, ...]
    origins: frozenset[int]


def steps(view: ViewDefinition) -> tuple[JoinStep, ...]:
    """The questions of a wave over this view, in order."""
    n = len(view.occurrences)
    parent = _spanning_tree(n, view.equalities)
    children: list[list[int]] = [[] for _ in range(n)]
    for node, above in enumerate(parent):
        if above >= 0:
            children[above].append(node)
    below = [_subtree(node, children) for node in range(n)]
    preorder = _preorder(0, children)
    everyone = frozenset(range(n))
    up = [_step(view, node, parent[node], below[node]) for node in reversed(preorder) if node]
    down = [_step(view, parent[node], node, everyone - below[node]) for node in preorder if node]
    return tuple(up + down)


def _step(view: ViewDefinition, start: int, target: int, origins: frozenset[int]) -> JoinStep:
    near, far = [], []
    for equality in view.equalities:
        for (i, mine), (j, theirs) in ((equality.left, equality.right), (equality.right, equality.left)):
            if (i, j) == (start, target) and theirs not in far:
                near.append(view.occurrences[i].core(mine))
                far.append(theirs)
    return JoinStep(target, start, tuple(near), tuple(far), origins)


def _spanning_tree(n: int, equalities: Sequence[Equality]) -> list[int]:
    """Parents, breadth first from occurrence 0; a component that is not joined hangs below 0 as a cross join."""
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for equality in equalities:
        neighbours[equality.left[0]].add(equality.right[0])
        neighbours[equality.right[0]].add(equality.left[0])
    parent = [-2] * n
    for root in range(n):
        if parent[root] != -2:
            continue
        parent[root] = -1 if root == 0 else 0
        queue = [root]
        for node in queue:
            for other in sorted(neighbours[node]):
                if parent[other] == -2:
                    parent[other] = node
                    queue.append(other)
    return parent


def _preorder(root: int, children: Sequence[Sequence[int]]) -> list[int]:
    order, stack = [], [root]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(reversed(children[node]))
    return order


def _subtree(root: int, children: Sequence[Sequence[int]]) -> frozenset[int]:
    return frozenset(_preorder(root, children))
