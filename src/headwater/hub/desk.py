"""Where calls and agents meet: who needs a source leaves a call, its agent takes it and brings the answer.

    caller ── call ──▶ desk ◀── "is there work?" ── agent
    caller ◀─ pieces ─ desk ◀──────── pieces ────── agent

A call that an agent has taken is its own as long as it says so: an agent names the calls it works on with every sign
of life. One that it does not name is given up, and the caller calls again; every operation can be repeated.

Everything here happens in one event loop; nothing is kept when the hub ends.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from headwater.chain.neighbours import Reach
from headwater.hub.enrolment import Connected
from headwater.model.errors import SourceUnavailable

HELD = 16
"""Pieces of an answer that wait for a slow caller; the agent waits then."""
PATIENCE = 15.0
"""So long after its last sign of life an agent counts as present, and a call as worked on."""
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
    """When it was taken or last named; 0: nobody has taken it."""
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
        if agent.instance not in ("", instance) and self.here(name):
            raise Connected(
                f"an agent called {name} is connected already",
                "stop one of the two, or enrol this one under a name of its own",
            )

    def begins(self, name: str, instance: str, reach: Reach = NOWHERE) -> None:
        """An agent has started."""
        agent = self.agent(name)
        agent.instance, agent.reach = instance, reach
        self._seen(agent)

    def knows(self, name: str, instance: str) -> bool:
        """Whether it has said that it began; a hub that was opened since then has not heard of it."""
        return self.agent(name).instance == instance

    def sign_of_life(self, name: str, working_on: list[int]) -> None:
        agent = self.agent(name)
        self._seen(agent)
        for number in working_on:
            if number in agent.taken:
                agent.taken[number].alive_at = self._now()

    def leaves(self, name: str) -> None:
        """It says good-bye: nobody has to wait until it counts as gone."""
        agent = self.agent(name)
        agent.instance, agent.seen_at, agent.reach = "", 0.0, NOWHERE
        agent.arrived.clear()

    async def work(self, name: str, seconds: float) -> Task | None:
        """The next call for this agent; None if there is none for so long."""
        agent = self.agent(name)
        self._seen(agent)
        try:
            task = await asyncio.wait_for(agent.waiting.get(), seconds)
        except TimeoutError:
            return None
        finally:
            self._seen(agent)
        while task.abandoned:
            if agent.waiting.empty():
                return None
            task = agent.waiting.get_nowait()
        task.alive_at = self._now()
        agent.taken[task.number] = task
        return task

    def give_back(self, name: str, task: Task) -> None:
        """Whom it was given to has gone before it could have it."""
        agent = self.agent(name)
        agent.taken.pop(task.number, None)
        task.alive_at = 0.0
        agent.waiting.put_nowait(task)

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
