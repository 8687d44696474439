"""Rows as the browser shows them: text, or null. Numbers too: JavaScript's would lose digits of long ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headwater.runtime.reading.values import records, text

LONGEST = 2_000
"""Characters of one value that are shown."""


def table(rows: pa.Table, longest: int | None = LONGEST) -> dict[str, Any]:
    """Columns and rows; also where two columns have one name."""
    numbered = rows.rename_columns([str(n) for n in range(rows.num_columns)])
    return {
        "columns": columns(rows.schema),
        "rows": [[cell(v, longest) for v in row.values()] for row in records(numbered)],
    }


def columns(schema: pa.Schema) -> list[dict[str, str]]:
    return [{"name": f.name, "type": str(f.type), "kind": _kind(f.type)} for f in schema]


def cell(value: Any, longest: int | None = LONGEST) -> str | None:
    if value is None:
        return None
    said = text(value)
    return said if longest is None or len(said) <= longest else f"{said[:longest]}…"


def _kind(kind: pa.DataType) -> str:
    number = any(test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))
    return "number" if number else "time" if pa.types.is_temporal(kind) else "text"
