"""The state that new views are loaded at, kept in the warehouse so that an interrupted load goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.model.names import Position, Seq, SourceName, TableName
from headwater.model.schema import Identities
from headwater.runtime.project.about import identities_from_json, identities_to_json

POINT = "loads/point.json"


@dataclass(frozen=True)
class LoadPoint:
    """Transaction `seq`, where the sources were then, and which views (their fingerprints) from which columns."""

    seq: Seq
    positions: Mapping[SourceName, Position]
    fingerprints: tuple[str, ...]
    identities: Mapping[TableName, Identities] = field(default_factory=dict)

    def to_json(self) -> bytes:
        known = identities_to_json(self.identities)
        return json.dumps([self.seq, dict(self.positions), self.fingerprints, known]).encode()

    def means(self, now: Mapping[TableName, Identities]) -> bool:
        """Whether the columns copied so far are those of now."""
        pairs = ((self.identities.get(t, {}).get(c), i) for t, columns in now.items() for c, i in columns.items())
        return all(was is not None and not was.became(i) for was, i in pairs)


def saved_point(text: bytes | None) -> LoadPoint | None:
    """The point of a load that was interrupted."""
    if text is None:
        return None
    seq, positions, fingerprints, *known = json.loads(text)
    identities = identities_from_json(known[0]) if known else {}
    return LoadPoint(Seq(seq), positions, tuple(fingerprints), identities)
