"""Auxiliary views (Liang, Yu: Parallel Maintenance on PC Clusters, section 4.1, equations 2-4).

The relations of V are put into K groups. Each group's part of V is materialized:

    AVk = π_X(k) σ_P(k) (the relations of group k)                  (2), (3)
    V   = π_X σ_P (AV0 ⋈ AV1 ⋈ … ⋈ AV(K−1))                         (4)

X(k) are the attributes that X or any clause of P needs, P(k) the clauses with attributes of group k only, whatever they
compare with (=, <, ≠ …). That is what a partial over the group holds. Only a clause that can fail, such as a division,
waits for the whole row (`algebra.clauses`); the paper's P has comparisons of attributes and constants only.

A group whose relations no clause joins has a product for its auxiliary view.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from math import ceil

from headwater.algebra.spj import Partial, Spj
from headwater.maintenance.strategies.contract import StrategySetting
from headwater.maintenance.strategies.tree_partition import Groups


def equal_groups(n: int, k: int) -> Groups:
    """p = ⌈n/K⌉ consecutive relations each, the last group what is left; ⌈n/p⌉ groups, which may be fewer than K.

    What is left is n − p(⌈n/p⌉ − 1) relations; the paper prints n − p⌈n/p⌉, which is never above zero.
    """
    p = ceil(n / k)
    return tuple(tuple(range(start, min(start + p, n))) for start in range(0, n, p))


def materialized(setting: StrategySetting, group: Sequence[int]) -> Partial:
    """What AVk holds at the beginning."""
    return setting.view.core(sweep_order(setting.view, group, group[0]), setting.tables)


def sweep_order(view: Spj, group: Sequence[int], start: int) -> list[int]:
    """The relations of the group, from `start` on as SWEEP goes: to the left, then to the right; but, where it can be
    had, each joined with one before it: by an equality, which finds few rows, or else by any other clause."""
    equalities = {frozenset((e.left[0], e.right[0])) for e in view.view.equalities}
    clauses = {frozenset(pair) for pair in view.pairs}
    left = sorted((i for i in group if i < start), reverse=True) + sorted(i for i in group if i > start)
    order = [start]

    def joined(by: set[frozenset[int]]) -> Iterator[int]:
        return (i for i in left if any(frozenset((i, before)) in by for before in order))

    while left:
        following = next(chain(joined(equalities), joined(clauses), left))
        left.remove(following)
        order.append(following)
    return order
