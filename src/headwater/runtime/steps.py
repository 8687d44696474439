"""The named steps of a run, in order. Tests stop the process dead at each of them and start again.

polled → journaled → dispatched → computed → tables committed → cut shown
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Step(Enum):
    STAGED = "a table is copied for a first load"
    LOADED = "a view's first files are committed"
    POLLED = "the sources have answered"
    JOURNALED = "the transactions are numbered and durable"
    COMPUTED = "a view's change is written to files"
    COMMITTED = "the view's tables hold it"
    SHOWN = "the cut record names it"
    COMPACTED = "a table's files are replaced"


_watcher: Callable[[Step], None] | None = None


def watch(watcher: Callable[[Step], None] | None) -> None:
    """Have someone told of every step; None ends it."""
    global _watcher
    _watcher = watcher


def reached(step: Step) -> None:
    if _watcher is not None:
        _watcher(step)
