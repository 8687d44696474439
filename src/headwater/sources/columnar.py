"""What sources made of files have in common: which types they hold, and how rows at hand answer a question."""

from __future__ import annotations

import pyarrow as pa

from headwater.model.conditions import meets
from headwater.model.source import COUNT, ORDINAL, Question


def held_type(kind: pa.DataType) -> pa.DataType | None:
    """As Headwater holds it; None for what it cannot."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    nested = pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_null(kind)
    return None if nested else kind


def matching(rows: pa.Table, question: Question) -> pa.Table:
    """Of a table's state, which has every column that the question names, and COUNT: the answer."""
    rows = meets(rows, question.conditions)
    if question.key:
        keys = question.keys.append_column(ORDINAL, pa.array(range(question.keys.num_rows), pa.int64()))
        plain = rows.append_column("__row", pa.array(range(rows.num_rows), pa.int64()))
        met = plain.select([*question.key, "__row"]).join(keys, list(question.key), join_type="inner")
        rows = rows.take(met.column("__row")).append_column(ORDINAL, met.column(ORDINAL))
    else:
        rows = rows.append_column(ORDINAL, pa.array([0] * rows.num_rows, pa.int64()))
    return rows.select([ORDINAL, *question.columns, COUNT])
