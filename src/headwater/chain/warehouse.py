"""The warehouse of a chain: the algorithm's process there (MODULE DATA WAREHOUSE, figure 2 of the paper), for real.

Time is counted in windows. One window is under way at a time: while a member is away the next one waits, and takes in
all that has gathered by then. What the process broadcasts when it has applied a window is not sent: members may forget
when nobody will ask as of it any more, which is for the engine to say (`ChainSource.trim`).
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from headwater.algebra.bag import Bag
from headwater.chain.letter import Letter
from headwater.chain.letters import AHEAD, LONGEST_PATIENCE, PATIENCE, opened, sealed
from headwater.chain.line import EpochOver
from headwater.maintenance.strategies.acknowledged import Post
from headwater.maintenance.strategies.chain_messages import Begun, Failed, Restarted
from headwater.maintenance.strategies.contract import WAREHOUSE, Commit, Effects, Send, Wake
from headwater.maintenance.strategies.pinned_source import chain_setting
from headwater.maintenance.strategies.pull_push import PullPushWarehouse, RequestUpdates
from headwater.maintenance.strategies.pure_push import PushWarehouse, UpdateView
from headwater.maintenance.strategies.tagged_source import Applied
from headwater.model import errors
from headwater.model.chain import PURE_PUSH, ChainEpoch
from headwater.model.errors import HeadwaterError

Clock = Callable[[], float]
SendLetter = Callable[[Letter], None]


@dataclass(frozen=True)
class Reached:
    """The view has everything up to the end of `window`, by this change of the join."""

    window: int
    change: Bag


class ChainWarehouse:
    """One epoch of it."""

    def __init__(self, epoch: ChainEpoch, send: SendLetter, clock: Clock = time.monotonic) -> None:
        self.epoch, self._send, self._clock = epoch, send, clock
        pushed = epoch.chain.how == PURE_PUSH
        make: Any = PushWarehouse if pushed else PullPushWarehouse
        self._post = Post(PATIENCE, LONGEST_PATIENCE)
        self._process = make(chain_setting(epoch.chain), epoch.chain.window, self._post, float(epoch.since))
        self._due: Any = UpdateView() if pushed else RequestUpdates()
        self._due_at = clock()
        self._wakes: list[tuple[float, int, Any]] = []
        self._order = count()
        self._change, self._since = Bag(), epoch.since
        self.asked_at: float | None = None
        """When the window under way was asked for; None: none is."""
        self._moved_at = clock()
        self._told = epoch.since
        """Up to where members that begin windows by themselves know the view to be."""
        if pushed:
            self.asked_at = clock()
            self._tell()

    def wake(self) -> Reached | None:
        """Do what is due."""
        now = self._clock()
        if now >= self._due_at and (self._pushed or self.asked_at is None):
            self._due_at = now + self.epoch.chain.window
            if not self._pushed:
                self.asked_at = now
            self._do(self._process.receive(WAREHOUSE, self._due, self._next))
        while self._wakes and self._wakes[0][0] <= now:
            self._do(self._process.receive(WAREHOUSE, heapq.heappop(self._wakes)[2], self._next))
        return self._applied()

    def receive(self, letter: Letter) -> Reached | None:
        body = opened(letter, self.epoch.chain)
        if isinstance(body, Restarted):
            raise EpochOver(f"agent of {letter.sender} has begun anew", "")
        if isinstance(body, Failed):
            raise _error(body)
        self._do(self._process.receive(letter.sender, body, self._next))
        return self._applied()

    def seconds(self) -> float:
        """How long nothing is due."""
        times = [wake[0] for wake in self._wakes[:1]]
        if self._pushed or self.asked_at is None:
            times.append(self._due_at)
        return max(min(times, default=self._clock() + 1.0) - self._clock(), 0.0)

    @property
    def late(self) -> float:
        """For so many seconds the window under way has taken longer than nothing. Members that begin windows by
        themselves do it once in a window's time."""
        if self._pushed:
            return max(self._clock() - self._moved_at - self.epoch.chain.window, 0.0)
        return 0.0 if self.asked_at is None else self._clock() - self.asked_at

    @property
    def asked_for(self) -> int:
        """No window after this one was asked for here."""
        return int(self._next)

    @property
    def _next(self) -> float:
        """The number of the next window."""
        return float(max(self._since + 1, self.epoch.first))

    @property
    def _pushed(self) -> bool:
        return isinstance(self._due, UpdateView)

    def _do(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Send) and not isinstance(effect.body, Applied):
                self._send(sealed(self.epoch.chain, self.epoch.number, effect.to, effect.body))
            elif isinstance(effect, Wake) and not isinstance(effect.body, type(self._due)):
                heapq.heappush(self._wakes, (self._clock() + effect.after, next(self._order), effect.body))
            elif isinstance(effect, Commit):
                self._change = self._change + Bag.summed(pair for _, bag in effect.changes for pair in bag)

    def _tell(self) -> None:
        """That there is something to begin with, and from where on windows are ahead: until it is acknowledged."""
        self._told = self._since
        for member in self.epoch.chain.members:
            self._do(self._post.send(str(member.source), Begun(float(self._since))))

    def _applied(self) -> Reached | None:
        upto = int(self._process.t_v)
        if upto == self._since:
            return None
        found = Reached(upto, self._change)
        self._change, self._since, self.asked_at = Bag(), upto, None
        self._moved_at = self._clock()
        if self._pushed and upto - self._told >= AHEAD // 4:
            self._tell()
        return found


def _error(failed: Failed) -> HeadwaterError:
    """What went wrong beside a source, as what it was."""
    kind = getattr(errors, failed.kind, HeadwaterError)
    if not (isinstance(kind, type) and issubclass(kind, HeadwaterError)):
        kind = HeadwaterError
    error = kind.__new__(kind)
    HeadwaterError.__init__(error, failed.what, failed.fix)
    return error
