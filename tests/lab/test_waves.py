"""The wave as a strategy: complete, whatever the network does."""

from __future__ import annotations

from random import Random

import pytest

from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.histories.history import History
from headwater.lab.simulation.network import Link, Network, exponential, on_and_off, uniform
from headwater.lab.simulation.simulator import Capacity, Conditions, simulate
from headwater.lab.worlds.workload import Mix, chain, every, in_turn, poisson, updates, weighted
from headwater.lab.worlds.world import World
from headwater.maintenance.strategies.contract import WAREHOUSE
from headwater.maintenance.strategies.waves import wave


def complete(history: History) -> None:
    verdict = check(history)
    assert verdict.level is Consistency.COMPLETE, str(verdict)


UNORDERED = Network(Link(uniform(0.0, 4.0), fifo=False))
LOSSY = Network(Link(uniform(0.0, 1.0), fifo=False, loss=0.2, retransmit=0.5))


@pytest.mark.parametrize("network", [UNORDERED, LOSSY], ids=["unordered", "lossy"])
@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_complete_without_order(network: Network, p: int, seed: int) -> None:
    random = Random(seed)
    world = chain(2 + seed % 3, 8, 5, seed)
    world = updates(world, 25, weighted(world.sources, [3, 1, 2, 2][: len(world.sources)], random),
                    poisson(0.8, random), seed, Mix(0.45, 1 + seed % 2, 5))  # fmt: skip
    complete(simulate(world, wave(p=p), Conditions(network, Capacity(2, exponential(1.0))), seed))


@pytest.mark.parametrize("seed", range(4))
def test_several_tables_per_source_self_joins_and_conditions(seed: int) -> None:
    world = World.of(
        {"S.R": ("A", "B"), "S.T": ("B", "C"), "U.W": ("C", "D")},
        {
            "V": "SELECT r.A, q.A AS A2, t.C, w.D FROM S.R r JOIN S.T t ON r.B = t.B JOIN U.W w ON t.C = w.C "
            "JOIN S.R q ON q.B = w.D WHERE w.D < 4 AND r.A + t.C <> 3"
        },
        {"S.R": [(1, 2), (1, 2), (2, 3)], "S.T": [(2, 1), (3, 1), (3, 2)], "U.W": [(1, 2), (2, 3)]},
    )
    world = updates(world, 25, in_turn(world.sources), every(0.5), seed, Mix(0.5, 3, 5))
    complete(simulate(world, wave(), Conditions(UNORDERED), seed))


def test_words_and_nulls() -> None:
    world = World.of(
        {"S.R": ("A", "B"), "U.T": ("B", "C")},
        {"V": "SELECT R.A, T.C FROM S.R JOIN U.T ON R.B = T.B"},
        {"S.R": [("x", "k"), ("y", None)], "U.T": [("k", 1), (None, 2)]},
    )

    def row(random: Random, table: object) -> tuple[object, ...]:
        key = random.choice(["k", "l", None])
        return (random.choice("xyz"), key) if str(table) == "S.R" else (key, random.randrange(3))

    world = updates(world, 20, in_turn(world.sources), every(0.5), 1, Mix(0.4), row)
    complete(simulate(world, wave(), Conditions(UNORDERED), 1))


def test_lost_notifications_do_not_matter_if_it_polls() -> None:
    world = updates(chain(3, 8, 5, 2), 25, in_turn(["IS1", "IS2", "IS3"]), every(1.0), 2, Mix(domain=5))
    deaf = {(s, WAREHOUSE): Link(loss=0.3, retransmit=0.1) for s in world.sources}
    complete(simulate(world, wave(every=3.0), Conditions(Network(links=deaf), until=120.0), 2))


def test_a_source_that_is_away_for_a_while() -> None:
    world = updates(chain(3, 8, 5, 3), 30, in_turn(["IS1", "IS2", "IS3"]), every(1.0), 3, Mix(domain=5))
    off = {s: on_and_off(Random(n), 0.3, 5.0, 60.0) for n, s in enumerate(world.sources)}
    complete(simulate(world, wave(), Conditions(Network(Link(retransmit=0.5), off=off)), 3))


def test_the_number_of_questions_does_not_depend_on_the_size_of_the_batch() -> None:
    for n in (4, 40, 400):
        world = updates(chain(4, 20, 20), n, in_turn([f"IS{i}" for i in range(1, 5)]), every(0.0), 0, Mix(domain=20))
        history = simulate(world, wave(), Conditions(Network(Link(lambda _: 0.5))))
        complete(history)
        assert history.questions <= 2 * (4 + 6)  # two batches: what came first, and the rest
