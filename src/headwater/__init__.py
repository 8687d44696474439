"""Headwater: materialized views over many databases, kept up to date on Spark, at a stated consistency level.

What is named here is loaded when it is first used: an agent, which is small, imports none of it.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.api import Warehouse
    from headwater.api import open_warehouse as open  # noqa: A004 # headwater.open(path) reads best
    from headwater.model.errors import HeadwaterError, HeadwaterWarning, ViewHalted
    from headwater.runtime.reading.handles import View
    from headwater.runtime.reading.sessions import Session

__all__ = ["HeadwaterError", "HeadwaterWarning", "Session", "View", "ViewHalted", "Warehouse", "open"]
__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent, unless somebody wants to hear

_WHERE = {
    "Warehouse": ("headwater.api", "Warehouse"),
    "open": ("headwater.api", "open_warehouse"),
    "HeadwaterError": ("headwater.model.errors", "HeadwaterError"),
    "HeadwaterWarning": ("headwater.model.errors", "HeadwaterWarning"),
    "ViewHalted": ("headwater.model.errors", "ViewHalted"),
    "View": ("headwater.runtime.reading.handles", "View"),
    "Session": ("headwater.runtime.reading.sessions", "Session"),
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _WHERE[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
