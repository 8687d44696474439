"""What must be kept: no source forgets, and no journal loses, what somebody may still ask about.

Every question is asked as of the end of some round that its view does not show yet, so a source may forget what came
before the oldest `seq` of the views that read it, of loads under way and of pinned readers. A view that is stuck holds
back the captures of its own sources only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from headwater.integrator.journal import Journal
from headwater.model.names import Position, Seq, SourceName
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.commit.ledger import Ledger
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut
from headwater.warehouse.sessions import pins

AGE_SECONDS = 10.0
"""A reader that has just looked up a cut has this long to pin it."""


class Retention:
    """Remembers for a while what had to be kept. `history` transactions stay readable in any case."""

    def __init__(self, ledger: Ledger, journal: Journal, storage: Storage, history: int, clock: Clock = SYSTEM) -> None:
        self._ledger, self._journal, self._storage = ledger, journal, storage
        self._history, self._clock = history, clock
        self._noted: deque[tuple[float, dict[SourceName, Seq]]] = deque()
        ledger.watched_by(self._note)

    def _note(self, cut: Cut) -> None:
        """The views have moved on."""
        needed: dict[SourceName, Seq] = {}
        for view in self._ledger.live_views():
            seq = self._ledger.shown(view.name).seq
            for source in view.plan.sources:
                needed[source] = Seq(min(seq, needed.get(source, seq)))
        self._noted.append((self._clock.monotonic(), needed))

    def horizon(self, loading: Seq | None) -> Seq:
        """The oldest transaction whose state stays readable; `loading` is one that a load still needs."""
        oldest = [pin.seq for pin in pins(self._storage)] + [self._ledger.cut.seq, *self._held(loading)]
        return Seq(max(0, min(*oldest, self._ledger.cut.seq - self._history)))

    def oldest(self, loading: Seq | None) -> Seq:
        """The transaction before which nothing in the journal is needed."""
        aged = self._aged()
        return Seq(min([0] if not aged else [*aged.values(), *self._held(loading), self._ledger.cut.seq]))

    def positions(self, loading: Seq | None) -> dict[SourceName, Position]:
        """Per source, the position before which nobody will ask."""
        held = self._held(loading)
        found = {}
        for source, seq in self._aged().items():
            segment = self._journal.at(min([seq, *held]))
            if segment is not None and source in segment.positions:
                found[source] = segment.positions[source]
        return found

    def _aged(self) -> dict[SourceName, Seq]:
        late = self._clock.monotonic() - AGE_SECONDS
        while len(self._noted) > 1 and self._noted[1][0] < late:
            self._noted.popleft()
        return self._noted[0][1] if self._noted and self._noted[0][0] < late else {}

    def _held(self, loading: Seq | None) -> Sequence[Seq]:
        """Where pinned readers and a load under way are: nothing after that may be forgotten or folded."""
        held = [pin.cut.seq for pin in pins(self._storage)]
        return held if loading is None else [*held, loading]
