"""An agent's part in chains: it fetches letters, lets its members answer them, and sends what they write.

One thread does all of it, with an adapter of its own; others bring the letters: those at the hub, and those of
neighbours that reach this agent (`listening`). A letter goes to a neighbour directly where that works, and through the
hub where it does not. It is sent again until it is acknowledged, so one that was lost, or came twice, does no harm.

Members are made when the first letter of an epoch arrives, and forgotten when a later epoch begins; what must outlast
them are the pins.

The algorithms bring a parser of SQL with them, so they are imported by an agent that takes part, and by no other.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from headwater.agent.line import ChainGone, LetterTooLarge
from headwater.agent.neighbourhood import Neighbourhood
from headwater.chain.inbox import Inbox
from headwater.chain.letter import Letter
from headwater.chain.neighbours import Neighbours
from headwater.chain.pins import PinBook
from headwater.chain.windows import MemberWindows
from headwater.model.chain import Chain, ChainEpoch
from headwater.model.errors import HeadwaterError, SourceUnavailable, UsageError
from headwater.sources.agent.frames import frames
from headwater.sources.agent.values import heard

if TYPE_CHECKING:
    from headwater.agent.agent import Adapters
    from headwater.chain.member import Member
    from headwater.maintenance.strategies.chain_messages import Body

log = logging.getLogger(__name__)

LONGEST_WAIT = 15.0
PROMPT = 1.0
"""A line that fails within so many seconds was cut; one that takes longer leads nowhere just now."""
WAREHOUSE = "warehouse"
"""As the algorithms call it (`contract`)."""


class ChainLine(Protocol):
    """What of the hub a chain needs."""

    def chain(self, name: str) -> bytes: ...

    def neighbours(self, chain: str) -> Neighbours: ...

    def went(self, name: str, epoch: int, window: int, letters: dict[str, int]) -> None: ...

    def box(self, wait: float) -> Letter | None: ...

    def send(self, letter: Letter) -> None: ...


class AgentChains:
    """`name` is the agent's own."""

    def __init__(self, name: str, line: ChainLine, book: PinBook, adapters: Adapters) -> None:
        self._name, self._line, self._book, self._adapters = name, line, book, adapters
        self._members: dict[str, Member] = {}
        self._opened: Letter | None = None
        """One that is to be answered when the hub can be asked about its epoch."""
        self.inbox = Inbox()
        self.neighbourhood = Neighbourhood(line, book.chains)
        self._went: dict[tuple[str, int, int], Counter[str]] = {}
        """Letters that went directly, of which the hub was not told yet: by chain, epoch and window."""

    def fetch(self) -> None:
        """Wait for a letter at the hub. SourceUnavailable while it is away."""
        letter = self._line.box(LONGEST_WAIT)
        while letter is not None and not self.inbox.put(letter, LONGEST_WAIT):
            log.info("a letter waits for room")

    def turn(self) -> None:
        """Do what is due, then wait for a letter and answer it. SourceUnavailable while the hub is away."""
        waits = [seconds for member in self._members.values() if (seconds := member.wake()) is not None]
        letter, self._opened = self._opened or self.inbox.take(0.0), None
        if letter is None:
            self._tell_what_went()
            letter = self.inbox.take(min([LONGEST_WAIT, *waits]))
        if letter is not None:
            try:
                self._answer(letter)
            except SourceUnavailable:
                self._opened = letter
                raise

    def _send(self, letter: Letter) -> None:
        """To the hub. Over a line that was just cut, a second time at once: Δt would be over later."""
        begun = time.monotonic()
        try:
            self._line.send(letter)
        except SourceUnavailable:
            if time.monotonic() - begun > PROMPT:
                raise
            self._line.send(letter)

    def _tell_what_went(self) -> None:
        """Only what goes through the hub is counted there."""
        while self._went:
            (chain, epoch, window), letters = self._went.popitem()
            with suppress(HeadwaterError):  # it is for people to read: nothing depends on it
                self._line.went(chain, epoch, window, dict(letters))

    def _answer(self, letter: Letter) -> None:
        member = self._members.get(letter.chain)
        if member is None or member.epoch.number != letter.epoch:
            try:
                epoch = self._epoch(letter.chain)
            except ChainGone:
                return
            if epoch.number != letter.epoch:
                return  # of an epoch that is over
            member = self._members[letter.chain] = self._member(epoch)
        member.receive(letter)

    def _epoch(self, chain: str) -> ChainEpoch:
        epoch = heard(frames([self._line.chain(chain)]))
        if not isinstance(epoch, ChainEpoch) or self._name not in epoch.agents:
            raise UsageError(f"what the hub told of {chain} is not understood", "are hub and agent of one version?")
        return epoch

    def _member(self, epoch: ChainEpoch) -> Member:
        try:
            from headwater.chain.member import Member
        except ImportError as error:
            raise UsageError(
                f"this agent cannot take part in a chain: {error.name} is not installed",
                "pip install 'headwater[agent]' beside the database, and start it again",
            ) from error
        place = epoch.agents.index(self._name)
        windows = windows_of(self._book, epoch.chain, place, epoch.options[place], self._adapters)
        return Member(epoch, place, windows, self._sender(epoch))

    def _sender(self, epoch: ChainEpoch) -> Callable[[Letter], None]:
        own = str(epoch.chain.members[epoch.agents.index(self._name)].source)

        def send(letter: Letter) -> None:
            try:
                if letter.to != WAREHOUSE and self.neighbourhood.send(replace(letter, sender=own)):
                    member = self._members.get(letter.chain)
                    window = member.window if member is not None else epoch.since
                    self._went.setdefault((letter.chain, letter.epoch, window), Counter())[letter.kind] += 1
                    return
                self._send(letter)
            except ChainGone:
                self._members.pop(epoch.chain.source, None)
            except LetterTooLarge as error:
                self._line.send(_to_warehouse(epoch, _failed(error)))
            except HeadwaterError as error:  # it is sent again until it is acknowledged
                log.info("a letter to %s was not sent: %s", letter.to, error.what)

        return send


def _to_warehouse(epoch: ChainEpoch, body: Body) -> Letter:
    from headwater.chain.letters import sealed

    return sealed(epoch.chain, epoch.number, WAREHOUSE, body)


def _failed(error: HeadwaterError) -> Body:
    from headwater.maintenance.strategies.chain_messages import Failed

    return Failed("HeadwaterError", error.what, error.fix)


def windows_of(
    book: PinBook, chain: Chain, place: int, options: tuple[tuple[str, str], ...], adapters: Adapters
) -> MemberWindows:
    return MemberWindows(book, chain, place, adapters.database(chain.members[place].source, options))


def perform_pin(book: PinBook, adapters: Adapters, arguments: tuple[Any, ...], options: Any) -> Any:
    """What a warehouse asks of a member beside letters: (what, chain, place, window).

    begin   the first window of a chain, for a load      pinned   where a window ended
    newest  the last window that is known                keep     these chains, and no others (a name each)
    applied nobody will ask about a window before this one (the paper's broadcast of t_v)
    """
    what, chain, place, window = arguments
    if what == "keep":
        for known in book.chains():
            if known not in window:
                book.forget(known)
        return None
    windows = windows_of(book, chain, place, options, adapters)
    if what == "begin":
        return windows.begin(window).position
    if what == "pinned":
        return windows.pinned(window).position
    if what == "applied":
        return windows.truncate(window)
    if what == "newest":
        return windows.newest
    raise UsageError(f"an agent cannot {what!r} a window", "bring hub and agent to one version")
