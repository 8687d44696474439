"""A strategy on one batch of updates, all of which have happened: the loop that delivers, asks and gathers commits.

    deliver     every update, in the order of its number, before any question is answered
    ask         as many questions at a time as there are lanes, each lane in a thread of its own
    answer      goes to the strategy as soon as it is there, one at a time: processes know nothing of threads
    wake        when there is nothing else to do, and updates are left that no commit covers
    the end     when every update, or every one that this strategy handles, is covered and nothing is under way

Invariant: sources answer in the state after the batch's last update, so an answer contains exactly the updates that
were delivered before it. That is assumption 1 of SWEEP and PVM (channels keep their order), by construction.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, NamedTuple

from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Answer,
    Ask,
    Commit,
    Effects,
    Label,
    Node,
    Strategy,
    Update,
    Wake,
)

AnswerAsk = Callable[[Ask, int], Any]
"""The answer's value; the number is that of the lane, which nobody else uses meanwhile."""


class Returned(NamedTuple):
    """A question that was answered, or failed."""

    ask: Ask
    lane: int
    value: Any
    error: BaseException | None


class Timed(NamedTuple):
    """A commit, and when the strategy made it: nanoseconds since 1970."""

    at: int
    commit: Commit


def commits_of(strategy: Strategy, updates: Sequence[Update], answer: AnswerAsk, lanes: int = 1) -> list[Commit]:
    """What the strategy commits for these updates, in its order. The first error of a question ends it, once those
    beside it have returned."""
    return [timed.commit for timed in timed_commits(strategy, updates, answer, lanes, len(updates))]


def timed_commits(
    strategy: Strategy, updates: Sequence[Update], answer: AnswerAsk, lanes: int, awaited: int
) -> list[Timed]:
    """The same with times, of a strategy that handles only so many of the updates."""
    with Threaded(lanes) as threads:
        return _Loop(strategy, answer, threads, lanes).run(updates, awaited)


class Threaded:
    """Lanes as threads: what is begun returns when it is done, in any order."""

    def __init__(self, lanes: int) -> None:
        self._pool = ThreadPoolExecutor(lanes, "lane")
        self._returned: SimpleQueue[Returned] = SimpleQueue()

    def __enter__(self) -> Threaded:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def begin(self, work: Callable[[], Returned]) -> None:
        self._pool.submit(lambda: self._returned.put(work()))

    def returned(self) -> Returned:
        """The next that is done; waits for it."""
        return self._returned.get()


class _Loop:
    def __init__(self, strategy: Strategy, answer: AnswerAsk, threads: Threaded, lanes: int) -> None:
        (self._node,) = strategy.processes  # agents beside the sources are told of commits at once, and are not here
        assert self._node == WAREHOUSE
        self._strategy, self._process = strategy, strategy.processes[self._node]
        self._answer, self._threads, self._free = answer, threads, list(range(lanes))
        self._waiting: deque[Ask] = deque()
        self._under_way = 0
        self._wakes: list[Wake] = []
        self._covered: set[Label] = set()
        self._commits: list[Timed] = []

    def run(self, updates: Sequence[Update], awaited: int) -> list[Timed]:
        self._do(self._process.start())
        for now, update in enumerate(updates):
            if self._node in self._strategy.notified(update.source):
                self._receive(update.source, update, now)
        while True:
            while self._waiting and self._free:
                self._start(self._waiting.popleft())
            if self._under_way:
                self._deliver(self._threads.returned(), len(updates))
            elif len(self._covered) < awaited:
                assert self._wakes, "it rests, and some updates are not handled"
                self._receive(self._node, self._wakes.pop(0).body, len(updates))
            else:
                return self._commits

    def _start(self, ask: Ask) -> None:
        lane = self._free.pop()
        self._under_way += 1

        def work() -> Returned:
            try:
                return Returned(ask, lane, self._answer(ask, lane), None)
            except BaseException as error:  # raised where the answer is waited for
                return Returned(ask, lane, None, error)

        self._threads.begin(work)

    def _deliver(self, returned: Returned, now: int) -> None:
        self._under_way -= 1
        self._free.append(returned.lane)
        if returned.error is not None:
            raise returned.error
        ask = returned.ask
        self._receive(ask.source, Answer(ask.source, ask.ticket, returned.value, ask.about), now)

    def _receive(self, sender: Node, body: Any, now: float) -> None:
        self._do(self._process.receive(sender, body, now))

    def _do(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Ask):
                self._waiting.append(effect)
            elif isinstance(effect, Wake):
                self._wakes.append(effect)
            elif isinstance(effect, Commit):
                self._commits.append(Timed(time.time_ns(), effect))
                self._covered.update(effect.covers)
