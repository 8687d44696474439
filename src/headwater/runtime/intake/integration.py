"""The integrator at work: polls in, numbered and journaled rounds out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.integrator.global_transactions import Assembly, Waiting
from headwater.integrator.journal import Journal, Segment
from headwater.integrator.numbering import Numbered, number
from headwater.model.errors import HeadwaterError
from headwater.model.names import Position, Seq, SourceName
from headwater.model.source import Poll
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.intake.pollers import Poller, Pollers, PollScope
from headwater.runtime.steps import Step, reached

GATHER_SECONDS = 0.3
"""So long the first poll of a round waits for the others."""
BEHIND_BATCHES = 4
"""A source is not polled while its views are this many batches behind."""


@dataclass(frozen=True)
class Round:
    """Transactions that have numbers now, and are durable."""

    segment: Segment
    numbered: Numbered


@dataclass(frozen=True)
class Taken:
    """What a turn brought: rounds, sources that refused, and global transactions that had to be numbered in parts."""

    rounds: Sequence[Round] = ()
    refused: Sequence[tuple[SourceName, HeadwaterError]] = ()
    torn: Sequence[str] = ()


@dataclass(frozen=True)
class Intakes:
    """How sources are polled."""

    limit: int
    pause: float
    parts_seconds: float
    own_parts_seconds: Mapping[SourceName, float] = field(default_factory=dict)
    """Of sources that are waited for longer."""


class Integration:
    """Polls every source at its pace, and gives each round the next numbers. `wanted` says what a source is asked
    about; `guard` is called before anything is written."""

    def __init__(
        self, pollers: Pollers, journal: Journal, settings: Intakes, guard: Callable[[], None], clock: Clock = SYSTEM
    ) -> None:
        self._pollers, self._journal, self._settings = pollers, journal, settings
        self._guard, self._clock = guard, clock
        self._assembly = Assembly(settings.parts_seconds, settings.own_parts_seconds)
        self._torn: deque[str] = deque(maxlen=5)
        self._polls: dict[SourceName, Poll] = {}
        self._arrived = 0.0
        self._floor: tuple[Seq, Mapping[SourceName, Position]] = (Seq(0), {})

    @property
    def torn(self) -> Sequence[str]:
        """The last global transactions whose parts were numbered separately, and why."""
        return tuple(self._torn)

    def missing(self) -> list[Waiting]:
        """Global transactions that wait for parts."""
        return self._assembly.waiting()

    def begin(self, seq: Seq, positions: Mapping[SourceName, Position]) -> None:
        """Numbers go on after this transaction, which stands for these positions."""
        self._floor = (seq, positions)

    def holds(self, source: SourceName) -> bool:
        """Whether transactions of this source have arrived and have no number yet."""
        return source in self._polls

    def step(self, wanted: Callable[[SourceName], PollScope], backlog: Mapping[str, int]) -> Taken:
        """Start polls, take in the answers that are there, number and journal them."""
        for poller in self._pollers:
            behind = backlog.get(poller.name, 0) >= BEHIND_BATCHES * self._settings.limit
            if poller.due and not behind and poller.name not in self._polls:
                poller.start(wanted(poller.name))
        refused = [(poller.name, error) for poller in self._pollers if (error := self._take(poller)) is not None]
        rounds, torn = self._number()
        return Taken(rounds, refused, torn)

    def _take(self, poller: Poller) -> HeadwaterError | None:
        answer = poller.finish(self._settings.pause)
        if isinstance(answer, HeadwaterError):
            return answer
        if answer is not None and answer.transactions.num_rows:
            self._arrived = self._arrived if self._polls else self._clock.monotonic()
            self._polls[poller.name] = answer
        elif answer is not None:
            poller.took_in(poller.position)
        return None

    def _number(self) -> tuple[list[Round], list[str]]:
        """Number what has arrived. Polls that are nearly there are waited for: one segment for all of them means one
        cut at which every source is asked about the present, not about a past that must be undone."""
        if not self._polls:
            return [], []
        busy = any(poller.busy for poller in self._pollers)
        if busy and self._clock.monotonic() - self._arrived < GATHER_SECONDS:
            return [], []
        ready = self._assembly.ready(self._polls, self._clock.monotonic())
        torn = [report.text for report in ready.reports]
        self._torn.extend(torn)
        if not ready.polls:
            return [], torn
        reached(Step.POLLED)
        self._guard()
        lo, positions = self._last()
        numbered = number(lo, {**positions, **self._pollers.numbered}, ready.polls, ready.alone)
        self._polls = dict(ready.held)
        segment = self._journal.append(numbered)
        for name in ready.polls:
            self._pollers[name].took_in(numbered.positions[name])
        reached(Step.JOURNALED)
        return [Round(segment, numbered)], torn

    def journal_positions(self) -> Segment:
        """Where the sources are now, with everything that has a number: an empty round, where that says something new.
        Quiet sources move on too, and what is loaded next may not be told as of where they were."""
        newest = self._journal.newest
        lo, known = self._last()
        positions = {**known, **self._pollers.numbered}
        if newest is not None and newest.hi >= self._floor[0] and newest.positions == positions:
            return newest
        self._guard()
        return self._journal.append(number(lo, positions, {}))

    def _last(self) -> tuple[Seq, Mapping[SourceName, Position]]:
        """The last number that was given, and where the sources were then."""
        newest, (seq, positions) = self._journal.newest, self._floor
        known = newest.positions if newest is not None else {}
        return Seq(max(newest.hi if newest is not None else 0, seq)), {**positions, **known}
