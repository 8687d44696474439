"""Arrow's types in the embedded engine's words."""

from __future__ import annotations

import pyarrow as pa


def duck_type(kind: pa.DataType) -> str:
    """An Arrow type as the embedded engine calls it."""
    types = pa.types
    if types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz is None else "TIMESTAMPTZ"
    if types.is_list(kind) or types.is_large_list(kind):
        return f"{duck_type(kind.value_type)}[]"
    if types.is_struct(kind):
        return "STRUCT(" + ", ".join(f'"{f.name}" {duck_type(f.type)}' for f in kind) + ")"
    if types.is_map(kind):
        return f"MAP({duck_type(kind.key_type)}, {duck_type(kind.item_type)})"
    names = {
        pa.bool_(): "BOOLEAN",
        pa.int8(): "TINYINT",
        pa.int16(): "SMALLINT",
        pa.int32(): "INTEGER",
        pa.int64(): "BIGINT",
        pa.float32(): "FLOAT",
        pa.float64(): "DOUBLE",
        pa.string(): "VARCHAR",
        pa.large_string(): "VARCHAR",
        pa.binary(): "BLOB",
        pa.large_binary(): "BLOB",
        pa.date32(): "DATE",
        pa.null(): "INTEGER",
    }
    return names[kind]
