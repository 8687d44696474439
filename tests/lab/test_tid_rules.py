"""The TID rules: ADD and DEL on bags, sessions on generated histories, and what happens when a session fails."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import pytest

from headwater.algebra.bag import Bag
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.experiments.tid_lost_notifications import by_post, conditions
from headwater.lab.experiments.tid_several_tables import split
from headwater.lab.simulation.network import Link, Network, exponential
from headwater.lab.simulation.simulator import Capacity, Conditions, Simulation, simulate
from headwater.lab.worlds.source import SourceDatabase
from headwater.lab.worlds.workload import Mix, poisson, updates, weighted
from headwater.lab.worlds.world import PlannedUpdate, World, table_name
from headwater.maintenance.strategies.change_propagation import Isolated, own_change, terms
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Ask,
    Commit,
    Effect,
    Effects,
    Node,
    Strategy,
    StrategySetting,
    Wake,
)
from headwater.maintenance.strategies.sweep import sweep
from headwater.maintenance.strategies.tid_rules import Join, TidRules, tid_rules
from lab.interference import recomputed

AB = ("A", "B")
SEVERAL = (
    {"S1.R1": AB, "S1.R2": AB, "S2.R3": AB, "S3.R4": AB, "S3.R5": AB},
    "SELECT R1.A AS x, R5.B AS y FROM S1.R1 JOIN S1.R2 ON R1.A = R2.B JOIN S2.R3 ON R2.A = R3.B "
    "JOIN S3.R4 ON R3.A = R4.B JOIN S3.R5 ON R4.A = R5.B WHERE R3.A > 0 AND R1.B <> R5.A",
)
AROUND = (
    {"S1.R1": AB, "S2.R2": AB, "S1.R3": AB},
    "SELECT R1.A AS x, Q.B AS y FROM S1.R1 JOIN S2.R2 ON R1.A = R2.B JOIN S1.R3 ON R2.A = R3.B "
    "JOIN S1.R1 Q ON Q.B = R3.A",
)
"""S1's tables are joined only through S2, and R1 occurs twice."""
VIEWS = {"several tables per source": SEVERAL, "around, and a self-join": AROUND}


def world_of(view: tuple[dict[str, tuple[str, ...]], str], random: Random, rows: int = 6, domain: int = 3) -> World:
    """Small domains: base tables have duplicates."""
    tables, select = view
    held = {t: [(random.randrange(domain), random.randrange(domain)) for _ in range(rows)] for t in tables}
    return World.of(tables, {"V": select}, held)


def busy(view: tuple[dict[str, tuple[str, ...]], str], seed: int, n: int = 14) -> World:
    random = Random(seed)
    world = world_of(view, random)
    origins = weighted(world.sources, [1.0] * len(world.sources), random)
    return updates(world, n, origins, poisson(0.4, random), seed, Mix(0.5, 3, 3))


def slow(world: World) -> Conditions:
    """Answers take their time, and overtake each other."""
    return Conditions(
        Network(Link(exponential(1.0), fifo=False)),
        Capacity(2, exponential(1.0)),
        until=max(t.at for t in world.transactions) + 120.0,
    )


# The rules


@pytest.mark.parametrize("name", VIEWS)
def test_add_and_delete_are_the_difference_of_two_recomputations(name: str) -> None:
    random = Random(7)
    for _ in range(150):
        world = world_of(VIEWS[name], random, rows=random.randint(0, 6))
        view, past = world.compiled[0], world.initial
        change = {t: _change(bag, random) for t, bag in past.items()}
        database = SourceDatabase("S", past)
        old = database.commit(change, 0.0).tid
        later = {t: _change(bag + change[t], random) for t, bag in past.items()}
        database.commit(later, 1.0)
        tables = {t: Isolated(database, t, frozenset([old])) for t in past}
        over = tuple(range(view.n))
        before = view.core(over, past).bag
        after = view.core(over, {t: past[t] + change[t] for t in past}).bag
        added, deleted = (part.bag for part in own_change(view, over, tables))
        assert after == before - deleted + added
        assert all(0 < count <= before.count(row) for row, count in deleted), "DEL takes out only what is there"
        assert all(0 < count <= after.count(row) for row, count in added), "ADD brings only what stays"


def _change(rows: Bag, random: Random) -> Bag:
    gone = [row for row in rows.rows() if random.random() < 0.3]
    come = [(random.randrange(3), random.randrange(3)) for _ in range(random.randint(0, 3))]
    return Bag.of(come) - Bag.of(gone)


def test_what_came_and_went_in_one_session_did_not_happen() -> None:
    """Not netted, equation 1 would keep it: (R^p ∸ ∇R) ∪ ΔR, where R^p does not have the row to be deleted."""
    table, row = table_name("S.R"), Bag.of([(1, 1)])
    database = SourceDatabase("S", {table: Bag.of([(2, 2)])})
    old = frozenset(database.commit({table: change}, 0.0).tid for change in (row, -row))
    found = Isolated(database, table, old)
    assert (found.added, found.deleted) == (Bag(), Bag())
    assert Bag.summed(found.old(())(())) == Bag.of([(2, 2)])


def test_a_table_in_state_old_however_much_has_happened_since() -> None:
    table = table_name("S.R")
    database = SourceDatabase("S", {table: Bag.of([(1,), (1,), (2,)])})
    database.commit({table: Bag.of([(9,)])}, 0.0)
    database.forget(["S-T1"])
    old = database.commit({table: Bag.of([(3,)]) - Bag.of([(1,)])}, 1.0)
    database.commit({table: Bag.of([(4,)]) - Bag.of([(3,)])}, 2.0)
    found = Isolated(database, table, frozenset([old.tid]))
    states = {
        found.past: Bag.of([(1,), (1,), (2,), (9,)]),
        found.old: Bag.of([(1,), (2,), (3,), (9,)]),
        found.stayed: Bag.of([(1,), (2,), (9,)]),
    }
    for state, rows in states.items():
        assert Bag.summed(state(())(())) == rows
        for key in range(10):
            assert Bag.summed(state((0,))(key)) == rows.select(lambda row, key=key: row[0] == key)  # type: ignore[misc]
    assert (found.added, found.deleted) == (Bag.of([(3,)]), Bag.of([(1,)]))


def test_nothing_is_scanned() -> None:
    """A source looks up keys: tables that are joined by equalities are never read as a whole."""
    for view in VIEWS.values():
        world = busy(view, 3)
        simulation = Simulation(world, tid_rules(3.0)(world.setting()), slow(world), 3)
        for server in simulation.servers.values():
            server.database = _Indexed(server.database)  # type: ignore[assignment]
        assert simulation.run().final()["V"] == recomputed(world, simulation.history)


class _Indexed:
    """A database without scans."""

    def __init__(self, inner: SourceDatabase) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def rows(self, table: Any) -> Bag:
        raise AssertionError(f"{table} is read as a whole")

    def find(self, table: Any, positions: tuple[int, ...], wanted: Any = None) -> Any:
        assert positions, f"{table} is read as a whole"
        return self._inner.find(table, positions)


# Who is asked


def test_tables_of_one_source_are_joined_there_in_one_question() -> None:
    """Five tables, three sources: the source of the change, and one question to each other source."""
    setting = world_of(SEVERAL, Random(0)).setting()
    assert [(t.source, t.over) for t in terms(setting)] == [("S1", (0, 1)), ("S2", (2,)), ("S3", (3, 4))]
    for term in terms(setting):
        assert sorted([term.source, *(source for source, _ in term.steps)]) == ["S1", "S2", "S3"]


def test_a_source_is_asked_again_if_its_tables_are_joined_through_another() -> None:
    setting = world_of(AROUND, Random(0)).setting()
    first = terms(setting)[0]
    assert (first.source, first.over) == ("S1", (0,))
    assert [source for source, _ in first.steps] == ["S2", "S1"]


# Sessions


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("session", [0.0, 5.0])
def test_strong_on_generated_histories(name: str, session: float) -> None:
    for seed in range(12):
        world = busy(VIEWS[name], seed)
        history = simulate(world, tid_rules(session), slow(world), seed)
        assert history.final()["V"] == recomputed(world, history)
        verdict = check(history)
        assert Consistency.STRONG in verdict.holds, f"seed {seed}: {verdict}"
        covered = [label for state in history.states for label in state.covers]
        assert len(covered) == len(set(covered)) == len(world.transactions)


def test_a_session_brings_in_several_transactions_as_one_state() -> None:
    world = busy(SEVERAL, 1)
    history = simulate(world, tid_rules(20.0), slow(world), 1)
    assert len(history.states) < len(world.transactions) / 2


def test_notifications_are_not_used() -> None:
    world = busy(SEVERAL, 2)
    histories = [
        simulate(world, by_post(tid_rules(5.0)), conditions(world, loss, misordered), 2)
        for loss, misordered in ((0.0, 0.0), (1.0, 0.0), (0.0, 0.5))
    ]
    assert all("update" not in history.kinds() for history in histories)
    assert all(history.states == histories[0].states for history in histories)
    assert histories[0].final()["V"] == recomputed(world, histories[0])


def test_handled_transactions_leave_the_delta_tables() -> None:
    world = busy(SEVERAL, 3)
    simulation = Simulation(world, tid_rules(5.0)(world.setting()), slow(world), 3)
    simulation.run()
    assert all(not server.database.delta() for server in simulation.servers.values())


def test_sweep_counts_a_transaction_over_two_tables_of_a_source_twice() -> None:
    """What the TID rules are for: ΔR1 ⋈ ΔR2. With fictitious sources it is right in the end, and torn before."""
    tables = {"S1.R1": ("A",), "S1.R2": ("A",), "S2.R3": ("A",)}
    select = "SELECT R1.A FROM S1.R1 JOIN S1.R2 ON R1.A = R2.A JOIN S2.R3 ON R2.A = R3.A"
    world = World.of(tables, {"V": select}, {"S1.R2": [(1,)], "S2.R3": [(1,)]})
    both = {table_name("S1.R1"): Bag.of([(1,)]), table_name("S1.R2"): Bag.of([(1,)])}
    world = world.having([PlannedUpdate(0.0, "S1", both)])
    brief = Conditions(until=60.0)
    assert simulate(world, sweep, brief).final()["V"] == Bag({(1,): 3})
    torn = simulate(world, split, brief)
    assert torn.final()["V"] == Bag({(1,): 2})
    assert check(torn).level is Consistency.CONVERGENCE
    assert simulate(world, tid_rules(0.0), brief).final()["V"] == Bag({(1,): 2})


# Recovery


class _Restart(NamedTuple):
    pass


class Failing:
    """A warehouse that fails once, when it has installed results or while it evaluates, and comes back later with
    what it had kept, or without it."""

    def __init__(self, setting: StrategySetting, at: type[Commit] | type[Join], remembers: bool) -> None:
        self._make = lambda kept: TidRules(setting, 5.0, kept)
        self._inner: TidRules | None = self._make(None)
        self._at = at
        self._kept: Any = None
        self._remembers = remembers
        self.failed = False

    def start(self) -> Effects:
        assert self._inner is not None
        return self._inner.start()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if isinstance(body, _Restart):
            self._inner = self._make(self._kept if self._remembers else None)
            return self._inner.start()
        if self._inner is None:
            return []
        done: list[Effect] = []
        for effect in self._inner.receive(sender, body, now):
            if not self.failed and isinstance(effect.question if isinstance(effect, Ask) else effect, self._at):
                self.failed = True
                kept = self._inner.kept
                assert kept is not None
                # a copy, as a table of the warehouse would be
                self._kept, self._inner = replace(kept, old=dict(kept.old)), None
                return [*done, *([effect] if isinstance(effect, Commit) else []), Wake(40.0, _Restart())]
            done.append(effect)
        return done


@pytest.mark.parametrize("at", [Commit, Join])
def test_a_session_that_failed_is_ended_without_double_effect(at: type[Commit] | type[Join]) -> None:
    for seed in range(6):
        world = busy(SEVERAL, seed)
        process = Failing(world.setting(), at, remembers=True)
        strategy = Strategy({WAREHOUSE: process}, lambda source: ())
        history = Simulation(world, strategy, slow(world), seed).run()
        assert process.failed
        assert history.final()["V"] == recomputed(world, history)
        assert Consistency.STRONG in check(history).holds


def test_without_what_was_kept_a_session_counts_twice() -> None:
    """That the test above can fail: step 4 was not done, and nobody knows that step 3 was."""
    wrong = 0
    for seed in range(6):
        world = busy(SEVERAL, seed)
        strategy = Strategy({WAREHOUSE: Failing(world.setting(), Commit, remembers=False)}, lambda source: ())
        history = Simulation(world, strategy, slow(world), seed).run()
        wrong += history.final()["V"] != recomputed(world, history)
    assert wrong
