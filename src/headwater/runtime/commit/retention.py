"""What must be kept: no source forgets, and no journal loses, what somebody may still ask about.

Every question is asked as of the end of some round that its view does not show yet, so a source may forget what came
before the oldest `seq` of the views that read it, of loads under way and of pinned readers. A view that is stuck holds
back the captures of its own sources only.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from headwater.model.names import Position, Seq, SourceName
from headwater.warehouse.sessions import pins

if TYPE_CHECKING:
    from headwater.runtime.engine import Engine

AGE_SECONDS = 10.0
"""A reader that has just looked up a cut has this long to pin it."""


class Retention:
    """Remembers for a while what had to be kept."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._noted: deque[tuple[float, dict[SourceName, Seq]]] = deque()

    def note(self) -> None:
        """Called when the views have moved on."""
        engine = self._engine
        needed: dict[SourceName, Seq] = {}
        shown = [(v.state.seq, v.plan.sources) for v in engine.views.values() if v.live]
        for seq, sources in shown:
            for source in sources:
                needed[source] = Seq(min(seq, needed.get(source, seq)))
        self._noted.append((time.monotonic(), needed))

    @property
    def oldest(self) -> Seq:
        """The transaction before which nothing in the journal is needed."""
        return Seq(min([0] if not self._aged() else [*self._aged().values(), *self.held(), self._engine.cut.seq]))

    def positions(self) -> dict[SourceName, Position]:
        """Per source, the position before which nobody will ask."""
        held = self.held()
        found = {}
        for source, seq in self._aged().items():
            segment = self._engine.journal.at(min([seq, *held]))
            if segment is not None and source in segment.positions:
                found[source] = segment.positions[source]
        return found

    def _aged(self) -> dict[SourceName, Seq]:
        late = time.monotonic() - AGE_SECONDS
        while len(self._noted) > 1 and self._noted[1][0] < late:
            self._noted.popleft()
        return self._noted[0][1] if self._noted and self._noted[0][0] < late else {}

    def held(self) -> list[Seq]:
        """Where pinned readers and a load under way are: nothing after that may be forgotten or folded."""
        change = self._engine.building.change
        held = [pin.cut.seq for pin in pins(self._engine.storage)]
        if change is not None and change.build:
            begun = change.point.seq if change.point else Seq(0)
            held.append(Seq(min([m.through for m in change.managers], default=begun)))
        return held
