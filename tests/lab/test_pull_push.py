"""Pure-Push and Interleaved Pull-Push: exact at every state, whatever the network does, for the promised messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from headwater.algebra.bag import Bag
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.experiment import Run
from headwater.lab.experiments.pullpush_counts import EXPERIMENT
from headwater.lab.histories.history import History
from headwater.lab.settings.mobile import ALGORITHMS as MOBILE
from headwater.lab.settings.mobile import INTERFERENCE, MobileLoad, Sleep, account, conditions, mobile_world
from headwater.lab.settings.propagation import _Covered
from headwater.lab.simulation.network import Link, Network, constant, exponential, on_and_off, uniform
from headwater.lab.simulation.simulator import Capacity, Conditions, Simulation, simulate
from headwater.lab.simulation.tries import HOUSEKEEPING, Piling, TryCounts, tallied
from headwater.lab.worlds.workload import Mix, chain, every, in_turn, poisson, updates, weighted
from headwater.lab.worlds.world import PlannedUpdate, World
from headwater.maintenance.strategies.acknowledged import acknowledged
from headwater.maintenance.strategies.contract import WAREHOUSE, Factory
from headwater.maintenance.strategies.nested_sweep import nested_sweep
from headwater.maintenance.strategies.pull_push import pull_push, special_join
from headwater.maintenance.strategies.pure_push import PushSource, pure_push
from headwater.maintenance.strategies.sweep import sweep
from headwater.model.errors import UsageError

UNTIL = 40.0
BUSY = 20.0
"""Updates end well before the run, so that everything arrives."""

ALGORITHMS: dict[str, Callable[[], Factory]] = {
    "pure-push": lambda: pure_push(0.5, 0.7),
    "pure-push, own intervals": lambda: pure_push({"IS1": 0.5, "IS2": 0.9, "IS3": 0.25, "IS4": 1.3}, 0.7),
    "pull-push": lambda: pull_push(0.6),
}


def off(seed: int, *nodes: str) -> dict[str, list[tuple[float, float]]]:
    random = Random(seed)
    return {
        node: [(a, min(b, BUSY + 5)) for a, b in on_and_off(random, 0.3, 2.0, BUSY)]
        for node in nodes
    }  # fmt: skip


NETWORKS: dict[str, Callable[[int], Network]] = {
    "fifo": lambda seed: Network(Link(exponential(0.1))),
    "at once": lambda seed: Network(),
    "not fifo": lambda seed: Network(Link(exponential(0.3), fifo=False)),
    "20 % loss": lambda seed: Network(Link(uniform(0.01, 0.1), fifo=False, loss=0.2)),
    "sources off": lambda seed: Network(Link(constant(0.05)), off=off(seed, "IS1", "IS2", "IS3", "IS4")),
    "warehouse off": lambda seed: Network(Link(constant(0.05)), off=off(seed, WAREHOUSE)),
    "all of it": lambda seed: Network(
        Link(exponential(0.05), fifo=False, loss=0.1), off=off(seed, "IS1", "IS3", WAREHOUSE)
    ),
}


def busy_world(m: int, seed: int, n: int = 60, size: int = 1) -> World:
    world = chain(m, rows=12, domain=5, seed=seed)
    random = Random(seed + 1)
    origins = weighted(world.sources, [1.0] * m, random)
    return updates(world, n, origins, poisson(n / BUSY, random), seed, Mix(deletes=0.5, size=size, domain=5))


def run(world: World, factory: Factory, network: Network, seed: int = 0, until: float = UNTIL) -> History:
    capacity = Capacity(q=1, service=exponential(0.03))
    return simulate(world, factory, Conditions(network, capacity, until=until), seed)


def assert_exact(world: World, history: History) -> None:
    """Every state is the view over the updates that it says it covers, which are the first ones of each source; and
    in the end all are covered."""
    (view,) = world.compiled
    by_label = {u.label: u for u in history.transactions}
    tables, reached = dict(world.initial), dict.fromkeys(world.sources, 0)
    contents = history.contents()
    assert next(contents)["V"] == view.evaluate(tables)
    for state, held in zip(history.states, contents, strict=True):
        for label in sorted(state.covers):
            assert label.number == reached[label.source] + 1, f"{label} is out of order"
            reached[label.source] += 1
            for table, change in by_label[label].changes.items():
                tables[table] = tables[table] + change
        assert held["V"] == view.evaluate(tables)
    assert sum(reached.values()) == len(history.transactions)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("seed", range(3))
def test_strong_whatever_the_network_does(algorithm: str, network: str, seed: int) -> None:
    world = busy_world(4, seed)
    history = run(world, ALGORITHMS[algorithm](), NETWORKS[network](seed), seed)
    assert_exact(world, history)
    assert Consistency.STRONG in check(history).holds


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("m", [1, 2, 3])
def test_shorter_chains(algorithm: str, m: int) -> None:
    """V1 is over one source."""
    world = busy_world(m, seed=m, size=2)
    history = run(world, ALGORITHMS[algorithm](), NETWORKS["not fifo"](0), m)
    assert_exact(world, history)
    assert Consistency.STRONG in check(history).holds


@pytest.mark.parametrize("algorithm", ["pure-push", "pull-push"])
def test_every_state_is_the_view_at_one_time(algorithm: str) -> None:
    """All sources cut at the same times: what a state covers is all that was committed up to some t."""
    world = busy_world(3, seed=5)
    history = run(world, ALGORITHMS[algorithm](), NETWORKS["20 % loss"](5), 5)
    committed = {u.label: u.at for u in history.transactions}
    covered: set = set()
    for state in history.states:
        covered |= set(state.covers)
        latest = max(committed[label] for label in covered)
        assert covered == {label for label, at in committed.items() if at <= latest}


@pytest.mark.parametrize("algorithm", ["pure-push", "pull-push"])
def test_duplicates_in_tables(algorithm: str) -> None:
    """Rows that are there several times, and transactions that insert and delete several at once."""
    world = World.of(
        {"IS1.R": ("A", "B"), "IS2.S": ("B", "C", "X"), "IS3.T": ("C", "D")},
        {"V": "SELECT R.A, T.D FROM IS1.R JOIN IS2.S ON R.B = S.B JOIN IS3.T ON S.C = T.C WHERE S.X < 3"},
        {"IS1.R": [(1, 1)] * 3, "IS2.S": [(1, 1, 0), (1, 1, 1), (1, 1, 9)] * 2, "IS3.T": [(1, 1)] * 2},
    )
    world = updates(world, 80, in_turn(world.sources, 2), every(0.21), 3, Mix(deletes=0.5, size=4, domain=2))
    assert any(count > 1 for t in world.transactions for bag in t.changes.values() for _, count in bag)
    history = run(world, ALGORITHMS[algorithm](), NETWORKS["20 % loss"](3), 3)
    assert_exact(world, history)


def test_special_join_has_each_count_once() -> None:
    world = chain(3, rows=0)
    (view,) = world.compiled
    change = view.origin(1, Bag({(1, 2): 2, (3, 4): -1}))
    once = view.origin(1, Bag({(1, 2): 1, (3, 4): 1}))
    left = view.local(change, 0, Bag({(2, 9): 1, (4, 9): 5}))
    right = view.local(once, 2, Bag({(7, 1): 3, (8, 3): 1}))
    total, joins = special_join(view, ((1, left),), ((1, right),))
    assert (total, joins) == (Bag({(2, 1, 7): 6, (4, 3, 8): -5}), 1)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_messages_per_batch(n: int) -> None:
    """Pure-Push: n for a batch, n² for one of each source. Pull-Push: 2n for a window, and its two requests."""
    one_each = updates(chain(n, seed=n), n, in_turn([f"IS{i + 1}" for i in range(n)]), every(0.1), n)
    alone = updates(chain(n, seed=n), 1, in_turn(["IS1"]), every(0.1), n)
    network = Network(Link(constant(0.01)))
    conditions = Conditions(network, Capacity(service=constant(0.01)), until=1.9)
    for world, batches in ((one_each, n), (alone, 1)):
        history = simulate(world, pure_push(1.0, 1.0), conditions)
        carrying = [m for m in history.messages if m.kind == "batch" and m.about]
        assert len(carrying) == n * batches
    history = simulate(one_each, pull_push(1.0), conditions)
    assert history.kinds()["forward"] + history.kinds()["backward"] == 2 * n
    assert history.kinds()["request"] == min(n, 2)
    assert history.kinds()["acknowledgement"] == 2 * n + min(n, 2)
    assert history.kinds()["applied"] == n


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_log_stays_short(algorithm: str) -> None:
    """Emptying it never breaks a later window (an older state would raise), and it holds a few windows' deletions."""
    world = busy_world(4, seed=11, n=600)
    conditions = Conditions(Network(Link(constant(0.02), loss=0.05)), Capacity(service=constant(0.01)), until=UNTIL)
    strategy = ALGORITHMS[algorithm]()(world.setting())
    simulation = Simulation(world, strategy, conditions, 1)
    longest = 0
    sources = [p for node, p in strategy.processes.items() if node != WAREHOUSE]
    tell = simulation._tell

    def watched(update) -> None:  # type: ignore[no-untyped-def]
        nonlocal longest
        tell(update)
        longest = max(longest, *(len(p.tagged.relation) for p in sources))

    simulation._tell = watched
    history = simulation.run()
    deletions = sum(-c for t in world.transactions for bag in t.changes.values() for _, c in bag if c < 0)
    assert deletions > 200
    assert longest < deletions / len(sources) / 3
    assert all(len(p.tagged.relation) == 0 for p in sources)
    assert_exact(world, history)


@pytest.mark.parametrize("algorithm", ["pure-push", "pull-push"])
def test_a_commit_at_the_very_end_of_an_interval_belongs_to_it(algorithm: str) -> None:
    """Commits at multiples of the window, messages that take no time."""
    world = updates(chain(3, seed=2), 60, in_turn(["IS1", "IS2", "IS3"]), every(0.1), 2)
    factory = pure_push(0.3, 0.3) if algorithm == "pure-push" else pull_push(0.3)
    history = simulate(world, factory, Conditions(capacity=Capacity(service=constant(0.0)), until=20.0))
    assert_exact(world, history)


def test_equal_times_need_an_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """ "Just before t_k+1", taken at its word where sources cut at the same time, loses what two batches give
    together; the checker says so."""
    world = busy_world(3, seed=4)
    assert Consistency.STRONG in check(run(world, pure_push(0.5, 0.5), NETWORKS["fifo"](4), 4)).holds
    last_cut = PushSource.last_cut
    monkeypatch.setattr(PushSource, "last_cut", lambda self, t, including=False: last_cut(self, t, False))
    assert Consistency.CONVERGENCE not in check(run(world, pure_push(0.5, 0.5), NETWORKS["fifo"](4), 4)).holds


def test_views_that_are_no_chain_are_refused() -> None:
    tables = {"S1.R": ("A", "B"), "S2.S": ("B", "C"), "S3.T": ("C", "A"), "S1.U": ("A", "B")}
    triangle = "SELECT R.A FROM S1.R JOIN S2.S ON R.B = S.B JOIN S3.T ON S.C = T.C AND T.A = R.A"
    twice = "SELECT R.A FROM S1.R JOIN S1.U ON R.B = U.B"
    for select, why in ((triangle, "not neighbours"), (twice, "several relations at one source")):
        for factory in (pure_push(1.0, 1.0), pull_push(1.0)):
            with pytest.raises(UsageError, match=why):
                simulate(World.of(tables, {"V": select}, {}), factory)


@pytest.mark.parametrize("network", NETWORKS)
def test_acknowledged_carries_sweep_over_any_network(network: str) -> None:
    """What the mobile experiments run Nested SWEEP over keeps SWEEP's assumption."""
    world = busy_world(4, seed=1)
    for factory, level in ((sweep, Consistency.COMPLETE), (nested_sweep(), Consistency.STRONG)):
        history = run(world, acknowledged(factory), NETWORKS[network](1), 1, until=float("inf"))
        assert_exact(world, history)
        assert level in check(history).holds


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_mobile_world_is_exact_for_all_four_algorithms(n: int) -> None:
    """V1 … V4 of table 1 with sources and warehouse off for a third of the time."""
    world = MobileLoad.at_rate(0.3, n, 40.0, INTERFERENCE).over(mobile_world(n, 3), 3)
    how = conditions(world, 90.0, 3, Sleep(0.3, 0.3, mean=5.0))
    how = replace(how, network=replace(how.network, off={k: [(a, min(b, 50)) for a, b in v if a < 50]
                                                         for k, v in how.network.off.items()}))  # fmt: skip
    for algorithm in MOBILE:
        assert_exact(world, simulate(world, algorithm.make(0.6), how, 3))


def test_interference_is_a_share_of_the_updates() -> None:
    world = mobile_world(3)
    alone, together = MobileLoad(1.0, 400.0).over(world, 1), MobileLoad(1.0, 400.0, INTERFERENCE, 0.2).over(world, 1)
    gaps = [b.at - a.at for a, b in pairwise(alone.transactions)]
    assert len(alone.transactions) == 400
    assert min(gaps) >= 0.5
    assert (len(together.transactions) - 400) / 400 == pytest.approx(INTERFERENCE, abs=0.05)


def test_the_parts_of_the_update_propagation_time() -> None:
    """One update of S2 in V3, by hand: messages of 30 ms and 1 ms per value, queries of 100 ms."""
    world = mobile_world(3)
    (row,) = (row for row, _ in world.initial[world.compiled[0].tables[1]] if row[0] == 7)
    world = world.having([PlannedUpdate(0.1, "S2", {world.compiled[0].tables[1]: Bag({row: -1})})])
    upt = {a.name: account(a, simulate(world, a.make(0.5), conditions(world, 5.0, 0))) for a in MOBILE}
    # a row of k relations has 2k values and its count
    one, two, three = 3, 5, 7
    # the notice carries SX; a question the partial, an answer the longer one
    nested = 0.15 + 0.001 * (4 + one + two + two + three)
    assert upt["Nested SWEEP"].network == pytest.approx(nested)
    # with t_k, t_k+1 and i, and the tuple's cr and dr: to S1, then to S3, then to the warehouse
    assert upt["Pure-Push"].network == pytest.approx(0.09 + 0.001 * (one + two + three + 3 * 3 + 3 * 2))
    # with t_k and t_k+1: to S3 (or S1), then to the warehouse
    assert upt["Pull-Push"].network == pytest.approx(0.06 + 0.001 * (one + two + 2 * 2))
    assert upt["Pull-Push"].halves == pytest.approx(upt["Pull-Push"].network)
    assert {name: round(u.query, 6) for name, u in upt.items()} == {
        "Nested SWEEP": 0.2,
        "Pure-Push": 0.2,
        "Pull-Push": 0.1,
        "our wave": 0.3,
    }
    assert upt["Nested SWEEP"].inner == pytest.approx(5 * 0.005)
    assert upt["Pure-Push"].inner == pytest.approx(6 * 0.005)


@pytest.mark.parametrize("sleep", [Sleep(0.3, 0.3, mean=5.0), Sleep(0.5, 0.0, mean=10.0), Sleep(0.0, 0.9, mean=10.0)])
def test_a_tally_counts_what_a_history_keeps(sleep: Sleep) -> None:
    """The run is the same, and so are the counts and what is read off the messages."""
    seed = 1
    world = MobileLoad.at_rate(0.3, 3, 40.0, INTERFERENCE).over(mobile_world(3, seed), seed)
    how = conditions(world, 40.0, seed, sleep)
    for algorithm in MOBILE:
        kept = simulate(world, algorithm.make(0.6), how, seed)
        counted = tallied(world, algorithm.make(0.6), how, seed).run()
        tally = counted.messages
        assert isinstance(tally, TryCounts)
        assert counted.states == kept.states
        assert tally.made == kept.kinds()
        sent = [m for m in kept.messages if m.kind not in HOUSEKEEPING]
        assert tally.tries == len(sent)
        assert tally.tries_of_nodes_on == sum(how.network.reachable(m.sender, m.sent) for m in sent)
        if kept.states:
            assert account(algorithm, counted) == account(algorithm, kept)


@pytest.mark.parametrize("sleep", [Sleep(0.3, 0.3, mean=5.0), Sleep(0.5, 0.0, mean=10.0), Sleep(0.0, 0.9, mean=10.0)])
@pytest.mark.parametrize("seed", range(4))
def test_tries_counted_at_once_are_the_tries_made(sleep: Sleep, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Piling channels against one try after the other, and against the network's own channels that keep no order."""
    world = MobileLoad.at_rate(0.3, 3, 150.0, INTERFERENCE).over(mobile_world(3, seed), seed)
    how = conditions(world, 150.0, seed, sleep)

    def piling() -> tuple[History, TryCounts]:
        history = tallied(world, nested_sweep(), how, seed, 0.2).run()
        assert isinstance(history.messages, TryCounts)
        return history, history.messages

    def one_by_one(self: Piling, sender: str, receiver: str, takes: float, most: int) -> tuple[int, int]:
        silent = heard = 0
        sent = self.now
        while silent + heard < most:
            if not how.network.reachable(sender, sent):
                silent += 1
            elif not how.network.reachable(receiver, sent + takes):
                heard += 1
            else:
                break
            sent += 0.2
        return silent, heard

    at_once, tally = piling()
    monkeypatch.setattr(Piling, "_lost_tries", one_by_one)
    made, other = piling()
    assert tally.tries > 3 * len(world.transactions)
    assert (tally.made, tally.left) == (other.made, other.left)
    assert at_once.states == made.states
    # how often an update is sent does not depend on what the warehouse does with it
    again = conditions(world, 150.0, seed, sleep, retransmit=0.2)
    unordered = replace(again, network=replace(again.network, link=replace(again.network.link, fifo=False)))
    assert simulate(world, nested_sweep(), unordered, seed).kinds()["update"] == tally.made["update"]


@pytest.mark.parametrize("seed", range(5))
def test_things_at_the_same_time_count_once(seed: int) -> None:
    """Intervals against the moments that they cover."""
    random = Random(seed)

    def some(n: int) -> list[tuple[float, float]]:
        return [(a, a + random.randrange(6)) for a in (random.randrange(60) for _ in range(n))]

    def moments(intervals: list[tuple[float, float]]) -> set[float]:
        return {t for a, b in intervals for t in range(int(a), int(b))}

    for _ in range(50):
        one, other = some(random.randrange(12)), some(random.randrange(4))
        assert _Covered(one).total == len(moments(one))
        assert _Covered(one).outside(_Covered(other)) == len(moments(other) - moments(one))


def test_the_counts_of_the_paper() -> None:
    findings = EXPERIMENT.run(Run())
    assert [claim.holds for claim in findings.claims] == [True] * 4
