"""Which tables go together: the paper's rules by hand, and by brute force."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from headwater.maintenance.keeping.groups import Clause, JoinGraph, connected, equal_groups, frequency_groups
from headwater.maintenance.strategies.tree_partition import minimum_spanning_tree


def chain(rows: list[int], changes: list[int]) -> JoinGraph:
    """Each joined with the next by the next one's key."""
    clauses = [Clause(frozenset({i, i + 1}), True, frozenset({i + 1})) for i in range(len(rows) - 1)]
    return JoinGraph(rows, changes, clauses)


def test_equal_groups_are_as_from_lists_them() -> None:
    graph = chain([10] * 7, [1] * 7)
    assert equal_groups(graph, 3) == ((0, 1, 2), (3, 4, 5), (6,))
    assert equal_groups(graph, 7) == tuple((i,) for i in range(7))
    assert equal_groups(graph, 1) == (tuple(range(7)),)


def test_a_group_that_nothing_holds_together_is_kept_in_parts() -> None:
    star = JoinGraph([1000, 5, 5, 5], [1] * 4, [Clause(frozenset({0, i}), True, frozenset({i})) for i in (1, 2, 3)])
    assert equal_groups(star, 2) == ((0, 1), (2,), (3,))
    theta = JoinGraph([10] * 4, [1] * 4, [Clause(frozenset({0, 1})), Clause(frozenset({2, 3}))])
    assert equal_groups(theta, 2) == ((0, 1), (2, 3)), "any clause holds tables together"
    assert connected(theta, ((0, 1, 2, 3),)) == ((0, 1), (2, 3))


def test_frequencies_decide() -> None:
    """A chain of four, of equal sizes: the one that changes most stands alone, wherever it is."""
    assert frequency_groups(chain([100] * 4, [9, 1, 1, 1]), 2) == ((0,), (1, 2, 3))
    assert frequency_groups(chain([100] * 4, [1, 1, 1, 9]), 2) == ((0, 1, 2), (3,))
    assert frequency_groups(chain([100] * 4, [1, 1, 1, 1]), 2) == ((0, 1), (2, 3))


def test_sizes_decide() -> None:
    """The tree goes along small joins: of a triangle the largest edge is left out."""
    edges = [Clause(frozenset(e), True) for e in ((0, 1), (1, 2), (0, 2))]
    assert sorted(minimum_spanning_tree(3, JoinGraph([1000, 10, 10], [1, 1, 1], edges).edges())) == [(0, 1), (1, 2)]
    assert (0, 2) in minimum_spanning_tree(3, JoinGraph([10, 1000, 10], [1, 1, 1], edges).edges())


def test_equal_frequencies_are_not_equal_work() -> None:
    """Three that find one row each, and one at the far end whose every change meets a hundred rows."""
    clauses = [Clause(frozenset({i, i + 1}), True, frozenset({i + 1})) for i in range(3)]
    graph = JoinGraph([10_000, 10_000, 10_000, 100], [1, 1, 1, 1], clauses)
    work = graph.work()
    assert work[3] > 50 * work[0]
    assert frequency_groups(graph, 2) == ((0, 1, 2), (3,))


@pytest.mark.parametrize("seed", range(40))
def test_the_lightest_group_is_as_heavy_as_can_be(seed: int) -> None:
    random = Random(seed)
    n = random.randint(2, 6)
    edges = [(random.randrange(i), i) for i in range(1, n)]
    clauses = [Clause(frozenset(e), True, frozenset({e[1]})) for e in edges]
    graph = JoinGraph([random.randint(1, 1000) for _ in range(n)], [random.randint(0, 9) for _ in range(n)], clauses)
    work, k = graph.work(), random.randint(1, n)
    found = frequency_groups(graph, k)
    assert sorted(t for group in found for t in group) == list(range(n))

    def lightest(groups: list[list[int]]) -> float:
        return min(sum(work[t] for t in group) for group in groups)

    best = 0.0
    for cut in product([False, True], repeat=n - 1):
        if sum(cut) == k - 1:
            left = [e for e, gone in zip(edges, cut, strict=True) if not gone]
            groups = connected(JoinGraph([1] * n, [1] * n, [Clause(frozenset(e)) for e in left]), (tuple(range(n)),))
            best = max(best, lightest([list(g) for g in groups]))
    assert lightest([list(g) for g in found]) == pytest.approx(best)
