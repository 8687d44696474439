"""Values as text and as JSON, losing nothing.

Decimals, dates, times and bytes have no JSON of their own, so they are strings: decimals in full, times in ISO 8601,
bytes in hexadecimal. Floats that JSON lacks are "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headwater.cli.printable import json_safe

NULL = "\\N"
"""NULL in tab-separated output, as PostgreSQL's COPY writes it."""


def jsonable(value: Any) -> Any:
    """A value as JSON can carry it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(v) for v in value]
    return text(value)


def text(value: Any) -> str:
    """A value as a person reads it; not for NULL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (list, dict)):
        return to_json(value)
    return str(value)


def field(value: Any) -> str:
    """A value in a line of tab-separated output."""
    if value is None:
        return NULL
    return text(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def to_json(value: Any) -> str:
    return json_safe(json.dumps(jsonable(value), ensure_ascii=False))


def records(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow table as Python values, a few thousand at a time."""
    for batch in _exact(table).to_batches(max_chunksize=4096):
        yield from batch.to_pylist()


def _exact(table: pa.Table) -> pa.Table:
    """Python's own times end at microseconds, so finer ones (an SQL `now()`) travel as text."""
    for number, name in enumerate(table.column_names):
        kind = table.schema.field(number).type
        finer = getattr(kind, "unit", "") == "ns"
        if finer or pa.types.is_duration(kind) or pa.types.is_interval(kind):
            table = table.set_column(number, name, table.column(number).cast(pa.string()))
    return table
