"""Appro_Partition: minimum spanning trees and max-min partitions, each against all there are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from random import Random

import pytest

from headwater.lab.worlds.world import World
from headwater.maintenance.strategies.tree_partition import (
    Edge,
    Groups,
    appro_partition,
    components,
    join_graph,
    max_min_partition,
    minimum_spanning_tree,
)
from headwater.model.errors import HeadwaterError


def tree_of(n: int, random: Random) -> list[Edge]:
    names = random.sample(range(n), n)
    pairs = [(names[random.randrange(v)], names[v]) for v in range(1, n)]
    return [(min(pair), max(pair)) for pair in pairs]


def lightest(weights: Sequence[float], groups: Groups) -> float:
    return min(sum(weights[v] for v in group) for group in groups)


@pytest.mark.parametrize("n", range(2, 10))
def test_no_way_to_cut_has_a_heavier_lightest_part(n: int) -> None:
    random = Random(n)
    for _ in range(90):
        tree, k = tree_of(n, random), random.randint(1, n)
        weights = [random.choice([0, 1, 2, 3, 5, 8, random.random()]) for _ in range(n)]
        found = max_min_partition(weights, tree, k)
        best = max(
            lightest(weights, components(n, [e for e in tree if e not in cut])) for cut in combinations(tree, k - 1)
        )
        assert lightest(weights, found) == pytest.approx(best), (weights, tree, k)
        assert len(found) == k
        assert sorted(v for group in found for v in group) == list(range(n))
        inside = [e for e in tree if any(e[0] in g and e[1] in g for g in found)]
        assert len(inside) == n - k, "each part is connected in the tree"


def test_weights_of_zero_still_give_k_parts() -> None:
    assert len(max_min_partition([0.0] * 6, [(i, i + 1) for i in range(5)], 4)) == 4


def test_a_path_by_hand() -> None:
    """1 1 1 9 on a path: two parts cannot be balanced better than 3 against 9."""
    assert max_min_partition([1, 1, 1, 9], [(0, 1), (1, 2), (2, 3)], 2) == ((0, 1, 2), (3,))


@pytest.mark.parametrize("k", [0, 4])
def test_groups_cannot_be_empty(k: int) -> None:
    with pytest.raises(HeadwaterError, match="cannot be put into"):
        max_min_partition([1, 1, 1], [(0, 1), (1, 2)], k)


def test_the_spanning_tree_is_a_lightest_one() -> None:
    random = Random(3)
    for _ in range(60):
        n = random.randint(2, 6)
        edges = set(tree_of(n, random)) | {pair for pair in combinations(range(n), 2) if random.random() < 0.5}
        sizes = {edge: float(random.randint(1, 5)) for edge in sorted(edges)}
        tree = minimum_spanning_tree(n, sizes)
        spanning = [c for c in combinations(sizes, n - 1) if len(components(n, c)) == 1]
        assert len(components(n, tree)) == 1
        assert sum(sizes[e] for e in tree) == min(sum(sizes[e] for e in c) for c in spanning)
        assert tree == minimum_spanning_tree(n, dict(reversed(sizes.items()))), "equal edges in the same order"


def test_a_graph_in_two_pieces_has_no_spanning_tree() -> None:
    with pytest.raises(ValueError, match="not connected"):
        minimum_spanning_tree(4, {(0, 1): 1.0, (2, 3): 1.0})


def test_the_join_graph_has_the_sizes_of_joined_pairs() -> None:
    world = World.of(
        {"S1.R": ("A",), "S2.S": ("A", "B"), "S3.T": ("B",)},
        {"V": "SELECT R.A, T.B FROM S1.R JOIN S2.S ON R.A = S.A JOIN S3.T ON S.B = T.B"},
        {"S1.R": [(1,), (2,)], "S2.S": [(1, 1), (1, 2), (2, 2)], "S3.T": [(2,), (2,)]},
    )
    assert join_graph(world.compiled[0], world.initial) == {(0, 1): 3.0, (1, 2): 4.0}


def test_groups_follow_light_edges_of_the_graph() -> None:
    """A square: the heavy edge (0, 1) is left out, so 0 and 1 are not put together though they are neighbours."""
    sizes = {(0, 1): 100.0, (1, 2): 1.0, (2, 3): 2.0, (0, 3): 1.0}
    assert appro_partition([1, 1, 1, 1], sizes, 2) == ((0, 3), (1, 2))


# Edges for any comparison


def triangle(condition: str) -> World:
    """R and S are joined by an equality, S and T, R and T by whatever is said."""
    return World.of(
        {"S1.R": ("A",), "S2.S": ("A", "B"), "S3.T": ("B",)},
        {"V": f"SELECT R.A, T.B FROM S1.R, S2.S, S3.T WHERE R.A = S.A AND {condition}"},
        {"S1.R": [(1,), (2,)], "S2.S": [(1, 1), (1, 2), (2, 2)], "S3.T": [(2,), (2,), (3,)]},
    )


def graph(condition: str) -> dict[Edge, float]:
    world = triangle(condition)
    return join_graph(world.compiled[0], world.initial)


def test_any_comparison_of_two_relations_is_an_edge() -> None:
    """S.B < T.B: (1, 1) meets 2, 2 and 3, each of the others 3. R.A <> T.B: 1 meets all three, 2 only 3."""
    assert graph("S.B < T.B AND R.A <> T.B") == {(0, 1): 3.0, (1, 2): 5.0, (0, 2): 4.0}


@pytest.mark.parametrize(("theta", "size"), [("<", 5), ("<=", 9), ("<>", 5), (">", 0), (">=", 4), ("=", 4)])
def test_the_weight_of_an_edge_is_what_its_comparison_leaves(theta: str, size: float) -> None:
    assert graph(f"S.B {theta} T.B")[1, 2] == size


def test_all_clauses_of_two_relations_weigh_together() -> None:
    """Of the four pairs with R.A <> T.B only (1, 3) has R.A + 1 < T.B."""
    assert graph("S.B < T.B AND R.A <> T.B AND R.A + 1 < T.B")[0, 2] == 1.0


def test_a_clause_of_three_relations_is_no_edge() -> None:
    assert graph("S.B < T.B AND R.A + S.B < T.B") == {(0, 1): 3.0, (1, 2): 5.0}


def test_a_comparison_can_decide_the_groups() -> None:
    """S is updated as often as R and T together. Only the edge between R and T, 4 against the 5 of S and T, lets them
    be a group; without it the tree is R - S - T, and every cut leaves one of them alone."""
    sizes = graph("S.B < T.B AND R.A <> T.B")
    assert appro_partition([1, 2, 1], sizes, 2) == ((0, 2), (1,))
    assert appro_partition([1, 2, 1], graph("S.B < T.B"), 2) in (((0, 1), (2,)), ((0,), (1, 2)))
