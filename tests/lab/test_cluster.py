"""The cluster algorithms: complete on generated histories, and what each of them saves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from headwater.algebra.bag import Bag
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check, check_each
from headwater.lab.histories.history import History
from headwater.lab.simulation.network import Link, Network, constant, exponential
from headwater.lab.simulation.simulator import Capacity, Conditions, Simulation, simulate, simulate_views
from headwater.lab.worlds.workload import Mix, chain, every, in_turn, poisson, updates, weighted
from headwater.lab.worlds.world import PlannedUpdate, World, after, table_name
from headwater.maintenance.strategies.auxiliary import equal_groups, materialized, sweep_order
from headwater.maintenance.strategies.cluster_naive import cluster_naive
from headwater.maintenance.strategies.contract import Factory, Strategy, StrategySetting
from headwater.maintenance.strategies.equal_partition import Holder, Home, equal_partition, partitioned
from headwater.maintenance.strategies.frequency_partition import frequency_partition
from headwater.maintenance.strategies.simple_parallel import Route, simple_parallel
from headwater.maintenance.strategies.sweep import sweep
from headwater.model.errors import HeadwaterError


def star(seed: int) -> World:
    """One relation in the middle, four around it; a clause that is no equality, and one on a relation alone."""
    random = Random(seed)
    tables = {"S0.F": ("a", "b", "c", "d")} | {f"S{i}.D{i}": ("k", "v") for i in range(1, 5)}
    joins = "".join(f" JOIN S{i}.D{i} ON F.{'abcd'[i - 1]} = D{i}.k" for i in range(1, 5))
    select = f"SELECT D1.v AS v1, D2.v AS v2, F.c FROM S0.F{joins} WHERE D1.v <> D2.v AND D3.v < 2"
    rows = {t: [tuple(random.randrange(3) for _ in c) for _ in range(6)] for t, c in tables.items()}
    return World.of(tables, {"V": select}, rows)


def bands(seed: int) -> World:
    """Three to five relations, each joined with the next by some comparison, and the first with the last."""
    random = Random(seed)
    n = random.randint(3, 5)
    tables = {f"S{i}.B{i}": ("x", "y") for i in range(n)}
    pairs = [*pairwise(range(n)), (0, n - 1)]
    clauses = [f"B{a}.x {random.choice(['<', '<=', '<>', '=', '>'])} B{b}.y" for a, b in pairs]
    select = f"SELECT B0.x, B{n - 1}.y FROM {', '.join(tables)} WHERE {' AND '.join(clauses)}"
    rows = {t: [(random.randrange(4), random.randrange(4)) for _ in range(4)] for t in tables}
    return World.of(tables, {"V": select}, rows)


def busy(world: World, seed: int, n: int = 16) -> World:
    random = Random(seed)
    origins = weighted(world.sources, [1.0] * len(world.sources), random)
    return updates(world, n, origins, poisson(1.0, random), seed, Mix(0.5, 1, 4))


def loose(seed: int) -> Conditions:
    """Delays of every kind: between the PCs, too."""
    return Conditions(
        Network(Link(exponential(1.0))), Capacity(2, exponential(0.5)), local=Random(seed).choice([0.0, 0.3])
    )


def follows_arrival(world: World, history: History) -> bool:
    """Every state is the view after the updates covered so far: one more each, each source's in order."""
    known = {u.label: u for u in history.transactions}
    tables, position = dict(world.initial), dict.fromkeys(world.sources, 0)
    held = history.content["V"]
    for state in history.states:
        (label,) = state.covers
        if label.number != position[label.source] + 1:
            return False
        position[label.source] = label.number
        tables = after(tables, [known[label]])
        held = held + dict(state.changes)["V"]
        if held != world.compiled[0].evaluate(tables):
            return False
    return sum(position.values()) == len(known)


SHAPES: dict[str, Callable[[int, Random], World]] = {
    "chain": lambda seed, random: chain(random.randint(2, 6), 6, 4, seed),
    "star": lambda seed, random: star(seed),
    "bands": lambda seed, random: bands(seed),
}

Make = Callable[[int, Random], Factory]
ALGORITHMS: dict[str, Make] = {
    "simple parallel": lambda n, random: simple_parallel(random.randint(1, 5)),
    "equal partition": lambda n, random: equal_partition(random.randint(1, n), random.randint(0, 3)),
    "frequency partition": lambda n, random: frequency_partition(
        random.randint(1, n), [random.random() for _ in range(n)]
    ),
}


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_complete_on_generated_histories(name: str, shape: str) -> None:
    for seed in range(20):
        random = Random(seed)
        world = busy(SHAPES[shape](seed, random), seed)
        history = simulate(world, ALGORITHMS[name](len(world.sources), random), loose(seed), seed)
        assert follows_arrival(world, history), f"seed {seed}"
        verdict = check(history)
        assert verdict.level is Consistency.COMPLETE, f"seed {seed}: {verdict}"


# The naive cluster


def two_views(second: str) -> World:
    tables = {"S1.R": ("A",), "S2.S": ("A",), "S3.T": ("A",), "S4.U": ("A",)}
    views = {"MV1": "SELECT R.A FROM S1.R JOIN S2.S ON R.A = S.A", "MV2": second}
    return World.of(tables, views, {t: [(1,)] for t in tables})


SLOW_MV1 = Conditions(capacities={"S2": Capacity(service=constant(9.0))})


def test_naive_homes_are_complete_each_and_not_together() -> None:
    """One update of R changes both views; MV2 is done first."""
    world = two_views("SELECT R.A FROM S1.R JOIN S3.T ON R.A = T.A")
    planned = [PlannedUpdate(0.0, "S1", {table_name("S1.R"): Bag.of([(1,)])})]
    history = simulate_views(world.having(planned), cluster_naive, SLOW_MV1)
    assert [state.changes[0][0] for state in history.states] == ["MV2", "MV1"]
    assert all(verdict.level is Consistency.COMPLETE for verdict in check_each(history).values())
    assert check(history).level is Consistency.CONVERGENCE


def test_the_papers_example_is_harmless_where_sources_are_independent() -> None:
    """Section 3: U1 of MV1 before U2 of MV2, and MV2 is done first. If the views share no source, U2 then U1 is an
    equivalent serial schedule, so by the definition (section 2.2) the warehouse is complete."""
    world = two_views("SELECT T.A FROM S3.T JOIN S4.U ON T.A = U.A")
    one, other = (Bag.of([(1,)]) for _ in range(2))
    planned = [
        PlannedUpdate(0.0, "S1", {table_name("S1.R"): one}),
        PlannedUpdate(1.0, "S3", {table_name("S3.T"): other}),
    ]
    history = simulate_views(world.having(planned), cluster_naive, SLOW_MV1)
    assert [state.changes[0][0] for state in history.states] == ["MV2", "MV1"]
    assert check(history).level is Consistency.COMPLETE


# The simple parallel algorithm


def test_one_pc_is_sweep() -> None:
    world = busy(chain(4, 6, 4, 1), 1)
    assert simulate(world, simple_parallel(1), loose(1), 1).states == simulate(world, sweep, loose(1), 1).states


def test_k_updates_at_a_time_take_a_kth_of_the_time() -> None:
    world = chain(4, 6, 4, 2)
    world = updates(world, 24, in_turn(world.sources), every(0.0), 2, Mix(domain=4))
    ample = Conditions(capacity=Capacity(q=24))
    times = {k: simulate(world, simple_parallel(k), ample).finished for k in (1, 2, 4)}
    assert times == {1: 72.0, 2: 36.0, 4: 18.0}


def test_answers_that_do_not_come_through_the_home_overtake_updates() -> None:
    """That the tests of completeness can fail, and why the home relays."""
    levels = set()
    for seed in range(8):
        world = busy(chain(4, 6, 4, seed), seed)
        levels.add(check(simulate(world, simple_parallel(4, Route.DIRECT), loose(seed), seed)).level)
    assert Consistency.NONE in levels


# Partitions


def test_groups_of_p_consecutive_relations() -> None:
    assert equal_groups(7, 3) == ((0, 1, 2), (3, 4, 5), (6,))
    assert equal_groups(4, 4) == ((0,), (1,), (2,), (3,))
    assert equal_groups(9, 4) == ((0, 1, 2), (3, 4, 5), (6, 7, 8)), "p = 3 leaves nothing for a fourth"


def test_a_sweep_goes_left_then_right_but_where_joins_lead() -> None:
    path = chain(5, 2, 2, 0).compiled[0]
    assert sweep_order(path, (0, 1, 2, 3, 4), 2) == [2, 1, 0, 3, 4]
    around = star(0).compiled[0]
    assert sweep_order(around, (0, 1, 2), 2) == [2, 0, 1], "D1 and D2 are joined through F"
    select = "SELECT A.x FROM S0.A, S1.B, S2.C, S3.D WHERE A.x < C.x AND B.x = D.x AND A.x <> D.x AND C.x = D.x"
    tables = {"S0.A": ("x",), "S1.B": ("x",), "S2.C": ("x",), "S3.D": ("x",)}
    mixed = World.of(tables, {"V": select}, {}).compiled[0]
    assert sweep_order(mixed, (0, 1, 2), 0) == [0, 2, 1], "A.x < C.x joins, too; B meets both in a product"
    assert sweep_order(mixed, (0, 1, 2, 3), 0) == [0, 2, 3, 1]
    assert sweep_order(mixed, (0, 2, 3), 2) == [2, 3, 0], "but C goes to D first: an equality finds less"


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_only_the_other_sources_of_the_group_are_asked(k: int) -> None:
    world = busy(chain(6, 6, 4, 3), 3)
    history = simulate(world, equal_partition(k), loose(3), 3)
    assert history.questions == len(world.transactions) * (6 // k - 1)


@pytest.mark.parametrize("groups", [((0, 1), (2, 3, 4)), ((0, 3), (1,), (2,), (4,)), ((0, 3), (1, 2), (4,))])
def test_auxiliary_views_are_maintained_too(groups: tuple[tuple[int, ...], ...]) -> None:
    world = busy(star(5), 5)
    strategy = partitioned(world.setting(), groups, r=1)
    history = Simulation(world, strategy, loose(5), 5).run()
    setting = StrategySetting(world.compiled[0], world.setting().homes, after(world.initial, history.transactions))
    holders = held_by(strategy)
    assert all(h.av == materialized(setting, h.group) for h in holders)
    assert sorted(h.group for h in holders) == sorted(groups)


def test_auxiliary_views_hold_what_the_clauses_of_their_group_leave() -> None:
    """Equations 2 and 3: P(k) is every clause with attributes of the group only. D1.v <> D2.v is one of the group (D1,
    D2): of the nine pairs three are alike. It is none of (D1, D3), where D3.v < 2 is."""
    rows = {"S0.F": [(0, 0, 0, 0)]} | {f"S{i}.D{i}": [(0, 0), (0, 1), (0, 2)] for i in range(1, 5)}
    empty = star(0)
    world = replace(empty, initial={t: Bag.of(rows[str(t)]) for t in empty.columns})
    pairs = materialized(world.setting(), (1, 2))
    assert pairs.bag == Bag.of((0, v, 0, w) for v in range(3) for w in range(3) if v != w)
    assert materialized(world.setting(), (1, 3)).bag.total() == 3 * 2
    assert materialized(world.setting(), (0, 1, 2)).bag.total() == 6


def test_auxiliary_views_hold_the_attributes_that_the_view_needs() -> None:
    """X(k): those in X or in a clause of P. R.x is in no clause and not shown."""
    world = World.of(
        {"S1.R": ("k", "x", "s", "t"), "S2.S": ("k", "v", "w")},
        {"V": "SELECT S.v FROM S1.R JOIN S2.S ON R.k = S.k WHERE R.s < 3 AND R.t < S.w"},
        {"S1.R": [(1, 5, 2, 0), (1, 6, 2, 0), (1, 7, 3, 0)], "S2.S": [(1, 8, 9)]},
    )
    (first, second) = (materialized(world.setting(), (i,)) for i in (0, 1))
    assert first.bag == Bag({(1, 2, 0): 2}), "k, s and t; two rows that only x tells apart are one, twice"
    assert second.bag == Bag.of([(1, 8, 9)])


def held_by(strategy: Strategy) -> list[Holder]:
    """The PCs with their auxiliary views; the home of V may hold one too."""
    processes = [p._holder if isinstance(p, Home) else p for p in strategy.processes.values()]
    return [p for p in processes if isinstance(p, Holder)]


def test_a_source_with_two_tables_is_refused() -> None:
    world = World.of(
        {"S1.R": ("A",), "S1.S": ("A",)}, {"V": "SELECT R.A FROM S1.R JOIN S1.S ON R.A = S.A"}, {"S1.R": [(1,)]}
    )
    with pytest.raises(HeadwaterError, match="a source of its own"):
        simulate(world, equal_partition(2))
