"""Values in the output of commands: tab-separated fields and JSON that commands no terminal."""

from __future__ import annotations

import json
from typing import Any

from headwater.cli.printable import json_safe
from headwater.runtime.reading.values import jsonable, text

__all__ = ["NULL", "field", "jsonable", "text", "to_json"]

NULL = "\\N"
"""NULL in tab-separated output, as PostgreSQL's COPY writes it."""


def field(value: Any) -> str:
    """A value in a line of tab-separated output."""
    if value is None:
        return NULL
    said = to_json(value) if isinstance(value, (list, dict)) else text(value)
    return said.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def to_json(value: Any) -> str:
    return json_safe(json.dumps(jsonable(value), ensure_ascii=False))
