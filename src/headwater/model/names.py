"""The names everything is called by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

Seq = NewType("Seq", int)
"""The number the integrator gave to one source transaction. The state of anything at `s` holds `seq <= s`."""

SourceName = NewType("SourceName", str)
ViewName = NewType("ViewName", str)

Position = NewType("Position", str)
"""How far a source has come, in that source's own words. Opaque to everyone but its adapter."""


@dataclass(frozen=True, order=True)
class TableName:
    """A table of a source. `schema` is empty where the source knows no schemas."""

    source: SourceName
    table: str
    schema: str = ""

    def __str__(self) -> str:
        parts = (self.source, self.schema, self.table) if self.schema else (self.source, self.table)
        return ".".join(parts)
