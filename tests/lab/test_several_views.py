"""Several views at once: timestamps, topological order, and what the checker says where one of them is left out."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from headwater.algebra import Relation, evaluate_all
from headwater.algebra.bag import Bag
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import Verdict, check, check_each
from headwater.lab.histories.history import History
from headwater.lab.simulation.faults import no_timestamps, no_topological_order
from headwater.lab.simulation.network import Link, Network, constant, exponential
from headwater.lab.simulation.simulator import Capacity, Conditions, Simulation, simulate, simulate_views
from headwater.lab.worlds.workload import Mix, poisson, updates, weighted
from headwater.lab.worlds.world import PlannedUpdate, World, after, table_name
from headwater.maintenance.strategies.cluster_naive import cluster_naive
from headwater.maintenance.strategies.contract import Label, StrategySetting, Update, ViewsFactory
from headwater.maintenance.strategies.simple_parallel import Route, States, simple_parallel, simple_parallel_views
from headwater.maintenance.strategies.stamped_queue import StampedQueue
from headwater.maintenance.strategies.views_over_views import topological
from headwater.model.errors import HeadwaterError

TABLES = {"S1.R": ("a", "b"), "S2.S": ("a", "b"), "S3.T": ("a", "b"), "S4.U": ("a", "b")}
FLAT = {
    "MV1": "SELECT R.a, S.b FROM S1.R JOIN S2.S ON R.b = S.a",
    "MV2": "SELECT S.a, T.b FROM S2.S JOIN S3.T ON S.b = T.a",
    "MV3": "SELECT R.a, U.b FROM S1.R JOIN S4.U ON R.b < U.a",
}
DEEP = {
    "MV1": FLAT["MV1"],
    "MV2": FLAT["MV2"],
    # shares no table with what it reads
    "MV4": "SELECT MV1.a, U.b FROM MV1 JOIN S4.U ON MV1.b = U.a",
    # two views that share S, and a table, R, that one of them reads, too
    "MV5": "SELECT MV1.a, R.b FROM MV1 JOIN MV2 ON MV1.b = MV2.b JOIN S1.R ON R.a = MV1.a",
    # a view over views over views, and a comparison; its table before the view
    "MV6": "SELECT T.a, MV5.b FROM S3.T JOIN MV5 ON T.a <= MV5.b",
}


def world(views: dict[str, str], seed: int, n: int = 12) -> World:
    random = Random(seed)
    rows = {t: [(random.randrange(3), random.randrange(3)) for _ in range(4)] for t in TABLES}
    held = World.of(TABLES, views, rows)
    origins = weighted(held.sources, [1.0] * len(held.sources), random)
    return updates(held, n, origins, poisson(1.5, random), seed, Mix(0.5, 1, 3))


def loose(seed: int) -> Conditions:
    local = Random(seed).choice([0.0, 0.3])
    return Conditions(Network(Link(exponential(1.0))), Capacity(2, exponential(0.5)), local=local)


def recomputed(world: World, transactions: list[Update]) -> dict[str, Bag]:
    """All views after these, by the reference."""
    held = after(world.initial, transactions)
    found = evaluate_all(world.views, {t: Relation(world.columns[t], bag) for t, bag in held.items()})
    return {str(view): bag for view, bag in found.items()}


def follows_arrival(world: World, history: History) -> bool:
    """Every state is all views after the updates covered so far: one more each, each source's in order."""
    known = {u.label: u for u in history.transactions}
    done: list[Update] = []
    held = dict(history.content)
    if held != recomputed(world, []):
        return False
    for state in history.states:
        (label,) = state.covers
        if label.number != 1 + sum(u.source == label.source for u in done):
            return False
        done.append(known[label])
        held |= {view: held[view] + change for view, change in state.changes}
        if held != recomputed(world, done):
            return False
    return len(done) == len(known)


@pytest.mark.parametrize("views", [FLAT, DEEP], ids=["flat", "views over views"])
def test_all_views_together_are_complete_on_generated_histories(views: dict[str, str]) -> None:
    for seed in range(20):
        busy = world(views, seed)
        history = simulate_views(busy, simple_parallel_views(1 + seed % 4), loose(seed), seed)
        assert follows_arrival(busy, history), f"seed {seed}"
        verdict = check(history)
        assert verdict.level is Consistency.COMPLETE, f"seed {seed}: {verdict}"
        assert {v.level for v in check_each(history).values()} == {Consistency.COMPLETE}


def test_the_views_may_be_given_in_any_order() -> None:
    for seed in range(4):
        busy = world(DEEP, seed)
        strategy = simple_parallel_views(2)(Random(seed).sample(busy.settings, len(busy.settings)))
        assert follows_arrival(busy, Simulation(busy, strategy, loose(seed), seed).run())


def test_one_view_is_the_algorithm_for_one_view() -> None:
    busy = world({"MV1": FLAT["MV1"]}, 3)
    one, several = simple_parallel(3), simple_parallel_views(3)
    assert simulate(busy, one, loose(3), 3).states == simulate_views(busy, several, loose(3), 3).states


def test_k_updates_of_each_view_at_a_time() -> None:
    """MV1 and MV2 of two relations each: one question each per update. 12 updates at once take a Kth of the time."""
    rows = {t: [(1, 1)] for t in TABLES}
    idle = World.of(TABLES, {v: FLAT[v] for v in ("MV1", "MV2")}, rows)
    planned = [PlannedUpdate(0.0, "S2", {table_name("S2.S"): Bag.of([(1, i)])}) for i in range(12)]
    ample = Conditions(capacity=Capacity(q=24))
    times = {
        k: simulate_views(idle.having(planned), simple_parallel_views(k), ample).finished for k in (1, 2, 3, 4, 12)
    }
    assert times == {1: 12.0, 2: 6.0, 3: 4.0, 4: 3.0, 12: 1.0}


# Section 3's example


def two_updates_of_one_source() -> World:
    """U1 to MV1, then U2 to MV2; the source of both has them in this order."""
    tables = {"S1.R": ("A",), "S1.Q": ("A",), "S2.S": ("A",), "S3.T": ("A",)}
    views = {
        "MV1": "SELECT R.A FROM S1.R JOIN S2.S ON R.A = S.A",
        "MV2": "SELECT Q.A FROM S1.Q JOIN S3.T ON Q.A = T.A",
    }
    planned = [
        PlannedUpdate(0.0, "S1", {table_name("S1.R"): Bag.of([(1,)])}),
        PlannedUpdate(1.0, "S1", {table_name("S1.Q"): Bag.of([(1,)])}),
    ]
    return World.of(tables, views, {t: [(1,)] for t in tables}).having(planned)


SLOW_MV1 = Conditions(capacities={"S2": Capacity(service=constant(9.0))})


def changed_first(history: History) -> list[str]:
    """The views in the order in which something became different in them."""
    return [view for state in history.states for view, change in state.changes if change]


def test_the_papers_example_refutes_the_naive_cluster() -> None:
    """MV2 shows U2 before MV1 shows U1: no state of the source S1, which had U1 first."""
    history = simulate_views(two_updates_of_one_source(), cluster_naive, SLOW_MV1)
    assert changed_first(history) == ["MV2", "MV1"]
    assert {v.level for v in check_each(history).values()} == {Consistency.COMPLETE}
    verdict = check(history)
    assert verdict.level is Consistency.CONVERGENCE
    assert "is no source state: MV1 misses (1,) against the nearest, after S1#2" in witness(verdict)


def test_timestamps_keep_its_order() -> None:
    history = simulate_views(two_updates_of_one_source(), simple_parallel_views(2), SLOW_MV1)
    assert changed_first(history) == ["MV1", "MV2"]
    assert [state.covers for state in history.states] == [(Label("S1", 1),), (Label("S1", 2),)]
    assert check(history).level is Consistency.COMPLETE


def test_the_naive_cluster_is_refuted_on_generated_histories() -> None:
    for seed in range(12):
        busy = world(FLAT, seed)
        history = simulate_views(busy, cluster_naive, loose(seed), seed)
        assert {v.level for v in check_each(history).values()} == {Consistency.COMPLETE}
        verdict = check(history)
        assert Consistency.WEAK not in verdict.holds, f"seed {seed}: {verdict}"
        assert verdict.witnesses


def test_homes_that_do_not_talk_cannot_have_views_over_views() -> None:
    with pytest.raises(HeadwaterError, match="MV4 reads MV1, which is at home elsewhere"):
        simulate_views(world(DEEP, 0), cluster_naive)


# What is necessary


def witness(verdict: Verdict) -> str:
    return " / ".join(map(str, verdict.witnesses))


def test_one_view_after_the_other_shows_what_never_was() -> None:
    """The paper's words: each view by itself is complete, in topological order, and all together are not."""
    order = list(DEEP)
    for seed in range(6):
        busy = world(DEEP, seed)
        history = simulate_views(busy, simple_parallel_views(2, states=States.ONE_PER_VIEW), loose(seed), seed)
        assert {v.level for v in check_each(history).values()} == {Consistency.COMPLETE}
        assert all(len(state.changes) == 1 for state in history.states)
        for label in {label for state in history.states for label in state.covers}:
            views = [state.changes[0][0] for state in history.states if state.covers == (label,)]
            assert views == sorted(views, key=order.index)
        verdict = check(history)
        assert Consistency.CONVERGENCE in verdict.holds
        assert Consistency.WEAK not in verdict.holds, f"seed {seed}: {verdict}"


@pytest.mark.parametrize(
    ("wrong", "views"),
    [(no_timestamps, FLAT), (no_timestamps, DEEP), (no_topological_order, DEEP)],
    ids=["no timestamps", "no timestamps, views over views", "no topological order"],
)
def test_a_wrong_order_is_caught(wrong: Callable[[int], ViewsFactory], views: dict[str, str]) -> None:
    caught = 0
    for seed in range(8):
        verdict = check(simulate_views(world(views, seed), wrong(3), loose(seed), seed))
        if verdict.level is not Consistency.COMPLETE:
            caught += 1
            assert "state" in witness(verdict)
    assert caught >= 4, "now and then the order is right by chance"


def test_without_timestamps_a_later_update_comes_first() -> None:
    """The example again: U2 is evaluated first, and nobody waits."""
    history = simulate_views(two_updates_of_one_source(), no_timestamps(2), SLOW_MV1)
    assert changed_first(history) == ["MV2", "MV1"]
    assert "is no source state: MV1 misses (1,) against the nearest, after S1#2" in witness(check(history))


def test_without_topological_order_a_view_misses_what_it_reads() -> None:
    """MV4 reads MV1, and is evaluated before it is known what the update does to MV1."""
    rows = {"S1.R": [(7, 1)], "S4.U": [(2, 9)]}
    idle = World.of(TABLES, {"MV1": DEEP["MV1"], "MV4": DEEP["MV4"]}, rows)
    insert = idle.having([PlannedUpdate(0.0, "S2", {table_name("S2.S"): Bag.of([(1, 2)])})])
    right = simulate_views(insert, simple_parallel_views(2))
    assert right.final() == {"MV1": Bag.of([(7, 2)]), "MV4": Bag.of([(7, 9)])}
    verdict = check(simulate_views(insert, no_topological_order(2)))
    assert "at the end, MV4 misses (7, 9)" in witness(verdict)


def test_answers_that_do_not_come_through_the_home_overtake_updates() -> None:
    levels = {
        check(simulate_views(world(DEEP, seed), simple_parallel_views(4, Route.DIRECT), loose(seed), seed)).level
        for seed in range(6)
    }
    assert Consistency.NONE in levels


# The queue


def queue(views: dict[str, str] = DEEP) -> StampedQueue:
    return StampedQueue(world(views, 0).settings)


def update(source: str, number: int) -> Update:
    return Update(Label(source, number), {}, 0.0)


def test_an_update_goes_to_every_view_that_uses_its_source() -> None:
    waiting = queue()
    for source in ("S4", "S1", "S3"):
        waiting.arrived(update(source, 1))
    assert [s.timestamp for s in waiting.waiting] == [1, 2, 3]
    concerned = {s.update.source: list(s.views) for s in waiting.waiting}
    assert concerned == {"S4": ["MV4"], "S1": ["MV1", "MV4", "MV5", "MV6"], "S3": ["MV2", "MV5", "MV6"]}
    assert [s.update.source for s in waiting.umq("MV4")] == ["S4", "S1"]


def test_an_update_of_no_view_gets_no_timestamp() -> None:
    waiting = queue({"MV1": FLAT["MV1"]})
    assert waiting.arrived(update("S4", 1)) is None
    stamped = waiting.arrived(update("S1", 1))
    assert stamped is not None
    assert stamped.timestamp == 1


def test_a_view_waits_for_those_that_it_reads_and_sees_them_as_of_its_update() -> None:
    waiting = queue({"MV1": DEEP["MV1"], "MV4": DEEP["MV4"]})
    first, second = (waiting.arrived(update("S1", n)) for n in (1, 2))
    assert first is not None
    assert second is not None
    before = waiting.content("MV1", first)
    first.views["MV1"].change = Bag.of([(8, 8)])
    assert waiting.parents_known("MV4", first)
    assert not waiting.parents_known("MV4", second)
    second.views["MV1"].change = Bag.of([(9, 9)])
    assert waiting.parents_known("MV4", second)
    assert waiting.content("MV1", first) == before, "not with its own change"
    assert waiting.content("MV1", second) == before + Bag.of([(8, 8)])
    waiting.remove(first)
    assert waiting.content("MV1", second) == before + Bag.of([(8, 8)])


def test_views_stand_after_those_that_they_read() -> None:
    settings = world(DEEP, 0).settings
    assert [s.view.name for s in topological(settings[::-1])] == ["MV2", "MV1", "MV5", "MV6", "MV4"]
    without: list[StrategySetting] = [s for s in settings if s.view.name != "MV1"]
    with pytest.raises(HeadwaterError, match="MV4 reads MV1, which is not maintained before it"):
        topological(without)
