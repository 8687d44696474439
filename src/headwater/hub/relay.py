"""Letters between the members of chains and their warehouse: the hub is where they can all be reached.

    member ── letter ──▶ relay ──▶ the box of its receiver ◀── "is there a letter?" ── member, warehouse

Members that reach each other do without: the relay introduces neighbours (`chain/neighbours`), and is told afterwards
how many letters went directly.

A box holds what its owner has not fetched, for as long as this hub is open: for a second, or while a laptop sleeps. A
letter that is lost, with a cut line or with the hub, is sent again by whoever wrote it (`acknowledged.Post`). One that
is in its box already is not put there twice.

That a member has begun anew the hub knows first, and says to the warehouses of its chains; one of an epoch that began
afterwards need not hear it.

Everything here happens in one event loop.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from headwater.chain.letter import Letter
from headwater.chain.letters import restarted
from headwater.chain.neighbours import Neighbour, Neighbours, Reach, key_of
from headwater.hub.chain_records import Counted
from headwater.model.errors import HeadwaterError

WAREHOUSE = "warehouse"
MOST_LETTERS, MOST_BYTES = 10_000, 256 * 1024 * 1024
"""No box holds more: the oldest letter goes, and is sent again."""
MOST_WINDOWS = 1000
"""Of no more windows that are under way it is counted what went directly."""


class ChainClosed(HeadwaterError):
    """The hub does not know this epoch of a chain: it was opened anew, or another epoch has begun."""


@dataclass
class OpenChain:
    """`members` are the nodes with the names of their agents; `told` is what each is told of the epoch, unread here.
    `counted` are the letters of each kind since it was last asked for, `direct` those that went past the relay, by
    window; `over` is the last window that is over. `secret` is what keys of neighbours are made of."""

    epoch: int
    members: dict[str, str]
    told: bytes
    counted: Counter[str] = field(default_factory=Counter)
    direct: dict[int, Counter[str]] = field(default_factory=dict)
    over: int = -1
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)


@dataclass(eq=False)
class Box:
    letters: deque[Letter] = field(default_factory=deque)
    bytes: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0
    """How often somebody has asked for a letter."""

    def put(self, letter: Letter) -> bool:
        """Whether it was not there yet."""
        if letter in self.letters:
            return False
        self.letters.append(letter)
        self.bytes += len(letter.body)
        while len(self.letters) > MOST_LETTERS or (self.bytes > MOST_BYTES and len(self.letters) > 1):
            self.bytes -= len(self.letters.popleft().body)
        self.arrived.set()
        return True

    def take(self) -> Letter | None:
        if not self.letters:
            return None
        letter = self.letters.popleft()
        self.bytes -= len(letter.body)
        return letter

    def put_back(self, letter: Letter) -> None:
        """It was taken for somebody who had gone."""
        self.letters.appendleft(letter)
        self.bytes += len(letter.body)
        self.arrived.set()

    def leave_out(self, chain: str) -> None:
        """Letters of a chain that mean nothing any more."""
        kept = [letter for letter in self.letters if letter.chain != chain]
        self.letters, self.bytes = deque(kept), sum(len(letter.body) for letter in kept)


class Relay:
    def __init__(self) -> None:
        self._chains: dict[str, OpenChain] = {}
        self._boxes: dict[str, Box] = {}

    def open(self, chain: str, epoch: int, members: dict[str, str], told: bytes) -> None:
        """An epoch begins; whatever was under way in one before is thrown away."""
        for box in self._boxes.values():
            box.leave_out(chain)
        self._chains[chain] = OpenChain(epoch, members, told)

    def told(self, chain: str, agent: str) -> tuple[int, bytes]:
        """The newest epoch of a chain, and what its members are told."""
        known = self._of(chain, None)
        _node(known, chain, agent)
        return known.epoch, known.told

    def around(self, chain: str, agent: str) -> list[str]:
        """The agents of its neighbours."""
        known = self._of(chain, None)
        nodes = list(known.members)
        place = nodes.index(_node(known, chain, agent))
        return [known.members[node] for node in (*nodes[max(place - 1, 0) : place], *nodes[place + 1 : place + 2])]

    def neighbours(self, chain: str, agent: str, reached: Mapping[str, Reach]) -> Neighbours:
        """Those of its neighbours, with their keys, that are reached somewhere or write to it."""
        known = self._of(chain, None)
        own = _node(known, chain, agent)
        key = partial(key_of, known.secret, chain, known.epoch)
        found = [
            Neighbour(node, reached[name], key((own, node)), key((node, own)))
            for node, name in known.members.items()
            if name in reached
        ]
        return Neighbours(known.epoch, own, tuple(found))

    def went(self, chain: str, epoch: int, agent: str, counted: tuple[int, Mapping[str, int]]) -> bool:
        """Letters that a member sent directly; whether their window was over before."""
        known, (window, letters) = self._of(chain, epoch), counted
        _node(known, chain, agent)
        if window <= known.over:
            return True
        if len(known.direct) < MOST_WINDOWS:
            known.direct.setdefault(window, Counter()).update(letters)
        return False

    def from_agent(self, agent: str, letter: Letter) -> None:
        """Who wrote it is known from the door it came in by."""
        known = self._of(letter.chain, letter.epoch)
        sender = _node(known, letter.chain, agent)
        self._deliver(known, Letter(letter.chain, letter.epoch, sender, letter.to, letter.kind, letter.body))

    def from_warehouse(self, letter: Letter) -> None:
        known = self._of(letter.chain, letter.epoch)
        self._deliver(known, Letter(letter.chain, letter.epoch, WAREHOUSE, letter.to, letter.kind, letter.body))

    def restarted(self, agent: str) -> None:
        """An agent has begun anew, and knows nothing of what was under way."""
        for chain, known in self._chains.items():
            node = next((node for node, name in known.members.items() if name == agent), None)
            if node is not None:
                self._deliver(known, restarted(chain, known.epoch, node))

    def _deliver(self, known: OpenChain, letter: Letter) -> None:
        if letter.to == WAREHOUSE:
            box = self._box(f"{WAREHOUSE} of {letter.chain}")
        elif letter.to in known.members:
            box = self._box(known.members[letter.to])
        else:
            raise ChainClosed(f"{letter.to} is not a member of {letter.chain}", "")
        if box.put(letter):
            known.counted[letter.kind] += 1

    async def for_agent(self, agent: str, seconds: float) -> Letter | None:
        return await self._next(self._box(agent), seconds)

    def give_back(self, agent: str, letter: Letter) -> None:
        """A letter that was fetched for nobody, unless its epoch is over."""
        known = self._chains.get(letter.chain)
        if known is not None and known.epoch == letter.epoch:
            self._box(agent).put_back(letter)

    async def for_warehouse(self, chain: str, epoch: int, seconds: float) -> Letter | None:
        self._of(chain, epoch)
        return await self._next(self._box(f"{WAREHOUSE} of {chain}"), seconds)

    def counted(self, chain: str, epoch: int, window: int) -> Counted:
        """The letters of each kind since this was last asked: a window is over."""
        known = self._of(chain, epoch)
        through, known.counted, known.over = known.counted, Counter(), window
        done = [known.direct.pop(k) for k in list(known.direct) if k <= window]
        return Counted(through, sum(done, Counter()))

    def agents(self, chain: str) -> list[str]:
        return list(self._of(chain, None).members.values())

    async def _next(self, box: Box, seconds: float) -> Letter | None:
        """Whoever asks last gets it: one who asked before may wait at the end of a line that was cut."""
        box.asked += 1
        mine = box.asked
        letter = box.take()
        if letter is None and seconds > 0:
            box.arrived.clear()
            try:
                await asyncio.wait_for(box.arrived.wait(), seconds)
            except TimeoutError:
                return None
            letter = box.take() if mine == box.asked else None
        return letter

    def _box(self, owner: str) -> Box:
        return self._boxes.setdefault(owner, Box())

    def _of(self, chain: str, epoch: int | None) -> OpenChain:
        known = self._chains.get(chain)
        if known is None or epoch not in (None, known.epoch):
            raise ChainClosed(f"the hub knows no such epoch of {chain}", "a new one begins by itself")
        return known


def _node(known: OpenChain, chain: str, agent: str) -> str:
    """Which member an agent is."""
    found = next((node for node, name in known.members.items() if name == agent), None)
    if found is None:
        raise ChainClosed(f"agent {agent} is not a member of {chain}", "")
    return found
