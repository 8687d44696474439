"""Values that their column's type cannot hold, in polls and in answers.

A poll tells such a row with null in that column and the value beside it (UNFIT): it concerns the views that use the
column, when they come to that transaction, and nobody else.

An answer is about one moment. A row that became odd after it is read twice, with opposite signs, and means nothing;
only what is left of the odd rows when all are summed is part of the answer, and that raises ValueUnfit.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from headwater.model.conditions import Condition, meets
from headwater.model.errors import ValueUnfit
from headwater.model.source import COUNT, UNFIT
from headwater.sources.sqlite.connection import Connection
from headwater.sources.sqlite.files import literal, quote
from headwater.sources.sqlite.read import Misfits, Table


def with_unfit(connection: Connection, table: Table, rows: pa.Table, misfits: Misfits, id_column: str) -> pa.Table:
    """A poll's rows with the column UNFIT, if there is anything to say in it."""
    if not misfits:
        return rows
    ids = rows.column(id_column).take(pa.array(list(misfits), pa.int64())).to_pylist()
    named = {
        number: text.decode(errors="replace")
        for number, text in connection.rows(
            f"SELECT id, {table.row_text(table.slots())} FROM _headwater_changes WHERE id IN"
            f" ({', '.join(map(str, ids))})"
        )
    }
    said: list[str | None] = [None] * rows.num_rows
    for row, number in zip(misfits, ids, strict=True):
        said[row] = json.dumps({"key": named.get(number, ""), "values": misfits[row]}, ensure_ascii=False)
    return rows.append_column(UNFIT, pa.array(said, pa.string()))


class OddRows:
    """The odd rows of one answer, summed."""

    def __init__(self, table: Table, columns: Sequence[str], conditions: Sequence[Condition]) -> None:
        self._table, self._columns, self._conditions = table, columns, conditions
        self._rows: Counter[tuple[Any, ...]] = Counter()
        self._values: dict[tuple[Any, ...], Mapping[str, str]] = {}

    def take_out(self, batch: pa.RecordBatch, misfits: Misfits, of_interest: Any = None) -> pa.RecordBatch:
        """The batch without its odd rows. `of_interest` says which of them are part of the answer at all."""
        if not misfits:
            return batch
        rows = pa.Table.from_batches([batch])
        for number, odd in misfits.items():
            row = meets(rows.slice(number, 1), [c for c in self._conditions if c.column not in odd])
            if row.num_rows and (of_interest is None or of_interest(row, odd)):
                (values,) = row.to_pylist()
                mark = tuple(odd.get(name, values[name]) for name in self._columns)
                self._rows[mark] += values[COUNT]
                self._values[mark] = odd
        whole = [n not in misfits for n in range(batch.num_rows)]
        return batch.filter(pa.array(whole))

    def check(self, named: Callable[[], AbstractContextManager[Connection]]) -> None:
        for mark, count in self._rows.items():
            if count:
                column, shown = next(iter(self._values[mark].items()))
                kind = self._table.codec(column).type
                with named() as connection:
                    where = self._where(connection, column, shown)
                raise ValueUnfit(
                    f"{self._table.name}.{column} holds {shown}{where}, which is not a {kind}",
                    "correct the value at the source, or leave the column out of the view",
                )

    def _where(self, connection: Connection, column: str, shown: str) -> str:
        here = self._table.columns()
        name = here[column]
        if shown.startswith("CAST("):
            alike = f"CAST({name} AS BLOB) = {shown[5:].partition(' ')[0]}"
        elif shown.startswith(("'", "X'")):
            alike = f"substr(quote({name}), 1, {len(shown)}) = {literal(shown)}"
        else:
            alike = f"{name} = {shown}"
        found = connection.rows(
            f"SELECT {self._table.row_text(here)} FROM {quote(self._table.name.table)} WHERE {alike} LIMIT 1"
        )
        return f" in the row {found[0][0].decode(errors='replace')}" if found else ""
