"""How the columns of a changelog's files are written: whole numbers as differences, everything else as pyarrow does.

A column with few values is a dictionary and small numbers into it. One with many outgrows its dictionary, and Parquet
falls back to plain values, which then cost a decompression for every byte. Packed differences of whole numbers (times
are some) are smaller before they are compressed at all, and read several times as fast. Every reader of Parquet that
Delta has knows them, Spark's since 3.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

SAMPLE = 10_000
"""So many rows, from the middle, tell whether a column has few values."""
MANY = 0.25
"""Of as many values per row, a dictionary saves nothing."""


def encodings(rows: pa.Table) -> dict[str, Any]:
    """What `pyarrow.parquet.write_table` is to be told."""
    some = rows.slice(max(0, (rows.num_rows - SAMPLE) // 2), SAMPLE)
    differences = [f.name for f in rows.schema if _whole(f.type) and _many(some.column(f.name))]
    if not differences:
        return {}
    others = [leaf for f in rows.schema if f.name not in differences for leaf in _leaves(f.name, f.type)]
    return {"use_dictionary": others, "column_encoding": dict.fromkeys(differences, "DELTA_BINARY_PACKED")}


def _whole(kind: pa.DataType) -> bool:
    """Whether Parquet keeps it as 32 or 64 bits that count something."""
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """What Parquet calls the columns that a column is kept as."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path


def _many(column: pa.ChunkedArray) -> bool:
    return bool(pc.count_distinct(column).as_py() > MANY * len(column))
