"""Arrow's compute functions, loaded by the first who calls one.

`pyarrow.compute` makes some three hundred functions with their documentation when it is imported: a tenth of what a
lookup by key takes, and such a lookup calls none of them. Everybody else writes `pc.…` as ever.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["pc"]

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:

    class _Compute:
        def __getattr__(self, name: str) -> Any:
            found = getattr(import_module("pyarrow.compute"), name)
            setattr(self, name, found)
            return found

    pc = _Compute()
