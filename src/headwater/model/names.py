"""The names everything is called by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

Seq = NewType("Seq", int)
"""The number the integrator gave to one source transaction. The state of anything at `s` holds `seq <= s`."""

FOREVER = Seq(2**62)
"""Later than any transaction."""

SourceName = NewType("SourceName", str)
ViewName = NewType("ViewName", str)

VIEWS = SourceName("")
"""The "source" of a view that other views read: the warehouse itself."""

CLOCK = SourceName("clock")
"""The source of time: views that compare with the present read it."""

Position = NewType("Position", str)
"""How far a source has come, in that source's own words. Opaque to everyone but its adapter."""


@dataclass(frozen=True, order=True)
class TableName:
    """A table of a source, or a view that another view reads (source VIEWS). `schema` is empty where the source knows
    no schemas."""

    source: SourceName
    table: str
    schema: str = ""

    def __str__(self) -> str:
        return ".".join(part for part in (self.source, self.schema, self.table) if part)

    @property
    def is_view(self) -> bool:
        return self.source == VIEWS


def view_table(view: str) -> TableName:
    """A view, as another view's FROM knows it."""
    return TableName(VIEWS, view)
