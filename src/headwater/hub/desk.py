"""Where calls and agents meet: who needs a source leaves a call, its agent takes it and brings the answer.

    caller ── call ──▶ desk ◀── "is there work?" ── agent
    caller ◀─ pieces ─ desk ◀──────── pieces ────── agent

A call that an agent has taken is its own as long as it says so: an agent names the calls it works on with every sign
of life. One that it does not name is given up, and the caller calls again; every operation can be repeated. An agent
that begins anew works on nothing, and one of its workers that asks for work has none: what they had taken is lost, or
its answer is, and it is handed out again.

Invariant: an agent is here because of what it said, never because of what it was told: the end of a long poll shows
nothing, for whoever asked may have been killed meanwhile.

Everything here happens in one event loop; nothing is kept when the hub ends.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from headwater.chain.neighbours import Reach
from headwater.hub.enrolment import Connected
from headwater.model.errors import SourceUnavailable

log = logging.getLogger(__name__)

HELD = 16
"""Pieces of an answer that wait for a slow caller; the agent waits then."""
PATIENCE = 15.0
"""So long after its last sign of life an agent counts as present, and a call as worked on."""
GONE = 3.0
"""So long after it was last heard an agent without an open request may be followed by another of its name: the lines of
one that was killed are closed, those of one that lives are not, or only for a moment."""
LOSSES = 3
"""A call that is lost so often is not handed out again: it may be what kills its agent."""
GRACE = 10.0
"""So long a hub that has just opened waits for agents to come back."""
_ROUND = 1.0
NOWHERE = Reach()


@dataclass(eq=False)
class Task:
    """A call on its way. `pieces` ends with None, whether the answer was whole or was cut off: it says so itself."""

    number: int
    body: bytes
    pieces: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(HELD))
    alive_at: float = 0.0
    """When it was taken or last named; 0: nobody has it."""
    worker: int = -1
    """Of its agent's, who has taken it."""
    losses: int = 0
    abandoned: bool = False
    """Whoever called does not wait any longer."""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """An answer has begun to arrive, or never will."""

    async def bring(self, piece: bytes | None) -> None:
        self.begun.set()
        if not self.abandoned:
            await self.pieces.put(piece)


@dataclass(eq=False)
class Present:
    """An agent as it is known here."""

    instance: str = ""
    reach: Reach = NOWHERE
    seen_at: float = 0.0
    open: int = 0
    """How many of its requests wait here."""
    waiting: asyncio.Queue[Task] = field(default_factory=asyncio.Queue)
    taken: dict[int, Task] = field(default_factory=dict)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)


class Desk:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._opened = now()
        self._agents: dict[str, Present] = {}
        self._numbers = itertools.count(1)

    def agent(self, name: str) -> Present:
        return self._agents.setdefault(name, Present())

    def here(self, name: str) -> bool:
        return self._now() - self.agent(name).seen_at < PATIENCE and bool(self.agent(name).instance)

    def reach(self, name: str) -> Reach:
        """Where its neighbours in chains reach it."""
        return self.agent(name).reach

    # ── agents ───────────────────────────────────────────────────────────────────────────────────────────────────

    def refuse_twin(self, name: str, instance: str) -> None:
        """There is one agent of each name."""
        agent = self.agent(name)
        lives = self.here(name) and (agent.open > 0 or self._now() - agent.seen_at < GONE)
        if agent.instance not in ("", instance) and lives:
            raise Connected(
                f"an agent called {name} is connected already",
                "stop one of the two, or enrol this one under a name of its own",
            )

    def begins(self, name: str, instance: str, reach: Reach = NOWHERE) -> bool:
        """An agent has started; whether anew, so that it knows nothing of what was under way."""
        agent = self.agent(name)
        anew = agent.instance != instance
        agent.instance, agent.reach = instance, reach
        if anew:
            self._lost(name, list(agent.taken.values()))
        self._seen(agent)
        return anew

    def knows(self, name: str, instance: str) -> bool:
        """Whether it has said that it began; a hub that was opened since then has not heard of it."""
        return self.agent(name).instance == instance

    def sign_of_life(self, name: str, working_on: list[int]) -> None:
        agent = self.agent(name)
        self._seen(agent)
        for number in working_on:
            if number in agent.taken:
                agent.taken[number].alive_at = self._now()

    @contextmanager
    def waits(self, name: str) -> Iterator[None]:
        """As long as a request of this agent is open."""
        agent = self.agent(name)
        self._seen(agent)
        agent.open += 1
        try:
            yield
        finally:
            agent.open -= 1

    def leaves(self, name: str) -> None:
        """It says good-bye: nobody has to wait until it counts as gone."""
        agent = self.agent(name)
        agent.instance, agent.seen_at, agent.reach = "", 0.0, NOWHERE
        agent.arrived.clear()

    async def work(self, name: str, seconds: float, worker: int = -1) -> Task | None:
        """The next call for this agent; None if there is none for so long. Each of its workers (-1: who does not say
        which it is) has one call at a time."""
        agent = self.agent(name)
        self._lost(name, [task for task in agent.taken.values() if task.worker == worker >= 0])
        try:
            task = await asyncio.wait_for(agent.waiting.get(), seconds)
        except TimeoutError:
            return None
        while task.abandoned or task.begun.is_set():
            if agent.waiting.empty():
                return None
            task = agent.waiting.get_nowait()
        task.alive_at, task.worker = self._now(), worker
        agent.taken[task.number] = task
        return task

    def give_back(self, name: str, task: Task) -> None:
        """Whom it was given to has gone before it could have it."""
        agent = self.agent(name)
        agent.taken.pop(task.number, None)
        task.alive_at = 0.0
        agent.waiting.put_nowait(task)

    def _lost(self, name: str, tasks: list[Task]) -> None:
        """Calls that nobody works on."""
        for task in tasks:
            if task.begun.is_set():
                continue
            task.losses += 1
            if task.losses < LOSSES:
                log.info("agent %s does not work on call %d: it is handed out again", name, task.number)
                self.give_back(name, task)

    def answers(self, name: str, number: int) -> Task | None:
        """The call that an answer begins to arrive for; None if nobody waits for it any longer."""
        agent = self.agent(name)
        self._seen(agent)
        task = agent.taken.get(number)
        if task is None or task.abandoned or task.begun.is_set():
            return None
        task.begun.set()
        return task

    def done(self, name: str, number: int) -> None:
        self.agent(name).taken.pop(number, None)

    def _seen(self, agent: Present) -> None:
        agent.seen_at = self._now()
        if agent.instance:
            agent.arrived.set()

    # ── callers ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def call(self, name: str, body: bytes) -> Task:
        """Leave a call; returns when its answer begins to arrive."""
        agent = self.agent(name)
        if not self.here(name):
            agent.arrived.clear()
            left = self._opened + GRACE - self._now()
            try:
                await asyncio.wait_for(agent.arrived.wait(), max(left, 0.01))
            except TimeoutError:
                raise away(name) from None
        task = Task(next(self._numbers), body)
        agent.waiting.put_nowait(task)
        begun = self._now()
        try:
            while not task.begun.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(task.begun.wait(), _ROUND)
                if self._now() - max(task.alive_at, begun) > PATIENCE and not task.begun.is_set():
                    raise away(name)
        except BaseException:
            self.abandon(name, task)
            raise
        return task

    async def pieces(self, name: str, task: Task) -> AsyncIterator[bytes]:
        """The answer, as it arrives; it ends where it is cut off."""
        try:
            while True:
                try:
                    piece = await asyncio.wait_for(task.pieces.get(), _ROUND)
                except TimeoutError:
                    if self._now() - task.alive_at > PATIENCE and not self.here(name):
                        return
                    continue
                if piece is None:
                    return
                yield piece
        finally:
            self.abandon(name, task)

    def abandon(self, name: str, task: Task) -> None:
        task.abandoned = True
        self.agent(name).taken.pop(task.number, None)
        while not task.pieces.empty():  # an agent may wait for room
            task.pieces.get_nowait()


def away(name: str) -> SourceUnavailable:
    return SourceUnavailable(f"agent {name} is away", "what needs it goes on when it is back")
