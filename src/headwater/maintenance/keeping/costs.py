"""What keeping a copy costs and saves, by what was measured: how 'auto' decides.

    saved     a wave asks for a table on its way up and on its way down: twice a batch
    spent     the copy's own batch is written and committed, whatever it holds

Both are seconds of a batch. What a copy stores must also have room. A copy that is there already stays until it costs
twice what it saves, and a new one must save twice what it costs: to build one and to drop it is not for nothing, and
measurements vary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.algebra.view import ViewDefinition
from headwater.maintenance.keeping.copies import asked_tables, copy_in
from headwater.model.names import SourceName, TableName, ViewName
from headwater.model.schema import TableSchema

ASKED = 2
"""How often a batch asks for a table."""
MARGIN = 2.0
BYTES_OF_VALUE = 16
"""What a value of a kept row takes, with its share of indexes: a chain of four tables of 1M rows, measured."""
SHARE_OF_DISK = 4
"""No copy is made that takes more than this part of what is free."""


@dataclass(frozen=True)
class Measured:
    """Seconds that a question takes at each source (of those that could be asked), and the batch of a copy; the bytes
    that are free where it would lie, if they are counted; the views that are maintained."""

    question: Mapping[SourceName, float] = field(default_factory=dict)
    upkeep: float = 0.0
    free: int | None = None
    maintained: frozenset[str] = frozenset()

    def pays(self, table: TableSchema, columns: int, kept: bool) -> bool:
        """Whether what is needed of a table should be kept."""
        seconds = self.question.get(table.name.source)
        if seconds is None or not self.has_room(table, columns):
            return False
        return ASKED * seconds > self.upkeep * (1 / MARGIN if kept else MARGIN)

    def has_room(self, table: TableSchema, columns: int) -> bool:
        return self.free is None or table.rows is None or stored(table.rows, columns) * SHARE_OF_DISK <= self.free

    def said(self, source: SourceName) -> str:
        """What was measured, for the one who reads the plan."""
        seconds = self.question.get(source)
        if seconds is None:
            return f"a question at {source} cannot be timed before 'headwater setup'"
        return f"a question takes {seconds * 1000:.0f} ms at {source}, a copy's batch {self.upkeep * 1000:.0f} ms"


def stored(rows: int, columns: int) -> int:
    """About how many bytes a copy takes."""
    return rows * (columns + 1) * BYTES_OF_VALUE


def weighed(view: ViewDefinition, views: Mapping[ViewName, ViewDefinition]) -> dict[TableName, bool]:
    """The tables that a view needs rows of: whether it reads them in copies, or asks for them."""
    copies = [copy for name in view.parents if name in views and (copy := copy_in(views[name])) is not None]
    return {**dict.fromkeys(asked_tables(view), False), **{copy.table: True for copy in copies}}


def why(measured: Measured, tables: Mapping[TableName, bool]) -> list[str]:
    """What 'auto' decided for the tables that a view asks for (True: kept), source by source."""
    sources = sorted({table.source for table in tables})
    lines = []
    for source in sources:
        kept = sorted(t.table for t, yes in tables.items() if yes and t.source == source)
        asked = sorted(t.table for t, yes in tables.items() if not yes and t.source == source)
        parts = ([f"keeps {', '.join(kept)}"] if kept else []) + ([f"asks for {', '.join(asked)}"] if asked else [])
        lines.append(f"{' and '.join(parts)}: {measured.said(source)}")
    return lines
