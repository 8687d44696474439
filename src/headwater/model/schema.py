"""What a source says about its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from headwater.model.names import TableName


@dataclass(frozen=True)
class Column:
    """`type` is None where Headwater cannot represent the column; `declared` is the source's own word for it."""

    name: str
    type: pa.DataType | None
    declared: str
    nullable: bool = True


@dataclass(frozen=True)
class Identity:
    """Which column a name stands for. A column dropped and added again, two that swapped names, and one that was
    rewritten in place keep name and type, and are other columns: what a view holds of them is not what they hold.

    Everything here is the source's own text, compared and never read."""

    place: str
    """What stays while a column lives: the capture of its table, the table, its number in it."""
    definition: str = ""
    """Changes whenever the column's definition is altered, also harmlessly (a default, a comment, NOT NULL)."""
    storage: str = ""
    """Changes whenever all values of the table are written anew, also harmlessly (VACUUM FULL)."""
    labels: tuple[str, ...] = ()
    """How the values of an enumeration read: `number=label` each."""

    def became(self, now: Identity) -> str:
        """Why values read under this identity are not those of `now`, to follow the column's name; empty if they are.
        A rewrite changes definition *and* storage at once; either alone leaves every value as it was."""
        if self.place != now.place:
            return "is another column than the one the view was loaded from (dropped and added, renamed, or recreated)"
        if not set(self.labels) <= set(now.labels):
            return "has an enumeration whose values were renamed"
        if self.definition != now.definition and self.storage != now.storage:
            return "was rewritten (ALTER COLUMN … TYPE)"
        return ""


Identities = Mapping[str, Identity]
"""Per column of one table."""


@dataclass(frozen=True)
class ForeignKey:
    """`columns` of a table refer to the columns `referenced` of `table`, a table of the same source. It says what is
    meant, not that it holds at every moment: a source may check it late, or not at all."""

    columns: tuple[str, ...]
    table: TableName
    referenced: tuple[str, ...]


@dataclass(frozen=True)
class TableSchema:
    """`key` is the primary key, empty if there is none; `indexes` lists leading columns of usable indexes."""

    name: TableName
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    rows: int | None = None
    indexable: bool = True
    """Whether an index is what would help to find rows; else it is how they lie in files."""
    foreign_keys: tuple[ForeignKey, ...] = ()
    quote: str = '"'
    """What its database puts around names."""

    def column(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)

    def supported(self) -> tuple[Column, ...]:
        return tuple(c for c in self.columns if c.type is not None)
