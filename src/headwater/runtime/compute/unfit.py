"""Values that could not be represented, met by a view.

A poll journals such a value as null, with a mark beside it (`UNFIT`). A view that uses the column must not take the
null for the value: it halts, naming the row. Marks cancel like any other column when transactions are taken as one
state, so a view that is resumed after the value was corrected never meets it.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from headwater.algebra.view import ViewDefinition
from headwater.model.changelog import SEQ, UNFIT
from headwater.model.conditions import meets
from headwater.model.errors import ValueUnfit
from headwater.model.names import TableName


def represented(changes: pa.Table, table: TableName, view: ViewDefinition) -> pa.Table:
    """The changes of a table without their marks; ValueUnfit if one of them concerns the view."""
    marked = changes.filter(pc.is_valid(changes.column(UNFIT)))
    for number, text in enumerate(marked.column(UNFIT).to_pylist()):
        mark = json.loads(text)
        row = marked.slice(number, 1)
        column = next((c for c in mark["values"] if _concerns(view, table, c, set(mark["values"]), row)), None)
        if column is not None:
            raise unfit(table, column, mark, row.column(SEQ)[0].as_py())
    return changes.drop_columns([UNFIT])


def unfit(table: TableName, column: str, mark: dict[str, object], seq: int) -> ValueUnfit:
    values = mark["values"]
    assert isinstance(values, dict)
    where = f", row {mark['key']}" if mark.get("key") else ""
    return ValueUnfit(
        f"{table}.{column} holds {values[column]}{where} since transaction {seq}, which its type here cannot represent",
        "correct the value at the source, then 'headwater resume VIEW'; or leave the column out of the view",
    )


def _concerns(view: ViewDefinition, table: TableName, column: str, odd: set[str], row: pa.Table) -> bool:
    """Whether some occurrence uses the column, for a row that its other conditions let pass."""
    for occurrence in view.occurrences:
        if occurrence.table == table and column in occurrence.columns:
            known = [c for c in occurrence.conditions if c.column not in odd]
            if meets(row, known).num_rows:
                return True
    return False
