"""The state that new views are loaded at, kept in the warehouse so that an interrupted load goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.model.names import Position, Seq, SourceName, TableName
from headwater.model.schema import Identities
from headwater.storage.records import TableRow, by_table, decode, encode, of_tables

POINT = "loads/point.json"


@dataclass(frozen=True)
class LoadPoint:
    """Transaction `seq`, where the sources were then, and which views (their fingerprints) from which columns."""

    seq: Seq
    positions: Mapping[SourceName, Position]
    fingerprints: tuple[str, ...]
    identities: Mapping[TableName, Identities] = field(default_factory=dict)

    def to_json(self) -> bytes:
        return encode(_Stored(self.seq, self.positions, self.fingerprints, by_table(self.identities)))

    def means(self, now: Mapping[TableName, Identities]) -> bool:
        """Whether the columns copied so far are those of now."""
        pairs = ((self.identities.get(t, {}).get(c), i) for t, columns in now.items() for c, i in columns.items())
        return all(was is not None and not was.became(i) for was, i in pairs)


@dataclass(frozen=True)
class _Stored:
    seq: Seq
    positions: Mapping[SourceName, Position]
    fingerprints: tuple[str, ...]
    identities: list[TableRow[Identities]] = field(default_factory=list)


def saved_point(text: bytes | None) -> LoadPoint | None:
    """The point of a load that was interrupted; None also for one of an older version, whose load begins anew."""
    if text is None or text.startswith(b"["):
        return None
    found = decode(text, _Stored, POINT)
    return LoadPoint(found.seq, found.positions, found.fingerprints, of_tables(found.identities))
