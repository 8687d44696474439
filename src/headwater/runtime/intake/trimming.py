"""Sources and the journal forget what nobody will ask about."""

from __future__ import annotations

from headwater.integrator.journal import Journal
from headwater.model.names import Seq
from headwater.runtime.commit.retention import Retention
from headwater.runtime.intake.pollers import Pollers


class Trimming:
    """Lets sources and the journal forget what nobody will ask about."""

    def __init__(self, pollers: Pollers, journal: Journal, retention: Retention) -> None:
        self._pollers, self._journal, self._retention = pollers, journal, retention

    def trim(self, loading: Seq | None) -> None:
        for name, position in self._retention.positions(loading).items():
            poller = self._pollers.get(name)
            if poller is not None:
                poller.trim(position)
        kept = self._journal.at(min(self._retention.horizon(loading), self._retention.oldest(loading)))
        if kept is not None:  # it stays: it tells where the sources were
            self._journal.trim(kept.lo)
