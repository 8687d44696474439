"""A member of a chain: the algorithm's process beside a source (MODULE SOURCE of the paper's figure 1), run for real.

    letter ──▶ pin its window ──▶ the process ──▶ letters; joins with the table as it was, here and at once
    wake   ──▶ the process, when its time has come

Nothing of this is kept but the pins: an agent that was killed tells the warehouse, which begins a new epoch.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from headwater.chain.letter import Letter
from headwater.chain.letters import AHEAD, LONGEST_PATIENCE, PATIENCE, opened, sealed
from headwater.chain.windows import MemberWindows
from headwater.maintenance.strategies.acknowledged import Post
from headwater.maintenance.strategies.chain_messages import Begun, Body, Failed
from headwater.maintenance.strategies.contract import WAREHOUSE, Answer, Ask, Effects, Node, Process, Send, Wake
from headwater.maintenance.strategies.pinned_source import PinnedSource, chain_setting
from headwater.maintenance.strategies.pull_push import Backward, Forward, PullPushSource, PullRequest
from headwater.maintenance.strategies.pure_push import PushedBatch, PushedCut, PushSource
from headwater.model.chain import PURE_PUSH, ChainEpoch
from headwater.model.errors import HeadwaterError

log = logging.getLogger(__name__)

SendLetter = Callable[[Letter], None]
Clock = Callable[[], float]


class Member:
    """The member at `place` of an epoch."""

    def __init__(
        self, epoch: ChainEpoch, place: int, windows: MemberWindows, send: SendLetter, clock: Clock = time.monotonic
    ) -> None:
        self.epoch = epoch
        self._windows, self._send, self._clock = windows, send, clock
        self._chain, self._node = epoch.chain, str(epoch.chain.members[place].source)
        self._post = Post(PATIENCE, LONGEST_PATIENCE)
        self._process = _process(epoch, place, windows, self._post)
        self._taken_in = epoch.first - 1
        """Windows after this one are ahead of the view, as far as is known here; those before the epoch's first are one
        with it."""
        self._wakes: list[tuple[float, int, Any]] = []
        self._order = count()
        self._failed = False
        self._attempt(lambda: self._do(self._process.start()))

    @property
    def window(self) -> int:
        """The newest that was spoken of here."""
        return self._windows.newest

    def receive(self, letter: Letter) -> None:
        self._attempt(lambda: self._take(letter.sender, opened(letter, self._chain)))

    def wake(self) -> float | None:
        """Do what is due; in how many seconds something else is, None: nothing is awaited."""
        while self._wakes and self._wakes[0][0] <= self._clock():
            body = heapq.heappop(self._wakes)[2]
            self._attempt(lambda body=body: self._awake(body))  # type: ignore[misc]  # mypy and defaults
        return max(self._wakes[0][0] - self._clock(), 0.0) if self._wakes else None

    def _take(self, sender: Node, body: Body) -> None:
        if isinstance(body, Begun):
            self._taken_in = max(self._taken_in, int(body.upto))
            self._do(self._post.take(sender, body)[0])
            return
        if isinstance(body, PullRequest | Forward | Backward | PushedBatch):
            self._windows.ensure(int(body.t_k1))
        self._do(self._process.receive(sender, body, self._now()))

    def _awake(self, body: Any) -> None:
        if isinstance(body, PushedCut):
            if self._windows.held(self._taken_in) > AHEAD:
                self._later(self._chain.window, body)
                return
            self._windows.ensure(body.k)
        self._do(self._process.receive(self._node, body, self._now()))

    def _now(self) -> float:
        """Time is counted in windows."""
        return float(self._windows.newest)

    def _do(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._send(sealed(self._chain, self.epoch.number, effect.to, effect.body))
            elif isinstance(effect, Wake):
                in_windows = isinstance(effect.body, PushedCut)
                self._later(effect.after * (self._chain.window if in_windows else 1.0), effect.body)
            elif isinstance(effect, Ask):
                value = effect.question.evaluate(_NO_DATABASE)
                answer = Answer(effect.source, effect.ticket, value, effect.about)
                self._do(self._process.receive(effect.source, answer, self._now()))

    def _later(self, seconds: float, body: Any) -> None:
        heapq.heappush(self._wakes, (self._clock() + seconds, next(self._order), body))

    def _attempt(self, step: Callable[[], None]) -> None:
        """What goes wrong is told to the warehouse, which begins anew: this epoch is over here."""
        if self._failed:
            return
        try:
            step()
        except HeadwaterError as error:
            log.info("%s: %s", self._chain.source, error.what)
            self._over(Failed(type(error).__name__, error.what, error.fix))
        except Exception as error:  # a defect of ours, or a driver's: the others must not wait for ever
            log.exception("%s: a defect", self._chain.source)
            self._over(Failed("HeadwaterError", f"unexpected {type(error).__name__} at the agent", "see its log"))

    def _over(self, failed: Failed) -> None:
        self._failed = True
        self._wakes.clear()
        self._send(sealed(self._chain, self.epoch.number, WAREHOUSE, failed))


_NO_DATABASE: Any = None
"""A restored join knows its relation; it asks no other."""


def _process(epoch: ChainEpoch, place: int, windows: MemberWindows, post: Post) -> Process:
    setting = chain_setting(epoch.chain)
    past = PinnedSource(epoch.chain.members[place], windows)
    if epoch.chain.how == PURE_PUSH:
        return PushSource(setting, place, 1.0, post, past, (epoch.first, float(epoch.since)))
    return PullPushSource(setting, place, post, past)
