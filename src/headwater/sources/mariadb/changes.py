"""Changes of one table, from row images to Arrow: the columns, COUNT, and for each row a number that the caller gives
it.

A value that its type cannot hold is null, and told in UNFIT with the row's key, so that it concerns only those who
use it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headwater.model.changelog import COUNT, UNFIT
from headwater.sources.mariadb.catalog import MariaTable
from headwater.sources.mariadb.charsets import Decoder
from headwater.sources.mariadb.events import Layout, Rows
from headwater.sources.mariadb.images import Plan, Values, Wanted, decode, planned
from headwater.sources.mariadb.many_images import Decoded
from headwater.sources.mariadb.runs import Ints
from headwater.sources.mariadb.types import MariaColumn, Misfits, from_log, from_texts

_SHOWN = 60
_NUMBER = "__number"


def wanted(table: MariaTable, columns: Sequence[str], texts: Mapping[str, Decoder]) -> Wanted:
    """These columns, and those of the key after them: they name a row to people."""
    names = dict.fromkeys([*columns, *(c for c in table.key if table.columns[c].type is not None)])
    return Wanted(tuple(table.columns[name] for name in names), texts)


@dataclass
class Changes:
    """Of one table; add events, then take the whole as a table. The first `told` columns are in it."""

    wanted: Wanted
    told: int
    key: tuple[str, ...]
    values: Values = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    layout: Layout | None = None
    """Of the rows that were added last, and how they are read."""
    plan: Plan = ()
    done: list[pa.Table] = field(default_factory=list)
    """What was added before and is in Arrow already."""

    def add(self, number: int, rows: Rows) -> int:
        """How many rows they are."""
        if not self.values:
            self.values = [[] for _ in self.wanted.columns]
        if rows.layout is not self.layout:
            self.layout, self.plan = rows.layout, planned(rows.layout, self.wanted)
        decode(rows, self.plan, self.values, self.counts)
        new = len(self.counts) - len(self.numbers)
        self.numbers += [number] * new
        return new

    def add_all(self, numbers: Ints, rows: Decoded) -> None:
        """Rows of many events, with the number of each row."""
        if self.counts:
            self._flush()
        self.done.append(self._told(rows.columns, rows.counts, numbers))

    def any(self) -> bool:
        return bool(self.counts or self.done)

    def table(self, number: str) -> pa.Table:
        """`number` is the name of the column of the rows' numbers."""
        if self.counts or not self.done:
            self._flush()
        found = concatenated(self.done)
        return found.rename_columns([number if name == _NUMBER else name for name in found.column_names])

    def _flush(self) -> None:
        values = self.values or [[] for _ in self.wanted.columns]
        columns = [from_log(v, c) for v, c in zip(values, self.wanted.columns, strict=True)]
        self.done.append(self._told(columns, self.counts, self.numbers))
        self.values, self.counts, self.numbers = [], [], []

    def _told(
        self, columns: Sequence[tuple[pa.Array, Misfits]], counts: Sequence[int] | Ints, numbers: Sequence[int] | Ints
    ) -> pa.Table:
        found = marked(columns, self.wanted.columns, self.told, self.key)
        found = found.append_column(COUNT, pa.array(counts, pa.int64()))
        return found.append_column(_NUMBER, pa.array(numbers, pa.int64()))


def answered(
    values: Sequence[Sequence[bytes | None]], columns: Sequence[MariaColumn], told: int, key: tuple[str, ...]
) -> pa.Table:
    """Columns of the server's texts, as they are selected: the first are told, those of the key name a row."""
    found = [from_texts(texts, c) for texts, c in zip(values, columns, strict=True)]
    return marked(found, columns, told, key)


def marked(
    found: Sequence[tuple[pa.Array, Misfits]], columns: Sequence[MariaColumn], told: int, key: tuple[str, ...]
) -> pa.Table:
    """The first columns as a table, with UNFIT if any value does not fit."""
    names = [column.name for column in columns]
    table = pa.table([array for array, _ in found[:told]], names=names[:told])
    misfits: dict[int, dict[str, str]] = {}
    for (_, wrong), name in zip(found[:told], names, strict=False):
        for row, value in wrong.items():
            misfits.setdefault(row, {})[name] = value if len(value) <= _SHOWN else value[: _SHOWN - 3] + "…"
    if not misfits:
        return table
    arrays = dict(zip(names, (array for array, _ in found), strict=True))
    said = [None] * table.num_rows
    for row, values in misfits.items():
        named = " AND ".join(f"{c} = {arrays[c][row].as_py()}" for c in key if c in arrays)
        said[row] = json.dumps({"key": named, "values": values}, ensure_ascii=False)  # type: ignore[call-overload]  # a list of texts
    return table.append_column(UNFIT, pa.array(said, pa.string()))


def concatenated(parts: Sequence[pa.Table]) -> pa.Table:
    """Some of them may have UNFIT, and some not."""
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts, promote_options="default")
