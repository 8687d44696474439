"""Virtual time itself: channels, servers, disconnection, and that a seed decides everything."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import pytest

from headwater.algebra.bag import Bag
from headwater.lab.histories.history import History
from headwater.lab.simulation.network import Link, Network, constant, exponential, on_and_off, uniform
from headwater.lab.simulation.simulator import Capacity, Conditions, Simulation, simulate
from headwater.lab.worlds.source import SourceDatabase
from headwater.lab.worlds.workload import Mix, chain, every, in_turn, poisson, updates, weighted
from headwater.lab.worlds.world import PlannedUpdate, World, table_name
from headwater.maintenance.strategies.contract import WAREHOUSE, Effects, Node, Send, Strategy, Wake, Work
from headwater.maintenance.strategies.pvm import pvm
from headwater.maintenance.strategies.sweep import sweep
from headwater.maintenance.strategies.waves import wave
from headwater.model.errors import HeadwaterError

EMPTY = World.of({"S.R": ("A",)}, {"V": "SELECT R.A FROM S.R"}, {})


class Parcel(NamedTuple):
    number: int
    weight: int = 1


@dataclass
class Sender:
    """Sends so many parcels at once."""

    parcels: int

    def start(self) -> Effects:
        return [Send("to", Parcel(n)) for n in range(self.parcels)]

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        return ()


class Receiver:
    def __init__(self) -> None:
        self.got: list[tuple[float, int]] = []

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        self.got.append((now, body.number))
        return ()


def sent(parcels: int, network: Network, seed: int = 0) -> tuple[Receiver, History]:
    receiver = Receiver()
    strategy = Strategy({"from": Sender(parcels), "to": receiver})
    return receiver, Simulation(EMPTY, strategy, Conditions(network), seed).run()


def test_fifo_channels_keep_order_and_others_do_not() -> None:
    ordered, _ = sent(50, Network(Link(uniform(0, 1))))
    assert [n for _, n in ordered.got] == list(range(50))
    loose, _ = sent(50, Network(Link(uniform(0, 1), fifo=False)))
    assert [n for _, n in loose.got] != list(range(50))
    assert sorted(n for _, n in loose.got) == list(range(50))


def test_loss_and_retransmission() -> None:
    lost, history = sent(1_000, Network(Link(loss=0.2)))
    assert 700 < len(lost.got) < 900
    assert sum(m.arrived is None for m in history.messages) == 1_000 - len(lost.got)
    again, history = sent(1_000, Network(Link(loss=0.2, retransmit=0.5)))
    assert sorted(n for _, n in again.got) == list(range(1_000))
    assert len(history.messages) > 1_200  # every try is a message
    assert {round(at / 0.5, 6) % 1 for at, _ in again.got} == {0}


def test_a_lost_message_holds_up_a_fifo_channel() -> None:
    got, _ = sent(200, Network(Link(loss=0.3, retransmit=0.5)))
    assert [n for _, n in got.got] == list(range(200))


def test_what_a_message_weighs_takes_time() -> None:
    got, history = sent(1, Network(Link(constant(1.0), per_value=0.25)))
    assert got.got == [(1.25, 0)]
    assert history.bytes == 16 + 8


def test_a_node_that_is_off_neither_sends_nor_receives() -> None:
    off = Network(Link(constant(1.0), retransmit=1.0), off={"to": [(0.5, 3.5)]})
    got, history = sent(1, off)
    assert got.got == [(4.0, 0)]
    assert [m.arrived for m in history.messages] == [None, None, None, 4.0]
    silent, _ = sent(1, Network(Link(constant(1.0)), off={"from": [(0.0, 9.0)]}))
    assert silent.got == []


def test_on_and_off_takes_the_fraction_of_time_it_says() -> None:
    off = on_and_off(Random(1), asleep=0.3, mean=10.0, until=100_000.0)
    assert sum(b - a for a, b in off) / 100_000 == pytest.approx(0.3, rel=0.05)
    assert all(a < b for a, b in off)
    assert all(b <= c for (_, b), (c, _) in pairwise(off))
    assert on_and_off(Random(1), 0.0, 10.0, 100.0) == []


@pytest.mark.parametrize(("q", "ends"), [(1, 6.0), (2, 4.0), (3, 2.0)])
def test_a_source_works_on_q_questions_at_a_time(q: int, ends: float) -> None:
    world = chain(2, 5, 5)
    world = world.having(PlannedUpdate(0.0, "IS1", {table_name("IS1.R1"): Bag({(n, 100 + n): 1})}) for n in range(3))
    history = simulate(world, pvm(3), Conditions(capacity=Capacity(q, constant(2.0))))
    assert history.finished == ends
    busy = sorted((s.start, s.end) for s in history.services)
    assert [b - a for a, b in busy] == [2.0] * 3


class Worker:
    """Works, then sends."""

    def start(self) -> Effects:
        return [Work(2), Send("to", Parcel(0)), Wake(0.0, "more")]

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        return [Send("to", Parcel(1)), Work(1), Send("to", Parcel(2))]


def test_local_work_delays_what_follows_on_that_node() -> None:
    receiver = Receiver()
    strategy = Strategy({"from": Worker(), "to": receiver})
    history = Simulation(EMPTY, strategy, Conditions(local=0.5)).run()
    assert receiver.got == [(1.0, 0), (1.0, 1), (1.5, 2)]
    assert history.local_joins == 3


def test_the_same_seed_gives_the_same_history() -> None:
    world = updates(chain(3, 10, 6, 5), 40, in_turn(["IS1", "IS2", "IS3"]), every(0.7), 5, Mix(domain=6))
    conditions = Conditions(Network(Link(uniform(0, 2), fifo=False, loss=0.1, retransmit=1.0)))
    for factory in (sweep, wave()):
        one, two = (simulate(world, factory, conditions, seed=3) for _ in range(2))
        assert (one.messages, one.states, one.events) == (two.messages, two.states, two.events)
        other = simulate(world, factory, conditions, seed=4)
        assert other.messages != one.messages


def test_update_processes() -> None:
    turns = in_turn(["a", "b"], c=3)
    assert [next(turns) for _ in range(8)] == list("aaabbbaa")
    random = Random(0)
    drawn = weighted(["a", "b"], [3, 1], random)
    assert sum(next(drawn) == "a" for _ in range(4_000)) == pytest.approx(3_000, rel=0.05)
    times = poisson(2.0, random)
    assert [next(times) for _ in range(4_000)][-1] == pytest.approx(2_000, rel=0.1)


def test_generated_transactions_are_possible() -> None:
    world = updates(chain(2, 4, 3), 200, in_turn(["IS1", "IS2"]), every(1.0), 9, Mix(0.6, 2, 3))
    for source in world.sources:
        database = SourceDatabase(source, {t: b for t, b in world.initial.items() if t.source == source})
        for planned in world.transactions:
            if planned.source == source:
                database.commit(planned.changes, planned.at)  # raises if it deletes what is not there


def test_a_source_knows_its_past() -> None:
    r = table_name("S.R")
    database = SourceDatabase("S", {r: Bag.of([(1, 2), (3, 2)])})
    before = sorted(database.find(r, (1,))(2))
    database.commit({r: Bag({(1, 2): -1, (4, 2): 1})}, 1.0)
    database.commit({r: Bag({(4, 2): 1})}, 2.0)
    assert sorted(database.as_of(r, (1,), 0)(2)) == before == [((1, 2), 1), ((3, 2), 1)]
    assert sorted(database.as_of(r, (1,), 1)(2)) == [((3, 2), 1), ((4, 2), 1)]
    assert sorted(database.find(r, (1,))(2)) == [((3, 2), 1), ((4, 2), 2)]
    assert sorted(database.as_of(r, (), 0)(())) == before
    assert [u.label.number for u in database.log(1)] == [2]
    with pytest.raises(HeadwaterError, match="does not have it"):
        database.commit({r: Bag({(9, 9): -1})}, 3.0)


def test_exponential_service_times_have_their_mean() -> None:
    delay, random = exponential(3.0), Random(1)
    assert sum(delay(random) for _ in range(20_000)) / 20_000 == pytest.approx(3.0, rel=0.05)


def test_a_run_stops_where_it_is_told_to() -> None:
    world = updates(chain(2), 50, in_turn(["IS1", "IS2"]), every(1.0))
    history = simulate(world, sweep, Conditions(until=10.0))
    assert history.end <= 10.0
    assert len(history.transactions) == 11
    assert simulate(world, sweep, Conditions(most_events=7)).events == 7


def test_notices_may_come_after_commits() -> None:
    world = updates(chain(2), 1, in_turn(["IS1", "IS2"]), every(1.0))
    history = simulate(world, sweep, Conditions(capacity=Capacity(notice=5.0)))
    assert history.messages[0].sent == 5.0
    assert WAREHOUSE in {m.receiver for m in history.messages}
