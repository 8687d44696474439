"""Which columns new views mean, and where their sources are: asked in the background, before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Identities
from headwater.model.source import Source
from headwater.runtime.project.plan import ViewPlan


class Connected(Protocol):
    """The sources of a project (`project.catalog`)."""

    def source(self, name: str) -> Source: ...


@dataclass(frozen=True)
class Identified:
    """`positions` and `generations` are those of sources that are to be polled from now on."""

    identities: Mapping[TableName, Identities]
    positions: Mapping[SourceName, Position] = field(default_factory=dict)
    generations: Mapping[SourceName, str] = field(default_factory=dict)


def identify(sources: Connected, plans: Sequence[ViewPlan], polled: Mapping[SourceName, Position | None]) -> Identified:
    """Look at the sources of these views. `polled` says where each of them was last polled, None: not at all. Raises
    PositionTrimmed where the capture of a table is younger than that."""
    identities = identities_now(sources, plans)
    positions = {s: sources.source(s).position() for s, at in sorted(polled.items()) if at is None}
    captures = {s: sources.source(s).capture() for s in positions}
    generations = {s: capture.generation for s, capture in captures.items() if capture is not None}
    for source in sorted({table.source for table in identities}):
        at = positions.get(source) or polled[source]
        assert at is not None
        sources.source(source).check(at, sorted(table for table in identities if table.source == source))
    return Identified(identities, positions, generations)


def identities_now(sources: Connected, plans: Sequence[ViewPlan]) -> dict[TableName, Identities]:
    """Which columns these views mean, as their sources have them now."""
    used: dict[TableName, dict[str, None]] = {}
    for plan in plans:
        for table in plan.view.base_tables:
            used.setdefault(table, {}).update(dict.fromkeys(plan.schemas[table].names))
    found: dict[TableName, Identities] = {}
    for source in sorted({table.source for table in used}):
        own = {table: list(columns) for table, columns in used.items() if table.source == source}
        found |= sources.source(source).identities(own)
    return found
