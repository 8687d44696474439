"""The sources and the journal, as a change of views needs them: what is known of tables nobody has polled so far, and
a state at which new views can be loaded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from headwater.integrator.journal import Journal
from headwater.model.names import FOREVER, Position, Seq, SourceName, TableName
from headwater.model.schema import Identities
from headwater.model.source import Source
from headwater.runtime.commit.ledger import Ledger
from headwater.runtime.intake.identifying import Identified, identify
from headwater.runtime.intake.integration import Integration
from headwater.runtime.intake.load_point import POINT, LoadPoint
from headwater.runtime.intake.pollers import Pollers
from headwater.runtime.intake.schema_watch import SchemaWatch
from headwater.runtime.project.plan import ViewPlan
from headwater.runtime.view import own_identities
from headwater.storage import Storage


class SourceConnections(Protocol):
    """Connections to the sources, for one thread."""

    def source(self, name: str) -> Source: ...

    def close(self) -> None: ...


class Reception:
    """`connect` opens connections of its own: a look at the sources goes on in a thread of its own."""

    def __init__(
        self, pollers: Pollers, integration: Integration, watch: SchemaWatch, journal: Journal, ledger: Ledger,
        storage: Storage, connect: Callable[[], SourceConnections],
    ) -> None:  # fmt: skip
        self._pollers, self._integration, self._watch, self._journal = pollers, integration, watch, journal
        self._ledger, self._storage, self._connect = ledger, storage, connect

    def polled(self, sources: Collection[SourceName]) -> dict[SourceName, Position | None]:
        relied = self._watch.sources
        return {s: self._pollers[s].position if s in self._pollers and s in relied else None for s in sources}

    def identify(self, plans: Sequence[ViewPlan], polled: Mapping[SourceName, Position | None]) -> Identified:
        sources = self._connect()
        try:
            return identify(sources, plans, polled)
        finally:
            sources.close()

    def adopt(self, found: Identified, plans: Sequence[ViewPlan]) -> None:
        for source in found.positions:
            self._pollers.remove(source)
        self._pollers.add(found.positions.keys(), found.positions)
        self._ledger.renewed(found.generations)
        if found.positions:  # whatever the journal knew of them may belong to another past
            self._integration.journal_positions()
        for plan in plans:
            self._watch.add(plan, own_identities(plan, found.identities))

    def told_since(self, sources: Collection[SourceName], since: float) -> bool:
        return all(
            (poller := self._pollers.get(source)) is not None
            and poller.answered_at >= since
            and not poller.state.more
            and not self._integration.holds(source)
            for source in sources
        )

    def point(self, fingerprints: tuple[str, ...], identities: Mapping[TableName, Identities]) -> LoadPoint:
        here = self._integration.journal_positions()
        positions = {poller.name: here.positions[poller.name] for poller in self._pollers}
        point = LoadPoint(here.hi, positions, fingerprints, identities)
        self._storage.put(POINT, point.to_json())
        return point

    def forget_point(self) -> None:
        self._storage.delete(POINT)

    def limit_to(self, plans: Sequence[ViewPlan]) -> None:
        self._watch.limit_to(plans)

    def newest(self) -> Seq:
        newest = self._journal.newest
        return newest.hi if newest is not None else Seq(0)

    def changes_after(self, seq: Seq) -> int:
        return sum(segment.rows for segment in self._journal.between(seq, FOREVER))
