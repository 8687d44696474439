"""Values as JSON can carry them and as people read them, losing nothing.

Decimals, dates, times and bytes have no JSON of their own, so they are strings: decimals in full, times in ISO 8601,
bytes in hexadecimal. Floats that JSON lacks are "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # most who write values have no table
    import pyarrow as pa


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
        return json.dumps(jsonable(value), ensure_ascii=False)
    return str(value)


def duration(seconds: float) -> str:
    """A time span in two or three digits."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def records(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow table as Python values, a few thousand at a time."""
    for batch in _exact(table).to_batches(max_chunksize=4096):
        yield from batch.to_pylist()


def _exact(table: pa.Table) -> pa.Table:
    """Python's own times end at microseconds, so finer ones (an SQL `now()`) travel as text."""
    import pyarrow as pa

    for number, name in enumerate(table.column_names):
        kind = table.schema.field(number).type
        finer = getattr(kind, "unit", "") == "ns"
        if finer or pa.types.is_duration(kind) or pa.types.is_interval(kind):
            table = table.set_column(number, name, table.column(number).cast(pa.string()))
    return table
