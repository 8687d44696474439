"""The frequency partition: which relations go together, as the strategy shows it, and what that does to the load.

Each test says which input it needs: with the frequencies or the sizes left out of account it fails.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from random import Random

import pytest

from headwater.algebra.bag import Bag
from headwater.lab.algorithms import factory
from headwater.lab.histories.history import History
from headwater.lab.settings.cluster import EVEN, line
from headwater.lab.simulation.network import constant
from headwater.lab.simulation.simulator import Capacity, Conditions, simulate
from headwater.lab.worlds.workload import Mix, every, updates, weighted
from headwater.lab.worlds.world import PlannedUpdate, World
from headwater.maintenance.strategies.contract import WAREHOUSE, Factory
from headwater.maintenance.strategies.equal_partition import Holder, Home, equal_partition
from headwater.maintenance.strategies.frequency_partition import frequency_partition
from headwater.maintenance.strategies.tree_partition import Groups
from headwater.model.errors import HeadwaterError


def test_frequencies_are_one_for_each_relation() -> None:
    with pytest.raises(HeadwaterError, match="2 update frequencies for the 5 relations"):
        simulate(line(5, 0), frequency_partition(2, [1.0, 2.0]))


def held(world: World, make: Factory) -> Groups:
    """The groups whose auxiliary views the PCs hold."""
    processes = make(world.setting()).processes.values()
    holders = [p._holder if isinstance(p, Home) else p for p in processes]
    return tuple(sorted(h.group for h in holders if isinstance(h, Holder)))


# Frequencies


@pytest.mark.parametrize(
    ("frequencies", "groups"),
    [
        ([1, 1, 1, 1, 1, 1], ((0, 1), (2, 3), (4, 5))),
        ([6, 1, 1, 1, 1, 2], ((0,), (1, 2, 3), (4, 5))),
        ([2, 1, 1, 1, 1, 6], ((0, 1), (2, 3, 4), (5,))),
        ([1, 1, 1, 1, 4, 8], ((0, 1, 2, 3), (4,), (5,))),
        ([4, 1, 6, 2, 1, 2], ((0, 1), (2,), (3, 4, 5))),
    ],
)
def test_a_chain_of_six_by_hand(frequencies: list[float], groups: Groups) -> None:
    """Three groups, of which the lightest is as heavy as can be; each time one way to cut is best.

    6 1 1 1 1 2: 6 is half of all and stands alone, the rest is halved: 1+1+1 and 1+2, where any other cut leaves 2.
    1 1 1 1 4 8: the four ones weigh as much as the 4; any other cut parts them, or puts 4 and 8 together.
    4 1 6 2 1 2: 5, 6 and 5. With the 2 beside the 6, 3 are left; with the 1 beside it, 4."""
    assert held(line(6, 0), frequency_partition(3, frequencies)) == groups


def asked_together(world: World, make: Factory) -> Groups:
    """The groups, as they show: an update of a relation asks the other sources of its group, and no one else."""
    rows = {table: next(iter(bag.counts)) for table, bag in world.initial.items()}
    planned = [PlannedUpdate(100.0 * i, str(t.source), {t: Bag({row: -1})}) for i, (t, row) in enumerate(rows.items())]
    history = simulate(world.having(planned), make, Conditions(capacity=Capacity(1, constant(1.0))))
    groups = []
    for update in history.transactions:
        asked = {s.source for s in history.services if update.label in s.about}
        groups.append(tuple(i for i, source in enumerate(world.sources) if source in asked | {update.source}))
    return tuple(dict.fromkeys(groups))


@pytest.mark.parametrize("seed", range(12))
def test_the_frequency_partition_looks_at_the_frequencies(seed: int) -> None:
    """On a chain the spanning tree is the chain, so the best partition is the best of all ways to cut it. Frequencies
    are skewed, so that groups chosen without looking at them are not the best ones."""
    random = Random(seed)
    n, k = 7, random.randint(2, 4)
    world = line(n, seed)
    frequencies = [1.0 / (1 + rank) ** 2 for rank in random.sample(range(n), n)]
    cuts = [(0, *cut, n) for cut in combinations(range(1, n), k - 1)]
    lightest = {cut: min(sum(frequencies[a:b]) for a, b in pairwise(cut)) for cut in cuts}
    groups = asked_together(world, frequency_partition(k, frequencies))
    assert sorted(i for group in groups for i in group) == list(range(n))
    assert len(groups) == k
    assert min(sum(frequencies[i] for i in group) for group in groups) == pytest.approx(max(lightest.values()))


def test_other_frequencies_are_other_groups() -> None:
    """One relation is updated nearly always: it is a group of its own, wherever it is in the chain."""
    world = line(6, 0)
    for busiest in (0, 5):
        frequencies = [100.0 if i == busiest else 1.0 for i in range(6)]
        assert (busiest,) in asked_together(world, frequency_partition(2, frequencies))
    frequencies = [1.0, 1.0, 1.0, 1.0, 1.0, 5.0]
    assert asked_together(world, frequency_partition(2, frequencies)) == ((0, 1, 2, 3, 4), (5,))
    assert asked_together(world, frequency_partition(2, frequencies[::-1])) == ((0,), (1, 2, 3, 4, 5))
    typed = factory("frequency-partition", {"k": "2", "frequencies": "1,1,1,1,1,5"})
    assert asked_together(world, typed) == ((0, 1, 2, 3, 4), (5,)), "as a person types them"


def busiest(world: World, history: History) -> float:
    """The share of the updates that the PC with most of them evaluates. What the home hands to itself is no message."""
    given = Counter(m.receiver for m in history.messages if m.kind == "numbered")
    given[WAREHOUSE] = len(world.transactions) - given.total()
    return max(given.values()) / given.total()


def skewed(frequencies: list[float], seed: int, n: int = 200) -> World:
    world = line(len(frequencies), seed)
    origins = weighted(world.sources, frequencies, Random(seed))
    return updates(world, n, origins, every(0.0), seed, Mix(0.5, 1, 50))


@pytest.mark.parametrize("seed", range(3))
def test_the_busiest_pc_has_less_to_do_if_the_frequencies_are_true(seed: int) -> None:
    """8 and 6 of 20 updates are of two neighbours. Who takes all relations for equal puts them together: 14 of 20.
    With the true ones each is a group: 8 of 20. The others are groups of three then, and it is still faster."""
    frequencies = [8.0, 6.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    world = skewed(frequencies, seed)
    true = simulate(world, frequency_partition(4, frequencies), EVEN, seed)
    uniform = simulate(world, frequency_partition(4, [1.0] * 8), EVEN, seed)
    assert busiest(world, uniform) == busiest(world, simulate(world, equal_partition(4), EVEN, seed))
    assert busiest(world, true) == pytest.approx(8 / 20, abs=0.08)
    assert busiest(world, uniform) == pytest.approx(14 / 20, abs=0.08)
    assert true.finished < 0.75 * uniform.finished


# Sizes


def square() -> World:
    """A, B, C and D in a circle. Each row has one partner in each neighbour, but every D meets every A."""
    tables = {"S0.A": ("l", "r"), "S1.B": ("l", "r"), "S2.C": ("l", "r"), "S3.D": ("l", "r")}
    select = "SELECT A.l FROM S0.A, S1.B, S2.C, S3.D WHERE A.r = B.l AND B.r = C.l AND C.r = D.l AND D.r = A.l"
    rows = {"S0.A": [(7, i) for i in range(4)], "S3.D": [(i, 7) for i in range(4)]}
    return World.of(tables, {"V": select}, rows | {t: [(i, i) for i in range(4)] for t in ("S1.B", "S2.C")})


def test_relations_whose_join_is_large_are_kept_apart() -> None:
    """The spanning tree leaves out the edge of 16 rows; cut in the middle, A - B - C - D is (A, B) and (C, D). Were all
    edges alike, the tree would be D - A - B - C, and A and D, the product, one auxiliary view."""
    assert held(square(), frequency_partition(2, [1, 1, 1, 1])) == ((0, 1), (2, 3))
    alike = {(0, 1): 1.0, (1, 2): 1.0, (2, 3): 1.0, (0, 3): 1.0}
    assert held(square(), frequency_partition(2, [1, 1, 1, 1], alike)) == ((0, 3), (1, 2))


def test_sizes_that_are_said_count_instead_of_the_measured_ones() -> None:
    said = {(0, 1): 9.0, (1, 2): 1.0, (2, 3): 1.0, (0, 3): 1.0}
    assert held(square(), frequency_partition(2, [1, 1, 1, 1], said)) == ((0, 3), (1, 2))
    said |= {(0, 1): 1.0, (0, 3): 9.0}
    assert held(square(), frequency_partition(2, [1, 1, 1, 1], said)) == ((0, 1), (2, 3))
