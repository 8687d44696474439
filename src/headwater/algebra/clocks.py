"""Text that means the present: `TIMESTAMP 'now'`, `CAST('today' AS DATE)`, `TIMESTAMP '10:00'` (today at ten).

Spark reads such text, in any case, with spaces around it and a zone behind it, as the moment the query runs. A view
must be a function of its sources alone. 'epoch' is a fixed moment, and fine.
"""

from __future__ import annotations

import re

from sqlglot import exp

from headwater.algebra.functions import function_name

_PRESENT = re.compile(r"\s*(?:now|today|tomorrow|yesterday)(?:\s.*)?|\s*T?\d{1,2}:.*", re.IGNORECASE | re.DOTALL)

_MOMENTS = (
    exp.DType.DATE, exp.DType.DATE32, exp.DType.DATETIME, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ,
    exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ,
)  # fmt: skip
_READERS = (
    "date", "timestamp", "timestamp_ntz", "timestamp_ltz", "to_date", "try_to_date", "to_timestamp", "try_to_timestamp",
    "to_timestamp_ntz", "to_timestamp_ltz",
)  # fmt: skip
"""Functions that read text as a moment. Whatever else reads it so, Spark's own plan shows (`runtime.determinism`)."""


def means_the_present(text: str) -> bool:
    """Whether Spark reads this text, where a date or a timestamp is wanted, by the clock."""
    return _PRESENT.fullmatch(text) is not None


def clock_in(node: exp.Expr) -> str:
    """What a node says of the present, as its author would; empty if it says nothing."""
    if isinstance(node, exp.Cast) and node.to.is_type(*_MOMENTS):
        read, kind = [node.this.unnest()], f"{node.to.sql('spark')} "
    elif function_name(node) in _READERS and len(node.expressions) == 1:
        read, kind = [node.expressions[0].unnest()], f"{function_name(node)} of "
    else:
        return ""
    said = (part.name for part in read if isinstance(part, exp.Literal) and part.is_string)
    return next((f"{kind}'{text}'" for text in said if means_the_present(text)), "")
