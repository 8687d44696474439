"""What a view promises about its states."""

from __future__ import annotations

from enum import Enum


class Level(Enum):
    """The consistency levels a view may ask for, strongest first."""

    COMPLETE = "complete"
    """Every source transaction is a state of the view, in order."""
    STRONG = "strong"
    """States are real and in order; some are skipped."""
    PERIODIC = "periodic"
    """Strong, but recomputed on a schedule instead of maintained."""
    CONVERGENT = "convergent"
    """Right when things settle."""


_PROMISES = {
    Level.COMPLETE: "every source transaction is a state of the view, in order, and stays readable",
    Level.STRONG: "states are real and in order; a batch is one state",
    Level.PERIODIC: "recomputed on a schedule: real states, in order",
    Level.CONVERGENT: "right when things settle; batches become visible as they finish",
}


def promise_of(level: str) -> str:
    """What a reader may count on, in a sentence; empty for a level that is not known here."""
    return next((said for one, said in _PROMISES.items() if one.value == level), "")
