"""What a source says about its tables."""

from __future__ import annotations

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
class TableSchema:
    """`key` is the primary key, empty if there is none; `indexes` lists leading columns of usable indexes."""

    name: TableName
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    rows: int | None = None

    def column(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)

    def supported(self) -> tuple[Column, ...]:
        return tuple(c for c in self.columns if c.type is not None)
