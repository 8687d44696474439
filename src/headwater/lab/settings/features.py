"""What an algorithm is like: consistency, messages, quiescence, keys, concurrency; the columns of PVM's table 4.

Histories are generated for the first, made for the others: updates that interfere, updates that never pause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from random import Random

from headwater.lab.checker.levels import Consistency, strongest
from headwater.lab.checker.verdict import check
from headwater.lab.histories.history import History
from headwater.lab.settings.table4 import (
    DISTANT,
    EVEN,
    Table4Algorithm,
    interfering,
)
from headwater.lab.simulation.network import Link, Network, exponential
from headwater.lab.simulation.simulator import Capacity, Conditions, simulate
from headwater.lab.worlds.keyed import keyed_chain, keyed_updates
from headwater.lab.worlds.workload import Mix, chain, every, in_turn, poisson, weighted
from headwater.maintenance.strategies.contract import Label
from headwater.model.errors import HeadwaterError

M = 3
HISTORIES, UPDATES = 40, 12
SOURCES = range(2, 7)
STEADY, INTERVAL = 80, 0.5
"""Updates that never pause: the next comes long before the questions about one are answered."""
RANDOM = Conditions(network=Network(Link(exponential(1.0))), capacity=Capacity(1, exponential(0.5)))


@dataclass(frozen=True)
class FeatureRun:
    """`asked` is questions per update, by the number of sources, where updates interfere. `steady` are states
    before the last of inserts that do not pause, at all sources in turn; `steady_at_one` if all are at one source,
    `steady_mixed` if a fifth are deletes. `keys`: it refuses a view that does not show them."""

    level: Consistency
    complete: int
    messages: float
    local_joins: float
    changes_at_once: int
    questions_at_once: int
    asked: tuple[float, ...]
    steady: int
    steady_at_one: int
    steady_mixed: int
    keys: bool

    @property
    def linear(self) -> bool:
        """Are the questions per update at most proportional to the n − 1 other sources?"""
        per_source = [x / (n - 1) for x, n in zip(self.asked, SOURCES, strict=True)]
        return per_source[-1] <= 1.1 * max(per_source[:2])

    @property
    def factorial(self) -> bool:
        """Does each source multiply the questions by more than the one before did?"""
        ratios = [b / a for a, b in pairwise(self.asked[1:])]
        return not self.linear and all(b > a for a, b in pairwise(ratios))


def measure(algorithm: Table4Algorithm, seed: int) -> FeatureRun:
    holds = frozenset(Consistency)
    complete = messages = joins = changes = questions = 0
    for n in range(HISTORIES):
        random = Random(seed + n)
        world = keyed_chain(M, rows=4, domain=2, seed=seed + n, sources=algorithm.sources)
        origins = weighted(world.sources, [1.0] * len(world.sources), random)
        world = keyed_updates(world, UPDATES, origins, poisson(1.0, random), seed + n, Mix(domain=2))
        history = simulate(world, algorithm.make(world), RANDOM, seed + n)
        verdict = check(history)
        holds &= verdict.holds
        complete += verdict.level is Consistency.COMPLETE
        messages += len(history.messages)
        joins += history.local_joins
        changes = max(changes, view_changes_at_once(history))
        questions = max(questions, questions_at_once(history))
    updates = HISTORIES * UPDATES
    asked = []
    for m in SOURCES:
        world = interfering(m, sources=algorithm.sources)
        asked.append(simulate(world, algorithm.make(world), DISTANT, seed).questions / m)
    return FeatureRun(
        level=strongest(holds),
        complete=complete,
        messages=messages / updates,
        local_joins=joins / updates,
        changes_at_once=changes,
        questions_at_once=questions,
        asked=tuple(asked),
        steady=_steady(algorithm, M, 0.0, seed),
        steady_at_one=_steady(algorithm, 1, 0.0, seed),
        steady_mixed=_steady(algorithm, M, 0.2, seed),
        keys=_needs_keys(algorithm),
    )


def _steady(algorithm: Table4Algorithm, sources: int, deletes: float, seed: int) -> int:
    """States before the last update, while updates do not pause."""
    world = keyed_chain(M, rows=6, domain=6, seed=seed, sources=algorithm.sources)
    origins = in_turn(world.sources[:sources])
    world = keyed_updates(world, STEADY, origins, every(INTERVAL), seed, Mix(deletes, domain=6))
    return simulate(world, algorithm.make(world), EVEN, seed).states_before_last_commit


def _needs_keys(algorithm: Table4Algorithm) -> bool:
    """On the chain without keys; ECA refuses that for its sources, not for its keys."""
    if algorithm.sources:
        return False
    world = chain(M, rows=4, domain=2)
    try:
        algorithm.make(world)(world.setting())
    except HeadwaterError:
        return True
    return False


def view_changes_at_once(history: History) -> int:
    """The most view changes under way at once, each from its first question to its last answer."""
    spans: dict[tuple[Label, ...], tuple[float, float]] = {}
    for message in history.messages:
        if message.kind in ("question", "answer") and message.arrived is not None:
            start, end = spans.get(message.about, (message.sent, message.arrived))
            spans[message.about] = (min(start, message.sent), max(end, message.arrived))
    return _most(step for start, end in spans.values() for step in ((start, 1), (end, -1)))


def questions_at_once(history: History) -> int:
    """The most questions without an answer."""
    asked = [(m.sent, 1) for m in history.messages if m.kind == "question"]
    return _most([*asked, *((m.arrived, -1) for m in history.messages if m.kind == "answer" and m.arrived is not None)])


def _most(steps: Iterable[tuple[float, int]]) -> int:
    """How high these steps go; at the same time, those down come first."""
    return max(accumulate(step for _, step in sorted(steps)), default=0)
